//go:build unix

package credential

import (
	"os/exec"
	"syscall"
)

// withGroup runs cmd in its own process group, so that all processes that it has started are
// killed with it when its time is over.
func withGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
