package wire

import (
	"math/bits"
)

// block says what the 64 bytes of a block are: bit i of each mask stands for byte i.
type block struct {
	text   uint64 // in a string, from its opening quote to before its closing one
	quote  uint64 // an opening quote
	odd    uint64 // in a string and maybe a fault: a control character, or an escaped byte that is u or a fault; all bits for bad UTF-8
	comma  uint64 // the others are outside of strings
	colon  uint64
	open   uint64 // { or [
	shut   uint64 // } or ]
	space  uint64
	scalar uint64 // none of these: in a number or a literal
	curly  uint64 // the bit that tells { from [ and } from ], anywhere
}

// carry is what maskBlocks must know of the block before.
type carry struct {
	text    uint64 // all bits if it ends in a string
	escaped uint64 // 1 if it ends with a backslash that escapes the next byte
	beyond  uint64 // its bytes beyond ASCII
}

// maskBlocks finds the masks of the n blocks at p. It reads up to three bytes before p. It needs AVX2 and PCLMULQDQ.
//
//go:noescape
func maskBlocks(to *block, p *byte, n int, c *carry)

const (
	batch       = 4  // blocks whose masks are found by one call
	stackLevels = 64 // open containers whose kinds fit into one word
)

// skipBlocks skips the rest of a container, from i, which is behind a member or element: level containers are open, depth of
// them around that container, and each has a bit in objects, as in skipContainer. It does so block by block, without a branch
// for each token, and has no fault to return: if there is one, or if containers are too deep for one word, it returns -1 and
// leaves the text to the caller.
//
// The grammar of JSON without its brackets is about neighbors: which token may follow which. All tokens of a block are
// compared with their predecessors at once, by masks that are shifted by one. Brackets are visited one by one.
func skipBlocks(b []byte, i int, objects *[levelWords]uint64, level, depth int) int {
	limit := min(depth+stackLevels, MaxDepth)
	if level > limit {
		return -1
	}
	var stack uint64 // one bit for each open container, which is set for an object; the innermost one is the lowest
	for l := depth + 1; l <= level; l++ {
		stack = stack<<1 | objects[l>>6]>>(l&63)&1
	}
	var (
		blocks [batch]block
		c      carry
		// What of the block before concerns the first byte of a block that is no white space, each 0 or 1: it follows a
		// value, an opening bracket, an opening bracket or comma, or a name.
		value, opened, item, named uint64 = 1, 0, 0, 0
		inName, inScalar           uint64 // 1 if a name or a scalar goes on
	)
	for i < len(b) {
		n := min((len(b)-i)>>6, batch)
		if n > 0 {
			maskBlocks(&blocks[0], &b[i], n, &c)
		} else {
			tail := blanks
			copy(tail[:], b[i-3:])
			n = 1
			maskBlocks(&blocks[0], &tail[3], n, &c)
		}
		for k := range blocks[:n] {
			x, at := &blocks[k], i+k<<6
			end := uint64(0)       // the bracket that ends the container
			object := -(stack & 1) // where the innermost container is an object, before the token there
			for brackets := x.open | x.shut; brackets != 0; brackets &= brackets - 1 {
				bit := brackets & -brackets
				if x.open&bit != 0 {
					if level++; level > limit {
						return -1
					}
					if stack <<= 1; x.curly&bit != 0 {
						stack |= 1
					}
				} else if level--; level == depth {
					end = bit
					break
				} else {
					stack >>= 1
				}
				upTo := bit | (bit - 1)
				object = object&upTo | -(stack&1)&^upTo
			}
			scalars := x.scalar &^ (x.scalar<<1 | inScalar) // where they begin
			inScalar = x.scalar >> 63

			var behindValue, behindOpen, items, behindName uint64
			values := ^(x.text | x.comma | x.colon | x.open | x.space)
			behindValue, value = next(values, value, x.space)
			behindOpen, opened = next(x.open, opened, x.space)
			items, item = next(x.open|x.comma, item, x.space)
			names := items & object
			carried, out := bits.Add64(x.text, names&x.quote, inName) // a sum carries through each name to its closing quote
			inName = out
			behindName, named = next(carried&^x.text, named, x.space)

			bad := behindValue & (x.quote | x.open | scalars) // a value behind a value
			bad |= (x.comma | x.colon) &^ behindValue
			bad |= x.shut &^ (behindValue | behindOpen)
			bad |= names & (x.open | scalars) // a value instead of a name
			bad |= behindName ^ x.colon       // a name without a colon, or the reverse
			bad |= x.shut & (x.curly ^ object)
			odd := x.odd
			if end != 0 {
				bad &= end | (end - 1)
				scalars &= end - 1
				odd &= end - 1
			}
			if bad != 0 || odd != 0 && !unicodeEscapes(b, at, odd) || scalars != 0 && !areScalars(b, at, scalars) {
				return -1
			}
			if end != 0 {
				return at + bits.TrailingZeros64(end) + 1
			}
		}
		if i += n << 6; blocks[n-1].text == ^uint64(0) && c.escaped == 0 && c.beyond>>61 == 0 {
			i = skipText(b, i)
		}
	}
	return -1
}

// next moves each bit of a mask to the next byte that is no white space. in and out are bits that come from the block before
// and go to the next one. A sum carries each bit through white space.
func next(mask, in, space uint64) (moved, out uint64) {
	moved, out = mask<<1|in, mask>>63
	if space != 0 {
		sum, over := bits.Add64(space, moved&space, 0)
		moved, out = (moved|sum)&^space, out|over
	}
	return moved, out
}
