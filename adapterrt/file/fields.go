package file

import (
	"maps"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

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
