package adapterrt

import (
	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// wantedFields is what the request selects; nil for everything.
func (c *call) wantedFields() (*file.Selection, *failure.Failure) {
	r := c.op.Fields
	if r == nil {
		return nil, nil
	}
	fields, preset := c.values[r.Fields], c.values[r.Preset]
	if fields.kind <= wire.Null && preset.kind <= wire.Null {
		return r.Fallback, nil
	}
	var paths []string
	var f *failure.Failure
	use := func(param string, raw []byte) {
		named, ok := c.op.Adapter.Presets[string(wire.Unquoted(raw))]
		if !ok && f == nil {
			f = failure.InvalidValue(param, "names no preset of the adapter")
		}
		paths = append(paths, named...)
	}
	if preset.kind == wire.String {
		use("preset", preset.raw)
	}
	switch fields.kind {
	case wire.String:
		use("fields", fields.raw)
	case wire.Array:
		wire.Each(fields.raw, func(_, v []byte) bool {
			if wire.KindOf(v) != wire.String {
				f = failure.InvalidType("fields", "string", file.TypeOf(v))
				return false
			}
			paths = append(paths, string(wire.Unquoted(v)))
			return len(paths) <= file.MaxPaths
		})
	}
	if f != nil {
		return nil, f
	}
	s := file.NewSelection(paths)
	if s == nil {
		return nil, failure.InvalidValue("fields", "must be dotted paths, not too many")
	}
	if len(paths) == 0 {
		return nil, nil
	}
	return s, nil
}

// selectFields narrows a successful result to what was asked for.
func (c *call) selectFields(r *Result, s *file.Selection, paged bool) {
	if s == nil || len(r.Data) == 0 {
		return
	}
	var path []string
	switch g := c.op.Paging; {
	case paged:
		path = []string{"items"}
	case g != nil:
		path = g.Items
	}
	if len(path) == 0 && wire.KindOf(r.Data) == wire.Object {
		keep := &file.Selection{Children: map[string]*file.Selection{"pageInfo": {Whole: true}, "pagination": {Whole: true}}}
		for k, v := range s.Children {
			keep.Children[k] = v
		}
		s = keep
	}
	r.Data = s.ProjectAt(make([]byte, 0, len(r.Data)), r.Data, path)
}
