//go:build !unix

package upstream

import "syscall"

// quietProbe returns nil: here a socket cannot be asked without waiting, and
// the age of an idle connection has to do.
func quietProbe(syscall.Conn) func() bool { return nil }
