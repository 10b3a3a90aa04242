// Package schema says which changes a JSON Schema forbids when a value is made
// smaller.
package schema

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-proxy/dragoman/transform/tree"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Guards are what a schema asks of one value: one guard for each schema object
// that applies to it. A change that one of them forbids is forbidden. nil asks
// for nothing.
//
// In doubt, they forbid. If a schema has alternatives that the kind of a value
// does not tell apart, or a keyword that concerns several values at a time, the
// value stays as it is.
// https://json-schema.org/draft/2020-12/json-schema-validation
type Guards []*guard

// A guard is one schema object, as far as it matters for making values smaller.
type guard struct {
	schema     *Schema
	frozen     bool // nothing may change
	fixed      bool // a string may not change
	closed     bool // no member may be added
	keep       bool // no member may be dropped
	required   map[string]bool
	minLength  int
	minItems   int
	properties map[string]uint32 // nodes of the schema
	others     uint32            // additionalProperties; 0 if there is none
	prefix     []uint32
	items      uint32 // 0 if there is none
	also       []uint32
	choices    [][]uint32 // of each list, one schema holds
	types      kinds      // 0 for any
}

// kinds is a set of kinds of values.
type kinds uint8

func kindOf(value []byte) kinds { return 1 << wire.KindOf(value) }

// kindsNamed returns the kind of a type's name in JSON Schema, or none.
func kindsNamed(name []byte) kinds {
	if string(name) == "integer" {
		return 1 << wire.Number
	}
	for k := wire.Null; k <= wire.Object; k++ {
		if k.String() == string(name) {
			return 1 << k
		}
	}
	return 0
}

// A Schema is a JSON Schema, whose parts are read when they are needed.
type Schema struct {
	doc    tree.Document
	guards map[uint32]*guard
	simple map[uint32]Guards // of parts that refer to no others
}

const (
	maxSchema = 1 << 20 // bytes
	maxParts  = 64      // schemas that hold for one value
)

// New reads a schema. It does not keep text. A schema that cannot be read allows
// no change.
func New(text []byte) *Schema {
	s := &Schema{guards: make(map[uint32]*guard), simple: make(map[uint32]Guards)}
	if len(text) > maxSchema || s.doc.Read(bytes.Clone(text)) != nil || s.doc.Partial {
		s.doc.Text = nil
	}
	return s
}

// Root returns what the schema asks of a value. It never returns nil.
func (s *Schema) Root(value []byte) Guards {
	if s.doc.Text == nil { // it could not be read
		return Guards{{frozen: true, closed: true}}
	}
	g := s.expand(Guards{}, 0, value, 0)
	if len(g) == 0 {
		g = Guards{{}} // it asks for nothing, but there is a schema
	}
	return g
}

// expand appends what the schema at node n asks of a value.
func (s *Schema) expand(g Guards, n uint32, value []byte, depth int) Guards {
	if len(g) >= maxParts || depth > maxParts {
		return append(g, &guard{frozen: true, closed: true})
	}
	at := s.guard(n)
	g = append(g, at)
	for _, n := range at.also {
		g = s.expand(g, n, value, depth+1)
	}
	for _, list := range at.choices {
		fit, count := uint32(0), 0
		for _, n := range list {
			if types := s.types(n, 0); types == 0 || types&kindOf(value) != 0 {
				fit = n
				count++
			}
		}
		if count != 1 {
			return append(g, &guard{frozen: true, closed: true})
		}
		g = s.expand(g, fit, value, depth+1)
	}
	return g
}

// at does what expand does, for a part of a value. n is 0 if there is no
// schema.
func (s *Schema) at(g Guards, n uint32, value []byte) Guards {
	if n == 0 {
		return g
	}
	if known, ok := s.simple[n]; ok && len(g) == 0 {
		return known
	}
	from := len(g)
	g = s.expand(g, n, value, 0)
	if at := s.guards[n]; len(at.also)+len(at.choices) == 0 && from == 0 {
		s.simple[n] = g[:len(g):len(g)]
	}
	return g
}

// types returns the kinds of values that a schema allows, or 0 for any.
func (s *Schema) types(n uint32, depth int) kinds {
	at := s.guard(n)
	if at.types != 0 || depth > 8 {
		return at.types
	}
	for _, n := range at.also {
		if t := s.types(n, depth+1); t != 0 {
			return t
		}
	}
	return 0
}

// guard reads the schema at a node.
func (s *Schema) guard(n uint32) *guard {
	if g := s.guards[n]; g != nil {
		return g
	}
	t := &s.doc
	g := &guard{schema: s}
	s.guards[n] = g
	switch value := t.Raw(n); value[0] {
	case 't':
		return g
	case '{':
	default:
		g.frozen = true
		return g
	}
	for m := n + 1; m < t.Nodes[n].Next; m = t.Nodes[m].Next {
		s.keyword(g, t.Label(m), m)
	}
	return g
}

func (s *Schema) keyword(g *guard, name string, m uint32) {
	t := &s.doc
	value := t.Raw(m)
	switch name {
	case "type":
		s.children(m, value[0] == '[', func(n uint32) {
			text, _ := wire.Inner(t.Raw(n))
			g.types |= kindsNamed(text)
		})
	case "$ref":
		if n, ok := s.resolve(value); ok {
			g.also = append(g.also, n)
		} else {
			g.frozen, g.closed = true, true
		}
	case "allOf":
		s.children(m, true, func(n uint32) { g.also = append(g.also, n) })
	case "anyOf", "oneOf":
		var list []uint32
		s.children(m, true, func(n uint32) { list = append(list, n) })
		g.choices = append(g.choices, list)
	case "properties":
		if value[0] != '{' {
			g.frozen = true
			return
		}
		g.properties = make(map[string]uint32)
		for p := m + 1; p < t.Nodes[m].Next; p = t.Nodes[p].Next {
			g.properties[t.Label(p)] = p
		}
	case "additionalProperties":
		if string(value) == "false" {
			g.closed = true
		} else if string(value) != "true" {
			g.others = m
			g.closed = string(value) != "{}"
		}
	case "required":
		if g.required == nil {
			g.required = make(map[string]bool)
		}
		s.children(m, true, func(n uint32) {
			if raw, ok := wire.Inner(t.Raw(n)); ok {
				g.required[string(wire.AppendUnescaped(nil, raw))] = true
			}
		})
	case "minProperties", "dependentRequired":
		g.keep = true
	case "propertyNames", "maxProperties":
		g.closed = true
	case "items":
		if value[0] == '[' {
			s.children(m, true, func(n uint32) { g.prefix = append(g.prefix, n) })
		} else {
			g.items = m
		}
	case "prefixItems":
		s.children(m, true, func(n uint32) { g.prefix = append(g.prefix, n) })
	case "minItems":
		g.minItems = natural(value)
	case "minLength":
		g.minLength = natural(value)
	case "format", "pattern", "contentEncoding", "contentMediaType":
		g.fixed = true
	case "unevaluatedProperties", "unevaluatedItems":
		g.closed = true
		g.frozen = g.frozen || !tree.Scalar(value) && string(value) != "{}"
	case "uniqueItems":
		g.frozen = g.frozen || string(value) != "false"
	case "enum", "const", "contains", "minContains", "maxContains", "not", "if", "then", "else", "patternProperties",
		"dependencies", "dependentSchemas", "additionalItems", "$dynamicRef", "$recursiveRef", "extends", "disallow":
		g.frozen, g.closed = true, true
	}
}

// children calls f with each element of a list, or with the node itself.
func (s *Schema) children(m uint32, list bool, f func(n uint32)) {
	if !list {
		f(m)
		return
	}
	for n := m + 1; n < s.doc.Nodes[m].Next; n = s.doc.Nodes[n].Next {
		f(n)
	}
}

// natural returns a number that is not below 0. If value is not such a number,
// natural returns a very large one, so that nothing is dropped.
func natural(value []byte) int {
	n, err := strconv.ParseFloat(string(value), 64)
	if err != nil || n < 0 || n > math.MaxInt32 {
		return math.MaxInt32
	}
	return int(n)
}

// resolve finds the node that a $ref into the same document refers to.
// https://www.rfc-editor.org/rfc/rfc6901
func (s *Schema) resolve(ref []byte) (n uint32, ok bool) {
	raw, isText := wire.Inner(ref)
	pointer, local := strings.CutPrefix(string(wire.AppendUnescaped(nil, raw)), "#")
	if !isText || !local || pointer != "" && pointer[0] != '/' || strings.Contains(pointer, "%") {
		return 0, false
	}
	if pointer == "" {
		return 0, true
	}
	t := &s.doc
	for _, name := range strings.Split(pointer[1:], "/") {
		name = strings.ReplaceAll(strings.ReplaceAll(name, "~1", "/"), "~0", "~")
		found, i := uint32(0), 0
		for m := n + 1; m < t.Nodes[n].Next; m = t.Nodes[m].Next {
			if raw := t.Name(m); raw != nil && wire.IsText(raw, name) || raw == nil && strconv.Itoa(i) == name {
				found = m
			}
			i++
		}
		if found == 0 {
			return 0, false
		}
		n = found
	}
	return n, true
}

func (g Guards) Frozen() bool {
	return slices.ContainsFunc(g, func(one *guard) bool { return one.frozen })
}

// Fixed reports whether a string has to stay as it is.
func (g Guards) Fixed() bool {
	return slices.ContainsFunc(g, func(one *guard) bool { return one.fixed || one.frozen })
}

func (g Guards) MinLength() (n int) {
	for _, one := range g {
		n = max(n, one.minLength)
	}
	return n
}

func (g Guards) MinItems() (n int) {
	for _, one := range g {
		n = max(n, one.minItems)
	}
	return n
}

// MayDrop reports whether a member of that name, as it is written, may be
// dropped.
func (g Guards) MayDrop(name []byte) bool {
	for _, one := range g {
		if one.keep || one.frozen || one.required[string(wire.AppendUnescaped(nil, name))] {
			return false
		}
	}
	return true
}

// MayAdd reports whether an object may have one more member.
func (g Guards) MayAdd() bool {
	return !slices.ContainsFunc(g, func(one *guard) bool { return one.closed || one.frozen })
}

// Member returns what is asked of the member at node m of t.
func (g Guards) Member(t *tree.Document, m uint32) (inner Guards) {
	for _, one := range g {
		raw := t.Name(m)
		if bytes.IndexByte(raw, '\\') >= 0 {
			raw = wire.AppendUnescaped(nil, raw)
		}
		n, known := one.properties[string(raw)]
		if !known {
			n = one.others
		}
		if n != 0 {
			inner = one.schema.at(inner, n, t.Raw(m))
		}
	}
	return inner
}

// Ordered reports whether the place of an element determines what is asked of
// it.
func (g Guards) Ordered() bool {
	return slices.ContainsFunc(g, func(one *guard) bool { return len(one.prefix) > 0 })
}

// Element returns what is asked of the i-th element of an array, at node m of
// t.
func (g Guards) Element(t *tree.Document, m uint32, i int) (inner Guards) {
	for _, one := range g {
		n := one.items
		if i < len(one.prefix) {
			n = one.prefix[i]
		}
		if n != 0 {
			inner = one.schema.at(inner, n, t.Raw(m))
		}
	}
	return inner
}
