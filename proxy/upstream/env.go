package upstream

import (
	"slices"
	"strings"
)

// DefaultEnv returns the names of the variables that a child may see where
// nobody said otherwise: what programs need to find themselves, the user's files
// and the language, on each system. Keys and tokens have other names.
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

// ownEnv is how the names of our own settings begin.
const ownEnv = "DRAGOMAN_"

// AllowEnv returns the entries of environ ("NAME=value") that one of names
// allows, in their order. A * in a name stands for any characters, none
// included; the case of letters does not matter, as on Windows. Our own
// settings, which may hold secrets, pass only by a name without a *.
func AllowEnv(environ, names []string) []string {
	var allowed []string
	for _, entry := range environ {
		// Windows keeps working directories in variables such as "=C:".
		name, _, ok := strings.Cut(strings.TrimPrefix(entry, "="), "=")
		if !ok {
			continue
		}
		name = strings.ToUpper(name)
		if slices.ContainsFunc(names, func(pattern string) bool { return allows(strings.ToUpper(pattern), name) }) {
			allowed = append(allowed, entry)
		}
	}
	return allowed
}

// allows reports whether pattern stands for name. Both are in upper case.
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
