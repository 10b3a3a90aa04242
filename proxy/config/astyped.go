package config

import (
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
	for _, arg := range SafeCommand(append([]string{""}, args...))[1:] {
		arg = masked().ReplaceAllLiteralString(arg, "…")
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
