package wire

import (
	"math/bits"
	"unsafe"
)

// hasBlocks is a variable for the tests. All processors of this kind have NEON.
var hasBlocks = true

// planes says what the 64 bytes of a block are: bit i of each mask stands for byte i. The masks have what classBits has for
// the byte, and beyond, which is for bytes beyond ASCII.
type planes struct{ beyond, control, curly, opening, backslash, bracket, white, escapable uint64 }

// What classBits has for a byte of ASCII, in the order of the masks in planes. Curly, opening and bracket tell the characters of
// the grammar from all others.
const (
	isControl   = 2 << iota
	isCurly     // { and }, comma and quote
	isOpening   // { and [, colon and quote
	isBackslash //
	isBracket   // { and [, } and ]
	isWhite     // white space
	isEscapable // what may follow a backslash, except u
)

var classBits = func() (is [128]uint8) {
	for c := range ' ' {
		is[c] = isControl
	}
	is['\\'] = isBackslash
	is[','], is[':'], is['"'] = isCurly, isOpening, isCurly|isOpening
	is['{'], is['['] = isBracket|isOpening|isCurly, isBracket|isOpening
	is['}'], is[']'] = isBracket|isCurly, isBracket
	for _, c := range " \t\r\n" {
		is[c] |= isWhite
	}
	for c, ok := range shortEscape {
		if ok {
			is[c] |= isEscapable
		}
	}
	return is
}()

// findPlanes finds the masks of the n blocks at p.
//
//go:noescape
func findPlanes(to *planes, p *byte, n int)

// malformed reports whether the 64 bytes at p end or are in a character that is not well formed. It reads three bytes before p.
//
//go:noescape
func malformed(p *byte) bool

// plainBlocks skips blocks of plain ASCII: without quotes, backslashes and control characters. It looks at the n bytes at p, from
// i on.
//
//go:noescape
func plainBlocks(p *byte, i, n int) int

// mostBlocks bounds the blocks of one call, which cannot be preempted.
const mostBlocks = 1 << 14

// skipText returns an index of b, i or a later one, which is inside a string. Between them are only whole characters
// and escapes of two bytes: no quote that ends the string and nothing that is a fault. What is before i must be so too.
func skipText(b []byte, i int) int {
	if !hasBlocks || i < 3 {
		return i
	}
	for len(b)-i >= 64 {
		var x planes
		findPlanes(&x, &b[i], 1)
		quote := x.curly & x.opening &^ x.bracket
		if quote|x.backslash|x.control|x.beyond == 0 {
			i = plainBlocks(unsafe.SliceData(b), i+64, min(len(b), i+mostBlocks<<6))
			continue
		}
		escaped, cut := escapes(x.backslash, 0)
		stop := quote&^escaped | x.control | escaped&^x.escapable
		if x.beyond != 0 && malformed(&b[i]) {
			stop |= x.beyond // the caller finds out where the fault is
		}
		if stop != 0 {
			at := bits.TrailingZeros64(stop)
			return i + at - int(escaped>>at&1) // an escape is returned from its backslash on
		}
		switch i += 64; { // what goes on in the next block begins that one
		case cut != 0 || b[i-1] >= 0xC0:
			i--
		case b[i-2] >= 0xE0:
			i -= 2
		case b[i-3] >= 0xF0:
			i -= 3
		}
	}
	return i
}

// escapes returns which bytes of a block are escaped, and 1 if the first one of the next block is. first is 1 if that of this block is.
//
// As in simdjson (Langdale and Lemire, Parsing Gigabytes of JSON per Second, section 3.1.1), a subtraction carries through each
// run of backslashes.
func escapes(backslash, first uint64) (escaped, next uint64) {
	const every = 0xAAAAAAAAAAAAAAAA // other bit
	begin := backslash &^ first
	runs := (begin<<1 | every) - begin ^ every
	return (backslash | first) ^ runs, backslash & runs >> 63
}
