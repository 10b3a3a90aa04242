package footprint

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/dragoman-proxy/dragoman/transform/tree"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// role says what a JSON value inside a tool is.
type role int

const (
	aTool   role = iota
	aSchema      // a JSON Schema
	named        // an object whose members are schemas, under names that the author chose
	data         // anything else: defaults, enums, annotations
)

// inside returns the role of a member.
func inside(outer role, name string) role {
	switch outer {
	case aTool:
		if name == "inputSchema" || name == "outputSchema" {
			return aSchema
		}
	case named:
		return aSchema
	case aSchema:
		switch name {
		case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
			return named
		case "items", "prefixItems", "additionalProperties", "unevaluatedProperties", "unevaluatedItems", "contains",
			"propertyNames", "anyOf", "oneOf", "allOf", "not", "if", "then", "else", "additionalItems":
			return aSchema
		}
	}
	return data
}

// isDescription reports whether a member is prose for the model.
func isDescription(outer role, m tree.Value) bool {
	return (outer == aTool || outer == aSchema) && m.Is(wire.String) && m.Key() == "description"
}

// descriptions calls f with each description in a tool, in order. own says
// whether it is the tool's own.
func descriptions(v tree.Value, what role, f func(text string, own bool)) {
	for m := range v.All() {
		if v.Is(wire.Array) { // of schemas
			descriptions(m, what, f)
			continue
		}
		if isDescription(what, m) {
			f(m.Text(), what == aTool)
		} else if next := inside(what, m.Key()); next != data {
			descriptions(m, next, f)
		}
	}
}

// Shrinker says which members of a tool to leave out because they tell a model
// nothing. The zero value leaves out nothing.
type Shrinker struct {
	Titles       bool // titles that are the name, apart from case and punctuation
	Examples     bool
	SchemaNames  bool // $schema
	Echoes       bool // descriptions of parameters that only repeat the name
	OutputSchema bool
}

// Apply appends a tool, the JSON of one entry of tools/list, to dst without what
// s leaves out. If s leaves out nothing, Apply returns tool itself. The error
// is one of package tree's.
func (s Shrinker) Apply(dst, tool []byte) ([]byte, error) {
	if s == (Shrinker{}) {
		return tool, nil
	}
	v, err := parse(tool)
	if err != nil {
		return dst, err
	}
	w := writer{out: dst, shrink: s}
	w.value(v, aTool, "")
	if !w.changed {
		return tool, nil
	}
	return w.out, nil
}

func parse(tool []byte) (tree.Value, error) {
	v, err := tree.Parse(tool)
	if err != nil {
		return v, fmt.Errorf("tool: %w", err)
	}
	return v, nil
}

// leaves reports whether a member of a value called name is left out.
func (s Shrinker) leaves(outer role, name string, m tree.Value) bool {
	switch key := m.Key(); {
	case outer == aTool && key == "outputSchema":
		return s.OutputSchema
	case (outer == aTool || outer == aSchema) && key == "title":
		return s.Titles && m.Is(wire.String) && alike(m.Text(), name)
	case outer != aSchema:
		return false
	case key == "examples":
		return s.Examples
	case key == "$schema":
		return s.SchemaNames
	case key == "description":
		return s.Echoes && m.Is(wire.String) && alike(m.Text(), name)
	}
	return false
}

// alike reports whether two texts have the same letters and digits, ignoring
// case.
func alike(a, b string) bool { return b != "" && letters(a) == letters(b) }

func letters(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, text)
}

// writer writes a tool anew.
type writer struct {
	out     []byte
	shrink  Shrinker
	edit    func(text string, own bool) string // edits a description; nil to edit none
	changed bool
}

// value writes a value that is called name.
func (w *writer) value(v tree.Value, what role, name string) {
	switch {
	case what == data || !v.Is(wire.Object) && !v.Is(wire.Array):
		w.out = append(w.out, v.Raw()...)
		return
	case v.Is(wire.Array):
		w.out = append(w.out, '[')
		for e := range v.Elements() {
			w.out = wire.Comma(w.out)
			w.value(e, what, "")
		}
		w.out = append(w.out, ']')
		return
	}
	if what == aTool {
		name = v.Get("name").Text()
	}
	w.out = append(w.out, '{')
	for m := range v.All() {
		if w.shrink.leaves(what, name, m) {
			w.changed = true
			continue
		}
		key := m.Key()
		w.out = wire.AppendName(w.out, key)
		if w.edit != nil && isDescription(what, m) {
			text := m.Text()
			if edited := w.edit(text, what == aTool); edited != text {
				w.changed = true
				w.out = wire.AppendQuoted(w.out, edited)
				continue
			}
		}
		called := key
		if what != named {
			called = ""
		}
		w.value(m, inside(what, key), called)
	}
	w.out = append(w.out, '}')
}
