package adapterrt

import (
	"bytes"
	"strconv"
	"unicode/utf8"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// unquoted is the text of the valid JSON string raw; a part of raw itself when
// nothing in it is escaped.
func unquoted(raw []byte) []byte {
	in := raw[1 : len(raw)-1]
	if bytes.IndexByte(in, '\\') < 0 {
		return in
	}
	return wire.AppendUnescaped(make([]byte, 0, len(in)), in)
}

// appendUnquoted appends the text of the valid JSON string raw to dst. A lone
// surrogate becomes U+FFFD.
func appendUnquoted(dst, raw []byte) []byte {
	return wire.AppendUnescaped(dst, raw[1:len(raw)-1])
}

// appendQuoted appends s as a JSON string; bytes that are not UTF-8 become U+FFFD.
func appendQuoted[T string | []byte](dst []byte, s T) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		case c == '\t':
			dst = append(dst, '\\', 't')
		case c < 0x20 || c == 0x7f:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		case c < utf8.RuneSelf:
			dst = append(dst, c)
		default:
			r, n := utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
			dst = utf8.AppendRune(dst, r)
			i += n
			continue
		}
		i++
	}
	return append(dst, '"')
}

// appendCompact appends the valid JSON text raw without blanks between tokens.
func appendCompact(dst, raw []byte) []byte {
	quoted := false
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		if quoted {
			dst = append(dst, c)
			if c == '\\' {
				i++
				dst = append(dst, raw[i])
			} else if c == '"' {
				quoted = false
			}
			continue
		}
		switch c {
		case ' ', '\n', '\r', '\t':
			continue
		case '"':
			quoted = true
		}
		dst = append(dst, c)
	}
	return dst
}

// jsonObject writes the members of a JSON object one after the other.
type jsonObject []byte

func (o jsonObject) name(k string) jsonObject {
	if len(o) == 0 {
		o = append(o, '{')
	} else {
		o = append(o, ',')
	}
	return append(appendQuoted(o, k), ':')
}

func (o jsonObject) str(k, v string) jsonObject { return appendQuoted(o.name(k), v) }

func (o jsonObject) int(k string, v int64) jsonObject {
	return strconv.AppendInt(o.name(k), v, 10)
}

func (o jsonObject) bool(k string, v bool) jsonObject {
	return strconv.AppendBool(o.name(k), v)
}

func (o jsonObject) raw(k string, v []byte) jsonObject { return append(o.name(k), v...) }

func (o jsonObject) strs(k string, v []string) jsonObject {
	return appendStrings(o.name(k), v)
}

// end closes the object; the empty one is {}.
func (o jsonObject) end() []byte {
	if len(o) == 0 {
		return []byte("{}")
	}
	return append(o, '}')
}

func appendStrings(dst []byte, v []string) []byte {
	dst = append(dst, '[')
	for i, s := range v {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendQuoted(dst, s)
	}
	return append(dst, ']')
}

// firstRunes is s cut after n runes.
func firstRunes(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

// plainInteger writes the JSON number raw as plain digits (50.0 and 5e1 are 50).
// It reports false when raw is no whole number or has more than 400 digits.
func plainInteger(dst, raw []byte) ([]byte, bool) {
	const most = 400
	plain := true
	for _, c := range raw {
		if c == '.' || c|0x20 == 'e' {
			plain = false
			break
		}
	}
	if plain {
		if string(raw) == "-0" {
			raw = raw[1:]
		}
		return append(dst, raw...), len(raw) <= most
	}
	neg := raw[0] == '-'
	if neg {
		raw = raw[1:]
	}
	mantissa, exp := raw, 0
	if i := bytes.IndexAny(raw, "eE"); i >= 0 {
		n, err := strconv.Atoi(string(bytes.TrimPrefix(raw[i+1:], []byte("+"))))
		if err != nil {
			n = 1 << 30 // out of range one way or the other; zero stays zero
			if raw[i+1] == '-' {
				n = -n
			}
		}
		mantissa, exp = raw[:i], n
	}
	whole, frac, _ := bytes.Cut(mantissa, []byte("."))
	digits := append(bytes.Clone(whole), frac...)
	point := len(whole) + exp // digits before the decimal point
	first := 0
	for first < len(digits) && digits[first] == '0' {
		first++
	}
	if first == len(digits) {
		return append(dst, '0'), true
	}
	last := len(digits)
	for digits[last-1] == '0' {
		last--
	}
	if last > point || point-first > most {
		return dst, false
	}
	if neg {
		dst = append(dst, '-')
	}
	dst = append(dst, digits[first:min(point, len(digits))]...)
	for i := len(digits); i < point; i++ {
		dst = append(dst, '0')
	}
	return dst, true
}
