package upstream

import (
	"os"
	"syscall"
)

// ownGroup keeps the console's Ctrl-C from a child: it is stopped in order.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// terminate reports whether a child can be asked to end, which here it cannot.
func terminate(*os.Process) bool { return false }

// kill ends a child. What it has started finds its pipes closed.
func kill(p *os.Process) {
	p.Kill() //nolint:errcheck // it may be gone
}
