package wire

import (
	"encoding/binary"
	"errors"
	"math/bits"
)

// MaxDepth is how deep arrays and objects may be nested in a message.
const MaxDepth = 512

// maxNodes bounds what Scan records of one message: 4 Mi values.
const maxNodes = 4 << 20

// What is wrong with a text that is not JSON.
var (
	errSyntax = errors.New("invalid JSON")
	errUTF8   = errors.New("invalid UTF-8")
	errEnd    = errors.New("unexpected end of JSON")
	errDepth  = errors.New("nested deeper than 512")
	errTrail  = errors.New("data after the message")
	errSize   = errors.New("message larger than 4 GiB")
	errNodes  = errors.New("more than 4194304 list entries and members")
)

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// skipString checks a string from behind its opening quote and returns the
// index behind its closing one. It looks at eight bytes at a time: a byte that
// needs care (a quote, a backslash, a control character, anything beyond ASCII)
// sets the high bit of its place in the word.
func skipString(b []byte, i int) (int, error) {
	for {
		for i+8 <= len(b) {
			x := binary.LittleEndian.Uint64(b[i:])
			care := ((x - ones*0x20) | ((x ^ ones*'"') - ones) | ((x ^ ones*'\\') - ones) | x) & highs
			if care != 0 {
				i += bits.TrailingZeros64(care) >> 3
				break
			}
			i += 8
		}
		if i >= len(b) {
			return i, errEnd
		}
		switch c := b[i]; {
		case c == '"':
			return i + 1, nil
		case c == '\\':
			n := escape(b[i:])
			if n == 0 {
				return i, errSyntax
			}
			i += n
		case c < 0x20:
			return i, errSyntax
		case c < 0x80:
			i++ // only in the last seven bytes of the text
		default:
			for i < len(b) && b[i] >= 0x80 {
				n := utf8Len(b[i:])
				if n == 0 {
					return i, errUTF8
				}
				i += n
			}
		}
	}
}

// escape returns the length of the escape sequence that b begins with, 0 when
// it is none.
func escape(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(b) >= 6 && isHex(b[2]) && isHex(b[3]) && isHex(b[4]) && isHex(b[5]) {
			return 6
		}
	}
	return 0
}

func isHex(c byte) bool {
	return c-'0' <= 9 || c|0x20-'a' <= 5
}

// utf8Len returns the length of the sequence beyond ASCII that b begins with,
// 0 when it is not well formed (Unicode 15, table 3-7).
func utf8Len(b []byte) int {
	c := b[0]
	if c < 0xE0 {
		if c >= 0xC2 && len(b) > 1 && b[1]&0xC0 == 0x80 {
			return 2
		}
		return 0
	}
	if c < 0xF0 {
		if len(b) > 2 && b[1]&0xC0 == 0x80 && b[2]&0xC0 == 0x80 &&
			(c != 0xE0 || b[1] >= 0xA0) && (c != 0xED || b[1] < 0xA0) {
			return 3
		}
		return 0
	}
	if c < 0xF5 && len(b) > 3 && b[1]&0xC0 == 0x80 && b[2]&0xC0 == 0x80 && b[3]&0xC0 == 0x80 &&
		(c != 0xF0 || b[1] >= 0x90) && (c != 0xF4 || b[1] < 0x90) {
		return 4
	}
	return 0
}

// skipNumber returns the index behind the number at i.
func skipNumber(b []byte, i int) (int, error) {
	if b[i] == '-' {
		i++
	}
	switch {
	case i >= len(b):
		return i, errEnd
	case b[i] == '0':
		i++
	case b[i]-'1' <= 8:
		for i++; i < len(b) && b[i]-'0' <= 9; i++ {
		}
	default:
		return i, errSyntax
	}
	if i < len(b) && b[i] == '.' {
		from := i + 1
		for i++; i < len(b) && b[i]-'0' <= 9; i++ {
		}
		if i == from {
			return i, errSyntax
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		from := i
		for ; i < len(b) && b[i]-'0' <= 9; i++ {
		}
		if i == from {
			return i, errSyntax
		}
	}
	return i, nil
}

func skipLiteral(b []byte, i int, want string) (int, error) {
	if len(b)-i >= len(want) && string(b[i:i+len(want)]) == want {
		return i + len(want), nil
	}
	return i, errSyntax
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && b[i] <= ' ' && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// skipScalar checks a string, number or literal and returns the index behind it.
func skipScalar(b []byte, i int) (int, error) {
	switch c := b[i]; {
	case c == '"':
		return skipString(b, i+1)
	case c == '-' || c-'0' <= 9:
		return skipNumber(b, i)
	case c == 't':
		return skipLiteral(b, i, "true")
	case c == 'f':
		return skipLiteral(b, i, "false")
	case c == 'n':
		return skipLiteral(b, i, "null")
	}
	return i, errSyntax
}

// skipValue checks the value at i, which lies in depth containers, and returns
// the index behind it. It keeps no stack but a bit for each level: set for an
// object.
func skipValue(b []byte, i, depth int) (int, error) {
	var (
		objects [MaxDepth/64 + 1]uint64
		level   = depth
		err     error
	)
value:
	i = skipSpace(b, i)
	if i >= len(b) {
		return i, errEnd
	}
	switch b[i] {
	case '"':
		if i, err = skipString(b, i+1); err != nil {
			return i, err
		}
	case '{':
		if level++; level > MaxDepth {
			return i, errDepth
		}
		objects[level>>6] |= 1 << (level & 63)
		if i = skipSpace(b, i+1); i < len(b) && b[i] == '}' {
			i++
			level--
			break
		}
		goto member
	case '[':
		if level++; level > MaxDepth {
			return i, errDepth
		}
		objects[level>>6] &^= 1 << (level & 63)
		if i = skipSpace(b, i+1); i < len(b) && b[i] == ']' {
			i++
			level--
			break
		}
		goto value
	default:
		if i, err = skipScalar(b, i); err != nil {
			return i, err
		}
	}
after:
	if level == depth {
		return i, nil
	}
	if i < len(b) && b[i] <= ' ' {
		i = skipSpace(b, i)
	}
	if i >= len(b) {
		return i, errEnd
	}
	if objects[level>>6]&(1<<(level&63)) != 0 {
		switch b[i] {
		case ',':
			i++
			goto member
		case '}':
			i++
			level--
			goto after
		}
		return i, errSyntax
	}
	switch b[i] {
	case ',':
		i++
		goto value
	case ']':
		i++
		level--
		goto after
	}
	return i, errSyntax
member:
	i = skipSpace(b, i)
	if i >= len(b) {
		return i, errEnd
	}
	if i, err = skipName(b, i); err != nil {
		return i, err
	}
	if i, err = skipColon(b, i); err != nil {
		return i, err
	}
	goto value
}

// skipName checks a member's name and returns the index behind its closing quote.
func skipName(b []byte, i int) (int, error) {
	if b[i] != '"' {
		return i, errSyntax
	}
	return skipString(b, i+1)
}

func skipColon(b []byte, i int) (int, error) {
	if i = skipSpace(b, i); i >= len(b) {
		return i, errEnd
	}
	if b[i] != ':' {
		return i, errSyntax
	}
	return i + 1, nil
}

// record checks the value at i, which is the next child of the container node
// parent, records it and, where shape goes on, what is in it. key is where its
// member begins.
func (m *Message) record(i, key int, name Name, parent uint32, shape *Shape, depth int) (int, error) {
	b := m.Raw
	if len(m.nodes) >= maxNodes {
		return i, errNodes
	}
	self := len(m.nodes)
	m.nodes = append(m.nodes, node{key: uint32(key), pos: uint32(i), parent: parent, name: name})
	var err error
	switch {
	case shape != nil && b[i] == '{':
		i, err = m.recordObject(i, uint32(self), shape, depth+1)
	case shape != nil && b[i] == '[' && shape.Elem != nil:
		i, err = m.recordArray(i, uint32(self), shape.Elem, depth+1)
	default:
		i, err = skipValue(b, i, depth)
	}
	m.nodes[self].end = uint32(i)
	m.nodes[self].next = uint32(len(m.nodes))
	return i, err
}

func (m *Message) recordObject(i int, self uint32, shape *Shape, depth int) (int, error) {
	b := m.Raw
	if depth > MaxDepth {
		return i, errDepth
	}
	m.nodes[self].open = true
	if i = skipSpace(b, i+1); i < len(b) && b[i] == '}' {
		return i + 1, nil
	}
	var err error
	for {
		if i = skipSpace(b, i); i >= len(b) {
			return i, errEnd
		}
		key := i
		if i, err = skipName(b, i); err != nil {
			return i, err
		}
		name := nameOf(b[key+1 : i-1])
		if i, err = skipColon(b, i); err != nil {
			return i, err
		}
		if i = skipSpace(b, i); i >= len(b) {
			return i, errEnd
		}
		inner := shape.Members[name]
		if inner == nil {
			inner = shape.Any
		}
		if i, err = m.record(i, key, name, self, inner, depth); err != nil {
			return i, err
		}
		if i = skipSpace(b, i); i >= len(b) {
			return i, errEnd
		}
		switch b[i] {
		case ',':
			i++
			continue
		case '}':
			return i + 1, nil
		}
		return i, errSyntax
	}
}

func (m *Message) recordArray(i int, self uint32, elem *Shape, depth int) (int, error) {
	b := m.Raw
	if depth > MaxDepth {
		return i, errDepth
	}
	m.nodes[self].open = true
	if i = skipSpace(b, i+1); i < len(b) && b[i] == ']' {
		return i + 1, nil
	}
	for {
		if i = skipSpace(b, i); i >= len(b) {
			return i, errEnd
		}
		var err error
		if i, err = m.record(i, i, OtherName, self, elem, depth); err != nil {
			return i, err
		}
		if i = skipSpace(b, i); i >= len(b) {
			return i, errEnd
		}
		switch b[i] {
		case ',':
			i++
			continue
		case ']':
			return i + 1, nil
		}
		return i, errSyntax
	}
}
