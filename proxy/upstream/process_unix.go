//go:build unix

package upstream

import (
	"os"
	"syscall"
)

// terminate asks a child and all of its process group to end. It reports
// whether this system can ask.
func terminate(p *os.Process) bool {
	return syscall.Kill(-p.Pid, syscall.SIGTERM) == nil
}

// kill ends a child and all of its process group.
func kill(p *os.Process) {
	syscall.Kill(-p.Pid, syscall.SIGKILL) //nolint:errcheck // there may be none left
}
