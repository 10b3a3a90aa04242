package tokens

import "encoding/binary"

// A cache remembers how many tokens pieces are: half a megabyte of short ones
// and a quarter of longer ones. A piece takes the place of another with its hash.
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

// A cached word is its bytes, low first and 0 beyond its end, and in the last
// byte its length and, above, its tokens; all zero when there is none.
type cached struct{ lo, hi uint64 }

const countMask = uint64(0xF0) << 56

// A cacheKey is a cached word but for its tokens.
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

// get returns the tokens of the word, or 0 when it is not here.
func (c *cache) get(k cacheKey) int {
	set := &c.words[k.set()]
	for i := range set {
		if set[i].lo == k.lo && set[i].hi&^countMask == k.hi {
			return int(set[i].hi >> 60)
		}
	}
	return 0
}

// put notes the tokens of the word, 1 to cachedWord.
func (c *cache) put(k cacheKey, n int) {
	set := &c.words[k.set()]
	set[1] = set[0]
	set[0] = cached{k.lo, k.hi | uint64(n)<<60}
}

// A phrase is a longer piece and its tokens; of no length when it is none.
type phrase struct {
	length, tokens uint8
	text           [cachedPhrase]byte
}

// phrase returns the place for a piece of 8 to cachedPhrase bytes.
func (c *cache) phrase(piece []byte) *phrase {
	h := uint64(len(piece))
	for rest := piece; len(rest) >= 8; rest = rest[8:] {
		h = (h ^ binary.LittleEndian.Uint64(rest)) * mixer
		h ^= h >> 32
	}
	h = (h ^ binary.LittleEndian.Uint64(piece[len(piece)-8:])) * mixer
	return &c.phrases[h>>(64-phraseBits)]
}

// is reports whether this is the phrase.
func (p *phrase) is(piece []byte) bool {
	return int(p.length) == len(piece) && string(p.text[:p.length]) == string(piece)
}

// mixer is 2^64 over the golden ratio: its products are spread in their high bits.
const mixer = 0x9E3779B97F4A7C15
