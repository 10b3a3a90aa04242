package fit

import (
	"bytes"
	"unicode/utf8"
)

// The text that a program writes to a terminal says how the screen changes: lines are written over, erased
// and coloured. What is left on the screen is what a reader would have seen, and much shorter.

const (
	escape     = 0x1b
	screenRows = 64   // lines above these do not change any more
	mostCells  = 4096 // columns to the right that a cursor may move to where there is no text yet
)

// forTerminal reports whether a text has escape sequences, backspaces, or carriage returns within its lines.
func forTerminal(text []byte) bool {
	if bytes.IndexByte(text, escape) >= 0 || bytes.IndexByte(text, '\b') >= 0 {
		return true
	}
	for i := 0; ; {
		n := bytes.IndexByte(text[i:], '\r')
		if n < 0 {
			return false
		}
		for i += n; i < len(text) && text[i] == '\r'; i++ {
		}
		if i < len(text) && text[i] != '\n' {
			return true
		}
	}
}

// A screen is the end of what a terminal shows. Rows that leave it at the top are done.
type screen struct {
	done     []byte
	rows     [][]rune
	row, col int
	pad      int // blanks that may still be written to the left of a text
}

// asShown returns a text as a terminal leaves it. It returns the text itself if that is not for a terminal.
func asShown(text []byte) []byte {
	if !forTerminal(text) {
		return text
	}
	s := &screen{done: make([]byte, 0, len(text)), rows: [][]rune{nil}, pad: len(text)}
	for i := 0; i < len(text); {
		switch c := text[i]; c {
		case escape:
			i = s.sequence(text, i)
			continue
		case '\r':
			s.col = 0
		case '\b':
			s.col = max(0, s.col-1)
		case '\a', 0x0e, 0x0f:
		case '\n':
			s.line()
		default:
			r, size := utf8.DecodeRune(text[i:])
			s.put(r)
			i += size
			continue
		}
		i++
	}
	for i := range s.rows {
		s.write(i, i+1 < len(s.rows))
	}
	return s.done
}

// line moves the cursor to the beginning of the next row.
func (s *screen) line() {
	s.col = 0
	if s.row++; s.row < len(s.rows) {
		return
	}
	if len(s.rows) == screenRows {
		s.write(0, true)
		first := s.rows[0]
		copy(s.rows, s.rows[1:])
		s.rows = s.rows[:screenRows-1]
		s.rows = append(s.rows, first[:0])
		s.row--
		return
	}
	s.rows = append(s.rows, nil)
}

func (s *screen) write(row int, end bool) {
	text := s.rows[row]
	for len(text) > 0 && text[len(text)-1] == ' ' {
		text = text[:len(text)-1]
	}
	for _, r := range text {
		s.done = utf8.AppendRune(s.done, r)
	}
	if end {
		s.done = append(s.done, '\n')
	}
}

// put writes a character at the cursor, over what was there.
func (s *screen) put(r rune) {
	row := s.rows[s.row]
	if s.col < len(row) {
		row[s.col] = r
	} else {
		n := min(s.col-len(row), s.pad)
		s.pad -= n
		for range n {
			row = append(row, ' ')
		}
		s.col = len(row)
		s.rows[s.row] = append(row, r)
	}
	s.col++
}

// sequence carries out the escape sequence at i, and returns its end. Colours and all that only changes
// how characters look are nothing. https://www.ecma-international.org/publications-and-standards/standards/ecma-48/
func (s *screen) sequence(text []byte, i int) (end int) {
	if i++; i == len(text) {
		return i
	}
	switch c := text[i]; {
	case c == '[':
		return s.control(text, i+1)
	case c == ']', c == 'P', c == '_', c == '^', c == 'X': // a string, such as a title or the address of a link
		for i++; i < len(text); i++ {
			switch {
			case text[i] == '\a':
				return i + 1
			case text[i] == escape:
				if i+1 < len(text) && text[i+1] == '\\' {
					return i + 2
				}
				return i
			case text[i] == '\n':
				return i // it is not ended: a program was stopped
			}
		}
		return i
	case c == 'M': // up
		s.row = max(0, s.row-1)
	case c >= 0x20 && c <= 0x2f: // a character set
		for i < len(text) && text[i] >= 0x20 && text[i] <= 0x2f {
			i++
		}
		return min(i+1, len(text))
	case c < 0x30 || c > 0x7e:
		return i
	}
	return i + 1
}

// control carries out a control sequence whose parameters begin at i.
func (s *screen) control(text []byte, i int) (end int) {
	first, second, given := 0, 0, false
	for ; i < len(text) && text[i] >= 0x20 && text[i] <= 0x3f; i++ {
		switch c := text[i]; {
		case isDigit(c) && !given:
			first = min(first*10+int(c-'0'), 1<<16)
		case isDigit(c):
			second = min(second*10+int(c-'0'), 1<<16)
		case c == ';':
			given, second = true, 0
		}
	}
	if i == len(text) || text[i] < 0x40 || text[i] > 0x7e {
		return i // it is broken off
	}
	row, n := s.rows[s.row], max(first, 1)
	switch text[i] {
	case 'A', 'F':
		if s.row = max(0, s.row-n); text[i] == 'F' {
			s.col = 0
		}
	case 'B', 'E':
		if s.row = min(len(s.rows)-1, s.row+n); text[i] == 'E' {
			s.col = 0
		}
	case 'C':
		s.col = min(s.col+n, max(len(row), mostCells))
	case 'D':
		s.col = max(0, s.col-n)
	case 'G', '`':
		s.col = min(n-1, max(len(row), mostCells))
	case 'K':
		switch {
		case first == 0 && s.col < len(row):
			s.rows[s.row] = row[:s.col]
		case first == 1:
			for k := range min(s.col+1, len(row)) {
				row[k] = ' '
			}
		case first == 2:
			s.rows[s.row] = row[:0]
		}
	case 'J':
		switch first {
		case 0:
			if s.col < len(row) {
				s.rows[s.row] = row[:s.col]
			}
			s.rows = s.rows[:s.row+1]
		case 2, 3: // the screen is empty: what was on it is gone
			for k := range s.rows {
				s.rows[k] = s.rows[k][:0]
			}
			s.rows, s.row, s.col = s.rows[:1], 0, 0
		}
	case 'H', 'f': // only to the top: the height of the terminal is not known
		if n == 1 && second <= 1 {
			s.row, s.col = 0, 0
		}
	case 'P':
		if s.col < len(row) {
			s.rows[s.row] = append(row[:s.col], row[min(len(row), s.col+n):]...)
		}
	}
	return i + 1
}
