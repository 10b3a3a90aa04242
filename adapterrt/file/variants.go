package file

import (
	"fmt"
	"slices"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Variant is a form of an object that one of its members tells by its value, which is one of an enum.
type Variant struct {
	Value   string
	Members []VariantMember
}

// VariantMember is a member that an object of a [Variant] may have, or must have.
type VariantMember struct {
	Name     string
	Required bool
}

// variants reads which members the object has beside d, by the value of d.
func (c *checker) variants(n *node, path string, d *Definition) {
	v := c.get(n, path, "variants", wire.Object)
	if v == nil {
		return
	}
	path += ".variants"
	if d.Type != TypeString || len(d.Enum) == 0 {
		c.wrong(SchemaInvalidValue, path, "variants is for strings with an enum", "type string and enum", v, 0)
		return
	}
	for _, f := range v.fields {
		at := path + "." + clean.FirstRunes(f.key, 60)
		if !slices.ContainsFunc(d.Enum, func(e EnumValue) bool { return e.Text == f.key }) {
			c.wrong(SchemaInvalidValue, at, "the enum does not have this value", "a value of the enum", textAt(f.key, f.line), 0)
			continue
		}
		if f.val.kind != wire.Object || len(f.val.fields) > maxParams {
			c.wrong(SchemaInvalidType, at, "the members of a variant must be a map", fmt.Sprintf("up to %d members, each with true or false", maxParams), f.val, f.line)
			continue
		}
		one := Variant{Value: f.key}
		for _, m := range f.val.fields {
			if m.val.kind != wire.Boolean || clean.Text(m.key, 128) != m.key {
				c.wrong(SchemaInvalidType, join(at, clean.FirstRunes(m.key, 60)), "whether each such object must have the member", "boolean", m.val, m.line)
				continue
			}
			one.Members = append(one.Members, VariantMember{m.key, m.val.text == "true"})
		}
		d.Variants = append(d.Variants, one)
	}
}
