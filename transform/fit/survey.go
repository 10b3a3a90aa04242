package fit

import (
	"bytes"
	"slices"
)

// A survey is what stands out in a text: units, in the order in which they count.
type survey struct {
	titles []title
	failed []uint32 // lines that name what failed
	errors []uint32 // other lines that tell of an error
	source bool     // it is a program, or prose with headings: errors are only a subject there
}

// maxNamed bounds how many lines are remembered to tell whether one says something new.
const maxNamed = 1 << 12

// survey looks at each line once.
func (t *text) survey(markdown bool) (s survey) {
	n := len(t.line)
	named := make(map[string]bool)
	o := t.outline()
	for i := range n {
		if i > 0 && t.line[i] == t.line[i-1] {
			continue
		}
		line := bytes.TrimRight(t.unit(i), "\r\n")
		line = line[:min(len(line), 2*piece)]
		wrong := tellsOfError(line)
		rest := bytes.TrimLeft(line, " \t")
		switch {
		case !wrong && !mayBeMark(rest, len(rest) < len(line)):
		case namesFailure(line, rest):
			if !named[string(line)] && len(named) < maxNamed {
				named[string(line)] = true
				s.failed = append(s.failed, uint32(i))
			}
		case wrong, saysWhy(rest, len(line) > len(rest)):
			s.errors = append(s.errors, uint32(i))
		}
		o.look(i, line)
	}
	slices.Reverse(s.errors) // the last one is nearest to why it ended
	s.titles, s.source = o.titles(markdown)
	if len(s.failed)*16 > len(s.titles) && !o.markdown { // what failed says more than where sections begin
		s.titles, s.source = nil, false
	}
	if first := t.firstHits(); first != nil {
		s.titles, s.source = first, false
	}
	return s
}

var (
	// failMarks begin lines of test runs that name what failed, whyMarks those that say why.
	failMarks = [][]byte{[]byte("✕"), []byte("✗"), []byte("✖"), []byte("●"), []byte("not ok"), []byte("--- FAIL"), []byte("FAIL")}
	whyMarks  = [][]byte{[]byte("E  "), []byte("^")}
	// thrown ends the word that begins a line which says what was thrown: error[E0106]:,
	// java.lang.IllegalStateException:
	thrown = [][]byte{[]byte("error"), []byte("exception"), []byte("fatal"), []byte("panic")}
)

// mayBeMark reports by its first letter whether a line can be one of a failure that has
// none of errorWords.
func mayBeMark(rest []byte, indented bool) bool {
	return len(rest) > 0 && (indented || rest[0] >= 0x80 || rest[0] == 'n' || rest[0] == 'E' || rest[0] == '^')
}

// namesFailure reports whether a line names what failed. rest is the line without its
// indentation.
func namesFailure(line, rest []byte) bool {
	if hasPrefix(rest, failMarks) || bytes.Contains(rest, []byte(" FAILED")) {
		return true
	}
	end := bytes.IndexAny(line, " \t:[")
	if end <= 0 || line[end] != ':' && line[end] != '[' {
		return false
	}
	for _, w := range thrown {
		if end >= len(w) && bytes.EqualFold(line[end-len(w):end], w) {
			return true
		}
	}
	return false
}

// saysWhy reports whether a line of a test run says why something failed: by its mark,
// or as it is indented and begins with a place, shop_test.go:12:
func saysWhy(rest []byte, indented bool) bool {
	if hasPrefix(rest, whyMarks) {
		return true
	}
	file, after, ok := bytes.Cut(rest, []byte(":"))
	if !indented || !ok || bytes.IndexByte(file, '.') < 0 || bytes.ContainsAny(file, " (\"'/") {
		return false
	}
	number := bytes.TrimLeft(after, "0123456789")
	return len(number) < len(after) && len(number) > 1 && number[0] == ':'
}

func hasPrefix(line []byte, marks [][]byte) bool {
	for _, m := range marks {
		if bytes.HasPrefix(line, m) {
			return true
		}
	}
	return false
}

// tellsOfError reports whether a line has one of errorWords in it.
func tellsOfError(line []byte) bool {
	window := uint32(0)
	for i, c := range line {
		class := classes[c]
		if class <= 1 {
			window = 0
			continue
		}
		window = window<<8 | uint32(class)
		if errorStarts[(window*0x9E3779B1)>>24] && errorWord(line, i-3, window) {
			return true
		}
	}
	return false
}

// classes is 0 for signs, 1 for digits and the lower-case letter for letters.
var classes = func() (c [256]byte) {
	for i := range c {
		switch b := byte(i); {
		case b >= '0' && b <= '9':
			c[i] = 1
		case b|0x20 >= 'a' && b|0x20 <= 'z':
			c[i] = b | 0x20
		}
	}
	return c
}()

// errorWords are words of lines that tell of an error.
var errorWords = []string{"error", "fatal", "panic", "exception", "fail", "traceback", "cannot", "unable", "undefined", "denied", "assert", "warning", "expected", "received", "refused", "timed out", "unexpected", "caused by"}

var errorStarts = func() (b [256]bool) {
	for _, w := range errorWords {
		b[(four(w)*0x9E3779B1)>>24] = true
	}
	return b
}()

func four(w string) uint32 {
	return uint32(w[0])<<24 | uint32(w[1])<<16 | uint32(w[2])<<8 | uint32(w[3])
}

// errorWord reports whether one of the words begins at i, as a word or a part of a
// name that begins with a capital.
func errorWord(line []byte, i int, window uint32) bool {
	if i > 0 && classes[line[i-1]] > 1 && (line[i]|0x20 == line[i] || line[i-1]|0x20 != line[i-1]) {
		return false
	}
	if i >= 2 && line[i-1] == ' ' && (line[i-2] == '0' || line[i-2] == 'o') { // 0 errors, no errors
		return false
	}
	for _, w := range errorWords {
		if four(w) == window && len(line) >= i+len(w) && bytes.EqualFold(line[i:i+len(w)], []byte(w)) {
			return true
		}
	}
	return false
}
