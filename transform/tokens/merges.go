package tokens

import (
	"bytes"
	"compress/flate"
	_ "embed"
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"
)

// A merge file is compressed with DEFLATE. It holds the 256 bytes in the order
// of their ranks; the number of longer tokens, as a varint; and the two halves
// of each longer token, from rank 256 on: first all left halves, then all right
// halves. A half is a lower rank, in 3 bytes, little-endian.
var (
	//go:embed cl100k_base.merges
	cl100kMerges []byte
	//go:embed o200k_base.merges
	o200kMerges []byte
)

// filterBits is the number of bits that the filter of pairs has for each slot
// of the table of pairs.
const filterBits = 8

// rankBits is the size of a rank: 18 bits, so that a pair of ranks and the rank of the joined token
// fit one word.
const rankBits = 18

// merges is a vocabulary as byte-pair encoding uses it: it says which two
// tokens join into which. Until two neighbouring tokens are joined, the text
// that they span was merged as if it stood alone. So of all the ways to cut a
// token in two only one ever occurs, and one pair for each token is enough.
// Both halves have lower ranks than the token, so ranks rise as a piece is
// merged.
type merges struct {
	single  [256]uint32     // rank of each byte
	double  [1 << 16]uint32 // rank of two bytes joined, by their ranks
	pairs   []uint64        // left, right, joined; open addressing
	shift   int
	filter  []uint64  // filterBits for each slot: it is smaller than pairs, and rules out most pairs that form no token
	solids  runeTable // characters that may be taken for one token
	size    int       // number of tokens
	longest int       // in bytes
}

func readMerges(deflated []byte) (*merges, error) {
	plain, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(deflated)), 8<<20))
	if err != nil {
		return nil, fmt.Errorf("merge table: %w", err)
	}
	if len(plain) < 256 {
		return nil, fmt.Errorf("merge table: %w", io.ErrUnexpectedEOF)
	}
	n, w := binary.Uvarint(plain[256:])
	if w <= 0 || n > 1<<rankBits-256 || len(plain) != 256+w+6*int(n) {
		return nil, fmt.Errorf("merge table: %d bytes are no table of %d tokens", len(plain), n)
	}
	lefts, rights := plain[256+w:][:3*n], plain[256+w+3*int(n):]
	m := &merges{size: 256 + int(n), longest: 1}
	// The table is less than half full, so that most look-ups end at the first
	// slot.
	size := bits.Len(uint(2*n) | 63)
	m.pairs, m.shift = make([]uint64, 1<<size), 64-size
	m.filter = make([]uint64, len(m.pairs)*filterBits/64)
	for i := range m.double {
		m.double[i] = none
	}
	v := &parts{
		left: make([]uint32, m.size), right: make([]uint32, m.size),
		length: make([]uint8, m.size), first: make([]byte, m.size),
	}
	for rank, b := range plain[:256] {
		m.single[b], v.length[rank], v.first[rank] = uint32(rank), 1, b
	}
	for i := range int(n) {
		rank := uint32(256 + i)
		left, right := rank24(lefts[3*i:]), rank24(rights[3*i:])
		if left >= rank || right >= rank {
			return nil, fmt.Errorf("merge table: token %d is made of later ones", rank)
		}
		length := int(v.length[left]) + int(v.length[right])
		if length > longestToken {
			return nil, fmt.Errorf("merge table: token %d is too long", rank)
		}
		v.left[rank], v.right[rank], v.length[rank], v.first[rank] = left, right, uint8(length), v.first[left]
		m.longest = max(m.longest, length)
		if length == 2 {
			m.double[left<<8|right] = rank
		}
		key := uint64(left)<<rankBits | uint64(right)
		at := m.slot(key)
		word, bit := m.sieve(key)
		*word |= bit
		for m.pairs[at] != 0 {
			at = (at + 1) & (len(m.pairs) - 1)
		}
		m.pairs[at] = key<<rankBits | uint64(rank)
	}
	m.solids = v.solids()
	return m, nil
}

func rank24(b []byte) uint32 { return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 }

func (m *merges) slot(key uint64) int { return int(key * mixer >> m.shift) }

// sieve returns the filter's bit for a key. If the bit is not set, there is no
// pair with that key.
func (m *merges) sieve(key uint64) (word *uint64, bit uint64) {
	at := key * mixer >> (m.shift - bits.Len(filterBits-1))
	return &m.filter[at/64], 1 << (at % 64)
}

// join returns the rank of the token that left and right make, or none.
func (m *merges) join(left, right uint32) uint32 {
	if left < 256 && right < 256 {
		return m.double[left<<8|right]
	}
	key := uint64(left)<<rankBits | uint64(right)
	if word, bit := m.sieve(key); *word&bit == 0 {
		return none
	}
	for at := m.slot(key); ; at = (at + 1) & (len(m.pairs) - 1) {
		switch e := m.pairs[at]; {
		case e>>rankBits == key:
			return uint32(e & (1<<rankBits - 1))
		case e == 0:
			return none
		}
	}
}

// two returns the number of tokens of two bytes.
func (m *merges) two(a, b byte) int {
	if m.double[m.single[a]<<8|m.single[b]] == none {
		return 2
	}
	return 1
}
