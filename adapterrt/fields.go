package adapterrt

import (
	"maps"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// What a selection may grow to.
const maxPaths, maxPathDepth = 200, 32

// fieldRules say what of an answer may be chosen.
type fieldRules struct {
	fields, preset int // parameters
	fallback       *selection
	declared       []string // default_fields, for introspection
}

// selection is a tree of member names.
type selection struct {
	whole    bool // taken as it is
	children map[string]*selection
}

// newSelection compiles dotted paths; nil when one of them is none.
func newSelection(paths []string) *selection {
	root := &selection{}
	if len(paths) > maxPaths {
		return nil
	}
	for _, p := range paths {
		names := strings.Split(p, ".")
		if len(p) > 1000 || len(names) > maxPathDepth {
			return nil
		}
		at := root
		for _, n := range names {
			if n == "" {
				return nil
			}
			if at.whole {
				continue // something above is taken already
			}
			if at.children[n] == nil {
				if at.children == nil {
					at.children = map[string]*selection{}
				}
				at.children[n] = &selection{}
			}
			at = at.children[n]
		}
		at.whole, at.children = true, nil
	}
	return root
}

// project appends what s selects of raw to dst; of a list, of each element. What
// is not there is left out.
func (s *selection) project(dst, raw []byte) []byte {
	if s.whole {
		return append(dst, raw...)
	}
	switch wire.KindOf(raw) {
	case wire.Array:
		dst = append(dst, '[')
		n := 0
		wire.Each(raw, func(_, v []byte) bool {
			if n++; n > 1 {
				dst = append(dst, ',')
			}
			dst = s.project(dst, v)
			return true
		})
		return append(dst, ']')
	case wire.Object:
		dst = append(dst, '{')
		n := 0
		wire.Each(raw, func(name, v []byte) bool {
			if child := s.children[string(name)]; child != nil {
				if n++; n > 1 {
					dst = append(dst, ',')
				}
				dst = append(wire.AppendQuoted(dst, name), ':')
				dst = child.project(dst, v)
			}
			return true
		})
		return append(dst, '}')
	}
	return append(dst, raw...)
}

// projectAt applies s to the value at path in raw and leaves the rest alone.
func (s *selection) projectAt(dst, raw []byte, path []string) []byte {
	if len(path) == 0 {
		return s.project(dst, raw)
	}
	if wire.KindOf(raw) != wire.Object {
		return append(dst, raw...)
	}
	dst = append(dst, '{')
	n := 0
	wire.Each(raw, func(name, v []byte) bool {
		if n++; n > 1 {
			dst = append(dst, ',')
		}
		dst = append(wire.AppendQuoted(dst, name), ':')
		if string(name) == path[0] {
			dst = s.projectAt(dst, v, path[1:])
		} else {
			dst = append(dst, v...)
		}
		return true
	})
	return append(dst, '}')
}

func (c *checker) fieldRules(n *node, path string, op *operation) {
	supports := c.flag(n, path, "supports_fields", false)
	declared := c.strs(n, path, "default_fields")
	if !supports {
		if declared != nil {
			c.warn(SchemaInvalidValue, path+".default_fields", "default_fields need supports_fields", n.get("default_fields").line)
		}
		return
	}
	if op.category != Read {
		c.wrong(SchemaInvalidValue, path+".supports_fields", "only read operations select fields", "category read", n.get("supports_fields"), 0)
		return
	}
	for _, name := range [...]string{"fields", "preset"} {
		if _, ok := op.param([]byte(name)); ok {
			c.wrong(SchemaInvalidValue, path+".supports_fields", "selecting fields excludes a parameter called "+name, "another name", n.get("supports_fields"), 0)
			return
		}
	}
	r := &fieldRules{declared: declared}
	if declared != nil {
		if r.fallback = newSelection(declared); r.fallback == nil {
			c.wrong(SchemaInvalidValue, path+".default_fields", "default_fields are not valid", "dotted paths", n.get("default_fields"), 0)
		}
	}
	r.fields = op.ownParam("fields", definition{typ: typeArray, orString: true, description: "Dotted paths of the wanted fields, or the name of a preset"})
	r.preset = op.ownParam("preset", definition{typ: typeString, description: op.adapter.presetNames()})
	op.fields = r
}

// The most presets that a description names.
const maxPresetNames = 20

// presetNames describes the parameter that chooses a preset.
func (a *Adapter) presetNames() string {
	names := slices.Sorted(maps.Keys(a.presets))
	if len(names) == 0 {
		return "Name of a preset of fields; there is none"
	}
	if len(names) > maxPresetNames {
		names = append(names[:maxPresetNames], "…")
	}
	return cleanText("Preset of fields: "+strings.Join(names, ", "), descriptionRunes)
}

func (c *checker) presets(root *node, a *Adapter) {
	n := c.get(root, "", "presets", wire.Object)
	if n == nil {
		return
	}
	a.presets = map[string][]string{}
	for _, f := range n.fields {
		paths := c.strs(n, "presets", f.key)
		if newSelection(paths) == nil {
			c.wrong(SchemaInvalidValue, "presets."+firstRunes(f.key, 60), "preset is not valid", "list of dotted paths", f.val, 0)
		}
		a.presets[f.key] = paths
	}
}

// wantedFields is what the request selects; nil for everything.
func (c *call) wantedFields() (*selection, *Failure) {
	r := c.op.fields
	if r == nil {
		return nil, nil
	}
	fields, preset := c.values[r.fields], c.values[r.preset]
	if fields.kind <= wire.Null && preset.kind <= wire.Null {
		return r.fallback, nil
	}
	var paths []string
	var f *Failure
	use := func(param string, raw []byte) {
		named, ok := c.op.adapter.presets[string(wire.Unquoted(raw))]
		if !ok && f == nil {
			f = invalidValue(param, "names no preset of the adapter")
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
				f = invalidType("fields", "string", typeOf(v))
				return false
			}
			paths = append(paths, string(wire.Unquoted(v)))
			return len(paths) <= maxPaths
		})
	}
	if f != nil {
		return nil, f
	}
	s := newSelection(paths)
	if s == nil {
		return nil, invalidValue("fields", "must be dotted paths, not too many")
	}
	if len(paths) == 0 {
		return nil, nil
	}
	return s, nil
}

// selectFields narrows a successful result to what was asked for.
func (c *call) selectFields(r *Result, s *selection, paged bool) {
	if s == nil || len(r.Data) == 0 {
		return
	}
	var path []string
	switch g := c.op.paging; {
	case paged:
		path = []string{"items"}
	case g != nil:
		path = g.items
	}
	if len(path) == 0 && wire.KindOf(r.Data) == wire.Object {
		keep := &selection{children: map[string]*selection{"pageInfo": {whole: true}, "pagination": {whole: true}}}
		for k, v := range s.children {
			keep.children[k] = v
		}
		s = keep
	}
	r.Data = s.projectAt(make([]byte, 0, len(r.Data)), r.Data, path)
}
