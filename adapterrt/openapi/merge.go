package openapi

import (
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

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
	m.composing = append(m.composing, n)
	if ref.is(wire.String) {
		s = m.with(n, s, m.referred(n, via, depth), own)
		own = false
	}
	for _, part := range n.list("allOf") {
		s = m.with(n, s, m.merged(part, via, depth+1), own)
		own = false
	}
	m.composing = m.composing[:len(m.composing)-1]
	tag, _ := discriminates(n)
	if tag != "" && m.isBase(n) { // the schema at hand is one of the variants, and knows which
		s.holder = n
		return s
	}
	picks := false
	for _, key := range [...]string{"oneOf", "anyOf"} {
		if list := n.list(key); len(list) > 0 {
			var shapes []*shape
			var branches []branch
			for _, b := range list {
				if m.steps > m.limit {
					break
				}
				shapes = append(shapes, m.merged(b, via, depth+1))
				branches = append(branches, branch{b, shapes[len(shapes)-1]})
			}
			s = m.with(n, s, either(shapes), own)
			own, picks = false, true
			m.chosen(n, s, branches, via, depth)
		}
	}
	switch {
	case picks:
	case tag != "":
		m.extended(n, s, n, via, depth)
	case s.holder != nil && m.doc.isVariant(n, s.holder) && !m.isBase(n):
		m.extended(n, s, s.holder, via, depth)
	}
	return s
}

// isBase reports whether a schema that is being merged is a variant of n.
func (m *mapper) isBase(n *node) bool {
	return slices.ContainsFunc(m.composing, func(o *node) bool { return o != n && m.doc.isVariant(o, n) })
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
	s := m.merged(to, &trail{to, via}, depth+1)
	if slices.Contains(m.stack, to) && m.doc.circular(to) {
		m.said(n, "a schema contains itself: what is in it again is not described", "")
		types := s.types
		if types == nil {
			types = []string{"object"}
		}
		return &shape{types: types, null: s.null, description: s.description, more: true, cut: true}
	}
	s.refs = append(slices.Clip(s.refs), to)
	return s
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

// The limits of variants. Of a schema with more than maxVariants, the values of the tag are not told. The members of those that
// extend a schema are described if there are at most maxOwn of them; of more, only the names are told, at most maxNames.
const (
	maxVariants = 100
	maxOwn      = 60
	maxNames    = 300
	maxForms    = 20 // that have no tag
)

// depths say of which objects the members of subtypes are described.
const (
	noSubtypes   = iota
	bodySubtypes // of the body itself
	allSubtypes
)

// branch is one of the schemas of a oneOf or anyOf.
type branch struct {
	node *node
	*shape
}

// chosen tells apart the branches of a oneOf or anyOf of n: by a discriminator, or by a member that is a constant of its own in each.
func (m *mapper) chosen(n *node, s *shape, branches []branch, via *trail, depth int) {
	tag, mapping := discriminates(n)
	if m.answering && mapping == nil {
		return
	}
	var list []variant
	only := func(b branch) bool { return b.null && b.untyped() && b.props == nil } // null
	branches = slices.DeleteFunc(slices.Clone(branches), only)
	if !s.has(tag) && mapping == nil {
		if tag = m.constantOfAll(branches); tag == "" {
			m.apart(n, s, branches)
			return
		}
	}
	for _, b := range branches {
		to := m.followed(b.node)
		if to == nil {
			continue
		}
		var values []string
		if mapping != nil {
			values = m.valuesOf(to, n)
		}
		if values == nil {
			values = b.inner(tag)
		}
		if values == nil {
			values = m.constants(to, tag, 0)
		}
		if values == nil && n.get("discriminator") != nil { // it is not in the mapping
			values = m.named(to)
		}
		for _, v := range values {
			list = append(list, variant{v, names(b.props), b.required})
		}
	}
	if mapping != nil { // and what it names elsewhere
		for _, key := range mapping.keys {
			if !slices.ContainsFunc(list, func(v variant) bool { return v.value == key }) {
				list = append(list, variant{value: key})
			}
		}
	}
	m.tell(n, s, tag, list, false, via, depth)
}

// apart keeps which members the branches of a oneOf have, or require of the object around them, that nothing but these tells apart.
func (m *mapper) apart(n *node, s *shape, branches []branch) {
	if n.list("oneOf") == nil || n.list("anyOf") != nil || len(branches) > maxForms || s.variants != nil {
		return
	}
	var list []variant
	for _, b := range branches {
		if b.plainType() != "object" || len(b.props)+len(b.required) == 0 {
			return
		}
		list = append(list, variant{members: union(names(b.props), b.required), required: b.required})
	}
	m.note(s, list)
}

// inner returns the values of a tag that a branch has already.
func (b branch) inner(tag string) []string {
	if b.tag == tag {
		return b.values
	}
	return nil
}

// constantOfAll returns the name of a member that has other constant values in each of the branches, or "".
func (m *mapper) constantOfAll(branches []branch) string {
	if len(branches) < 2 || len(branches) > maxVariants {
		return ""
	}
	for _, p := range branches[0].props[:min(len(branches[0].props), maxOwn)] {
		seen := map[string]bool{}
		apart := !slices.ContainsFunc(branches, func(b branch) bool {
			values := b.inner(p.name)
			if values == nil {
				values = m.constants(b.node, p.name, 0)
			}
			for _, v := range values {
				if seen[v] {
					return true
				}
				seen[v] = true
			}
			return values == nil
		})
		if apart {
			return p.name
		}
	}
	return ""
}

func names(props []member) (out []string) {
	for _, p := range props {
		out = append(out, p.name)
	}
	return out
}

// extended adds to s, the shape of n, what the schemas have that extend n. They and n are variants of the schema holder, which
// has the discriminator.
func (m *mapper) extended(n *node, s *shape, holder *node, via *trail, depth int) {
	tag, mapping := discriminates(holder)
	if m.answering && mapping == nil {
		return
	}
	kids := m.doc.family().below(n, maxVariants+1)
	if mapping != nil && n == holder { // it may name others
		kids = nil
		for _, v := range mapping.kids[:min(len(mapping.kids), maxVariants+1)] {
			if to := m.doc.mappedTo(mapping, v); to != nil && to != n && !slices.Contains(kids, to) {
				kids = append(kids, to)
			}
		}
	}
	many := len(kids) > maxVariants
	if many {
		kids = kids[:2]
	}
	var list []variant
	var added [][]member
	own := map[string]bool{}
	described := !many && !m.answering && (m.subtypes == allSubtypes || m.subtypes == bodySubtypes && m.inside == 0)
	for _, kid := range kids {
		values := m.valuesOf(kid, holder)
		if values == nil {
			continue
		}
		v := variant{}
		if described {
			t := m.beside(kid, n, &trail{kid, via}, depth+1)
			v.members, v.required = names(t.props), t.required
			added = append(added, slices.DeleteFunc(slices.Clone(t.props), func(p member) bool { return p.name == tag || s.has(p.name) }))
			for _, p := range added[len(added)-1] {
				own[p.name] = true
			}
			s.unchecked = union(s.unchecked, t.unchecked)
		}
		for _, v.value = range values {
			list = append(list, v)
		}
	}
	named := setOf(list, func(v variant) string { return v.value })
	name := func(value string) {
		if !named[value] {
			named[value] = true
			list = append(list, variant{value: value})
		}
	}
	if n != holder || mapping != nil || len(list) > 0 {
		for _, v := range m.valuesOf(n, holder) {
			name(v)
		}
	}
	if mapping != nil && n == holder {
		for _, key := range mapping.keys {
			name(key)
		}
		place := map[string]int{}
		for i, key := range mapping.keys {
			place[key] = i
		}
		slices.SortStableFunc(list, func(a, b variant) int { return place[a.value] - place[b.value] })
	}
	s.wide = s.wide || many || len(own) > maxOwn || !described && len(kids) > 0
	m.grown = m.grown || len(own) > 0
	if len(own) > 0 && len(own) <= maxOwn {
		s.props = withMembers("anyOf", append([][]member{s.props}, added...)...)
		s.needs = union(s.needs, list[0].required)
	}
	m.tell(n, s, tag, list, many, via, depth)
}

func (s *shape) has(name string) bool {
	return slices.ContainsFunc(s.props, func(p member) bool { return p.name == name })
}

// beside returns what a schema that extends base says beside it.
func (m *mapper) beside(n, base *node, via *trail, depth int) *shape {
	if m.steps++; m.steps > m.limit || depth > maxMerge {
		m.endless = m.endless || m.steps > m.limit
		return &shape{cut: true}
	}
	s := m.keywords(n)
	for _, part := range n.list("allOf") {
		to := m.followed(part)
		switch {
		case to == nil || to == base || via.up.has(to):
		case slices.Contains(m.doc.family().above(to)[1:], base):
			s = both(s, m.beside(to, base, &trail{to, via}, depth+1))
		default:
			s = both(s, m.merged(part, via, depth+1))
		}
	}
	for _, key := range [...]string{"oneOf", "anyOf"} {
		if list := n.list(key); len(list) > 0 {
			var shapes []*shape
			for _, b := range list {
				shapes = append(shapes, m.merged(b, via, depth+1))
			}
			s = both(s, either(shapes))
		}
	}
	return s
}

// tell makes the values of the variants those of the tag, and keeps which members each of them has. many says that there are
// more values than those of the list.
func (m *mapper) tell(n *node, s *shape, tag string, list []variant, many bool, via *trail, depth int) {
	if len(list) == 0 {
		return
	}
	at := slices.IndexFunc(s.props, func(p member) bool { return p.name == tag })
	if at >= 0 {
		if said := m.merged(s.props[at].schema, via, depth+1).enum; said != nil {
			list = among(list, said)
			s.tag, s.values, s.variants = tag, nil, nil
			m.note(s, list)
			return
		}
	}
	values := array()
	for _, v := range list {
		values.kids = append(values.kids, text(v.value))
	}
	values.kids = distinct(values.kids, (*node).string)
	many = many || len(values.kids) > maxVariants
	schema := object(n, "type", text("string"), "enum", values)
	if many {
		such := list[0].value
		if len(list) > 1 {
			such += " and " + list[1].value
		}
		schema = object(n, "type", text("string"), "description", text("One of many values, such as "+such))
	}
	if s.props = slices.Clone(s.props); at < 0 {
		s.props = append(s.props, member{tag, schema})
	} else {
		s.props[at].schema = object(n, "allOf", array(s.props[at].schema, schema))
	}
	s.tag, s.values, s.variants = tag, nil, nil
	if !many {
		m.note(s, list)
	}
}

// among returns the variants whose values are among those of an enum, in its spelling.
func among(list []variant, enum []*node) (out []variant) {
	for _, v := range list {
		i := slices.IndexFunc(enum, func(n *node) bool { return n.is(wire.String) && n.text == v.value })
		if i < 0 {
			i = slices.IndexFunc(enum, func(n *node) bool { return n.is(wire.String) && strings.EqualFold(n.text, v.value) })
		}
		if i >= 0 {
			v.value = enum[i].text
			if !slices.ContainsFunc(out, func(o variant) bool { return o.value == v.value }) {
				out = append(out, v)
			}
		}
	}
	return out
}

// note keeps which members each variant has beside those that all of them have.
func (m *mapper) note(s *shape, all []variant) {
	var list []variant
	for _, v := range all {
		if i := slices.IndexFunc(list, func(o variant) bool { return o.value == v.value && s.tag != "" }); i >= 0 {
			list[i].members, list[i].required = union(list[i].members, v.members), common(list[i].required, v.required, itself)
		} else {
			list = append(list, v)
		}
	}
	if len(list) == 0 {
		return
	}
	count, shared := map[string]int{}, list[0].required
	for _, v := range list {
		s.values = append(s.values, v.value)
		shared = common(shared, v.required, itself)
		for _, name := range v.members {
			count[name]++
		}
	}
	told := 0
	for i := range list {
		v := &list[i]
		v.required = slices.DeleteFunc(slices.Clone(v.required), func(name string) bool {
			return name == s.tag || slices.Contains(shared, name) || slices.Contains(s.required, name)
		})
		v.members = slices.DeleteFunc(slices.Clone(v.members), func(name string) bool { return name == s.tag || count[name] == len(list) })
		v.members = union(v.required, v.members)
		told += len(v.members)
	}
	forms := distinct(list, func(v variant) string { return strings.Join(slices.Sorted(slices.Values(v.members)), "\x00") })
	if told > 0 && told <= maxNames && (s.tag != "" || len(forms) == len(list)) {
		s.variants = list
	}
}
