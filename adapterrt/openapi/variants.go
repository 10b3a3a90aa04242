package openapi

import (
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// discriminates returns the name of the member that tells the variants of n apart, and the values that stand for some of them:
// https://spec.openapis.org/oas/v3.1.0#discriminator-object, https://spec.openapis.org/oas/v2.0#schema-object
func discriminates(n *node) (tag string, mapping *node) {
	d := n.get("discriminator")
	if d.is(wire.String) {
		return d.text, nil
	}
	if mapping = d.get("mapping"); !mapping.is(wire.Object) || len(mapping.keys) == 0 {
		mapping = nil
	}
	return d.str("propertyName"), mapping
}

// mapped returns the schemas that a mapping names, each with the values that stand for it.
func (d *Document) mapped(mapping *node) map[*node][]string {
	if out, ok := d.mappings[mapping]; ok {
		return out
	}
	out := map[*node][]string{}
	for i, v := range mapping.kids {
		if to := d.mappedTo(mapping, v); to != nil {
			out[to] = append(out[to], mapping.keys[i])
		}
	}
	d.mappings[mapping] = out
	return out
}

// mappedTo returns the schema that a value of a mapping names: by its name, or as a reference does.
func (d *Document) mappedTo(mapping, v *node) *node {
	if !v.is(wire.String) {
		return nil
	}
	for _, section := range [...]string{"#/components/schemas/", "#/definitions/"} {
		if to := d.near(object(mapping, "$ref", text(section+v.text))); to != nil {
			return to
		}
	}
	if strings.ContainsAny(v.text, "#./") {
		return d.near(object(mapping, "$ref", v))
	}
	return nil
}

// isVariant reports whether n extends base. If base says what its variants are, n is one of these, or extends one: another
// schema may be composed of base, and then is any of its variants.
func (d *Document) isVariant(n, base *node) bool {
	line := d.family().above(n)
	if !slices.Contains(line[1:], base) {
		return false
	}
	if _, mapping := discriminates(base); mapping != nil {
		if named := d.mapped(mapping); len(named) > 0 {
			return slices.ContainsFunc(line, func(o *node) bool { return named[o] != nil })
		}
	}
	said := false
	for _, key := range [...]string{"oneOf", "anyOf"} {
		for _, b := range base.list(key) {
			v := d.near(b)
			if said = said || v != nil; v != nil && slices.Contains(line, v) {
				return true
			}
		}
	}
	return !said
}

// valuesOf returns the values of the tag that stand for the variant n of holder.
func (m *mapper) valuesOf(n, holder *node) []string {
	tag, mapping := discriminates(holder)
	if mapping != nil {
		return m.doc.mapped(mapping)[n]
	}
	if values := m.constants(n, tag, 0); values != nil {
		return values
	}
	return m.named(n)
}

// named returns the value that stands for a variant if nothing else is said: its name.
func (m *mapper) named(n *node) []string {
	for _, key := range [...]string{"x-discriminator-value", "x-ms-discriminator-value"} {
		if v := n.str(key); v != "" {
			return []string{v}
		}
	}
	if name := m.doc.nameOf(n); name != "" {
		return []string{name}
	}
	return nil
}

// constants returns the values that a schema itself, or what it is composed of, allows for a member: those of a const, or of an
// enum. It does not look into schemas with a discriminator, which allow the values of all their variants.
func (m *mapper) constants(n *node, member string, depth int) []string {
	if n = m.followed(n); n == nil || depth > 8 {
		return nil
	}
	if p := m.followed(n.get("properties").get(member)); p != nil {
		if c := p.get("const"); c.is(wire.String) {
			return []string{c.text}
		}
		if values := p.strs("enum"); len(values) > 0 {
			return values
		}
	}
	for _, part := range n.list("allOf") {
		if part = m.followed(part); part != nil && part.get("discriminator") == nil {
			if values := m.constants(part, member, depth+1); values != nil {
				return values
			}
		}
	}
	return nil
}

// followed is follow without a reason.
func (m *mapper) followed(n *node) *node {
	if n == nil {
		return nil
	}
	to, err := m.doc.follow(n)
	if err != nil {
		return nil
	}
	return to
}
