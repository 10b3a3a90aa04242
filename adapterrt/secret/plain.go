package secret

import (
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// plain is a text without its escapes, in which all spellings of a text are equal: a plus sign, a dash and a blank are the same, as are
// the two signs of each kind of base64, and line breaks and backslashes are left out.
type plain struct {
	text []byte
	of   string
	at   []place // a place every placeEvery bytes, or more
}

// place says which byte of the plain text one of the original belongs to.
type place struct{ plain, original int }

const placeEvery = 64

// plainOf returns the plain form of a text.
func plainOf(text string) string { return string(plainText(text).text) }

func plainText(of string) *plain {
	p := &plain{of: of, text: make([]byte, 0, len(of)), at: []place{{}}}
	for i := 0; i < len(of); {
		if last := p.at[len(p.at)-1]; len(p.text)-last.plain >= placeEvery || i-last.original >= 8*placeEvery && len(p.text) > last.plain {
			p.at = append(p.at, place{len(p.text), i})
		}
		if b := of[i]; folded[b] != 0 {
			p.text = append(p.text, folded[b])
			i++
			continue
		}
		c, next := unescape(of, i, deepest)
		p.text = appendPlain(p.text, c)
		i = next
	}
	return p
}

// folded is the plain form of each byte that is neither left out nor the beginning of an escape.
var folded = func() (to [256]byte) {
	for b := range to {
		if b != '%' && b != '\\' && b != '&' {
			if one := appendPlain(nil, raw(byte(b))); len(one) == 1 {
				to[b] = one[0]
			}
		}
	}
	return to
}()

// original returns the part of the original that a part of the plain text was made of.
func (p *plain) original(from, to int) (start, end int) {
	k := 0
	for low, high := 0, len(p.at); low < high; { // the last place that is not behind from
		if mid := (low + high) / 2; p.at[mid].plain <= from {
			k, low = mid, mid+1
		} else {
			high = mid
		}
	}
	n, i := p.at[k].plain, p.at[k].original
	var buf [utf8.UTFMax]byte
	start = -1
	for i < len(p.of) && n < to {
		c, next := unescape(p.of, i, deepest)
		size := len(appendPlain(buf[:0], c))
		if start < 0 && n+size > from {
			start = i
		}
		n, i = n+size, next
	}
	return max(start, 0), i
}

// appendPlain appends a character, which is a byte below utf8.RuneSelf, a rune above 0xff, or a byte with rawByte.
func appendPlain(dst []byte, c rune) []byte {
	switch {
	case c&rawByte != 0:
		return append(dst, byte(c))
	case c == nothing || c < ' ' || c == 0x7f || c == '\\' || utf16.IsSurrogate(c):
		return dst
	case c == ' ' || c == '+':
		c = '-'
	case c == '_':
		c = '/'
	}
	return utf8.AppendRune(dst, c)
}

const (
	// rawByte marks a byte of a text in UTF-8, or of one in no known encoding.
	rawByte = 1 << 24
	// nothing stands for what is left out.
	nothing = 0
	// deepest is how many escapes within an escape are read.
	deepest = 2
)

// unescape returns the character at i and where the next one begins. It reads what is escaped again and again, and the digits of an
// escape if they are escaped themselves, as far as depth goes.
func unescape(text string, i, depth int) (c rune, next int) {
	c, next = raw(text[i]), i+1
	for {
		var n int
		was := c
		switch {
		case depth == 0:
			return c, next
		case c == '%':
			c, n = fromHex(text, next, 2, depth)
		case c == '\\':
			c, n = fromBackslash(text, next, depth)
		case c == '&':
			c, n = fromEntity(text, next, depth)
		default:
			return c, next
		}
		if n == 0 {
			return was, next
		}
		if next += n; was == '\\' && c == '\\' { // only backslashes
			return c, next
		}
	}
}

// raw returns a byte as a character.
func raw(b byte) rune {
	if b >= utf8.RuneSelf {
		return rawByte | rune(b)
	}
	return rune(b)
}

// fromHex reads a character of so many digits, and returns how many bytes they take; 0 if they are none.
func fromHex(text string, at, digits, depth int) (c rune, size int) {
	v, next := rune(0), at
	for range digits {
		if next >= len(text) {
			return 0, 0
		}
		d, after := character(text, next, depth)
		switch {
		case '0' <= d && d <= '9':
			d -= '0'
		case 'a' <= d|0x20 && d|0x20 <= 'f':
			d = d | 0x20 - 'a' + 10
		default:
			return 0, 0
		}
		v, next = v<<4|d, after
	}
	if digits == 2 {
		return raw(byte(v)), next - at
	}
	return v, next - at
}

// fromBackslash reads what follows a backslash: further ones, and what they escape.
func fromBackslash(text string, at, depth int) (c rune, size int) {
	next := at
	for next < len(text) {
		d, after := rune(text[next]), next+1
		if d == '%' || d == '&' {
			d, after = unescape(text, next, depth-1)
		}
		switch d {
		case '\\':
			next = after
			continue
		case 'n', 'r', 't', 'b', 'f':
			return nothing, after - at
		case 'x':
			if c, n := fromHex(text, after, 2, depth); n > 0 {
				return c, after + n - at
			}
		case 'u', 'U':
			digits := 4
			if d == 'U' {
				digits = 8
			}
			c, n := fromHex(text, after, digits, depth)
			if n == 0 || c < 0 || c > utf8.MaxRune {
				break
			}
			after += n
			if utf16.IsSurrogate(c) {
				if low := behindBackslashes(text, after, depth); low > after && low < len(text) && text[low] == 'u' {
					if second, n := fromHex(text, low+1, 4, depth); n > 0 && utf16.DecodeRune(c, second) != utf8.RuneError {
						return utf16.DecodeRune(c, second), low + 1 + n - at
					}
				}
			}
			if c == '\\' {
				c = nothing
			}
			return c, after - at
		}
		break
	}
	return '\\', next - at
}

// behindBackslashes returns where what is behind the backslashes at an index begins.
func behindBackslashes(text string, at, depth int) int {
	for at < len(text) {
		c, next := rune(text[at]), at+1
		if c == '%' || c == '&' {
			c, next = unescape(text, at, depth-1)
		}
		if c != '\\' {
			break
		}
		at = next
	}
	return at
}

// entities are the named characters of HTML that are escaped.
var entities = map[string]rune{"amp": '&', "lt": '<', "gt": '>', "quot": '"', "apos": '\''}

// fromEntity reads what follows the & of a character reference of HTML, to its semicolon.
func fromEntity(text string, at, depth int) (c rune, size int) {
	var buf [len("#x10ffff")]byte
	name := buf[:0]
	for next := at; next < len(text); {
		d, after := character(text, next, depth)
		switch {
		case d != ';' && (len(name) == len(buf) || d <= ' ' || d >= utf8.RuneSelf):
			return 0, 0
		case d != ';':
			name, next = append(name, byte(d)), after
			continue
		case len(name) < 2 || name[0] != '#':
			c = entities[string(name)]
		case name[1]|0x20 == 'x':
			c = number(name[2:], 16)
		default:
			c = number(name[1:], 10)
		}
		if c == 0 {
			return 0, 0
		}
		return c, after - at
	}
	return 0, 0
}

// number returns the character with a number, or 0.
func number(digits []byte, base int) rune {
	n, err := strconv.ParseUint(string(digits), base, 32)
	if err != nil || n > utf8.MaxRune {
		return 0
	}
	return rune(n)
}

// character returns the character at i, as an escape has it: it may be escaped itself.
func character(text string, i, depth int) (c rune, next int) {
	switch text[i] {
	case '%', '\\', '&':
		return unescape(text, i, depth-1)
	}
	return raw(text[i]), i + 1
}
