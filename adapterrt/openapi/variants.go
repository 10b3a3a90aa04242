package openapi

import (
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

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

// variant is one of the forms that an object has, by the value of its tag.
type variant struct {
	value    string
	members  []string // that not all variants have
	required []string
}

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

// apart keeps which members the branches of a oneOf have that nothing but their members tells apart.
func (m *mapper) apart(n *node, s *shape, branches []branch) {
	if n.list("oneOf") == nil || n.list("anyOf") != nil || len(branches) > maxForms || s.variants != nil {
		return
	}
	var list []variant
	for _, b := range branches {
		if b.plainType() != "object" || len(b.props) == 0 {
			return
		}
		list = append(list, variant{members: names(b.props), required: b.required})
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
	if n != holder || mapping != nil || len(list) > 0 {
		for _, v := range m.valuesOf(n, holder) {
			if !slices.ContainsFunc(list, func(o variant) bool { return o.value == v }) {
				list = append(list, variant{value: v})
			}
		}
	}
	if mapping != nil && n == holder {
		for _, key := range mapping.keys {
			if !slices.ContainsFunc(list, func(v variant) bool { return v.value == key }) {
				list = append(list, variant{value: key})
			}
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

// setVariants keeps the variants of s, the shape of d, if they can be told.
func (d *definition) setVariants(s *shape) {
	if s.variants == nil {
		return
	}
	list := slices.Clone(s.variants)
	if s.tag != "" {
		i := slices.IndexFunc(d.props, func(p property) bool { return p.name == s.tag })
		if i < 0 || d.props[i].typ != "string" {
			return
		}
		has := setOf(d.props[i].enum, func(n *node) string { return n.text })
		list = slices.DeleteFunc(list, func(v variant) bool { return !has[v.value] })
		told := setOf(list, func(v variant) string { return v.value })
		for _, n := range d.props[i].enum { // the others have no members of their own
			if !told[n.text] {
				list = append(list, variant{value: n.text})
			}
		}
	}
	if len(list) > 1 {
		d.tag, d.variants = s.tag, list
	}
}

// forms writes the variants of an object as a file has them: for each, its tag, and its members and whether they are required.
func (d *definition) forms() string {
	if d.variants == nil {
		return ""
	}
	return flowList(d.variants, func(v variant) string {
		var all pairs
		if d.tag != "" {
			all.add(scalar(d.tag), scalar(v.value))
		}
		for _, name := range v.members {
			if clean.Text(name, maxName) == name && len(name) <= maxName && name != "" {
				all.add(scalar(name), strconv.FormatBool(slices.Contains(v.required, name)))
			}
		}
		return flowMap(all)
	})
}
