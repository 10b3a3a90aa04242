package httpcall

import (
	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// WantedFields is what the request selects; nil for everything.
func (c *Call) WantedFields() (*file.Selection, *failure.Failure) {
	r := c.Op.Fields
	if r == nil {
		return nil, nil
	}
	fields, preset := c.Values[r.Fields], c.Values[r.Preset]
	if fields.Kind <= wire.Null && preset.Kind <= wire.Null {
		return r.Fallback, nil
	}
	var paths []string
	var f *failure.Failure
	use := func(param string, raw []byte) {
		named, ok := c.Op.Adapter.Presets[string(wire.Unquoted(raw))]
		if !ok && f == nil {
			f = failure.InvalidValue(param, "names no preset of the adapter")
		}
		paths = append(paths, named...)
	}
	if preset.Kind == wire.String {
		use("preset", preset.Raw)
	}
	switch fields.Kind {
	case wire.String:
		use("fields", fields.Raw)
	case wire.Array:
		wire.Each(fields.Raw, func(_, v []byte) bool {
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

// Selected narrows the data of a success to what was asked for.
func (c *Call) Selected(data []byte, s *file.Selection, paged bool) []byte {
	if s == nil || len(data) == 0 {
		return data
	}
	var path []string
	switch g := c.Op.Paging; {
	case paged:
		path = []string{"items"}
	case g != nil:
		path = g.Items
	}
	if len(path) == 0 && wire.KindOf(data) == wire.Object {
		keep := &file.Selection{Children: map[string]*file.Selection{"pageInfo": {Whole: true}, "pagination": {Whole: true}}}
		for k, v := range s.Children {
			keep.Children[k] = v
		}
		s = keep
	}
	return s.ProjectAt(make([]byte, 0, len(data)), data, path)
}
