package config

import (
	"crypto/sha256"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dragoman-proxy/dragoman/adapterrt/pattern"
)

// shortSecret is the length below which a fingerprint would help to guess a secret.
const shortSecret = 8

// Masked returns what may be shown of a secret: its length, and a fingerprint by which two secrets can be compared.
func Masked(secret string) string {
	n := utf8.RuneCountInString(secret)
	switch {
	case n == 1:
		return "[set, 1 character]"
	case n < shortSecret:
		return fmt.Sprintf("[set, %d characters]", n)
	}
	return fmt.Sprintf("[set, %d characters, %x]", n, Fingerprint([]byte(secret), 2))
}

// Fingerprint returns the first n bytes of the SHA-256 of a secret.
func Fingerprint(secret []byte, n int) []byte {
	sum := sha256.Sum256(secret)
	return sum[:n]
}

// secretName matches the names of settings, variables, flags and members whose values are secrets.
var secretName = pattern.Later(`(?i)(token|secret|passw|passphrase|credential|authorization|cookie|api[-_]?key|access[-_]?key|private[-_]?key|(^|[-_])key$)`)

// mayExpand reports whether the setting at path is a secret whatever its name, in which ${NAME} is replaced.
func mayExpand(path string) bool {
	switch path {
	case "auth.tokens", "inspect.token", "upstream.auth.client_secret", "store.password", "store.sentinel_password":
		return true
	}
	return strings.HasPrefix(path, "upstream.headers.") || strings.HasPrefix(path, "upstream.env.") || strings.HasPrefix(path, "auth.named_tokens.")
}

// isSecret reports whether the setting at path is a secret. Members of other maps are judged by their names.
func isSecret(path string) bool {
	if strings.HasPrefix(path, "upstream.auth.params.") || strings.Contains(path, ".source_params.") || strings.HasPrefix(path, "transform.adapters.") {
		return secretName().MatchString(path[strings.LastIndex(path, ".")+1:])
	}
	return mayExpand(path)
}

// SafeURL returns a URL without user, password, query and fragment.
func SafeURL(text string) string {
	at, err := url.Parse(text)
	if err != nil {
		return "[not a URL]"
	}
	more := ""
	if at.RawQuery != "" {
		more = "?…"
	}
	at.User, at.RawQuery, at.Fragment, at.RawFragment = nil, "", "", ""
	return at.String() + more
}

// assigned matches an argument such as --token=value or API_KEY=value.
var assigned = pattern.Later(`(?s)^([-.\w]+)=(.+)$`)

// inVariable matches an argument whose secret is in a variable, and a header or a setting with one.
var inVariable = pattern.Later(`^([-.\w]+(=|:\s*))?((?i:bearer|basic) )?\$\{\w+\}$`)

// harmless matches names with the word for a secret whose values are none.
var harmless = pattern.Later(`(?i)([-_](file|path|dir|store|command|endpoint)|tokens)$`)

// keyShape matches values that are well-known kinds of keys, wherever they are.
var keyShape = pattern.Later(`^(Bearer |Basic |sk-|ghp_|gho_|ghs_|github_pat_|glpat-|xox[abprs]-|AKIA|AIza|eyJ[\w-]+\.)`)

// WrittenCommand returns the server's command with the names of variables in the place of their values, for [SafeCommand].
func (u *Upstream) WrittenCommand() []string {
	if u.Written != nil {
		return u.Written
	}
	return u.Command
}

// SafeCommand returns a command line without the values of arguments whose names, or forms, are those of secrets.
func SafeCommand(command []string) []string {
	safe := slices.Clone(command)
	for i, arg := range safe {
		if i == 0 {
			continue
		}
		before := safe[i-1]
		name, value, pair := strings.Cut(arg, "=")
		switch parts := assigned().FindStringSubmatch(arg); {
		case inVariable().MatchString(arg):
		case pair && (before == "-e" || before == "--env" || strings.HasPrefix(arg, "-e") || name == "--env"): // of docker, or dragoman's own
			safe[i] = name + "=" + Masked(value)
		case (before == "--header" || before == "--headers" || before == "-H") && strings.Contains(arg, ":"): // any header may be a secret
			name, value, _ := strings.Cut(arg, ":")
			safe[i] = name + ": " + Masked(strings.TrimSpace(value))
		case before == "-c" || before == "/c": // a line of the shell
			safe[i] = strings.Join(SafeCommand(append([]string{""}, strings.Fields(arg)...))[1:], " ")
		case parts != nil && (secretName().MatchString(parts[1]) && !harmless().MatchString(parts[1]) || keyShape().MatchString(parts[2])):
			safe[i] = parts[1] + "=" + Masked(parts[2])
		case keyShape().MatchString(arg),
			strings.HasPrefix(before, "-") && !strings.Contains(before, "=") && secretName().MatchString(before) && !harmless().MatchString(before) && !strings.HasPrefix(arg, "-"):
			safe[i] = Masked(arg)
		case inConnection().MatchString(arg):
			safe[i] = inConnection().ReplaceAllStringFunc(arg, func(pair string) string {
				name, value, _ := strings.Cut(pair, "=")
				return name + "=" + Masked(value)
			})
		case strings.Contains(arg, "://"):
			name, value := "", arg
			if parts != nil {
				name, value = parts[1]+"=", parts[2]
			}
			safe[i] = name + SafeURL(value)
		case secretHeader().MatchString(arg):
			name, value, _ := strings.Cut(arg, ":")
			safe[i] = name + ": " + Masked(strings.TrimSpace(value))
		}
	}
	return safe
}

// secretHeader matches an argument that is a header with a secret.
var secretHeader = pattern.Later(`(?i)^((proxy-)?authorization|cookie|[-\w]*(key|token|secret|passw|credential)[-\w]*)\s*:`)

// inConnection matches the secrets in an argument that is a connection string, such as Server=x;Password=y.
var inConnection = pattern.Later(`(?i);[\w ]*(password|pwd|secret|token|accesskey|accountkey)\s*=[^;]+`)
