package openapi

import (
	"cmp"
	"slices"

	"github.com/getkin/kin-openapi/openapi3"
)

// object is what a schema says of objects, with all of allOf, oneOf and anyOf.
type object struct {
	types    []string // without null; nil for any
	null     bool
	members  map[string]*openapi3.SchemaRef
	required map[string]bool
	items    *openapi3.SchemaRef
	visited  []*openapi3.Schema // schemas that have a name in the document
	endless  bool               // it is part of itself
}

func (o *object) is(kind string) bool { return len(o.types) == 1 && o.types[0] == kind }

// merge reads one schema. above are the schemas that it is part of.
func merge(ref *openapi3.SchemaRef, above []*openapi3.Schema) *object {
	o := &object{members: map[string]*openapi3.SchemaRef{}, required: map[string]bool{}}
	if ref == nil || ref.Value == nil {
		return o
	}
	s := ref.Value
	if slices.Contains(above, s) {
		o.endless = true
		return o
	}
	above = append(slices.Clone(above), s)
	if ref.Ref != "" {
		o.visited = append(o.visited, s)
	}
	for _, kind := range s.Type.Slice() {
		if kind != "null" {
			o.types = append(o.types, kind)
		}
	}
	o.null = s.Nullable || s.Type.IncludesNull() || slices.Contains(s.Enum, nil) && len(s.Enum) > 0
	for name, m := range s.Properties {
		o.members[name] = m
	}
	for _, name := range s.Required {
		o.required[name] = true
	}
	closed := s.AdditionalProperties.Has != nil && !*s.AdditionalProperties.Has
	if o.types == nil && (len(s.Properties) > 0 || len(s.Required) > 0 || closed || s.AdditionalProperties.Schema != nil) {
		o.types = []string{"object"}
	}
	if s.Items != nil {
		o.items = s.Items
		if o.types == nil {
			o.types = []string{"array"}
		}
	}
	for _, part := range s.AllOf {
		p := merge(part, above)
		o.take(p, all)
		o.narrow(p.types)
		for name := range p.required {
			o.required[name] = true
		}
	}
	for _, list := range []openapi3.SchemaRefs{s.OneOf, s.AnyOf} {
		o.variants(list, above)
	}
	return o
}

// take adds the members and elements of another schema. join makes one schema of two.
func (o *object) take(p *object, join func(a, b *openapi3.SchemaRef) *openapi3.SchemaRef) {
	for name, m := range p.members {
		o.members[name] = join(o.members[name], m)
	}
	o.items = join(o.items, p.items)
	o.visited = append(o.visited, p.visited...)
	o.endless = o.endless || p.endless
}

func all(a, b *openapi3.SchemaRef) *openapi3.SchemaRef {
	if a == nil || b == nil || a == b {
		return cmp.Or(a, b)
	}
	return openapi3.NewSchemaRef("", &openapi3.Schema{AllOf: openapi3.SchemaRefs{a, b}})
}

func either(a, b *openapi3.SchemaRef) *openapi3.SchemaRef {
	if a == nil || b == nil || a == b {
		return cmp.Or(a, b)
	}
	return openapi3.NewSchemaRef("", &openapi3.Schema{AnyOf: openapi3.SchemaRefs{a, b}})
}

func (o *object) narrow(types []string) {
	if o.types == nil {
		o.types = types
	} else if types != nil {
		o.types = slices.DeleteFunc(slices.Clone(o.types), func(kind string) bool { return !slices.Contains(types, kind) })
	}
}

// variants adds a list of alternatives: an object may have the members of each, and must have
// those that each requires.
func (o *object) variants(list openapi3.SchemaRefs, above []*openapi3.Schema) {
	var types []string
	var required map[string]bool
	sum := &object{members: map[string]*openapi3.SchemaRef{}}
	any, some := false, false
	for _, ref := range list {
		p := merge(ref, above)
		if p.null && p.types == nil || onlyNull(ref) {
			continue
		}
		some = true
		any = any || p.types == nil
		for _, kind := range p.types {
			if !slices.Contains(types, kind) {
				types = append(types, kind)
			}
		}
		sum.take(p, either)
		if p.types != nil && !slices.Contains(p.types, "object") {
			continue
		}
		if required == nil {
			required = p.required
			continue
		}
		common := map[string]bool{}
		for name := range required {
			if p.required[name] {
				common[name] = true
			}
		}
		required = common
	}
	o.take(sum, all)
	if !any && some {
		o.narrow(types)
	}
	for name := range required {
		o.required[name] = true
	}
}

func onlyNull(ref *openapi3.SchemaRef) bool {
	kinds := ref.Value.Type.Slice()
	return len(kinds) == 1 && kinds[0] == "null"
}

// readOnly reports whether a member is only in answers.
func readOnly(ref *openapi3.SchemaRef) bool {
	s := ref.Value
	writable := func(ref *openapi3.SchemaRef) bool { return !readOnly(ref) }
	return s != nil && (s.ReadOnly || slices.ContainsFunc(s.AllOf, readOnly) || len(s.AnyOf) > 0 && !slices.ContainsFunc(s.AnyOf, writable))
}
