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
}

type member struct {
	name   string
	schema *node
}

// maxSteps bounds the work for one operation: how many schemas are merged. Once all operations
// together have needed manySteps, far more than the documents of real APIs, it is fewSteps.
// maxMerge is the depth of allOf, oneOf, anyOf and $ref within each other.
const (
	maxSteps  = 20_000
	fewSteps  = 1_000
	manySteps = 2_000_000
	maxMerge  = 64
)

// trail is a list of the references that lead to a schema.
type trail struct {
	node *node
	up   *trail
}

func (p *trail) has(n *node) bool {
	for ; p != nil; p = p.up {
		if p.node == n {
			return true
		}
	}
	return false
}

// shape merges the keywords of a schema. It returns a shape without limits for nil.
func (m *mapper) shape(n *node) *shape { return m.merged(n, nil, 0) }

func (m *mapper) merged(n *node, via *trail, depth int) *shape {
	if m.steps++; m.steps > m.limit || depth > maxMerge {
		m.endless = m.endless || m.steps > m.limit
		return &shape{cut: true}
	}
	if n == nil || n.kind != wire.Object {
		return &shape{more: true}
	}
	ref := n.get("$ref")
	if ref.is(wire.String) && !m.doc.combines {
		return m.instead(n, via, depth)
	}
	s := m.keywords(n)
	own := true // s is what n itself says
	if ref.is(wire.String) {
		s = m.with(n, s, m.referred(n, via, depth), own)
		own = false
	}
	for _, part := range n.list("allOf") {
		s = m.with(n, s, m.merged(part, via, depth+1), own)
		own = false
	}
	for _, key := range [...]string{"oneOf", "anyOf"} {
		if list := n.list(key); len(list) > 0 {
			branches := make([]*shape, 0, len(list))
			for _, b := range list {
				if m.steps > m.limit {
					break
				}
				branches = append(branches, m.merged(b, via, depth+1))
			}
			s = m.with(n, s, either(branches), own)
			own = false
		}
	}
	m.discriminator(n, s)
	return s
}

// referred returns the shape of what n refers to.
func (m *mapper) referred(n *node, via *trail, depth int) *shape {
	to, err := m.doc.pointed(n, n.str("$ref"))
	switch {
	case err != nil:
		m.unreadable(n, err)
		return &shape{more: true, cut: true}
	case via.has(to):
		return &shape{types: m.kindOf(to), description: to.str("description"), more: true, cut: true}
	}
	s := *m.merged(to, &trail{to, via}, depth+1)
	if slices.Contains(m.stack, to) && m.doc.circular(to) {
		m.said(n, "a schema contains itself: what is in it again is not described", "")
		types := s.types
		if types == nil {
			types = []string{"object"}
		}
		return &shape{types: types, null: s.null, description: s.description, more: true, cut: true}
	}
	s.refs = append(slices.Clip(s.refs), to)
	return &s
}

// besides are members of schemas that do not say which values are valid.
var besides = []string{"$ref", "description", "title", "example", "examples", "default", "deprecated", "summary", "externalDocs", "xml"}

// instead returns the shape of what n refers to, for the versions in which a reference is all that counts. A description
// does no harm: https://spec.openapis.org/oas/v3.0.3#reference-object
func (m *mapper) instead(n *node, via *trail, depth int) *shape {
	s := m.referred(n, via, depth)
	if text := n.str("description"); text != "" {
		s.description = text
	}
	for _, key := range n.keys {
		if !slices.Contains(besides, key) && !strings.HasPrefix(key, "x-") {
			m.said(n, "members beside a $ref are ignored, as this version says: "+short(key), "write them beside the $ref in an allOf, if they are meant")
		}
	}
	return s
}

// with is both, and reports what cannot both be true. Of types, those of b then count if a is only what stands around it.
func (m *mapper) with(at *node, a, b *shape, own bool) *shape {
	s := both(a, b)
	if s.contrary {
		s.contrary = false
		if own {
			s.types = b.types
		}
		m.said(at, "two parts of a schema contradict each other: type "+strings.Join(a.types, " or ")+", type "+strings.Join(b.types, " or "), "check the type in the file")
	} else if a.enum != nil && b.enum != nil && s.disjoint {
		m.said(at, "two parts of a schema contradict each other: their lists of values have none in common", "check the values in the file")
	}
	if s.disjoint && own {
		s.enum = b.enum
	}
	s.disjoint = false
	return s
}

// kindOf returns the types of a schema that refers to itself. It looks only at its own
// keywords; an object is the usual case.
func (m *mapper) kindOf(n *node) []string {
	if n.get("$ref") == nil || m.doc.combines {
		if s := m.keywords(n); s.types != nil {
			return s.types
		}
	}
	return []string{"object"}
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
		s.refs = append(s.refs, b.refs...)
		if b.null && b.untyped() && b.props == nil {
			continue
		}
		full = append(full, b)
	}
	if len(full) == 0 {
		s.more = true
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
		if s.description == "" && i == 0 {
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

// discriminator makes the names in a mapping the values of the member that selects a branch:
// https://spec.openapis.org/oas/v3.1.0#discriminator-object
func (m *mapper) discriminator(n *node, s *shape) {
	d := n.get("discriminator")
	name, mapping := d.str("propertyName"), d.get("mapping")
	if name == "" || !mapping.is(wire.Object) || len(mapping.keys) == 0 {
		return
	}
	values := array()
	for _, key := range mapping.keys {
		values.kids = append(values.kids, text(key))
	}
	schema := object(n, "type", text("string"), "enum", values)
	for i, p := range s.props {
		if p.name == name {
			if p.schema.get("enum") == nil && p.schema.get("const") == nil && p.schema.get("anyOf") == nil {
				s.props = slices.Clone(s.props)
				s.props[i].schema = object(n, "allOf", array(p.schema, schema))
			}
			return
		}
	}
	s.props = append(slices.Clone(s.props), member{name, schema})
}

// plainType returns the type of a schema if it has exactly one.
func (s *shape) plainType() string {
	if len(s.types) == 1 {
		return s.types[0]
	}
	return ""
}
