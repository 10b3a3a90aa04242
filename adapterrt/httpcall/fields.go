package httpcall

import (
	"maps"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/near"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// WantedFields returns the fields that the request selects, or nil for all.
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
		said := string(wire.Unquoted(raw))
		named, ok := c.Op.Adapter.Presets[said]
		switch {
		case ok:
			paths = append(paths, named...)
		case param == "fields" && strings.Contains(said, ","): // some models write a list that way
			for _, p := range strings.Split(said, ",") {
				c.choose(&paths, strings.TrimSpace(p))
			}
		case f == nil:
			f = c.noPreset(param, said)
		}
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
			c.choose(&paths, string(wire.Unquoted(v)))
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

// choose adds a path that the request itself names, so that checkFields can warn about it. It
// is not used for paths of presets: a preset is for several operations, and not every
// operation has all of its fields.
func (c *Call) choose(paths *[]string, path string) {
	*paths = append(*paths, path)
	first, _, _ := strings.Cut(path, ".")
	c.chosen = append(c.chosen, first)
}

// maxListed is the largest number of names that a failure lists.
const maxListed = 20

// noPreset returns the failure for a preset that the adapter does not have.
func (c *Call) noPreset(param, said string) *failure.Failure {
	f := failure.InvalidValue(param, "names no preset of the adapter")
	names := slices.Sorted(maps.Keys(c.Op.Adapter.Presets))
	d := wire.Members(nil).Str("param_name", param).Strs("available", names[:min(len(names), maxListed)])
	if meant := near.Names(clean.FirstRunes(said, 200), names, 1); len(meant) > 0 {
		d = d.Strs("did_you_mean", meant)
	}
	f.Details = d.End()
	return f
}

// Selected returns the part of the data that s selects.
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
	if len(c.chosen) > 0 {
		c.checkFields(wire.Lookup(data, path))
	}
	if len(path) == 0 && wire.KindOf(data) == wire.Object {
		keep := &file.Selection{Children: map[string]*file.Selection{"pageInfo": {Whole: true}, "pagination": {Whole: true}}}
		maps.Copy(keep.Children, s.Children)
		s = keep
	}
	return s.ProjectAt(make([]byte, 0, len(data)), data, path)
}

// maxSampled is the largest number of items that are searched for the fields that a request
// selects.
const maxSampled = 100

// checkFields warns of selected fields that no item has.
func (c *Call) checkFields(data []byte) {
	has := map[string]bool{}
	note := func(item []byte) {
		if wire.KindOf(item) == wire.Object {
			wire.Each(item, func(name, _ []byte) bool { has[string(name)] = true; return true })
		}
	}
	switch data = wire.Trim(data); {
	case len(data) == 0:
	case wire.KindOf(data) == wire.Array:
		n := 0
		wire.Each(data, func(_, item []byte) bool {
			note(item)
			n++
			return n < maxSampled
		})
		if n == maxSampled {
			return // one of the other items may have the field
		}
	default:
		note(data)
	}
	if len(has) == 0 {
		return
	}
	names := slices.Sorted(maps.Keys(has))
	for _, field := range c.chosen {
		if has[field] {
			continue
		}
		field = clean.FirstRunes(clean.Text(field, 100), 100)
		d := wire.Members(nil).Str("field", field)
		if meant := near.Names(field, names, 1); len(meant) > 0 {
			d = d.Strs("did_you_mean", meant)
		}
		c.Warn(failure.Notice{Code: "FIELD_UNKNOWN", Message: "No item has the field '" + field + "'", Details: d.End(), Severity: "low"})
	}
}
