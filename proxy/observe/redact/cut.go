package redact

import "bytes"

// leftOut stands in the place of a value that was cut.
const leftOut = `"[cut]"`

// completed returns the beginning of a JSON text as a whole one, without the value or name at its end that may have been longer. What it
// returns is valid if raw begins a valid text.
func completed(raw []byte) []byte {
	var closing []byte // what is to be closed, innermost last
	keep, more := 0, leftOut
	isName := false // what comes next is the name of a member, or its object's end
	for i := 0; i < len(raw); {
		switch c := raw[i]; c {
		case ' ', '\t', '\r', '\n':
			i++
			continue
		case '{', '[':
			isName = c == '{'
			if closing, more = append(closing, c+2), ""; !isName {
				more = leftOut
			}
			i++
		case '}', ']':
			if i++; len(closing) == 0 {
				return nil
			}
			closing, more, isName = closing[:len(closing)-1], "", false
		case ',':
			if i++; len(closing) == 0 {
				return nil
			}
			if isName = closing[len(closing)-1] == '}'; isName {
				continue // it stays with the member behind it
			}
			more = leftOut
		case ':':
			i, more, isName = i+1, leftOut, false
		case '"':
			end := textEnd(raw[i:])
			if end < 0 {
				return appendClosed(raw[:keep], more, closing)
			}
			if i += end; isName {
				continue
			}
			more = ""
		default:
			end := bytes.IndexAny(raw[i:], " \t\r\n,:]}\"{[")
			if end < 0 {
				return appendClosed(raw[:keep], more, closing)
			}
			i, more = i+end, ""
		}
		keep = i
	}
	return appendClosed(raw[:keep], more, closing)
}

// textEnd returns the length of the JSON string that text begins with, or -1 if it does not end.
func textEnd(text []byte) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return -1
}

func appendClosed(begin []byte, more string, closing []byte) []byte {
	whole := append(bytes.Clone(begin), more...)
	for i := len(closing) - 1; i >= 0; i-- {
		whole = append(whole, closing[i])
	}
	return whole
}
