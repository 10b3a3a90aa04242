package wire

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// textBlocks returns an index that skipText may return for the n bytes at p, looking at blocks of 64 bytes. i is 3 or
// more. It needs AVX2.
//
//go:noescape
func textBlocks(p *byte, i, n int) int

// mostBlocks bounds the blocks of one call, which cannot be preempted.
const mostBlocks = 1 << 14

// hasBlocks is a variable for the tests.
var hasBlocks = cpu.X86.HasAVX2

// skipText returns an index of b, i or a later one, which is inside a string. Between them are only whole characters
// and escapes of two bytes: no quote that ends the string and nothing that is a fault. What is before i must be so too.
func skipText(b []byte, i int) int {
	if hasBlocks && i >= 3 && len(b)-i >= 64 {
		for end := i; end < len(b) && i > end-64; {
			end = min(len(b), i+mostBlocks<<6)
			i = textBlocks(unsafe.SliceData(b), i, end)
		}
	}
	return i
}
