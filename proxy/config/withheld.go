package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// Withheld returns the names of the variables in environ ("NAME=value") that the server's command does not get, in order. Variables of
// dragoman's own are none of them.
func (u *Upstream) Withheld(environ []string) (names []string) {
	given := upstream.AllowEnv(environ, u.PassEnv, u.SecretNames)
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		_, own := u.Env[name]
		if name != "" && !own && !strings.HasPrefix(name, EnvPrefix) && !slices.Contains(given, entry) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// AdviceOnWithheld says how to pass the variables in environ that the server's command does not get, and that these lines of the
// server name. It returns "" if they name none.
func (u *Upstream) AdviceOnWithheld(environ, lines []string) string {
	if len(u.Command) == 0 || len(lines) == 0 {
		return ""
	}
	names := slices.DeleteFunc(u.Withheld(environ), func(name string) bool {
		return !slices.ContainsFunc(lines, func(line string) bool { return mentions(line, name) })
	})
	if len(names) == 0 {
		return ""
	}
	const most = 5
	names = names[:min(len(names), most)]
	return fmt.Sprintf("the server did not get %s: pass it with -e %s (upstream.env)", strings.Join(names, ", "), strings.Join(names, " -e "))
}

// mentions reports whether a line has the name as a word. Short names are words of languages.
func mentions(line, name string) bool {
	const least = 4
	part := func(c byte) bool {
		return c == '_' || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
	}
	for rest := line; len(name) >= least; {
		at := strings.Index(rest, name)
		if at < 0 {
			return false
		}
		end := at + len(name)
		if (at == 0 || !part(rest[at-1])) && (end == len(rest) || !part(rest[end])) {
			return true
		}
		rest = rest[end:]
	}
	return false
}
