package tokens

import "unicode/utf8"

// A vocabulary counts what OpenAI's tokenizer counts with the same merges and
// pattern. It is safe for concurrent use.
type vocabulary struct {
	merges  *merges
	classes *classes
	pattern pattern
	scratch pool // of *scratch
}

// newVocabulary makes a vocabulary of a merge file.
func newVocabulary(deflated []byte, p pattern) (*vocabulary, error) {
	m, err := readMerges(deflated)
	if err != nil {
		return nil, err
	}
	c, err := newClasses(classRanges)
	if err != nil {
		return nil, err
	}
	v := &vocabulary{merges: m, classes: c, pattern: p}
	v.scratch.New = func() any { return newScratch(v) }
	return v, nil
}

// scratch is the memory that one count works in: up to two megabytes.
type scratch struct {
	split   splitter
	cache   cache
	short   short
	queue   queue
	overlap []span
	clean   []byte
	window  int
}

func newScratch(v *vocabulary) *scratch {
	return &scratch{split: splitter{classes: v.classes, pattern: v.pattern}, window: windowBytes}
}

// keptScratch is the number of bytes up to which a buffer that a text made grow
// is kept for the next.
const keptScratch = 64 << 10

func (v *vocabulary) release(s *scratch) {
	if cap(s.clean) > keptScratch {
		s.clean = nil
	}
	if cap(s.queue.nodes) > 2*windowBytes {
		s.queue = queue{first: s.queue.first}
		s.overlap = nil
	}
	v.scratch.Put(s)
}

// take counts tokens from the start of text as long as it is certain which
// piece they are in. If more text may follow (open), it may leave the last
// piece uncounted. It stops when there are more tokens than limit.
func (v *vocabulary) take(text []byte, open bool, limit int) (n, used int) {
	s := v.scratch.Get().(*scratch)
	defer v.release(s)
	s.split.open, s.split.bad = open, false
	for used < len(text) && n <= limit {
		size := s.split.next(text[used:])
		if size == undecided {
			break
		}
		switch {
		case s.split.bad:
			s.split.bad = false
			n += s.unclean(v.merges, text[used:used+size], limit-n)
		case size == 1:
			n++
		case size == 2:
			n += v.merges.two(text[used], text[used+1])
		case size <= cachedWord:
			k := keyOf(text, used, size)
			count := s.cache.get(k)
			if count == 0 {
				count = s.short.count(v.merges, text[used:used+size])
				s.cache.put(k, count)
			}
			n += count
		default:
			n += s.piece(v.merges, text[used:used+size], limit-n)
		}
		used += size
	}
	return n, used
}

// piece counts the tokens of a piece of any length.
func (s *scratch) piece(m *merges, piece []byte, limit int) int {
	switch {
	case len(piece) > cachedWord && len(piece) <= cachedPhrase:
		p := s.cache.phrase(piece)
		if !p.is(piece) {
			p.tokens, p.length = uint8(s.short.count(m, piece)), uint8(copy(p.text[:], piece))
		}
		return int(p.tokens)
	case len(piece) <= shortPiece:
		return s.short.count(m, piece)
	case len(piece)/m.longest > limit:
		return limit + 1 // no token is longer than the longest
	}
	return s.long(m, piece, limit)
}

// unclean does what piece does, for a piece that may hold bytes that are not
// UTF-8.
func (s *scratch) unclean(m *merges, piece []byte, limit int) int {
	s.clean = appendClean(s.clean[:0], piece)
	return s.piece(m, s.clean, limit)
}

// appendClean appends text with U+FFFD in place of each byte that is not UTF-8.
func appendClean(dst, text []byte) []byte {
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if n == 1 && r == utf8.RuneError {
			dst = utf8.AppendRune(dst, r)
		} else {
			dst = append(dst, text[:n]...)
		}
		text = text[n:]
	}
	return dst
}
