// Package tree reads a JSON value member by member, in the order and with the
// digits it was written in. A [Document] is the list of its values by their places, and the Skip functions walk text that is known to
// be valid without one.
//
// A [Value] points into the text it was parsed from and costs no more than two
// words; nothing is decoded before the caller asks for it. A missing value is a
// Value, too, of kind [wire.Absent], so that the caller can follow a path without a
// check at every step.
package tree

import (
	"bytes"
	"iter"
	"math"
	"slices"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Value is one value of a parsed text. The zero Value is [wire.Absent].
type Value struct {
	d *Document
	i uint32
}

// Parse reads a text that is one JSON value. src must not change while the
// Value, or one it leads to, is in use. It takes time linear in the length of
// src.
func Parse(src []byte) (Value, error) {
	d := new(Document)
	if err := d.read(src, math.MaxInt); err != nil {
		return Value{}, err
	}
	return Value{d: d}, nil
}

// Kind returns the kind of v.
func (v Value) Kind() wire.ValueKind {
	if v.d == nil {
		return wire.Absent
	}
	return wire.KindOf(v.Raw())
}

// Is reports whether v is of kind k.
func (v Value) Is(k wire.ValueKind) bool { return v.Kind() == k }

// Present reports whether v is neither missing nor null.
func (v Value) Present() bool { return v.Kind() > wire.Null }

// Raw returns v as it was written: a part of the parsed text, or nil for a missing value.
func (v Value) Raw() []byte {
	if v.d == nil {
		return nil
	}
	return slices.Clip(v.d.Raw(v.i))
}

// True reports whether v is true.
func (v Value) True() bool { return v.Is(wire.Boolean) && v.Raw()[0] == 't' }

// Text returns the text of a string, unescaped, and "" for every other kind. A
// lone surrogate becomes U+FFFD.
func (v Value) Text() string {
	if !v.Is(wire.String) {
		return ""
	}
	raw, _ := wire.Inner(v.Raw())
	return unescaped(raw)
}

// Scalar returns the text of a string, a number or boolean as it is written,
// and "" for every other kind.
func (v Value) Scalar() string {
	switch v.Kind() {
	case wire.String:
		return v.Text()
	case wire.Number, wire.Boolean:
		return string(v.Raw())
	}
	return ""
}

// Key returns the name of the member that v belongs to, unescaped, and "" for
// an element.
func (v Value) Key() string {
	if v.d == nil {
		return ""
	}
	return unescaped(v.d.Name(v.i))
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
		if k := v.Kind(); k != wire.Array && k != wire.Object {
			return
		}
		for i, end := v.i+1, v.d.Nodes[v.i].Next; i < end; i = v.d.Nodes[i].Next {
			if !yield(Value{v.d, i}) {
				return
			}
		}
	}
}

// Elements yields the elements of an array, and nothing for other kinds.
func (v Value) Elements() iter.Seq[Value] {
	if !v.Is(wire.Array) {
		return func(func(Value) bool) {}
	}
	return v.All()
}

// Empty reports whether v is an object or array with nothing in it.
func (v Value) Empty() bool {
	k := v.Kind()
	return (k == wire.Array || k == wire.Object) && v.d.Nodes[v.i].Next == v.i+1
}

// Get returns the value at a path of member names. If a name occurs twice, the
// last one counts, as in most parsers.
func (v Value) Get(path ...string) Value {
	for _, name := range path {
		if !v.Is(wire.Object) {
			return Value{}
		}
		var found Value
		for m := range v.All() {
			if wire.IsText(m.d.Name(m.i), name) {
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
