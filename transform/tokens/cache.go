package tokens

import "encoding/binary"

// A cache remembers the token counts of pieces: half a megabyte of short pieces
// and a quarter of a megabyte of longer ones. A piece replaces another piece
// with the same hash.
type cache struct {
	words   [1 << wordBits][2]cached
	phrases [1 << phraseBits]phrase
}

const (
	wordBits   = 14
	cachedWord = 15 // bytes

	phraseBits   = 12
	cachedPhrase = 62 // bytes
)

// A cached word holds a word's bytes, in little-endian order and with zeros
// after the end. The last byte holds its length (low four bits) and its number
// of tokens (high four bits). All bits are zero if there is no word.
type cached struct{ lo, hi uint64 }

const countMask = uint64(0xF0) << 56

// A cacheKey is a cached word without its number of tokens.
type cacheKey cached

// keyOf returns the key of the n bytes of text from at on; n is 1 to cachedWord.
func keyOf(text []byte, at, n int) cacheKey {
	var k cacheKey
	if rest := text[at:]; len(rest) >= 16 {
		k.lo, k.hi = binary.LittleEndian.Uint64(rest), binary.LittleEndian.Uint64(rest[8:])
	} else {
		var word [16]byte
		copy(word[:], rest)
		k.lo, k.hi = binary.LittleEndian.Uint64(word[:]), binary.LittleEndian.Uint64(word[8:])
	}
	if n <= 8 {
		k.lo &= ^uint64(0) >> (64 - 8*n)
		k.hi = 0
	} else {
		k.hi &= 1<<(8*(n-8)) - 1
	}
	k.hi |= uint64(n) << 56
	return k
}

func (k cacheKey) set() int {
	h := (k.lo ^ k.hi*mixer) * mixer
	return int(h >> (64 - wordBits))
}

// get returns the word's number of tokens, or 0 if the word is not cached.
func (c *cache) get(k cacheKey) int {
	set := &c.words[k.set()]
	for i := range set {
		if set[i].lo == k.lo && set[i].hi&^countMask == k.hi {
			return int(set[i].hi >> 60)
		}
	}
	return 0
}

// put stores the word's number of tokens, which is 1 to cachedWord.
func (c *cache) put(k cacheKey, n int) {
	set := &c.words[k.set()]
	set[1] = set[0]
	set[0] = cached{k.lo, k.hi | uint64(n)<<60}
}

// A phrase is a longer piece and its number of tokens. Its length is 0 if there
// is none.
type phrase struct {
	length, tokens uint8
	text           [cachedPhrase]byte
}

// phrase returns the slot for a piece of 8 to cachedPhrase bytes.
func (c *cache) phrase(piece []byte) *phrase {
	h := uint64(len(piece))
	for rest := piece; len(rest) >= 8; rest = rest[8:] {
		h = (h ^ binary.LittleEndian.Uint64(rest)) * mixer
		h ^= h >> 32
	}
	h = (h ^ binary.LittleEndian.Uint64(piece[len(piece)-8:])) * mixer
	return &c.phrases[h>>(64-phraseBits)]
}

// is reports whether p holds piece.
func (p *phrase) is(piece []byte) bool {
	return int(p.length) == len(piece) && string(p.text[:p.length]) == string(piece)
}

// mixer is 2^64 divided by the golden ratio. Multiplying a key by it spreads
// the key over the high bits of the product.
const mixer = 0x9E3779B97F4A7C15
