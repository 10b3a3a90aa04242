package command

import (
	"slices"
	"syscall"

	"golang.org/x/term"
)

// terminals are the descriptors of stdin and stderr that were terminals when the process started.
type terminals []int

func openTerminals() (all terminals) {
	for _, fd := range []int{int(syscall.Stdin), int(syscall.Stderr)} { // os.File.Fd would make them blocking
		if term.IsTerminal(fd) {
			all = append(all, fd)
		}
	}
	return all
}

// gone reports whether one of them has been closed.
func (t terminals) gone() bool {
	return slices.ContainsFunc(t, func(fd int) bool { return !term.IsTerminal(fd) })
}

// endsServe reports whether SIGHUP ends "serve" as SIGTERM does: its terminal is gone, or it has one and no file to read again.
func (t terminals) endsServe(namesFile bool) bool { return len(t) > 0 && (!namesFile || t.gone()) }

// endsStdio is endsServe for "stdio", whose client has started it, and may have gone.
func (t terminals) endsStdio(namesFile bool) bool { return len(t) > 0 || !namesFile }
