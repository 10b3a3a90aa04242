package upstream

import "syscall"

// ownGroup puts a child in a process group of its own, so that what it starts
// can be ended with it. It is told to end when this process dies without a word.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
