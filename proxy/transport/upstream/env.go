package upstream

import (
	"slices"
	"strings"
)

// DefaultEnv returns the names of the variables that a child gets by default: those
// that programs need on each system to find themselves, the user's files and the
// language. Keys and tokens have other names.
func DefaultEnv() []string {
	return []string{
		"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR",
		"XDG_*_HOME", "XDG_RUNTIME_DIR",
		// Windows
		"APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "NUMBER_OF_PROCESSORS", "OS", "PATHEXT",
		"PROCESSOR_ARCHITECTURE", "PROGRAMDATA", "PROGRAMFILES", "PROGRAMFILES(X86)", "SYSTEMDRIVE", "SYSTEMROOT",
		"TEMP", "TMP", "USERNAME", "USERPROFILE", "WINDIR",
	}
}

// own match variables of dragoman's own: its settings, and what it gets as a service of systemd or sends to a collector of telemetry.
var own = []string{"DRAGOMAN_*", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PID", "LISTEN_PIDFDID", "CREDENTIALS_DIRECTORY", "OTEL_*HEADERS"}

// managers are variables of the service manager that has started dragoman. Another process that spoke to the manager would change
// what it believes of dragoman.
var managers = []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}

// AllowEnv returns the entries of environ ("NAME=value") that one of names allows, in
// their order. A * in a name stands for any number of characters. The case of letters
// does not matter, as on Windows. Variables of dragoman's own and those in secrets are
// allowed only by a name without a *. Those of the service manager never are.
func AllowEnv(environ, names, secrets []string) []string {
	var allowed []string
	for _, entry := range environ {
		// Windows keeps working directories in variables such as "=C:".
		name, _, ok := strings.Cut(strings.TrimPrefix(entry, "="), "=")
		if !ok {
			continue
		}
		name = strings.ToUpper(name)
		if slices.Contains(managers, name) {
			continue
		}
		is := func(pattern string) bool { return matches(strings.ToUpper(pattern), name) }
		if slices.ContainsFunc(names, func(pattern string) bool {
			return is(pattern) && (!strings.Contains(pattern, "*") || !slices.ContainsFunc(own, is) && !slices.ContainsFunc(secrets, is))
		}) {
			allowed = append(allowed, entry)
		}
	}
	return allowed
}

// matches reports whether pattern matches name. Both are in upper case.
func matches(pattern, name string) bool {
	first, rest, open := strings.Cut(pattern, "*")
	if !open {
		return pattern == name
	}
	name, ok := strings.CutPrefix(name, first)
	if !ok {
		return false
	}
	for {
		part, further, more := strings.Cut(rest, "*")
		if !more {
			return strings.HasSuffix(name, part)
		}
		_, after, ok := strings.Cut(name, part)
		if !ok {
			return false
		}
		name, rest = after, further
	}
}
