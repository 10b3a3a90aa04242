package openapi

import (
	"cmp"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// shape is what the keywords of a schema say together, with those that it refers to and those
// of allOf, oneOf and anyOf.
type shape struct {
	types       []string // without null; nil for any
	implied     bool     // by keywords that only values of these types have; other values are valid, too
	null        bool
	nothing     bool // there is no value but null
	description string
	format      string
	pattern     string
	enum        []*node // nil for any value
	min, max    *node
	minOpen     bool // the minimum itself is not valid
	maxOpen     bool
	minLen      *node
	maxLen      *node
	extent
	items     *node
	extra     *node // schema of members that have none of their own
	further   bool  // the document says that there may be such members
	props     []member
	required  []string
	needs     []string // members that one of several variants requires: examples have them
	more      bool     // members that are not described are allowed
	fallback  *node
	examples  []*node
	unchecked []string // keywords that an adapter does not have
	refs      []*node  // what it refers to
	joined    bool     // it accepts more than its branches do
	contrary  bool     // its parts have no type in common
	disjoint  bool     // its parts have no value in common
	cut       bool     // it refers to itself, or is too large
	holder    *node    // a schema that it extends, whose discriminator tells apart what extends it
	tag       string   // the member that says which variant an object is
	values    []string // those of the tag, if they are known
	variants  []variant
	wide      bool // there are members of variants that are not among props
}

type member struct {
	name   string
	schema *node
}

// keywords reads the keywords of one schema, without what they refer to:
// https://json-schema.org/draft/2020-12/json-schema-validation
func (m *mapper) keywords(n *node) *shape {
	s := &shape{
		description: n.str("description"), format: n.str("format"), pattern: n.str("pattern"),
		null: n.flag("nullable") || n.flag("x-nullable"), fallback: n.get("default"),
		min: number(n, "minimum"), max: number(n, "maximum"), minLen: number(n, "minLength"), maxLen: number(n, "maxLength"), extent: extentOf(n),
		required: n.strs("required"), more: true,
	}
	if t := n.str("title"); s.description == "" && strings.Contains(t, " ") { // otherwise it is a name
		s.description = t
	}
	if e := n.get("example"); e != nil {
		s.examples = append(s.examples, e)
	}
	s.examples = append(s.examples, n.list("examples")...)
	types := n.strs("type")
	if t := n.str("type"); t != "" {
		types = []string{t}
	}
	for _, t := range types {
		switch t {
		case "null":
			s.null = true
		case "file":
			s.types, s.format = append(s.types, "string"), "binary"
		case "string", "integer", "number", "boolean", "array", "object":
			if !slices.Contains(s.types, t) {
				s.types = append(s.types, t)
			}
		}
	}
	if lo := n.get("exclusiveMinimum"); lo.is(wire.Number) {
		s.min, s.minOpen = lo, true
	} else {
		s.minOpen = n.flag("exclusiveMinimum")
	}
	if hi := n.get("exclusiveMaximum"); hi.is(wire.Number) {
		s.max, s.maxOpen = hi, true
	} else {
		s.maxOpen = n.flag("exclusiveMaximum")
	}
	values := n.list("enum")
	if c := n.get("const"); c != nil {
		values = []*node{c}
	}
	for _, v := range values {
		if v.kind == wire.Null {
			s.null = true
		} else {
			s.enum = append(s.enum, v)
		}
	}
	s.nothing = s.types == nil && s.enum == nil && (slices.Contains(types, "null") || len(values) > 0)
	if items := n.get("items"); items.is(wire.Object) {
		s.items = items
	} else if list := n.list("prefixItems"); list != nil {
		s.items = object(n, "anyOf", array(list...))
	}
	p := n.get("properties")
	if p.get("$ref").is(wire.String) { // a map that is elsewhere, and no member of that name
		to, err := m.doc.whole(p)
		if err != nil {
			m.unreadable(p, err)
		}
		p = to
	}
	if p.is(wire.Object) {
		for i, name := range p.keys {
			s.props = append(s.props, member{name, p.kids[i]})
		}
	}
	extra := n.get("additionalProperties")
	if extra.is(wire.Object) {
		s.extra = extra
	}
	if extra.is(wire.Boolean) && extra.text == "false" {
		s.more = false
	}
	s.further = s.extra != nil || extra.is(wire.Boolean) && extra.text == "true"
	for _, key := range [...]string{"minProperties", "maxProperties", "not", "if", "dependentRequired", "patternProperties", "contains", "propertyNames"} {
		if v := n.get(key); v != nil && v.text != "false" {
			if strings.HasSuffix(key, "Properties") && key != "patternProperties" {
				key = "the number of members"
			}
			s.unchecked = append(s.unchecked, key)
		}
	}
	s.unchecked = distinct(s.unchecked, itself)
	if enc := n.str("contentEncoding"); n.str("contentMediaType") != "" && enc == "" && s.format == "" {
		s.format = "binary"
	}
	if s.types == nil {
		s.implied = s.enum == nil
		switch {
		case s.props != nil || extra.is(wire.Object) || extra.is(wire.Boolean) && extra.text == "false" || s.required != nil:
			s.types = []string{"object"}
		case s.items != nil:
			s.types = []string{"array"}
		case s.enum != nil:
			s.types = typesOf(s.enum)
		case s.pattern != "" || s.minLen != nil || s.maxLen != nil || s.format == "binary" || s.format == "date-time" || s.format == "date" || s.format == "uuid" || s.format == "uri":
			s.types = []string{"string"}
		case s.min != nil || s.max != nil:
			s.types = []string{"number"}
		}
	}
	return s
}

// typesOf returns the types of values.
func typesOf(values []*node) (types []string) {
	for _, v := range values {
		t := v.kind.String()
		if t == "number" && isWhole(v.text) {
			t = "integer"
		}
		if t != "null" && !slices.Contains(types, t) {
			types = append(types, t)
		}
	}
	return types
}

func isWhole(s string) bool {
	digits := strings.TrimPrefix(s, "-")
	return digits != "" && strings.Trim(digits, "0123456789") == ""
}

// untyped reports whether the shape says nothing about the type of values.
func (s *shape) untyped() bool { return (s.types == nil || s.implied) && s.enum == nil }

// both returns the shape of values that fit a and b. What only one can say is taken from a.
func both(a, b *shape) *shape {
	s := *a
	s.contrary, s.disjoint = false, false
	s.null = (a.null || a.untyped()) && (b.null || b.untyped()) && (a.null || b.null)
	s.nothing = a.nothing && b.untyped() || b.nothing && a.untyped()
	switch {
	case a.types == nil:
		s.types, s.implied = b.types, b.implied
	case b.types == nil:
	case a.implied != b.implied: // what is only implied forbids nothing
		if s.implied = false; a.implied {
			s.types = b.types
		}
	default:
		var common []string
		for _, t := range a.types {
			if slices.Contains(b.types, t) {
				common = append(common, t)
			} else if t == "number" && slices.Contains(b.types, "integer") || t == "integer" && slices.Contains(b.types, "number") {
				common = append(common, "integer")
			}
		}
		if common != nil {
			s.types = common
		} else {
			s.contrary = !a.implied
		}
	}
	if a.enum == nil {
		s.enum = b.enum
	} else if b.enum != nil {
		values := common(a.enum, b.enum, (*node).string)
		if s.disjoint = values == nil; !s.disjoint {
			s.enum = values
		}
	}
	s.description, s.format, s.pattern = cmp.Or(a.description, b.description), cmp.Or(a.format, b.format), cmp.Or(a.pattern, b.pattern)
	if s.min == nil {
		s.min, s.minOpen = b.min, b.minOpen
	}
	if s.max == nil {
		s.max, s.maxOpen = b.max, b.maxOpen
	}
	s.minLen, s.maxLen, s.items, s.fallback = cmp.Or(a.minLen, b.minLen), cmp.Or(a.maxLen, b.maxLen), cmp.Or(a.items, b.items), cmp.Or(a.fallback, b.fallback)
	s.extra, s.extent = cmp.Or(a.extra, b.extra), a.extent.and(b.extent)
	s.props = withMembers("allOf", a.props, b.props)
	s.required, s.needs = union(a.required, b.required), union(a.needs, b.needs)
	s.further = (a.further || b.further) && a.more && b.more
	s.more, s.joined, s.cut = a.more && b.more, a.joined || b.joined, a.cut || b.cut
	s.examples, s.unchecked, s.refs = slices.Concat(a.examples, b.examples), union(a.unchecked, b.unchecked), slices.Concat(a.refs, b.refs)
	s.holder, s.wide = cmp.Or(a.holder, b.holder), a.wide || b.wide
	if a.tag == "" {
		s.tag, s.values, s.variants = b.tag, b.values, b.variants
	}
	return &s
}

// withMembers returns the members of several objects. A member of more than one has a schema that
// joins theirs with the keyword how.
func withMembers(how string, objects ...[]member) (out []member) {
	objects = slices.DeleteFunc(objects, func(o []member) bool { return len(o) == 0 })
	if len(objects) == 1 {
		return objects[0]
	}
	at := map[string]int{}
	for _, p := range slices.Concat(objects...) {
		i, there := at[p.name]
		switch {
		case !there:
			at[p.name] = len(out)
			out = append(out, p)
		case out[i].schema != p.schema:
			out[i].schema = object(p.schema, how, array(out[i].schema, p.schema))
		}
	}
	return out
}

// either returns a shape of values that fit one of the branches. It may accept more.
func either(branches []*shape) *shape {
	s := &shape{}
	var full []*shape // branches that are not only null
	for _, b := range branches {
		s.null = s.null || b.null
		s.cut = s.cut || b.cut
		s.wide = s.wide || b.wide
		s.refs = append(s.refs, b.refs...)
		if b.null && b.untyped() && b.props == nil {
			continue
		}
		full = append(full, b)
	}
	if len(full) == 0 {
		s.more = true
		s.nothing = !slices.ContainsFunc(branches, func(b *shape) bool { return !b.nothing })
		return s
	}
	if len(full) == 1 {
		only := *full[0]
		only.null, only.cut, only.refs = s.null, s.cut, s.refs
		return &only
	}
	enums, anyType := true, false
	var objects [][]member
	same := *full[0]
	for i, b := range full {
		anyType = anyType || b.types == nil
		s.more, s.further = s.more || b.more, s.further || b.further
		for _, t := range b.types {
			if !slices.Contains(s.types, t) {
				s.types = append(s.types, t)
			}
		}
		enums = enums && b.enum != nil
		s.enum = append(s.enum, b.enum...)
		s.examples, s.unchecked = append(s.examples, b.examples...), union(s.unchecked, b.unchecked)
		if s.items == nil {
			s.items = b.items
		} else if b.items != nil && b.items != s.items {
			s.items = object(b.items, "anyOf", array(s.items, b.items))
		}
		if slices.Contains(b.types, "object") || b.types == nil {
			if objects = append(objects, b.props); len(objects) == 1 {
				s.extra = b.extra
				s.required, s.needs = b.required, union(b.required, b.needs)
			} else {
				s.required = common(s.required, b.required, itself)
				if s.extra != b.extra { // what only one branch forbids is not forbidden
					s.extra = nil
				}
			}
		}
		if i == 0 && (len(b.props) > 0 || !b.implied || len(b.required) == 0) { // otherwise it is about what this branch requires
			s.description = b.description
		}
		if b.format != same.format {
			if s.joined = true; b.format == "" || same.format == "" || b.plainType() != "string" || same.plainType() != "string" {
				same.format = "" // otherwise the first one: it is a word for the model, and not checked
			}
		}
		if b.pattern != same.pattern {
			same.pattern = ""
		}
		same.min, same.max = equalOr(same.min, b.min), equalOr(same.max, b.max)
		same.minLen, same.maxLen = equalOr(same.minLen, b.minLen), equalOr(same.maxLen, b.maxLen)
		same.extent = same.extent.or(b.extent)
		if b.joined || b.extent != (extent{}) || len(objects) > 1 || b.minLen != nil || b.pattern != "" || b.min != nil || b.max != nil {
			s.joined = true
		}
	}
	s.format, s.pattern, s.min, s.max, s.minOpen, s.maxOpen = same.format, same.pattern, same.min, same.max, same.minOpen, same.maxOpen
	s.minLen, s.maxLen, s.extent = same.minLen, same.maxLen, same.extent
	s.enum, s.props = distinct(s.enum, (*node).string), withMembers("anyOf", objects...)
	if !enums {
		s.joined = s.joined || s.enum != nil
		s.examples = append(s.examples, s.enum...)
		s.enum = nil
	}
	if anyType {
		s.types = nil
	}
	return s
}

// plainType returns the type of a schema if it has exactly one.
func (s *shape) plainType() string {
	if len(s.types) == 1 {
		return s.types[0]
	}
	return ""
}
