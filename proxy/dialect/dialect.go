// Package dialect brings the schemas of tools from JSON Schema draft-07 to 2020-12.
//
// Servers on published SDKs write draft-07, and say so; clients of revisions whose
// default is 2020-12 refuse such tools when they are called. Bytes in, bytes out: what
// says nothing of draft-07 comes back as it is, and all else keeps its bytes around
// the keywords that changed. Only places are touched where a schema stands: what const,
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

// shape shows all of a tool's schemas, at any depth.
var shape = func() *wire.Shape {
	all := new(wire.Shape)
	all.Any, all.Elem = all, all
	s := new(wire.Shape)
	tool := s.At(wire.ParsePath("result.tools[]")...)
	tool.Members[wire.InputSchema], tool.Members[wire.OutputSchema] = all, all
	s.At(wire.ParsePath("result.tools[].inputSchema")...) // that tools have members
	return s
}()

var messages = sync.Pool{New: func() any { return new(wire.Message) }}

// Update brings the schemas in an answer to tools/list that say draft-07 to 2020-12,
// and counts them. Where there are none, out is list itself; else it is new memory.
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
			if (s.Name() == wire.InputSchema || s.Name() == wire.OutputSchema) && saysDraft07(s) {
				schemas++
				update(m, s, true)
			}
		}
	}
	if schemas == 0 {
		return list, 0
	}
	return m.AppendTo(make([]byte, 0, len(list)+len(list)/16)), schemas
}

// Draft07 reports whether a schema says that it is of draft-07.
func Draft07(schema string) bool {
	schema = strings.TrimSuffix(schema, "#")
	return schema == "http://json-schema.org/draft-07/schema" || schema == "https://json-schema.org/draft-07/schema"
}

func saysDraft07(schema wire.Node) bool {
	said, ok := dialectOf(schema)
	return ok && Draft07(said)
}

// dialectOf is what $schema says; ok is false where it says nothing.
func dialectOf(schema wire.Node) (said string, ok bool) {
	if schema.Kind() != '{' {
		return "", false
	}
	for c := schema.First(); c.OK(); c = c.Next() {
		if keywordOf(c) == kwSchema {
			raw, isText := c.Text()
			said, ok = string(wire.AppendUnescaped(nil, raw)), isText
		}
	}
	return said, ok
}

// update marks what changes in a schema and in those within it.
func update(m *wire.Message, schema wire.Node, root bool) {
	if schema.Kind() != '{' {
		return // true or false, or nothing that is a schema
	}
	if said, ok := dialectOf(schema); ok && !Draft07(said) {
		return // a schema of its own, in another dialect
	}
	var refers, tuple bool
	for c := schema.First(); c.OK(); c = c.Next() {
		switch keywordOf(c) {
		case kwRef:
			refers = refers || c.Kind() == '"'
		case kwItems:
			tuple = c.Kind() == '['
		}
	}
	for c := schema.First(); c.OK(); c = c.Next() {
		k := keywordOf(c)
		switch {
		case k == kwSchema:
			c.Remove()
		case refers && k.besideRef() && !(root && k == kwType): // which a tool's schema must have
			c.Remove()
		case k == kwRef && c.Kind() == '"':
			refer(m, c)
		case k == kwUnknownThen:
			c.Remove()
		case k == kwItems:
			items(m, c, tuple)
		case k == kwAdditionalItems && !tuple:
			c.Remove()
		case k == kwAdditionalItems:
			c.Rename("items")
			update(m, c, false)
		case k == kwDependencies:
			dependencies(m, c)
		case k == kwID:
			anchor(m, c)
		case k == kwOne:
			update(m, c, false)
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
		update(m, c, false)
	}
}

// items is one schema for all elements, or a list with one for each.
func items(m *wire.Message, n wire.Node, tuple bool) {
	switch {
	case n.Kind() != '[':
		update(m, n, false)
	case !n.First().OK():
		n.Remove() // prefixItems are one at least
	case tuple:
		n.Rename("prefixItems")
		within(m, n, '[')
	}
}

// dependencies are of two kinds, which have names of their own now.
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
			update(m, c, false)
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

// anchor is what an $id has become that names a place in its document.
func anchor(m *wire.Message, id wire.Node) {
	raw, ok := id.Text()
	if !ok || len(raw) < 2 || raw[0] != '#' || raw[1] == '/' {
		return
	}
	id.Swap(append(append(append(m.Writer(), `"$anchor":"`...), raw[1:]...), '"'))
}

// refer follows what a reference into its own document goes through, as far as that
// has another name now.
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
		switch known[steps[i]] {
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
