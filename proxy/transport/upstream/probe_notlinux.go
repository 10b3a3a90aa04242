//go:build unix && !linux

package upstream

import "syscall"

// lookAt reads a byte from a non-blocking socket into b, and returns the error.
func lookAt(fd uintptr, b *[1]byte) error {
	_, err := syscall.Read(int(fd), b[:])
	return err
}
