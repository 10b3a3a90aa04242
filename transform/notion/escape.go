package notion

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// spot says where in a line a piece of text stands.
type spot struct {
	where      setting
	lineStart  bool // the piece is the first of its line
	beforeLink bool // a link follows it
	closing    int  // where the hashes begin that would close a heading, or 0 if there are none
}

// escape writes text so that it is not taken for Markdown.
//
// At least, it escapes characters that would change the meaning of the text: a
// mark that could open or close something, or the beginning of a line that
// would make it a list, a heading, a quote or a table. Marks inside a word, as
// in snake_case, stay as they are. escape does not know what comes before and
// after the text, and assumes the worst.
func (c *converter) escape(out []byte, text string, at spot, linked bool) []byte {
	full := c.options.Escape == "full"
	from := 0
	if at.lineStart {
		n, escaped := lineMark(text)
		if escaped {
			out = append(append(append(out, text[:n]...), '\\'), text[n])
			from = n + 1
		}
	}
	if at.where == inHeading {
		at.closing = closingHashes(text)
	}
	done := from
	for i := from; i < len(text); i++ {
		c := text[i]
		if c >= utf8.RuneSelf || !marks[c] {
			continue
		}
		if needed(text, i, at, linked, full) {
			out = append(append(out, text[done:i]...), '\\')
			done = i
		}
	}
	return append(out, text[done:]...)
}

// marks are the characters that may have to be escaped wherever they stand.
var marks = [utf8.RuneSelf]bool{
	'\\': true, '`': true, '*': true, '_': true, '[': true, ']': true, '<': true, '>': true,
	'#': true, '|': true, '~': true, '&': true, '!': true,
}

// needed reports whether the mark at i must be escaped.
func needed(text string, i int, at spot, linked, full bool) bool {
	last := i+1 == len(text)
	next := func(set string) bool { return !last && strings.IndexByte(set, text[i+1]) >= 0 }
	switch text[i] {
	case '`':
		return true
	case '\\':
		return full || last || isPunct(text[i+1])
	case '*':
		return full || !(blankBefore(text, i) && blankBehind(text, i))
	case '_':
		return full || !(blankBefore(text, i) && blankBehind(text, i) || wordBefore(text, i) && wordBehind(text, i))
	case '[':
		return full || linked
	case ']':
		return full || linked || last || next("([:")
	case '<':
		return full || last || next("/!?") || isLetter(text[i+1])
	case '>':
		return full
	case '#':
		return at.closing > 0 && i == at.closing
	case '|':
		return at.where == inCell
	case '~':
		return next("~") || i > 0 && text[i-1] == '~'
	case '&':
		return isEntity(text[i:])
	case '!':
		return last && at.beforeLink
	}
	return false
}

// lineMark reports whether text would make its line something other than text,
// and returns the index of the character to escape to prevent that.
func lineMark(text string) (n int, escape bool) {
	rest := strings.TrimLeft(text, "#")
	if hashes := len(text) - len(rest); hashes > 0 {
		return 0, hashes <= 6 && (rest == "" || isBlank(rest[0]))
	}
	switch c := text[0]; {
	case c == '>' || c == '[':
		return 0, true
	case (c == '-' || c == '+') && (len(text) == 1 || isBlank(text[1])):
		return 0, true
	case strings.IndexByte("-=:|", c) >= 0:
		// a rule, an underline, a table
		return 0, strings.Trim(text, "-=:| \t") == "" && strings.ContainsAny(text, "-=")
	case c >= '0' && c <= '9':
		rest := strings.TrimLeft(text, "0123456789")
		n = len(text) - len(rest)
		return n, n <= 9 && rest != "" && (rest[0] == '.' || rest[0] == ')') && (len(rest) == 1 || isBlank(rest[1]))
	}
	return 0, false
}

// closingHashes returns where the hashes begin that end a heading's text and
// would be taken for its closing mark, or 0 if there are none.
func closingHashes(text string) int {
	rest := strings.TrimRight(text, "#")
	if len(rest) == len(text) || !strings.HasSuffix(rest, " ") {
		return 0
	}
	return len(rest)
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// isPunct reports whether a backslash in front of c would escape it.
func isPunct(c byte) bool {
	return c > ' ' && c < 0x7F && !isLetter(c) && (c < '0' || c > '9')
}

// isEntity reports whether text begins with a character reference.
func isEntity(text string) bool {
	const longest = 33
	end := strings.IndexByte(text[:min(len(text), longest)], ';')
	if end < 2 {
		return false
	}
	for i, c := range []byte(text[1:end]) {
		if !isLetter(c) && (c < '0' || c > '9') && (c != '#' || i > 0) {
			return false
		}
	}
	return true
}

func blankBefore(text string, i int) bool {
	r, size := utf8.DecodeLastRuneInString(text[:i])
	return size > 0 && unicode.IsSpace(r)
}

func blankBehind(text string, i int) bool {
	r, size := utf8.DecodeRuneInString(text[i+1:])
	return size > 0 && unicode.IsSpace(r)
}

func wordBefore(text string, i int) bool {
	r, _ := utf8.DecodeLastRuneInString(text[:i])
	return unicode.IsLetter(r) || unicode.IsDigit(r)
}

func wordBehind(text string, i int) bool {
	r, _ := utf8.DecodeRuneInString(text[i+1:])
	return unicode.IsLetter(r) || unicode.IsDigit(r)
}

// absolute reports whether an address has a scheme, which an address in angle
// brackets must have.
func absolute(url string) bool {
	scheme, _, ok := strings.Cut(url, ":")
	if !ok || len(scheme) < 2 || len(scheme) > 32 || !isLetter(scheme[0]) {
		return false
	}
	return strings.Trim(scheme, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-") == ""
}

// address returns url with the characters escaped that would end it early.
func address(url string, where setting) string {
	const hex = "0123456789ABCDEF"
	escape := func(c byte) bool {
		return c <= ' ' || c == 0x7F || strings.IndexByte("()<>\\`", c) >= 0 || where == inCell && c == '|'
	}
	var b strings.Builder
	from := 0
	for i := range len(url) {
		if c := url[i]; escape(c) {
			b.WriteString(url[from:i])
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
			from = i + 1
		}
	}
	if from == 0 {
		return url
	}
	b.WriteString(url[from:])
	return b.String()
}

// setting says where a rich text stands.
type setting int

const (
	inBlock   setting = iota // begins a line and may have several
	inLine                   // may have several lines, and does not begin the first
	inHeading                // has one line
	inCell                   // has one line with bars around it
	inLink                   // has one line with brackets around it
)
