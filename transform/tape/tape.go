// Package tape reads a JSON document as a list of positions, and walks JSON that
// is known to be valid. The document stays bytes: numbers keep their digits and
// members their order.
package tape

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"unicode/utf8"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// A Tape holds the position of each value of a JSON document, in the document's
// order: a container stands before its contents.
type Tape struct {
	Doc     []byte
	Nodes   []Node
	Partial bool // there are more than maxNodes values, and only the first of them are recorded
}

// A Node is one value.
type Node struct {
	Pos, End uint32 // the value in the document
	Key      uint32 // where its member's name begins; Pos if it is not in an object
	Next     uint32 // the first node after it and its contents
	Count    uint32 // members or elements, also those that are not recorded
}

// maxNodes bounds the memory of a tape to 20 MiB.
const maxNodes = 1 << 20

// nodeBytes is about how many bytes of a document there are for each node.
const nodeBytes = 24

// A parseError says where a document is not valid JSON, or is nested too
// deeply.
type parseError struct{ offset int }

func (e *parseError) Error() string { return fmt.Sprintf("not valid JSON at byte %d", e.offset) }

// frame is an open container while parsing.
type frame struct {
	node     uint32
	count    uint32
	recorded bool
	object   bool
}

// Parse records doc, which has to be one JSON object or array of valid UTF-8,
// nested no deeper than wire.MaxDepth.
func (t *Tape) Parse(doc []byte) error {
	t.Doc, t.Nodes, t.Partial = doc, t.Nodes[:0], false
	i := SkipSpace(doc, 0)
	if i >= len(doc) || doc[i] != '{' && doc[i] != '[' || uint64(len(doc)) > math.MaxUint32 {
		return &parseError{i}
	}
	if cap(t.Nodes) == 0 {
		t.Nodes = make([]Node, 0, min(maxNodes, len(doc)/nodeBytes+1))
	}
	var stack [wire.MaxDepth]frame
	depth := 0 // open containers; the innermost is stack[depth-1]
	key := i
value:
	{
		recorded := depth == 0 || stack[depth-1].recorded
		if recorded && len(t.Nodes) == maxNodes {
			recorded, t.Partial = false, true
		}
		self := len(t.Nodes)
		if recorded {
			t.Nodes = append(t.Nodes, Node{Pos: uint32(i), Key: uint32(key)})
		}
		if depth > 0 {
			stack[depth-1].count++
		}
		if i >= len(doc) {
			return &parseError{i}
		}
		end := 0
		switch c := doc[i]; {
		case c == '{' || c == '[':
			if depth == len(stack) {
				return &parseError{i}
			}
			stack[depth] = frame{node: uint32(self), recorded: recorded, object: c == '{'}
			depth++
			i = SkipSpace(doc, i+1)
			if i < len(doc) && doc[i] == c+2 {
				i++
				goto shut
			}
			goto next
		case c == '"':
			end = checkString(doc, i)
		default:
			end = checkScalar(doc, i)
		}
		if end < 0 {
			return &parseError{i}
		}
		if recorded {
			n := &t.Nodes[self]
			n.End, n.Next = uint32(end), uint32(len(t.Nodes))
		}
		i = end
	}
after:
	if i = SkipSpace(doc, i); depth == 0 {
		if i != len(doc) {
			return &parseError{i}
		}
		return nil
	}
	if i >= len(doc) {
		return &parseError{i}
	}
	switch f := &stack[depth-1]; {
	case doc[i] == ',':
		i = SkipSpace(doc, i+1)
	case doc[i] == '}' && f.object, doc[i] == ']' && !f.object:
		i++
		goto shut
	default:
		return &parseError{i}
	}
next:
	key = i
	if stack[depth-1].object {
		if i >= len(doc) || doc[i] != '"' {
			return &parseError{i}
		}
		end := checkString(doc, i)
		if end < 0 {
			return &parseError{i}
		}
		if i = SkipSpace(doc, end); i >= len(doc) || doc[i] != ':' {
			return &parseError{i}
		}
		i = SkipSpace(doc, i+1)
	}
	goto value
shut:
	depth--
	if f := &stack[depth]; f.recorded {
		n := &t.Nodes[f.node]
		n.End, n.Next, n.Count = uint32(i), uint32(len(t.Nodes)), f.count
	}
	goto after
}

// Raw returns a node's value as it is written.
func (t *Tape) Raw(n uint32) []byte { return t.Doc[t.Nodes[n].Pos:t.Nodes[n].End] }

// Name returns a member's name as it is written, without its quotes. It returns
// nil if the node is not in an object.
func (t *Tape) Name(n uint32) []byte {
	at := &t.Nodes[n]
	if at.Key == at.Pos {
		return nil
	}
	return t.Doc[at.Key+1 : SkipString(t.Doc, int(at.Key))-1]
}

// Label returns a member's name, unescaped.
func (t *Tape) Label(n uint32) string { return string(wire.AppendUnescaped(nil, t.Name(n))) }

// The functions below return the index after the space, string or value at i.
// Those named check… return -1 if it is not valid JSON; those named Skip…
// assume that it is.

func SkipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// Care returns the index of the first quote, backslash or control character at
// or after i, or len(b) if there is none.
func Care(b []byte, i int) int {
	for i+8 <= len(b) {
		x := binary.LittleEndian.Uint64(b[i : i+8])
		// The lowest high bit set is that of the first such byte. See wire.care.
		if m := (((x ^ ones*0x02) - ones*0x21) | ((x ^ ones*'\\') - ones)) &^ x & highs; m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
		i += 8
	}
	for i < len(b) && b[i] != '"' && b[i] != '\\' && b[i] >= ' ' {
		i++
	}
	return i
}

func checkString(b []byte, i int) int {
	for i++; ; {
		if i = Care(b, i); i >= len(b) {
			return -1
		}
		switch b[i] {
		case '"':
			return i + 1
		case '\\':
			n := Escape(b[i:])
			if n == 0 {
				return -1
			}
			i += n
		default:
			return -1
		}
	}
}

// Escape returns the length of the escape sequence that b begins with, or 0 if
// it is not valid. b begins with a backslash.
func Escape(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(b) < 6 {
			return 0
		}
		for _, c := range b[2:6] {
			if c-'0' > 9 && c|0x20-'a' > 5 {
				return 0
			}
		}
		return 6
	}
	return 0
}

func SkipString(b []byte, i int) int {
	for i++; i < len(b); {
		if i = Care(b, i); i >= len(b) {
			break
		}
		switch b[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
		i++
	}
	return len(b)
}

func checkScalar(b []byte, i int) int {
	end := i
	for end < len(b) && b[end] != ',' && b[end] != '}' && b[end] != ']' && b[end] > ' ' {
		end++
	}
	switch text := b[i:end]; {
	case len(text) == 0:
		return -1
	case string(text) == "true", string(text) == "false", string(text) == "null":
		return end
	case number(text):
		return end
	}
	return -1
}

// number reports whether text is a JSON number.
func number(text []byte) bool {
	i := 0
	digits := func() bool {
		from := i
		for i < len(text) && text[i]-'0' <= 9 {
			i++
		}
		return i > from
	}
	if text[0] == '-' {
		i++
	}
	if from := i; !digits() || text[from] == '0' && i > from+1 {
		return false
	}
	if i < len(text) && text[i] == '.' {
		if i++; !digits() {
			return false
		}
	}
	if i < len(text) && text[i]|0x20 == 'e' {
		if i++; i < len(text) && (text[i] == '+' || text[i] == '-') {
			i++
		}
		if !digits() {
			return false
		}
	}
	return i == len(text)
}

// SkipValue returns the end of the value at i, which has to be valid.
func SkipValue(b []byte, i int) int {
	end, _ := SkipSome(b, i, math.MaxInt)
	return end
}

// SkipSome does what SkipValue does, but stops after more than n bytes, at the
// end of a value inside. whole reports whether it came to the end of the value
// at i.
func SkipSome(b []byte, i, n int) (end int, whole bool) {
	start := i
	for depth := 0; i < len(b); {
		switch b[i] {
		case '"':
			i = SkipString(b, i)
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			depth--
			i++
		case ',', ':', ' ', '\n', '\t', '\r':
			i++
			continue
		default:
			for i++; i < len(b) && b[i] != ',' && b[i] != '}' && b[i] != ']' && b[i] > ' '; {
				i++
			}
		}
		if depth <= 0 {
			return i, true
		}
		if i-start > n {
			return i, false
		}
	}
	return len(b), true
}

// Each calls f with every member or element of the container at i: name is a
// member's name as it is written, without its quotes, or nil for an element; at
// is where the value begins. f returns the value's end, and false to stop. Each
// returns the container's end, or the end that f returned with false.
func Each(b []byte, i int, f func(name []byte, at int) (end int, more bool)) int {
	object := b[i] == '{'
	for i = SkipSpace(b, i+1); i < len(b) && b[i] != '}' && b[i] != ']'; {
		var name []byte
		if object {
			end := SkipString(b, i)
			name = b[i+1 : max(i+1, end-1)]
			i = SkipSpace(b, end)
			i = SkipSpace(b, i+1)
		}
		if i >= len(b) {
			return i
		}
		end, more := f(name, i)
		if !more {
			return end
		}
		if i = SkipSpace(b, max(end, i+1)); i < len(b) && b[i] == ',' {
			i = SkipSpace(b, i+1)
		}
	}
	return min(i+1, len(b))
}

// Member returns the value of an object's member of that name. It returns the
// last one if there are several, and nil if there is none.
func Member(object []byte, name string) (value []byte) {
	if i := SkipSpace(object, 0); i < len(object) && object[i] == '{' {
		Each(object, i, func(n []byte, at int) (int, bool) {
			end := SkipValue(object, at)
			if wire.IsText(n, name) {
				value = object[at:end]
			}
			return end, true
		})
	}
	return value
}

// IsContainer reports whether text begins like a JSON object or array.
func IsContainer(text []byte) bool {
	i := SkipSpace(text, 0)
	return i < len(text) && (text[i] == '{' || text[i] == '[')
}

// CodePoints returns how many code points the inside of a string stands for. It
// stops counting just above limit.
func CodePoints(raw []byte, limit int) (n int) {
	for i := 0; i < len(raw) && n <= limit; n++ {
		i += CodePoint(raw[i:])
	}
	return n
}

// CodePoint returns the length, as it is written, of the code point that the
// inside of a string begins with.
func CodePoint(raw []byte) int {
	switch {
	case raw[0] == '\\' && len(raw) >= 12 && raw[1] == 'u' && raw[6] == '\\' && raw[7] == 'u' &&
		raw[2]|0x20 == 'd' && raw[8]|0x20 == 'd' && surrogate(raw[3], '8', '9', 'a', 'b') && surrogate(raw[9], 'c', 'd', 'e', 'f'):
		return 12
	case raw[0] == '\\':
		return max(1, Escape(raw))
	case raw[0] < utf8.RuneSelf:
		return 1
	}
	_, n := utf8.DecodeRune(raw)
	return n
}

func surrogate(c byte, any ...byte) bool {
	for _, a := range any {
		if c|0x20 == a || c == a {
			return true
		}
	}
	return false
}

// Scalar reports whether a value is neither object nor array.
func Scalar(value []byte) bool { return value[0] != '{' && value[0] != '[' }
