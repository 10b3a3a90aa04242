package wire

import (
	"bytes"
	"slices"
	"strconv"
	"unicode/utf8"
)

// The functions in this file read and write JSON that belongs to no message. The
// JSON that they read must be valid, by Valid or Check.

// ValueKind is the JSON type of a value.
type ValueKind uint8

// The kinds of value. Absent stands for a missing value.
const (
	Absent ValueKind = iota
	Null
	Boolean
	Number
	String
	Array
	Object
)

// String returns the type's name in JSON Schema, or "undefined" for Absent.
func (k ValueKind) String() string {
	return [...]string{"undefined", "null", "boolean", "number", "string", "array", "object"}[k]
}

// KindOf returns the kind of a value. raw must not begin with white space.
func KindOf(raw []byte) ValueKind {
	switch raw[0] {
	case '{':
		return Object
	case '[':
		return Array
	case '"':
		return String
	case 't', 'f':
		return Boolean
	case 'n':
		return Null
	}
	return Number
}

// Each calls f for every element of an array, or every member of an object with
// its unescaped name. It ends early when f returns false.
func Each(raw []byte, f func(name, value []byte) bool) { each(raw, skipSpace(raw, 0), f) }

// each is Each for the container at i. It returns the index behind the container, or an
// undefined index if f returned false.
func each(raw []byte, i int, f func(name, value []byte) bool) int {
	end := raw[i] + 2 // in ASCII, ']' is '[' + 2 and '}' is '{' + 2
	for i = skipSpace(raw, i+1); raw[i] != end; i = nextItem(raw, i) {
		var name []byte
		if end == '}' {
			name, i = memberName(raw, i)
		}
		from := i
		i = skipValue(raw, i, 0)
		if !f(name, raw[from:i:i]) {
			return i
		}
	}
	return i + 1
}

// memberName returns the unescaped name of the member at i, and the index of its value.
func memberName(raw []byte, i int) (name []byte, value int) {
	end := skipName(raw, i)
	return Unquoted(raw[i:end]), skipColon(raw, end)
}

// EachIn calls f for every member of an object, as Each does. If a member has the name within and is itself an
// object, EachIn first calls inner for every member of that object. It reads the text once.
func EachIn(raw []byte, within string, inner, f func(name, value []byte) bool) {
	for i := skipSpace(raw, skipSpace(raw, 0)+1); raw[i] != '}'; i = nextItem(raw, i) {
		name, from := memberName(raw, i)
		if raw[from] == '{' && string(name) == within {
			i = each(raw, from, inner)
		} else {
			i = skipValue(raw, from, 0)
		}
		if !f(name, raw[from:i:i]) {
			return
		}
	}
}

// Member returns the value of an object's last member of that name. It returns nil if there is none or
// raw is not an object.
func Member(raw []byte, name string) (value []byte) {
	if raw = Trim(raw); len(raw) == 0 || raw[0] != '{' {
		return nil
	}
	Each(raw, func(n, v []byte) bool {
		if string(n) == name {
			value = v
		}
		return true
	})
	return value
}

// Lookup returns the value at a path of member names: raw itself for the empty path,
// nil if there is none.
func Lookup(raw []byte, path []string) []byte {
	for _, name := range path {
		if raw = Member(raw, name); raw == nil {
			return nil
		}
	}
	return raw
}

// Unquoted returns the unescaped text of a string. It is a part of raw if the string has no
// escapes. A lone surrogate becomes U+FFFD.
func Unquoted(raw []byte) []byte {
	in := raw[1 : len(raw)-1]
	if bytes.IndexByte(in, '\\') < 0 {
		return in
	}
	return AppendUnescaped(make([]byte, 0, len(in)), in)
}

// AppendQuoted appends s as a JSON string; bytes that are not UTF-8 become U+FFFD.
func AppendQuoted[T string | []byte](dst []byte, s T) []byte {
	dst = append(slices.Grow(dst, len(s)+2), '"')
	return append(AppendQuotedInner(dst, s), '"')
}

// AppendQuotedInner is [AppendQuoted] without the quotes, for the inside of a JSON string.
func AppendQuotedInner[T string | []byte](dst []byte, s T) []byte {
	const hex = "0123456789abcdef"
	from := 0 // what is behind it is not yet appended
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c < 0x7f {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			if r, n := utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))])); r != utf8.RuneError || n > 1 {
				i += n
				continue
			}
		}
		dst = append(dst, s[from:i]...)
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		case c == '\t':
			dst = append(dst, '\\', 't')
		case c < utf8.RuneSelf:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			dst = utf8.AppendRune(dst, utf8.RuneError)
		}
		i++
		from = i
	}
	return append(dst, s[from:]...)
}

// QuotedLen returns the length of what AppendQuoted appends for s.
func QuotedLen[T string | []byte](s T) int {
	n := 2
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case c == '"' || c == '\\' || c == '\n' || c == '\r' || c == '\t':
			n += 2
		case c < 0x20 || c == 0x7f:
			n += 6
		case c < utf8.RuneSelf:
			n++
		default:
			r, size := utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
			n += utf8.RuneLen(r)
			i += size
			continue
		}
		i++
	}
	return n
}

// Comma appends the comma in front of a further member or element. There is none in front of the first one: dst ends with the bracket
// that it stands behind.
func Comma(dst []byte) []byte {
	if last := dst[len(dst)-1]; last == '{' || last == '[' {
		return dst
	}
	return append(dst, ',')
}

// AppendName appends the name of a member, with its comma and colon.
func AppendName[T string | []byte](dst []byte, name T) []byte {
	return append(AppendQuoted(Comma(dst), name), ':')
}

// AppendKey is [AppendName] for a name as it stands in JSON, between its quotes.
func AppendKey[T string | []byte](dst []byte, name T) []byte {
	return append(append(append(Comma(dst), '"'), name...), '"', ':')
}

// AppendStrings appends a list of strings.
func AppendStrings(dst []byte, list []string) []byte {
	dst = append(dst, '[')
	for _, s := range list {
		dst = AppendQuoted(Comma(dst), s)
	}
	return append(dst, ']')
}

// Members builds a JSON object: each method appends one member and returns the longer slice,
// and End closes the object.
type Members []byte

func (o Members) name(k string) Members {
	if len(o) == 0 {
		o = append(o, '{')
	}
	return AppendName(o, k)
}

// Str adds a string.
func (o Members) Str(k, v string) Members { return AppendQuoted(o.name(k), v) }

// Int adds an integer.
func (o Members) Int(k string, v int64) Members { return strconv.AppendInt(o.name(k), v, 10) }

// Bool adds a boolean.
func (o Members) Bool(k string, v bool) Members { return strconv.AppendBool(o.name(k), v) }

// Raw adds a JSON text as it is.
func (o Members) Raw(k string, v []byte) Members { return append(o.name(k), v...) }

// Strs adds a list of strings.
func (o Members) Strs(k string, v []string) Members { return AppendStrings(o.name(k), v) }

// End closes the object; the empty one is {}.
func (o Members) End() []byte {
	if len(o) == 0 {
		return []byte("{}")
	}
	return append(o, '}')
}

// AppendInteger writes the JSON number raw as plain digits (50.0 and 5e1 are 50).
// It reports false when raw is no whole number or has more than 400 digits.
func AppendInteger(dst, raw []byte) ([]byte, bool) {
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
			n = 1 << 30 // out of range: the number is too large or not whole, unless it is zero
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
