//go:build unix

package upstream

import (
	"os"
	"syscall"
)

// group is a child and its process group.
type group struct{ process *os.Process }

// adopt returns the group of a child that was just started with ownGroup.
func adopt(p *os.Process) group { return group{p} }

// terminate sends SIGTERM to the group. It reports whether it could.
func (g group) terminate() bool {
	return syscall.Kill(-g.process.Pid, syscall.SIGTERM) == nil
}

// kill ends all processes of the group.
func (g group) kill() {
	syscall.Kill(-g.process.Pid, syscall.SIGKILL) //nolint:errcheck // there may be none left
}

// release releases what adopt has allocated, which is nothing here.
func (group) release() {}
