//go:build unix && !linux

package upstream

import (
	"os/exec"
	"syscall"

	"github.com/dragoman-proxy/dragoman/adapterrt/children"
)

// ownGroup puts a child in a process group of its own, so that the processes that it
// starts can be ended with it.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// wait waits for the child's end, and ends the processes that it has left behind.
func (g group) wait(cmd *exec.Cmd) error {
	err := children.Wait(cmd)
	g.kill()
	return err
}

// reap does nothing.
func (group) reap() {}
