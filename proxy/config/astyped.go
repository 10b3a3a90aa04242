package config

import (
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/dragoman-proxy/dragoman/adapterrt/pattern"
)

// masked matches what [Masked] puts in the place of a secret.
var masked = pattern.Later(`\[set, [^\]]*\]`)

// needsQuotes matches what a shell would not pass as it is.
var needsQuotes = pattern.Later("[\\s'\"$&;|<>()*`\\\\]")

// AsTyped returns arguments as a person types them in a shell, with "…" in the place of secrets.
func AsTyped(args []string) string {
	var all []string
	for _, arg := range withoutSecrets(args) {
		switch {
		case strings.ContainsFunc(arg, func(r rune) bool { return !unicode.IsPrint(r) }):
			arg = strconv.Quote(arg)
		case arg == "" || needsQuotes().MatchString(arg):
			arg = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
		all = append(all, arg)
	}
	return strings.Join(all, " ")
}

// withoutSecrets returns arguments with "…" in the place of secrets.
func withoutSecrets(args []string) []string {
	return StruckCommand(append([]string{""}, args...), "…")[1:]
}

// StruckCommand is [SafeCommand] with the text by in the place of secrets.
func StruckCommand(command []string, by string) []string {
	all := SafeCommand(command)
	for i, arg := range all {
		all[i] = masked().ReplaceAllLiteralString(arg, by)
	}
	return all
}

// plainInYAML matches an element of a YAML list that needs no quotes.
var plainInYAML = pattern.Later(`^[A-Za-z0-9./_…-][A-Za-z0-9@./_=…-]*$`)

// yamlList returns words as a list in a YAML file, with "…" in the place of secrets.
func yamlList(words []string) string {
	all := slices.Clone(withoutSecrets(words))
	for i, word := range all {
		if !plainInYAML().MatchString(word) {
			all[i] = strconv.Quote(word) // YAML in double quotes knows what Go escapes
		}
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// meantList says what list a text for the setting at path means; "" if that is not clear.
func meantList(path, text string) string {
	if words := strings.Fields(text); path == "upstream.command" && len(words) > 0 && !strings.ContainsAny(text, `"'\`) {
		return yamlList(words)
	}
	return ""
}
