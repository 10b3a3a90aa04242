package corpus

import (
	"fmt"
	"strconv"
	"unicode/utf8"
)

// object is a JSON object in the order in which it is written: name, value, name,
// value. A value is an object, a list, a string, a bool, an int, a float64, nil, or
// another value's text as raw.
type object []any

// list is a JSON array.
type list []any

// raw is the JSON text of a value.
type raw []byte

// appendJSON writes a value without blanks, as JSON.stringify does.
func appendJSON(dst []byte, v any) []byte {
	switch v := v.(type) {
	case object:
		dst = append(dst, '{')
		for i := 0; i < len(v); i += 2 {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendQuoted(dst, v[i].(string)), ':')
			dst = appendJSON(dst, v[i+1])
		}
		return append(dst, '}')
	case list:
		dst = append(dst, '[')
		for i, e := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendJSON(dst, e)
		}
		return append(dst, ']')
	case raw:
		return append(dst, v...)
	case string:
		return appendQuoted(dst, v)
	case bool:
		return strconv.AppendBool(dst, v)
	case int:
		return strconv.AppendInt(dst, int64(v), 10)
	case float64:
		return strconv.AppendFloat(dst, v, 'g', -1, 64)
	case nil:
		return append(dst, "null"...)
	}
	panic(fmt.Sprintf("corpus: no JSON for a %T", v))
}

// appendQuoted appends a JSON string. It escapes only the characters that must be escaped.
func appendQuoted(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, `\n`...)
		case c < ' ':
			dst = fmt.Appendf(dst, `\u%04x`, c)
		case c >= utf8.RuneSelf:
			_, n := utf8.DecodeRuneInString(s[i:])
			dst = append(dst, s[i:i+n]...)
			i += n
			continue
		default:
			dst = append(dst, c)
		}
		i++
	}
	return append(dst, '"')
}
