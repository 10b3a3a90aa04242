//go:build !race

package rawio

import (
	"syscall"
	"unsafe"
)

func read(fd uintptr, p *syscall.Iovec) (uintptr, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(p.Base)), uintptr(p.Len))
	return n, errno
}

func write(fd uintptr, p *syscall.Iovec) (uintptr, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, fd, uintptr(unsafe.Pointer(p.Base)), uintptr(p.Len))
	return n, errno
}

func writev(fd uintptr, parts *[2]syscall.Iovec) (uintptr, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_WRITEV, fd, uintptr(unsafe.Pointer(parts)), uintptr(len(parts)))
	return n, errno
}
