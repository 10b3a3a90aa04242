package tokens

// windowBytes is the size of a window. A run that is too long to be merged at
// once is merged in windows, each of which overlaps the next by an eighth. A
// sequence of tokens is the result of merging its text if and only if every two
// neighbours are the result of merging theirs. So if two windows agree on a
// token of their overlap, they give the whole result: the tokens of the first
// window before that token, and those of the second from it on.
const windowBytes = 8 << 10

// A span is where a token begins and ends in its piece.
type span struct{ begin, end int }

// long counts the tokens of a piece of any length. When there are more than
// limit it may stop and return any number above limit.
func (s *scratch) long(m *merges, piece []byte, limit int) int {
	for window := s.window; ; window *= 4 {
		if n, ok := s.windows(m, piece, limit, window); ok {
			return n
		}
		// Two neighbouring windows agreed on no token. That takes a text made
		// for it.
	}
}

// windows counts the tokens of piece in windows of that size. ok is false if
// two neighbouring windows agree on no token.
func (s *scratch) windows(m *merges, piece []byte, limit, window int) (n int, ok bool) {
	overlap := s.overlap[:0] // tokens of the previous window that this one overlaps
	defer func() { s.overlap = overlap }()
	for start := 0; ; {
		end := min(start+window, len(piece))
		s.queue.merge(m, piece[start:end])
		nodes := s.queue.nodes
		i := 0 // from here on, the tokens are counted as this window has them
		if start > 0 {
			agreed := false
			for _, t := range overlap {
				for i < len(nodes) && start+i < t.begin {
					i = int(nodes[i].next)
				}
				if i < len(nodes) && start+i == t.begin && start+int(nodes[i].next) == t.end {
					agreed = true
					break
				}
				n++
			}
			if !agreed {
				return 0, false
			}
			// This is enough: later windows do not change these tokens, except
			// in a text made so that two later windows disagree.
			if n > limit {
				return n, true
			}
		}
		if end == len(piece) {
			for i < len(nodes) {
				n++
				i = int(nodes[i].next)
			}
			return n, true
		}
		for start+i < end-window/8 {
			n++
			i = int(nodes[i].next)
		}
		overlap = overlap[:0]
		next := start + i
		for i < len(nodes) {
			overlap = append(overlap, span{start + i, start + int(nodes[i].next)})
			i = int(nodes[i].next)
		}
		start = next
	}
}
