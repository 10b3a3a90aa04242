package tokens

import (
	"math/bits"
	"unicode/utf8"
)

// shortPiece is the length up to which a piece is merged in place, with a bit
// of one word for each token.
const shortPiece = 64

// short counts the tokens of short pieces.
type short struct {
	ranks [shortPiece]uint32 // of each token
	// keys holds, for each token, the rank of the token joined with the next
	// one, and in the low bits the token's place. The pair with the least key
	// is joined first: of equal ranks the leftmost.
	keys [shortPiece]uint32
}

const (
	placeBits = 6
	never     = none // the key of a token that does not join the next
)

// begin fills in the tokens from which a piece of valid UTF-8 is merged, and
// returns their number. A character that is solid beside these neighbours is
// one token; of every other character, each byte is one.
func (s *short) begin(m *merges, piece []byte) int {
	n := 0
	prev := neighbours(0) // the character before
	for i := 0; i < len(piece); {
		b := piece[i]
		if b < utf8.RuneSelf {
			s.ranks[n&63] = m.single[b]
			n++
			i++
			prev = 1 << (b & 63)
			continue
		}
		r, w := utf8.DecodeRune(piece[i:])
		char := piece[i : i+w]
		i += w
		next := neighbours(0)
		if i < len(piece) {
			next = neighbour(piece[i:])
		}
		if c := m.solids.at(r); c.rank != none && c.behind&prev|c.ahead&next == 0 {
			s.ranks[n&63] = c.rank
			n++
		} else {
			for _, b := range char {
				s.ranks[n&63] = m.single[b]
				n++
			}
		}
		prev = neighbour(char)
	}
	return n
}

// count returns the number of tokens of a piece of valid UTF-8 of up to
// shortPiece bytes.
func (s *short) count(m *merges, piece []byte) int {
	n := s.begin(m, piece)
	for i := range n - 1 {
		s.keys[i&63] = key(m.join(s.ranks[i&63], s.ranks[(i+1)&63]), i)
	}
	s.keys[(n-1)&63] = never
	alive := ^uint64(0) >> (64 - n) // a bit for each token
	for {
		least := never
		for _, k := range s.keys[:n] {
			least = min(least, k)
		}
		if least == never {
			return bits.OnesCount64(alive)
		}
		i, joined := int(least&(1<<placeBits-1)), least>>placeBits
		after := alive &^ (2<<i - 1)
		j := bits.TrailingZeros64(after) & 63
		alive &^= 1 << j
		after &^= 1 << j
		s.ranks[i], s.keys[i], s.keys[j] = joined, never, never
		if after != 0 {
			next := bits.TrailingZeros64(after) & 63
			s.keys[i] = key(m.join(joined, s.ranks[next]), i)
		}
		if before := alive & (1<<i - 1); before != 0 {
			prev := (63 - bits.LeadingZeros64(before)) & 63
			s.keys[prev] = key(m.join(s.ranks[prev], joined), prev)
		}
	}
}

func key(rank uint32, place int) uint32 {
	if rank == none {
		return never
	}
	return rank<<placeBits | uint32(place)
}
