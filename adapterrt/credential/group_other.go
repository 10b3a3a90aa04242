//go:build !unix

package credential

import "os/exec"

// withGroup: the end of cmd's time is that of cmd alone.
func withGroup(*exec.Cmd) {}
