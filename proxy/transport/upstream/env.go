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

// ownEnv begins the names of dragoman's own settings.
const ownEnv = "DRAGOMAN_"

// managers are variables of the service manager that has started dragoman. Another process that spoke to the manager would change
// what it believes of dragoman.
var managers = []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}

// AllowEnv returns the entries of environ ("NAME=value") that one of names allows, in
// their order. A * in a name stands for any number of characters. The case of letters
// does not matter, as on Windows. dragoman's own settings, which may hold secrets, are
// allowed only by a name without a *. Those of the service manager never are.
func AllowEnv(environ, names []string) []string {
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
		if slices.ContainsFunc(names, func(pattern string) bool { return allows(strings.ToUpper(pattern), name) }) {
			allowed = append(allowed, entry)
		}
	}
	return allowed
}

// allows reports whether pattern matches name. Both are in upper case.
func allows(pattern, name string) bool {
	first, rest, open := strings.Cut(pattern, "*")
	if !open {
		return pattern == name
	}
	if strings.HasPrefix(name, ownEnv) {
		return false
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
