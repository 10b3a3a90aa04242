// Package dialect converts the schemas of tools from JSON Schema draft-07 to 2020-12.
//
// Servers on published SDKs write draft-07, and say so in $schema. Clients of revisions
// whose default is 2020-12 refuse such tools when they are called. The package works on
// bytes: what does not name draft-07 is returned as it is, and everything else keeps
// its bytes around the keywords that changed. It changes only schemas: what const,
// enum, default and examples hold is data. See
// https://json-schema.org/draft/2020-12/release-notes and
// https://json-schema.org/draft/2019-09/release-notes.
package dialect

import (
	"bytes"
	"strings"
	"sync"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// shape covers all of a tool's schemas, at any depth.
var shape = func() *wire.Shape {
	all := new(wire.Shape)
	all.Any, all.Elem = all, all
	s := new(wire.Shape)
	tool := s.At(wire.ParsePath("result.tools[]")...)
	tool.Put(wire.InputSchema, all)
	tool.Put(wire.OutputSchema, all)
	return s
}()

var messages = sync.Pool{New: func() any { return new(wire.Message) }}

// Update converts the schemas in an answer to tools/list that name draft-07 to 2020-12,
// and counts them. If there are none, out is list itself, otherwise it is new memory.
func Update(list []byte) (out []byte, schemas int) {
	if !bytes.Contains(list, []byte("draft-07")) {
		return list, 0
	}
	m := messages.Get().(*wire.Message)
	defer func() {
		m.Trim()
		messages.Put(m)
	}()
	if m.Scan(list, shape) != nil {
		return list, 0 // the client, or a later handler, reports what is wrong with it
	}
	tools := m.Root().Get(wire.ResultKey).Get(wire.Tools)
	if !tools.OK() || tools.Kind() != '[' {
		return list, 0
	}
	for tool := tools.First(); tool.OK(); tool = tool.Next() {
		if tool.Kind() != '{' {
			continue
		}
		for s := tool.First(); s.OK(); s = s.Next() {
			if s.Name() != wire.InputSchema && s.Name() != wire.OutputSchema {
				continue
			}
			if a := read(s); a.draft07 {
				schemas++
				change(m, s, a, true)
			}
		}
	}
	if schemas == 0 {
		return list, 0
	}
	return m.AppendTo(make([]byte, 0, len(list)+len(list)/16)), schemas
}

// Draft07 reports whether schema, the value of $schema, names draft-07.
func Draft07(schema string) bool {
	schema = strings.TrimSuffix(schema, "#")
	return schema == "http://json-schema.org/draft-07/schema" || schema == "https://json-schema.org/draft-07/schema"
}

// about is what the members of a schema say about all of it.
type about struct {
	draft07, other bool // $schema names draft-07, or another dialect
	refers         bool // there is a $ref
	tuple          bool // items is a list
}

func read(schema wire.Node) (a about) {
	if schema.Kind() != '{' {
		return a // true or false, or not a schema
	}
	for c := schema.First(); c.OK(); c = c.Next() {
		switch keywordOf(c) {
		case kwSchema:
			raw, ok := c.Text()
			var room [64]byte
			a.draft07 = ok && Draft07(string(wire.AppendUnescaped(room[:0], raw)))
			a.other = ok && !a.draft07
		case kwRef:
			a.refers = a.refers || c.Kind() == '"'
		case kwItems:
			a.tuple = c.Kind() == '['
		}
	}
	return a
}

// update marks the changes in a schema within another one, and in the schemas within it.
func update(m *wire.Message, schema wire.Node) {
	if a := read(schema); !a.other { // otherwise, it is a schema of its own
		change(m, schema, a, false)
	}
}

// change marks the changes in a schema that is draft-07, of which a is known, and in the schemas within it.
func change(m *wire.Message, schema wire.Node, a about, root bool) {
	if schema.Kind() != '{' {
		return
	}
	for c := schema.First(); c.OK(); c = c.Next() {
		k := keywordOf(c)
		switch {
		case k == kwSchema:
			c.Remove()
		case a.refers && k.besideRef() && !(root && k == kwType): // a tool's schema must have a type
			c.Remove()
		case k == kwRef && c.Kind() == '"':
			refer(m, c)
		case k == kwUnknownThen:
			c.Remove()
		case k == kwItems:
			items(m, c, a.tuple)
		case k == kwAdditionalItems && !a.tuple:
			c.Remove()
		case k == kwAdditionalItems:
			c.Rename("items")
			update(m, c)
		case k == kwDependencies:
			dependencies(m, c)
		case k == kwID:
			anchor(m, c)
		case k == kwOne:
			update(m, c)
		case k == kwList:
			within(m, c, '[')
		case k == kwNamed, k == kwDefinitions:
			within(m, c, '{')
		}
	}
}

// within updates the schemas in an array, or in an object under names.
func within(m *wire.Message, n wire.Node, kind byte) {
	if n.Kind() != kind {
		return
	}
	for c := n.First(); c.OK(); c = c.Next() {
		update(m, c)
	}
}

// items updates the member items, which is one schema for all elements or a list with
// one for each.
func items(m *wire.Message, n wire.Node, tuple bool) {
	switch {
	case n.Kind() != '[':
		update(m, n)
	case !n.First().OK():
		n.Remove() // prefixItems must not be empty
	case tuple:
		n.Rename("prefixItems")
		within(m, n, '[')
	}
}

// dependencies renames the member dependencies. 2020-12 has one keyword for lists of
// names and another for schemas.
func dependencies(m *wire.Message, n wire.Node) {
	if n.Kind() != '{' {
		return
	}
	lists, schemas := 0, 0
	for c := n.First(); c.OK(); c = c.Next() {
		if c.Kind() == '[' {
			lists++
		} else {
			schemas++
			update(m, c)
		}
	}
	switch {
	case schemas == 0:
		n.Rename("dependentRequired")
		return
	case lists > 0:
		w := append(m.Writer(), `"dependentRequired":{`...)
		for c := n.First(); c.OK(); c = c.Next() {
			if c.Kind() != '[' {
				continue
			}
			if w[len(w)-1] != '{' {
				w = append(w, ',')
			}
			w = append(append(append(append(w, '"'), c.Key()...), `":`...), c.Raw()...)
			c.Remove()
		}
		n.Before(append(w, '}'))
	}
	n.Rename("dependentSchemas")
}

// anchor replaces an $id that names a place in its document with $anchor.
func anchor(m *wire.Message, id wire.Node) {
	raw, ok := id.Text()
	if !ok || len(raw) < 2 || raw[0] != '#' || raw[1] == '/' {
		return
	}
	id.Swap(append(append(append(m.Writer(), `"$anchor":"`...), raw[1:]...), '"'))
}

// refer updates a reference into its own document if it goes through keywords that have
// other names now.
func refer(m *wire.Message, ref wire.Node) {
	raw, _ := ref.Text()
	if !bytes.Contains(raw, []byte("tems")) && !bytes.Contains(raw, []byte("dependencies")) {
		return
	}
	path, ok := strings.CutPrefix(string(wire.AppendUnescaped(nil, raw)), "#/")
	if !ok {
		return
	}
	steps := strings.Split(path, "/")
	changed := false
	for i := 0; i < len(steps); i++ {
		switch keywordNamed([]byte(steps[i])) {
		case kwItems:
			if i+1 < len(steps) && isIndex(steps[i+1]) {
				steps[i], changed = "prefixItems", true
				i++
			}
		case kwAdditionalItems:
			steps[i], changed = "items", true
		case kwDependencies:
			steps[i], changed = "dependentSchemas", true
			i++ // a name
		case kwNamed, kwDefinitions, kwList:
			i++ // a name, or an index
		case kwOne:
		default:
			i = len(steps) // beyond what is known to be a schema
		}
	}
	if changed {
		w := wire.AppendQuotedInner(append(m.Writer(), `"#/`...), strings.Join(steps, "/"))
		ref.Put(append(w, '"'))
	}
}

func isIndex(step string) bool {
	return step != "" && strings.Trim(step, "0123456789") == ""
}
