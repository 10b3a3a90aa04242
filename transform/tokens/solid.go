package tokens

import (
	"sort"
	"unicode/utf8"
)

// A solid character has several bytes, is a token, and may be taken as that
// token before merging begins. While such a character is merged from its bytes,
// the part at either edge could be joined with a neighbouring character
// instead. That cannot happen if the next merge inside the character has a
// lower rank; behind and ahead are the neighbours for which it does not.
type solid struct {
	rank          uint32 // none when the character is no token
	behind, ahead neighbours
}

// neighbours is a set of characters. It distinguishes them by a hash of six
// bits of their first two bytes, so that it may seem to hold more characters
// than it does.
type neighbours uint64

const anyNeighbour = ^neighbours(0)

// neighbour returns the set that holds the character that text begins with. If
// text has only the first byte of a longer character, it returns anyNeighbour.
func neighbour(text []byte) neighbours {
	switch {
	case text[0] < utf8.RuneSelf:
		return 1 << (text[0] & 63)
	case len(text) == 1:
		return anyNeighbour
	}
	return 1 << ((text[0]*29 + text[1]) & 63)
}

// solids finds the characters that are solid beside some neighbours.
func (p *parts) solids() runeTable {
	behind, ahead := make(rivals), make(rivals)
	for rank := uint32(256); int(rank) < len(p.left); rank++ {
		l, r := p.left[rank], p.right[rank]
		if !utf8.RuneStart(p.first[r]) {
			continue // joined inside a character
		}
		if b := p.first[r]; b >= utf8.RuneSelf && p.length[r] < utf8.UTFMax && !utf8.FullRune(p.bytes(r)) {
			behind.add(r, rank, last(p.bytes(l)))
		}
		if !utf8.RuneStart(p.first[l]) {
			ahead.add(l, rank, neighbour(p.bytes(r)))
		}
	}
	t := newRuneTable()
	for rank := uint32(256); int(rank) < len(p.left); rank++ {
		if p.first[rank] < 0xC0 || p.length[rank] > utf8.UTFMax {
			continue
		}
		char := p.bytes(rank)
		r, w := utf8.DecodeRune(char)
		if w != len(char) || w == 1 {
			continue
		}
		s := solid{rank: rank}
		for q := rank; p.length[q] > 1; q = p.left[q] {
			s.behind |= behind.before(p.left[q], q)
		}
		for q := rank; p.length[q] > 1; q = p.right[q] {
			s.ahead |= ahead.before(p.right[q], q)
		}
		t.set(r, s)
	}
	return t
}

// last returns the set that holds the character that a token ends with.
func last(token []byte) neighbours {
	for i := len(token) - 1; i >= 0; i-- {
		if utf8.RuneStart(token[i]) {
			return neighbour(token[i:])
		}
	}
	return anyNeighbour // token holds only the end of a character
}

// rivals holds, for each part of a character, the ranks at which the part is
// joined with text outside the character, in ascending order. With each rank
// are the neighbours with which the part is joined at this rank or a lower one.
type rivals map[uint32][]rival

type rival struct {
	rank uint32
	with neighbours
}

func (v rivals) add(part, rank uint32, with neighbours) {
	l := v[part]
	if len(l) > 0 {
		with |= l[len(l)-1].with
	}
	v[part] = append(l, rival{rank, with})
}

// before returns the neighbours that are joined with part at a rank below rank.
func (v rivals) before(part, rank uint32) neighbours {
	l := v[part]
	i := sort.Search(len(l), func(i int) bool { return l[i].rank >= rank })
	if i == 0 {
		return 0
	}
	return l[i-1].with
}

// parts holds the two halves of which each token of a vocabulary is made, by
// rank. The single bytes come first.
type parts struct {
	left, right []uint32
	length      []uint8
	first       []byte // of the token's bytes
	buf         [2 * longestToken]byte
	next        int
}

// bytes returns the bytes of a token. They are valid until the second call
// after this one.
func (p *parts) bytes(rank uint32) []byte {
	p.next = longestToken - p.next
	dst := p.buf[p.next:p.next]
	return p.append(dst, rank)
}

func (p *parts) append(dst []byte, rank uint32) []byte {
	if p.length[rank] == 1 {
		return append(dst, p.first[rank])
	}
	return p.append(p.append(dst, p.left[rank]), p.right[rank])
}

// A runeTable holds, for each character, whether it can be solid.
type runeTable struct {
	index  []uint16 // into blocks; the first block has no solid character
	blocks [][1 << blockBits]solid
}

func newRuneTable() runeTable {
	t := runeTable{index: make([]uint16, (utf8.MaxRune+1)>>blockBits)}
	t.grow()
	return t
}

func (t *runeTable) grow() uint16 {
	var block [1 << blockBits]solid
	for i := range block {
		block[i].rank = none
	}
	t.blocks = append(t.blocks, block)
	return uint16(len(t.blocks) - 1)
}

func (t *runeTable) set(r rune, s solid) {
	at := &t.index[r>>blockBits]
	if *at == 0 {
		*at = t.grow()
	}
	t.blocks[*at][r&(1<<blockBits-1)] = s
}

func (t *runeTable) at(r rune) *solid {
	return &t.blocks[t.index[r>>blockBits]][r&(1<<blockBits-1)]
}

// longestToken is a number of bytes that no token of any encoding exceeds, and
// no UTF-8 sequence.
const longestToken = 128

// none is the rank of bytes that are not a token.
const none = ^uint32(0)
