package file

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// MaxPaths is the largest number of paths in a selection, and maxPathDepth of names in a path.
const MaxPaths, maxPathDepth = 200, 32

// FieldRules say which fields of an answer a request may select.
type FieldRules struct {
	Fields, Preset int        // indexes of these parameters
	Fallback       *Selection // for requests that select nothing; nil for the whole answer
	Declared       []string   // default_fields, for introspection
}

// Selection is a tree of member names.
type Selection struct {
	Whole    bool // the value is selected as a whole
	Children map[string]*Selection
}

// NewSelection compiles dotted paths. It returns nil if there are too many paths or one of
// them is not valid.
func NewSelection(paths []string) *Selection {
	root := &Selection{}
	if len(paths) > MaxPaths {
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
			if at.Whole {
				continue // a shorter path selects the whole value already
			}
			if at.Children[n] == nil {
				if at.Children == nil {
					at.Children = map[string]*Selection{}
				}
				at.Children[n] = &Selection{}
			}
			at = at.Children[n]
		}
		at.Whole, at.Children = true, nil
	}
	return root
}

// project appends to dst the part of raw that s selects. For a list, it selects from each
// element. Fields that raw does not have are left out.
func (s *Selection) project(dst, raw []byte) []byte {
	if s.Whole {
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
			if child := s.Children[string(name)]; child != nil {
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

// ProjectAt appends raw to dst, with s applied to the value at path. The rest does not change.
func (s *Selection) ProjectAt(dst, raw []byte, path []string) []byte {
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
			dst = s.ProjectAt(dst, v, path[1:])
		} else {
			dst = append(dst, v...)
		}
		return true
	})
	return append(dst, '}')
}

func (c *checker) fieldRules(n *node, path string, op *Operation) {
	supports := c.flag(n, path, "supports_fields", false)
	declared, typed := c.defaultFields(n, path)
	if !supports {
		if declared != nil {
			c.warn(SchemaInvalidValue, path+".default_fields", "default_fields need supports_fields", n.get("default_fields").line)
		}
		return
	}
	if op.Category != Read {
		c.wrong(SchemaInvalidValue, path+".supports_fields", "only read operations select fields", "category read", n.get("supports_fields"), 0)
		return
	}
	for _, name := range [...]string{"fields", "preset"} {
		if _, ok := op.Param([]byte(name)); ok {
			c.wrong(SchemaInvalidValue, path+".supports_fields", "selecting fields excludes a parameter called "+name, "another name", n.get("supports_fields"), 0)
			return
		}
	}
	r := &FieldRules{Declared: declared}
	if declared != nil {
		if r.Fallback = NewSelection(declared); r.Fallback == nil {
			c.wrong(SchemaInvalidValue, path+".default_fields", "default_fields are not valid", "dotted paths", n.get("default_fields"), 0)
		}
	}
	r.Fields = op.ownParam("fields", Definition{Type: TypeArray, orString: true, Description: "Dotted paths of the wanted fields, or the name of a preset"})
	r.Preset = op.ownParam("preset", Definition{Type: TypeString, Description: op.Adapter.presetNames()})
	op.Fields = r
	if typed != nil && op.Paging == nil { // the answer to a request for a page has another form
		op.Schema = typed
	}
}

// defaultFields reads default_fields: a list of paths, or the types by path. typed is nil for
// a list.
func (c *checker) defaultFields(n *node, path string) (paths []string, typed *Definition) {
	m := n.get("default_fields")
	if m == nil || m.kind != wire.Object {
		return c.strs(n, path, "default_fields"), nil
	}
	typed = newDefinition(TypeObject)
	typed.Also = setOf(TypeArray) // a path leads through lists as well
	for _, f := range m.fields {
		at := path + ".default_fields." + clean.FirstRunes(f.key, 60)
		t := slices.Index(typeNames[:], f.val.text)
		if f.val.kind != wire.String || t < 0 {
			c.wrong(SchemaInvalidValue, at, "type is unknown", strings.Join(typeNames[:], ", "), f.val, f.line)
			continue
		}
		if d, names := typed, strings.Split(f.key, "."); len(names) <= maxPathDepth {
			for _, name := range names[:len(names)-1] {
				d = d.member(name, TypeObject)
				d.Also |= setOf(TypeArray)
			}
			d.member(names[len(names)-1], ParamType(t))
		}
		paths = append(paths, f.key)
	}
	return paths, typed
}

// newDefinition returns a definition that accepts every value of a type.
func newDefinition(t ParamType) *Definition {
	return &Definition{Type: t, MinLength: -1, MaxLength: -1}
}

// member returns the definition of the member called name, which it adds if there is none.
func (d *Definition) member(name string, t ParamType) *Definition {
	if m := d.Property([]byte(name)); m != nil {
		return m
	}
	if d.Properties == nil {
		d.Properties, d.Constrained = &[]Property{}, true
	}
	*d.Properties = append(*d.Properties, Property{Name: name, Definition: *newDefinition(t)})
	return &(*d.Properties)[len(*d.Properties)-1].Definition
}

// maxAliases is the largest number of aliases of an operation, and aliasRunes of characters of one.
const maxAliases, aliasRunes = 20, 60

// aliases reads further words for an operation.
func (c *checker) aliases(n *node, path string, op *Operation) {
	list := c.strs(n, path, "aliases")
	if len(list) > maxAliases {
		c.wrong(SchemaInvalidValue, path+".aliases", "too many aliases", "up to "+strconv.Itoa(maxAliases), n.get("aliases"), 0)
		list = list[:maxAliases]
	}
	for _, a := range list {
		if a = clean.Text(a, aliasRunes); a != "" {
			op.Aliases = append(op.Aliases, a)
		}
	}
}

// maxPresetNames is the largest number of presets that a description names.
const maxPresetNames = 20

// presetNames returns the description of the parameter that selects a preset.
func (a *Adapter) presetNames() string {
	names := slices.Sorted(maps.Keys(a.Presets))
	if len(names) == 0 {
		return "Name of a preset of fields; there is none"
	}
	if len(names) > maxPresetNames {
		names = append(names[:maxPresetNames], "…")
	}
	return clean.Text("Preset of fields: "+strings.Join(names, ", "), descriptionRunes)
}

func (c *checker) presets(root *node, a *Adapter) {
	n := c.get(root, "", "presets", wire.Object)
	if n == nil {
		return
	}
	a.Presets = map[string][]string{}
	for _, f := range n.fields {
		paths := c.strs(n, "presets", f.key)
		if NewSelection(paths) == nil {
			c.wrong(SchemaInvalidValue, "presets."+clean.FirstRunes(f.key, 60), "preset is not valid", "list of dotted paths", f.val, 0)
		}
		a.Presets[f.key] = paths
	}
}
