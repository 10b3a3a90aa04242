//go:build race

package rawio

import (
	"syscall"
	"unsafe"
)

// The race detector knows from the calls of package syscall that what was before a write is before the read that gets its bytes.

func read(fd uintptr, p *syscall.Iovec) (uintptr, syscall.Errno) {
	return result(syscall.Read(int(fd), unsafe.Slice(p.Base, p.Len)))
}

func write(fd uintptr, p *syscall.Iovec) (uintptr, syscall.Errno) {
	return result(syscall.Write(int(fd), unsafe.Slice(p.Base, p.Len)))
}

// writev writes the first part. The caller then writes the rest.
func writev(fd uintptr, parts *[2]syscall.Iovec) (uintptr, syscall.Errno) {
	return write(fd, &parts[0])
}

func result(n int, err error) (uintptr, syscall.Errno) {
	errno, _ := err.(syscall.Errno)
	return uintptr(max(n, 0)), errno
}
