package toolindex

import "github.com/dragoman-proxy/dragoman/translate/wire"

// pageShape holds the members of a response to tools/list that [ScanPage] gives access to.
var pageShape = func() *wire.Shape {
	s := new(wire.Shape)
	s.At(wire.ParsePath("result.nextCursor")...)
	s.At(wire.ParsePath("result.tools[].name")...)
	return s
}()

// ScanPage scans a response to tools/list. nextCursor, the tools and their names are nodes of m
// then, which can be edited.
func ScanPage(m *wire.Message, page []byte) error { return m.Scan(page, pageShape) }

// Edit returns a response to tools/list with edit applied to each tool. edit returns its
// argument for a tool that stays as it is.
func Edit(page []byte, edit func(tool []byte) []byte) []byte {
	var m wire.Message
	if ScanPage(&m, page) != nil {
		return page
	}
	for list := m.Root().Get(wire.ResultKey).First(); list.OK(); list = list.Next() {
		if list.Name() != wire.Tools || list.Kind() != '[' {
			continue
		}
		for t := list.First(); t.OK(); t = t.Next() {
			if t.Kind() != '{' {
				continue
			}
			raw := t.Raw()
			if out := edit(raw); len(out) > 0 && &out[0] != &raw[0] {
				t.Put(append(m.Writer(), out...))
			}
		}
	}
	if !m.Edited() {
		return page
	}
	return m.AppendTo(make([]byte, 0, len(page)))
}
