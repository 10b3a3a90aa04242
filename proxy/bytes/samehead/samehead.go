// Package samehead recognizes the head of an HTTP message that says the same as an earlier one.
//
// The heads that a peer sends on a connection differ in little but the digits of their Content-Length. Such a head need not
// be parsed again: whatever a parser has made of the first one holds for it, but for the length. [Lists] is for the headers that
// say how a connection goes on.
package samehead

import "bytes"

// maxDigits is how many digits a length may have that Match reads.
const maxDigits = 7

// Chunked is the length of a head that has no Content-Length.
const Chunked = -1

// Head is a head that was parsed. The zero value is none.
type Head struct {
	bytes  []byte // without the digits of the length
	split  int    // where they were; 0 if the head has no length
	misses uint   // how many heads were kept since Match has found one
}

// Forget makes Match find nothing.
func (h *Head) Forget() { h.bytes = h.bytes[:0] }

// Size returns the size of the memory that h holds.
func (h *Head) Size() int { return cap(h.bytes) }

// Keep keeps a head, with what [Lengths] has found in it. If the peer's heads always differ, Keep keeps few of them.
func (h *Head) Keep(head []byte, at Lengths) {
	h.Forget()
	if h.misses++; h.misses > 4 && h.misses&(h.misses-1) != 0 {
		return
	}
	h.bytes = append(append(h.bytes, head[:at.from]...), head[at.to:]...)
	h.split = at.from
}

// Match returns the size of the head that in begins with, if it is the kept one but for the digits of its Content-Length, and
// its length. The length is never 0.
func (h *Head) Match(in []byte) (size, length int, ok bool) {
	if len(h.bytes) == 0 || len(in) < len(h.bytes) || string(in[:h.split]) != string(h.bytes[:h.split]) {
		return 0, 0, false
	}
	end, length := h.split, Chunked
	if h.split > 0 {
		for end < len(in) && in[end]-'0' <= 9 {
			end++
		}
		if length, ok = parse(in[h.split:end]); !ok {
			return 0, 0, false
		}
	}
	if !bytes.HasPrefix(in[end:], h.bytes[h.split:]) {
		return 0, 0, false
	}
	h.misses = 0
	return end + len(h.bytes) - h.split, length, true
}

// Lengths says where in a head the digits of its Content-Length are.
type Lengths struct{ from, to int }

// Length returns the Content-Length of a head, or Chunked if it has none. It returns false for a length that Match does not
// read.
func (l Lengths) Length(head []byte) (n int, ok bool) {
	if l.to == 0 {
		return Chunked, true
	}
	return parse(head[l.from:l.to])
}

// parse parses the digits of a length that is not 0.
func parse(digits []byte) (n int, ok bool) {
	if len(digits) == 0 || len(digits) > maxDigits || digits[0] == '0' {
		return 0, false
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int(c-'0')
	}
	return n, true
}

// Find finds the Content-Length in a head, which ends with an empty line. It returns false unless readers cannot differ about
// what is a line, a name and the length: each line ends with CRLF and has only printable bytes, each name but a letter at its
// beginning and then letters, digits, "-" and "_", and there is at most one Content-Length. allow is called for each header,
// with the value without the spaces around it, and may refuse it.
//
// See https://www.rfc-editor.org/rfc/rfc9112#section-2.2 and sections 5 and 6 there.
func Find(head []byte, allow func(name, value []byte) bool) (at Lengths, ok bool) {
	for begin := 0; ; {
		end := bytes.IndexByte(head[begin:], '\r')
		if end < 0 || begin+end+1 == len(head) || head[begin+end+1] != '\n' {
			return at, false
		}
		line, next := head[begin:begin+end], begin+end+2
		switch {
		case len(line) == 0:
			return at, begin > 0 && next == len(head)
		case !printable(line):
			return at, false
		case begin == 0: // the first line is for the parser
			begin = next
			continue
		}
		colon := bytes.IndexByte(line, ':')
		if colon < 0 || !plainName(line[:colon]) {
			return at, false
		}
		name, value := line[:colon], bytes.Trim(line[colon+1:], " ")
		if !allow(name, value) {
			return at, false
		}
		if len(name) == len(contentLength) && bytes.EqualFold(name, []byte(contentLength)) {
			if at.to > 0 || len(value) == 0 {
				return at, false
			}
			at.from = begin + colon + 1
			for head[at.from] == ' ' {
				at.from++
			}
			at.to = at.from + len(value)
		}
		begin = next
	}
}

const contentLength = "Content-Length"

func printable(line []byte) bool {
	for _, c := range line {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

func plainName(name []byte) bool {
	for i, c := range name {
		switch {
		case c|0x20 >= 'a' && c|0x20 <= 'z':
		case i > 0 && (c >= '0' && c <= '9' || c == '-' || c == '_'):
		default:
			return false
		}
	}
	return len(name) > 0
}

// Lists reports whether the value of a header is a list with this item.
func Lists(value []byte, item string) bool {
	for v := range bytes.SplitSeq(value, []byte{','}) {
		if bytes.EqualFold(bytes.TrimSpace(v), []byte(item)) {
			return true
		}
	}
	return false
}
