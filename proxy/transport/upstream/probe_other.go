//go:build !unix

package upstream

import "syscall"

// quietProbe returns nil: here a socket cannot be probed without waiting, so that only
// the age of an idle connection counts.
func quietProbe(syscall.Conn) func() error { return nil }
