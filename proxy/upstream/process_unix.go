//go:build unix

package upstream

import (
	"os"
	"syscall"
)

// group is a child and its process group.
type group struct{ process *os.Process }

// adopt takes in a child that was just started by ownGroup.
func adopt(p *os.Process) group { return group{p} }

// terminate asks all of the group to end. It reports whether this system can ask.
func (g group) terminate() bool {
	return syscall.Kill(-g.process.Pid, syscall.SIGTERM) == nil
}

// kill ends all of the group.
func (g group) kill() {
	syscall.Kill(-g.process.Pid, syscall.SIGKILL) //nolint:errcheck // there may be none left
}

// release gives back what adopt took, which here is nothing.
func (group) release() {}
