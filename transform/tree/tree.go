// Package tree reads a JSON value member by member, in the order and with the
// digits it was written in.
//
// A [Value] points into the text it was parsed from and costs no more than two
// words; nothing is decoded before the caller asks for it. A missing value is a
// Value, too, of kind [None], so that the caller can follow a path without a
// check at every step.
package tree

import (
	"bytes"
	"errors"
	"iter"
	"math"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Kind is the kind of a JSON value.
type Kind uint8

// The kinds of JSON values, and None for a missing value.
const (
	None Kind = iota
	Null
	Bool
	Number
	String
	Array
	Object
)

var (
	// ErrSyntax says that a text is not one JSON value, or is nested deeper than
	// wire.MaxDepth.
	ErrSyntax = errors.New("not one JSON value, or nested too deep")
	// ErrSize says that a text is too large for a tree.
	ErrSize = errors.New("larger than 4 GiB")
)

// Value is one value of a parsed text. The zero Value is of kind None.
type Value struct {
	t *text
	i uint32
}

type text struct {
	src   []byte
	nodes []node
}

// node is one value. The values in a container follow it; next is the index of
// the first node that is not in it.
type node struct {
	key, keyEnd uint32 // the inside of the member's name; both 0 for an element
	pos, end    uint32
	next        uint32
	kind        Kind
}

// Parse reads a text that is one JSON value. src must not change while the
// Value, or one it leads to, is in use. It takes time linear in the length of
// src.
func Parse(src []byte) (Value, error) {
	if uint64(len(src)) > math.MaxUint32 {
		return Value{}, ErrSize
	}
	if !wire.Valid(src) {
		return Value{}, ErrSyntax
	}
	t := &text{src: src}
	t.read()
	return Value{t: t}, nil
}

// read fills nodes. The text is known to be valid, so read skips commas, colons
// and blanks unchecked.
func (t *text) read() {
	var (
		open        [wire.MaxDepth]uint32
		depth       int
		key, keyEnd uint32
		named       bool
	)
	inObject := func() bool { return depth > 0 && t.nodes[open[depth-1]].kind == Object }
	for i := 0; i < len(t.src); i++ {
		n := node{key: key, keyEnd: keyEnd, pos: uint32(i)}
		switch c := t.src[i]; c {
		case ' ', '\t', '\n', '\r', ',', ':':
			continue
		case '}', ']':
			depth--
			at := &t.nodes[open[depth]]
			at.end, at.next = uint32(i+1), uint32(len(t.nodes))
			continue
		case '{', '[':
			n.kind = Object
			if c == '[' {
				n.kind = Array
			}
			open[depth] = uint32(len(t.nodes))
			depth++
		case '"':
			end := closing(t.src, i+1)
			if inObject() && !named {
				key, keyEnd, named = uint32(i+1), uint32(end), true
				i = end
				continue
			}
			n.kind = String
			i = end
		default:
			switch {
			case c == 'n':
				n.kind = Null
			case c == 't' || c == 'f':
				n.kind = Bool
			default:
				n.kind = Number
			}
			for i+1 < len(t.src) && !ends(t.src[i+1]) {
				i++
			}
		}
		n.end, n.next = uint32(i+1), uint32(len(t.nodes)+1)
		t.nodes = append(t.nodes, n)
		key, keyEnd, named = 0, 0, false
	}
}

// closing returns the index of the quote that ends the string whose inside
// begins at i.
func closing(b []byte, i int) int {
	for {
		i += bytes.IndexByte(b[i:], '"')
		escapes := 0
		for b[i-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return i
		}
		i++
	}
}

func ends(c byte) bool { return c <= ' ' || c == ',' || c == '}' || c == ']' }

// Kind returns the kind of v.
func (v Value) Kind() Kind {
	if v.t == nil {
		return None
	}
	return v.t.nodes[v.i].kind
}

// Is reports whether v is of kind k.
func (v Value) Is(k Kind) bool { return v.Kind() == k }

// Present reports whether v is neither missing nor null.
func (v Value) Present() bool { return v.Kind() > Null }

// Raw returns v as it was written: a part of the parsed text, or nil for None.
func (v Value) Raw() []byte {
	if v.t == nil {
		return nil
	}
	n := &v.t.nodes[v.i]
	return v.t.src[n.pos:n.end:n.end]
}

// True reports whether v is true.
func (v Value) True() bool { return v.Is(Bool) && v.Raw()[0] == 't' }

// Text returns the text of a string, unescaped, and "" for every other kind. A
// lone surrogate becomes U+FFFD.
func (v Value) Text() string {
	if !v.Is(String) {
		return ""
	}
	raw, _ := wire.Inner(v.Raw())
	return unescaped(raw)
}

// Scalar returns the text of a string, a number or boolean as it is written,
// and "" for every other kind.
func (v Value) Scalar() string {
	switch v.Kind() {
	case String:
		return v.Text()
	case Number, Bool:
		return string(v.Raw())
	}
	return ""
}

// Key returns the name of the member that v belongs to, unescaped, and "" for
// an element.
func (v Value) Key() string {
	if v.t == nil {
		return ""
	}
	return unescaped(v.rawKey())
}

func (v Value) rawKey() []byte {
	n := &v.t.nodes[v.i]
	return v.t.src[n.key:n.keyEnd]
}

func unescaped(raw []byte) string {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw)
	}
	return string(wire.AppendUnescaped(make([]byte, 0, len(raw)), raw))
}

// All yields the members of an object or the elements of an array, in their
// order. It yields nothing for other kinds.
func (v Value) All() iter.Seq[Value] {
	return func(yield func(Value) bool) {
		if k := v.Kind(); k != Array && k != Object {
			return
		}
		for i, end := v.i+1, v.t.nodes[v.i].next; i < end; i = v.t.nodes[i].next {
			if !yield(Value{v.t, i}) {
				return
			}
		}
	}
}

// Elements yields the elements of an array, and nothing for other kinds.
func (v Value) Elements() iter.Seq[Value] {
	if !v.Is(Array) {
		return func(func(Value) bool) {}
	}
	return v.All()
}

// Empty reports whether v is an object or array with nothing in it.
func (v Value) Empty() bool {
	k := v.Kind()
	return (k == Array || k == Object) && v.t.nodes[v.i].next == v.i+1
}

// Get returns the value at a path of member names. If a name occurs twice, the
// last one counts, as in most parsers.
func (v Value) Get(path ...string) Value {
	for _, name := range path {
		if !v.Is(Object) {
			return Value{}
		}
		var found Value
		for m := range v.All() {
			if wire.IsText(m.rawKey(), name) {
				found = m
			}
		}
		v = found
	}
	return v
}

// First returns the first of several members that is neither missing nor null.
func (v Value) First(names ...string) Value {
	for _, name := range names {
		if m := v.Get(name); m.Present() {
			return m
		}
	}
	return Value{}
}

// AppendQuoted appends text as a JSON string. The text must be valid UTF-8.
func AppendQuoted(dst []byte, text string) []byte {
	dst = append(dst, '"')
	dst = wire.AppendQuotedInner(dst, text)
	return append(dst, '"')
}
