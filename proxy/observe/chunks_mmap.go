//go:build linux || darwin || freebsd

package observe

import (
	"runtime"
	"syscall"
)

// newChunk returns memory that the garbage collector does not count: it would let as much garbage gather again.
func newChunk() *chunk {
	text, err := syscall.Mmap(-1, 0, chunkBytes, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return &chunk{text: make([]byte, 0, chunkBytes)}
	}
	c := &chunk{text: text[:0]}
	runtime.AddCleanup(c, func(text []byte) { _ = syscall.Munmap(text) }, text)
	return c
}
