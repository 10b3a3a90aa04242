// Package cut cuts JSON apart without decoding it. It shares no code with dragoman.
package cut

import (
	"bytes"
	"iter"
)

// Member is the value of a member of object; nil if there is none.
func Member(object []byte, of string) []byte {
	for name, value := range Members(object) {
		if string(name) == of {
			return value
		}
	}
	return nil
}

// Members are those of a JSON object: names and values as they are written there. What is not valid ends them.
func Members(object []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		at := blank(object, 0)
		if at == len(object) || object[at] != '{' {
			return
		}
		for {
			from := blank(object, at+1) // behind { or ,
			to := valueEnd(object, from)
			colon := blank(object, to)
			if to-from < 2 || object[from] != '"' || colon == len(object) || object[colon] != ':' {
				return
			}
			begin := blank(object, colon+1)
			end := valueEnd(object, begin)
			if end == begin || !yield(object[from+1:to-1], object[begin:end]) {
				return
			}
			if at = blank(object, end); at == len(object) || object[at] != ',' {
				return
			}
		}
	}
}

// blank is where what is not blank begins, from a place on.
func blank(text []byte, at int) int {
	for at < len(text) && (text[at] == ' ' || text[at] == '\t' || text[at] == '\n' || text[at] == '\r') {
		at++
	}
	return min(at, len(text))
}

// valueEnd is where the value that begins at a place ends; the place itself if there is none, or not the whole of it.
func valueEnd(text []byte, from int) int {
	depth := 0
	for at := from; at < len(text); at++ {
		switch text[at] {
		case '"':
			for escaped := true; escaped; {
				next := bytes.IndexByte(text[at+1:], '"')
				if next < 0 {
					return from
				}
				at, escaped = at+1+next, false
				for before := at - 1; text[before] == '\\'; before-- { // up to the quote that begins the text
					escaped = !escaped
				}
			}
			if depth == 0 {
				return at + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				return at
			}
			if depth == 0 {
				return at + 1
			}
		case ',', ':', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return at
			}
		}
	}
	return from
}
