package tokens

// A run too long to be merged at once is merged in windows that overlap. A row
// of tokens is what merging makes of its text exactly when that is so for every
// two neighbours. Two windows that agree on a token of their overlap therefore
// give the whole: the tokens of the one up to it, of the other from it on.
// An eighth of a window is in the next one too.
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
		// Nowhere did two neighbours agree, which takes a text made for it.
	}
}

// windows is not ok when two windows agree on no token.
func (s *scratch) windows(m *merges, piece []byte, limit, window int) (n int, ok bool) {
	overlap := s.overlap[:0] // tokens of the window before
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
			// Enough: what comes a window later has no say in these tokens, short of
			// a text for which the next windows were to disagree.
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
