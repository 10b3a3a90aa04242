package wire

import (
	"math/bits"

	"golang.org/x/sys/cpu"
)

// hasWalk reports whether the processor has what walkBlocks256 needs, and hasWalk512 whether it has what walkBlocks512 needs.
var (
	hasWalk    = hasBlocks && cpu.X86.HasBMI1 && cpu.X86.HasBMI2 && cpu.X86.HasPOPCNT
	hasWalk512 = hasWalk && cpu.X86.HasAVX512 && cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512VL && cpu.X86.HasAVX512VBMI
)

// What a byte may be, outside of strings and as a quote. White space, control characters, backslashes and bytes beyond ASCII
// are nothing.
const (
	aComma = 1 << iota
	aColon
	anOpen // { or [
	aShut  // } or ]
	aScalar
	aQuote
	beginsValue // of followers: what follows begins a value
	beginsName  // or a name, if it is in an object
	aBracket    = anOpen | aShut
)

// classes says what each byte of ASCII is. followers says what may be next to it, if it is outside of strings or a closing quote.
// escapable is 1 for what may follow a backslash, except u.
var classes, followers, escapable = func() (is, next, escapable [128]uint8) {
	const value = aQuote | anOpen | aScalar | beginsValue
	for c := '!'; c < 128; c++ {
		is[c], next[c] = aScalar, aScalar|aComma|aShut
	}
	is[','], next[','] = aComma, value|beginsName
	is[':'], next[':'] = aColon, value
	is['['], next['['] = anOpen, value|aShut
	is['{'], next['{'] = anOpen, aQuote|aShut|beginsName
	is[']'], next[']'] = aShut, aComma|aShut
	is['}'], next['}'] = aShut, aComma|aShut
	is['"'], next['"'] = aQuote, aComma|aShut|aColon
	is['\\'], next['\\'] = 0, 0
	for _, c := range `"\/bfnrt` {
		escapable[c] = 1
	}
	return is, next, escapable
}()

const (
	noContainer = 2 // the stack of a walk outside of its container
	mostLater   = 8
)

// walk is the state of a walk between two blocks.
type walk struct {
	text    uint64 // all bits in a string
	stack   uint64 // one bit for each open container, which is set for an object, below those of noContainer; the innermost one is the lowest
	name    uint64 // not 0 in a name and directly behind it
	escaped uint64 // 1 behind a backslash that escapes the next byte
	beyond  uint64 // the bytes beyond ASCII of the last block that was special
	laters  uint64
	// What is left to the caller, by bits of blocks: where scalars begin, and escaped bytes that are u or a fault.
	later [mostLater + 2]struct{ at, mask uint64 }
	last  [4]uint64 // masks of the last block: opening brackets, colons, commas, scalars; for walkBlocks256 only
}

// walkBlocks512 goes on with the n blocks at p, until the end of the container or until the list of what is left to the caller is full.
// It returns how many bytes it has passed, or -1 if there is a fault, white space between tokens, or more than 62 open containers.
// It reads up to three bytes before p.
//
//go:noescape
func walkBlocks512(w *walk, p *byte, n int) int

// walkBlocks256 does the same without AVX-512.
//
//go:noescape
func walkBlocks256(w *walk, p *byte, n int) int

func (w *walk) blocks(p *byte, n int) int {
	if hasWalk512 {
		return walkBlocks512(w, p, n)
	}
	return walkBlocks256(w, p, n)
}

// skipWalk skips the container at i, which lies in depth containers. It has no fault to return: if there is one, or white
// space between tokens, or if containers are too deep for one word, it returns -1 and leaves the text to its caller.
func skipWalk(b []byte, i, depth int) int {
	if i < 3 || len(b)-i < 64 || depth > MaxDepth-64 {
		return -1
	}
	switch next := b[i+1]; {
	case next == b[i]+('}'-'{'): // [] and {} are too short for a walk
		return i + 2
	case next <= ' ', b[i-1] <= ' ':
		return -1
	}
	for range len("\r\n") { // the end of a line, with which a message may end, is no fault
		if b[len(b)-1] <= ' ' {
			b = b[:len(b)-1]
		}
	}
	w := walk{stack: noContainer, last: [4]uint64{2: 1 << 63}} // a value may begin
	for len(b)-i >= 64 {
		n := w.blocks(&b[i], min((len(b)-i)>>6, mostBlocks))
		if n < 0 || !w.check(b, i, i+n) {
			return -1
		}
		if i += n; w.stack == noContainer {
			return i
		}
	}
	tail := blanks
	copy(tail[:], b[i-3:])
	n := w.blocks(&tail[3], 1)
	if n < 0 || w.stack != noContainer || !w.check(b, i, i+n) {
		return -1
	}
	return i + n
}

// check checks what the kernel has left to its caller. What is behind the end of the container does not matter.
func (w *walk) check(b []byte, from, end int) bool {
	for _, l := range w.later[:w.laters] {
		for at := from + int(l.at); l.mask != 0; l.mask &= l.mask - 1 {
			p := at + bits.TrailingZeros64(l.mask)
			if p >= end {
				break
			}
			if b[p-1] == '\\' { // p is an escaped byte, since a backslash in front of a scalar is a fault
				if !unicodeEscape(b[p-1:]) {
					return false
				}
				continue
			}
			if p+8 <= len(b) {
				text := word(b, p)
				if n := usualScalar(text); n > 0 && endsScalar[byte(text>>(8*n))] {
					continue
				}
			}
			if p = skipScalar(b, p); p < 0 || p < len(b) && !endsScalar[b[p]] {
				return false
			}
		}
	}
	return true
}
