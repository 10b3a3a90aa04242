package wire

import "math/bits"

// hasWalk and hasWalk512 are variables for the tests.
var hasWalk, hasWalk512 = true, false

const (
	batch       = 4  // blocks whose masks are found by one call
	firstBatch  = 2  // the same for the first call, since many containers are short
	stackLevels = 63 // open containers whose kinds fit into one word
	noContainer = 1
)

// walk is where in the grammar a block begins: bit 63 of each mask is about the byte before the block, or before the white space
// in front of it.
type walk struct {
	stack  uint64 // one bit for each open container, which is set for an object, below that of noContainer; the innermost one is the lowest
	value  uint64 // ends a value
	open   uint64 // is an opening bracket
	item   uint64 // is an opening bracket or a comma
	name   uint64 // ends a name
	text   uint64 // is in a string, or its opening quote
	scalar uint64 // is in a scalar
	inName uint64 // 1 in a name

	escaped uint64 // 1 if a backslash escapes the first byte
	beyond  uint64 // the bytes beyond ASCII of the block before
}

// skipWalk skips the container at i, which lies in depth containers. It has no fault to return: if there is one, or if
// containers are too deep for one word, it returns -1 and leaves the text to its caller.
func skipWalk(b []byte, i, depth int) int {
	if i < 3 || len(b)-i < 64 || depth > MaxDepth-stackLevels {
		return -1
	}
	if b[i+1] == b[i]+('}'-'{') { // [] and {} are too short for a walk
		return i + 2
	}
	w := walk{stack: noContainer}
	return w.skip(b, i)
}

// skipBlocks skips the rest of a container, from i, which is behind a member or element: level containers are open, depth of
// them around that container, and each has a bit in objects, as in skipContainer. It returns as skipWalk does.
func skipBlocks(b []byte, i int, objects *[levelWords]uint64, level, depth int) int {
	if level > depth+stackLevels || depth > MaxDepth-stackLevels {
		return -1
	}
	w := walk{stack: noContainer, value: 1 << 63}
	for l := depth + 1; l <= level; l++ {
		w.stack = w.stack<<1 | objects[l>>6]>>(l&63)&1
	}
	return w.skip(b, i)
}

// skip skips what is left of a container, block by block, without a branch for each token. i is 3 or more.
//
// The grammar of JSON without its brackets is about neighbors: which token may follow which. All tokens of a block are
// compared with their predecessors at once, by masks that are shifted by one. Brackets are visited one by one.
func (w *walk) skip(b []byte, i int) int {
	var found [batch]planes
	for most := firstBatch; len(b)-i >= 64; most = batch {
		n := min((len(b)-i)>>6, most)
		findPlanes(&found[0], &b[i], n)
		for k := range n {
			end := w.block(&found[k&(batch-1)], b, i)
			if end != 0 {
				return end
			}
			i += 64
		}
		if w.text == ^uint64(0) && w.escaped == 0 && w.beyond>>61 == 0 {
			i = skipText(b, i)
		}
	}
	tail := blanks
	copy(tail[:], b[i-3:])
	findPlanes(&found[0], &tail[3], 1)
	end := w.block(&found[0], tail[:], 3)
	if end <= 0 {
		return -1
	}
	return i + end - 3
}

// block goes on with the block at i, of which x has the masks. It returns where the container ends, 0 if it goes on behind the block, or -1 as
// skipWalk does.
func (w *walk) block(x *planes, b []byte, i int) int {
	curly, opening, bracket, white := x.curly, x.opening, x.bracket, x.white
	quote, odd := curly&opening&^bracket, uint64(0)
	if x.beyond|x.control|x.backslash|w.beyond|w.escaped != 0 {
		if x.beyond|w.beyond != 0 && malformed(&b[i]) {
			return -1
		}
		var escaped uint64
		escaped, w.escaped = escapes(x.backslash, w.escaped)
		quote &^= escaped
		odd = x.control | escaped&^x.escapable
		w.beyond = x.beyond
	}
	text := quote // from an opening quote to before the closing one: each bit is the parity of all bits up to it
	text ^= text << 1
	text ^= text << 2
	text ^= text << 4
	text ^= text << 8
	text ^= text << 16
	text ^= text<<32 ^ uint64(int64(w.text)>>63)
	w.text = text

	outside := ^(text | quote)
	bracket &= outside
	open, shut := bracket&opening, bracket&^opening
	outside &^= bracket
	comma, colon, space := outside&curly, outside&opening, outside&white
	scalar := outside &^ (curly | opening | white)
	begin := scalar &^ (scalar<<1 | w.scalar>>63) // where scalars begin
	w.scalar = scalar

	values, items := scalar|shut|quote&^text, open|comma
	behindValue, behindOpen, item := values<<1|w.value>>63, open<<1|w.open>>63, items<<1|w.item>>63
	w.value, w.open, w.item = values, open, items
	if space != 0 {
		behindValue, w.value = through(behindValue, values, space)
		behindOpen, w.open = through(behindOpen, open, space)
		item, w.item = through(item, items, space)
	}

	stack, end := w.stack, uint64(0) // end is the bracket that ends the container
	object := -(stack & 1)           // where the innermost container is an object, before the token there
	for bracket != 0 {
		at, was := bits.TrailingZeros64(bracket), stack
		if open>>(at&63)&1 != 0 {
			if int64(stack) < 0 {
				return -1
			}
			stack = stack<<1 | curly>>(at&63)&1
		} else if stack >>= 1; stack == noContainer {
			end = bracket & -bracket
			break
		}
		object ^= -((was ^ stack) & 1) << (at & 63) << 1
		bracket &= bracket - 1
	}
	w.stack = stack

	names := item & object
	ends, inName := bits.Add64(text, names&quote, w.inName) // a sum carries through each name to its closing quote
	w.inName = inName
	ends &^= text
	behindName := ends<<1 | w.name>>63
	w.name = ends
	if space != 0 {
		behindName, w.name = through(behindName, ends, space)
	}

	begins := begin | open
	bad := behindValue&(quote&text|begins) | (comma|colon)&^behindValue // a value behind a value, or none in front of these
	bad |= names&begins | behindName ^ colon                            // a name that is no string, or without a colon, or the reverse
	bad |= shut & (curly ^ object | ^(behindValue | behindOpen))
	odd &= text
	if end != 0 {
		upTo := end | (end - 1)
		bad &= upTo
		begin &= upTo
		odd &= upTo
	}
	if bad != 0 || begin != 0 && !areScalars(b, i, begin) || odd != 0 && !unicodeEscapes(b, i, odd) {
		return -1
	}
	if end != 0 {
		return i + bits.TrailingZeros64(end) + 1
	}
	return 0
}

// through moves the bits of moved to the next byte that is no white space. mask is what they were before they were moved by one; it is
// returned for the next block.
func through(moved, mask, space uint64) (through, last uint64) {
	sum, over := bits.Add64(space, moved&space, 0)
	return (moved | sum) &^ space, mask | over<<63
}
