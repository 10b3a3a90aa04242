//go:build !unix

package credential

import "os/exec"

// withGroup does nothing: when cmd's time is over, cmd is killed, but not the processes that
// it has started.
func withGroup(*exec.Cmd) {}
