//go:build unix && !linux

package upstream

import "syscall"

// ownGroup puts a child in a process group of its own, so that the processes that it
// starts can be ended with it.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
