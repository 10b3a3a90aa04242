package tokens

import (
	"unicode/utf8"
)

// A pattern says which piece a text begins with. Tokens never reach from one
// piece into the next, so pieces are counted one by one.
type pattern uint8

const (
	// cl100kPattern is
	//
	//	(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}
	//	| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
	cl100kPattern pattern = iota

	// o200kPattern is
	//
	//	[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?
	//	|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?
	//	|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
	o200kPattern
)

// undecided is the length of a piece that more text could make longer.
const undecided = 0

// A splitter finds pieces as a pattern's regular expression would, looking at
// each character at most three times.
type splitter struct {
	*classes
	pattern pattern
	open    bool // more text may follow
	bad     bool // a byte that is not UTF-8 was seen since the caller last reset this
}

// next returns the length of the piece that text, which is not empty, begins
// with. It is undecided only while s is open.
func (s *splitter) next(text []byte) int {
	k, w := s.class(text, 0)
	switch {
	case k&letter != 0:
		if s.pattern == cl100kPattern {
			return s.run(text, w, letter)
		}
		return s.word(text, 0, 0)
	case k == number:
		return s.number(text, w)
	case k == 0:
		return undecided
	}

	// One character that is neither letter, number nor newline may lead a word.
	if w == len(text) && s.open {
		return undecided
	}
	if text[0] == '\'' && s.pattern == cl100kPattern {
		if n, ok := s.contraction(text, 0); !ok {
			return undecided
		} else if n > 0 {
			return n
		}
	}
	var k2 class
	var w2 int
	if w < len(text) && k != newline {
		if k2, w2 = s.class(text, w); k2 == 0 {
			return undecided
		}
		if s.pattern == cl100kPattern {
			if k2&letter != 0 {
				return s.run(text, w+w2, letter)
			}
		} else if k2&(letter|mark) != 0 || k == mark {
			lead := w
			if k2&(letter|mark) == 0 {
				lead = 0 // a mark that leads nothing is a word of its own
			}
			return s.word(text, lead, k)
		}
	} else if k == mark && s.pattern == o200kPattern {
		return w
	}
	if k&symbol != 0 {
		return s.symbols(text, w)
	}
	if text[0] == ' ' && k2&symbol != 0 {
		return s.symbols(text, w+w2)
	}
	return s.spaces(text)
}

// class returns the class and the width of the character at i. Both are 0 if text ends within the character and more
// may follow.
func (s *splitter) class(text []byte, i int) (class, int) {
	if k := s.ascii[text[i]]; k != 0 {
		return k, 1
	}
	return s.wide(text, i)
}

func (s *splitter) wide(text []byte, i int) (class, int) {
	r, w := utf8.DecodeRune(text[i:])
	if w == 1 {
		if s.open && !utf8.FullRune(text[i:]) {
			return 0, 0
		}
		s.bad = true
		return other, 1
	}
	return s.of(r), w
}

// run returns where the characters that begin at i and are in set end, or undecided.
func (s *splitter) run(text []byte, i int, set class) int {
	for i < len(text) {
		k, w := s.ascii[text[i]], 1
		if k == 0 {
			if k, w = s.wide(text, i); k == 0 {
				return undecided
			}
		}
		if k&set == 0 {
			return i
		}
		i += w
	}
	return s.end(i)
}

// end returns i, the end of the text, or undecided if more text may follow.
func (s *splitter) end(i int) int {
	if s.open {
		return undecided
	}
	return i
}

// number returns the end of up to three digits, of which the first ends at i.
func (s *splitter) number(text []byte, i int) int {
	for range 2 {
		if i == len(text) {
			return s.end(i)
		}
		k, w := s.class(text, i)
		if k == 0 {
			return undecided
		}
		if k != number {
			break
		}
		i += w
	}
	return i
}

// symbols returns the end of the symbols that continue at i and of the newlines (and slashes, for o200k_base) after
// them.
func (s *splitter) symbols(text []byte, i int) int {
	if i = s.run(text, i, symbol); i == undecided {
		return undecided
	}
	for i < len(text) {
		if b := text[i]; b != '\n' && b != '\r' && (b != '/' || s.pattern != o200kPattern) {
			return i
		}
		i++
	}
	return s.end(i)
}

// spaces returns the end of the piece that begins with white space. If the white space has a newline, the piece ends
// after the last newline. Otherwise its last character belongs to the text that follows, unless none follows or it is
// the only one.
func (s *splitter) spaces(text []byte) int {
	i, last, lines := 0, 0, 0
	for i < len(text) {
		k, w := s.class(text, i)
		if k == 0 {
			return undecided
		}
		if k&space == 0 {
			break
		}
		last = i
		i += w
		if k == newline {
			lines = i
		}
	}
	switch {
	case i == len(text) && s.open:
		return undecided
	case lines > 0:
		return lines
	case i == len(text) || last == 0:
		return i
	}
	return last
}

// word returns the end of a word of o200k_base: capitals, then small letters, then a contraction. Letters without case
// and marks count as both. lead is where the word begins after one leading character; leading is that character's
// class.
func (s *splitter) word(text []byte, lead int, leading class) int {
	i, both := lead, 0
	if leading == mark {
		both = lead // without a leading character, the mark itself is a word
	}
	for i < len(text) {
		k, w := s.class(text, i)
		if k == 0 {
			return undecided
		}
		if k == lower {
			if i = s.run(text, i+w, ending); i == undecided {
				return undecided
			}
			return s.withContraction(text, i)
		}
		if k&heading == 0 {
			break
		}
		i += w
		if k != upper {
			both = i
		}
	}
	if i == len(text) && s.open {
		return undecided
	}
	if both > 0 {
		i = both // the capitals after it begin the next word
	}
	return s.withContraction(text, i)
}

func (s *splitter) withContraction(text []byte, i int) int {
	n, ok := s.contraction(text, i)
	if !ok {
		return undecided
	}
	return i + n
}

// contraction returns the length of 's, 't, 're, 've, 'm, 'll or 'd at i, ignoring case. ok is false if that is not
// known yet.
func (s *splitter) contraction(text []byte, i int) (n int, ok bool) {
	if i == len(text) || text[i] != '\'' {
		return 0, i < len(text) || !s.open
	}
	var b, b2 byte
	if i+1 < len(text) {
		b = text[i+1]
	}
	if i+2 < len(text) {
		b2 = text[i+2]
	}
	known := i+2 < len(text) || !s.open
	switch b | 0x20 {
	case 's', 't', 'm', 'd':
		return 2, true
	case 'r', 'v':
		if b2|0x20 == 'e' {
			return 3, true
		}
		return 0, known
	case 'l':
		if b2|0x20 == 'l' {
			return 3, true
		}
		return 0, known
	}
	// The long s is a small form of S: Unicode folds its case to s.
	if b == 0xC5 {
		if b2 == 0xBF {
			return 3, true
		}
		return 0, known
	}
	return 0, i+1 < len(text) || !s.open
}
