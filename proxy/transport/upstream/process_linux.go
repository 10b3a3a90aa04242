package upstream

import (
	"os/exec"
	"syscall"

	"github.com/dragoman-proxy/dragoman/adapterrt/children"
)

// ownGroup puts a child in a process group of its own, so that the processes that it
// starts can be ended with it. The system sends the child SIGTERM if this process dies.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

// wait waits for the child's end, and ends the processes that it has left behind: before its pid, which is also the id of the
// group, is free for another process.
func (g group) wait(cmd *exec.Cmd) error {
	if !children.Ended(cmd) {
		defer g.kill()
		return children.Wait(cmd)
	}
	g.kill()
	return children.Wait(cmd)
}

// reap reaps the processes that were ended, if they were left to this process. It is called after wait.
func (g group) reap() { children.ReapGroup(g.process.Pid) }
