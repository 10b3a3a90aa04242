package fields

import (
	"encoding/json"
	"errors"
	"fmt"
)

// maxNesting is how deep a value may be nested in the parts that paths lead
// into.
const maxNesting = 512

// ErrNesting says that a value is nested too deeply.
var ErrNesting = errors.New("nested too deeply")

// A SyntaxError says where a value is not valid JSON. Parts that are kept or
// left out as a whole are checked less closely.
type SyntaxError struct{ Offset int }

func (e *SyntaxError) Error() string { return fmt.Sprintf("not valid JSON at byte %d", e.Offset) }

// skipSpace returns the index of the first byte at or after i that is not white
// space.
func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// skipString returns the end of the string at i.
func skipString(b []byte, i int) (int, error) {
	start := i
	if i >= len(b) || b[i] != '"' {
		return 0, &SyntaxError{i}
	}
	for i++; i < len(b); i++ {
		switch b[i] {
		case '"':
			return i + 1, nil
		case '\\':
			i++
		}
	}
	return 0, &SyntaxError{start}
}

// skipValue returns the end of the value at i.
func skipValue(b []byte, i int) (int, error) {
	start, open := i, 0
	for i < len(b) {
		switch b[i] {
		case '"':
			end, err := skipString(b, i)
			if err != nil {
				return 0, err
			}
			i = end
		case '{', '[':
			open++
			i++
			continue
		case '}', ']':
			if open--; open < 0 {
				return 0, &SyntaxError{i}
			}
			i++
		case ',', ':', ' ', '\t', '\n', '\r':
			if open == 0 {
				return 0, &SyntaxError{i}
			}
			i++
			continue
		default:
			for i < len(b) && !ends(b[i]) {
				i++
			}
		}
		if open == 0 {
			return i, nil
		}
	}
	return 0, &SyntaxError{start}
}

// ends reports whether c cannot be part of a number or a literal.
func ends(c byte) bool {
	switch c {
	case ',', ':', ' ', '\t', '\n', '\r', '"', '{', '}', '[', ']':
		return true
	}
	return false
}

// each calls f with the index of each element of the array at i, or of each
// member's value of the object at i; f returns the end of that value. quoted is
// a member's name as it is written, with its quotes, or nil for an element.
// each returns the end of the array or object.
func each(b []byte, i int, f func(quoted []byte, i int) (end int, err error)) (int, error) {
	object := b[i] == '{'
	closing := byte(']')
	if object {
		closing = '}'
	}
	if i = skipSpace(b, i+1); i < len(b) && b[i] == closing {
		return i + 1, nil
	}
	for {
		var quoted []byte
		if object {
			end, err := skipString(b, i)
			if err != nil {
				return 0, err
			}
			quoted = b[i:end]
			if i = skipSpace(b, end); i == len(b) || b[i] != ':' {
				return 0, &SyntaxError{i}
			}
			i = skipSpace(b, i+1)
		}
		if i >= len(b) {
			return 0, &SyntaxError{i}
		}
		end, err := f(quoted, i)
		if err != nil {
			return 0, err
		}
		switch i = skipSpace(b, end); {
		case i == len(b):
			return 0, &SyntaxError{i}
		case b[i] == closing:
			return i + 1, nil
		case b[i] != ',':
			return 0, &SyntaxError{i}
		}
		i = skipSpace(b, i+1)
	}
}

// unquote returns the text of a quoted string, unescaped.
func unquote(quoted []byte) string {
	text := quoted[1 : len(quoted)-1]
	for _, c := range text {
		if c == '\\' {
			var s string
			if json.Unmarshal(quoted, &s) == nil {
				return s
			}
			break
		}
	}
	return string(text)
}
