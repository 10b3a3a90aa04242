package upstream

import "syscall"

// ownGroup puts a child in a process group of its own, so that the processes that it
// starts can be ended with it. The system sends the child SIGTERM if this process dies.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
