package wire

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// plainBlocks returns the length of the longest beginning of the n bytes at p that is a whole number of blocks of 64
// bytes and has no byte that care marks. It needs AVX2.
//
//go:noescape
func plainBlocks(p *byte, n int) int

var hasBlocks = cpu.X86.HasAVX2

// skipPlain returns an index of b, i or a later one. No byte between them is one that care marks.
func skipPlain(b []byte, i int) int {
	if n := len(b) - i; hasBlocks && n >= 64 {
		return i + plainBlocks(unsafe.SliceData(b[i:]), n)
	}
	return i
}
