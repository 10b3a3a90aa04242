//go:build unix

package credential

import (
	"os/exec"
	"syscall"
)

// withGroup makes the end of cmd's time that of all that it has started.
func withGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
