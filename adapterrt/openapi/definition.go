package openapi

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// The limits of definitions: those of adapter files, and maxMembers, above which the members
// of an operation's objects are described to a smaller depth. What an object must have is described
// up to maxNeeded objects deep, whatever the depth of other members, until there are maxDeep of these.
const (
	maxLevels  = 4
	maxNeeded  = 6
	maxDeep    = 100
	maxItems   = 4 // lists in lists
	maxEnum    = 1000
	maxProps   = 200
	maxName    = 128
	maxMembers = 250
	surplus    = 16 // members that may be taken back: those that are only in answers
)

// define makes the definition of a schema. depth is the number of objects around it, lists
// the number of lists directly around it.
func (m *mapper) define(n *node, depth, lists int) *definition {
	d, _ := m.defined(n, depth, lists)
	return d
}

// defined is define, and returns what the schema says, too.
func (m *mapper) defined(n *node, depth, lists int) (*definition, *shape) {
	mark := len(m.stack)
	m.inside++
	s := m.shape(n)
	m.stack = append(m.stack, s.refs...)
	d := m.definition(s, depth, lists)
	m.stack = m.stack[:mark]
	m.inside--
	return d, s
}

func (m *mapper) definition(s *shape, depth, lists int) *definition {
	*m.counter(depth)++
	d := &definition{minLen: -1, maxLen: -1, examples: s.examples}
	if s.fallback != nil && s.fallback.kind != wire.Null {
		d.examples = append(slices.Clone(s.examples), s.fallback)
		d.fallback = s.fallback.text
	}
	types := slices.Clone(s.types)
	if types == nil {
		types = []string{"string", "number", "boolean", "object", "array"}
		if s.cut {
			types = []string{"object"}
		}
	}
	if i := slices.Index(types, "number"); i > 0 && slices.Contains(types, "integer") {
		types = slices.DeleteFunc(types, func(t string) bool { return t == "integer" })
	}
	d.typ, d.also = types[0], types[1:]
	if s.null {
		d.also = append(d.also, "null")
	}
	d.description = m.describe(s, m.describing)
	if s.joined || len(types) > 1 && s.types != nil {
		m.weak("values that fit no single variant are accepted")
	}
	if s.nothing { // adapter files have no such type
		m.weak("values that can only be null may be any")
	}
	for _, key := range s.unchecked {
		m.weak(key + " is not checked")
	}
	if d.typ == "string" {
		m.textLimits(d, s)
	}
	if d.typ == "integer" || d.typ == "number" {
		m.bounds(d, s)
	}
	m.extents(d, s)
	m.values(d, s, types)
	if s.items != nil && d.typ == "array" {
		if lists < maxItems {
			d.items = m.define(s.items, depth, lists+1)
		} else {
			m.weak("lists nested deeper than four levels are not described")
		}
	}
	if slices.Contains(types, "object") {
		m.objectMembers(d, s, depth)
	}
	return d
}

// counter returns what counts the definitions at a depth.
func (m *mapper) counter(depth int) *int {
	if depth > maxLevels || m.beyond > 0 {
		return &m.deep
	}
	return &m.members
}

func (m *mapper) textLimits(d *definition, s *shape) {
	if f := clean.Text(s.format, 40); f == s.format && isPlain(f) {
		d.format = f
	}
	d.sensitive = s.format == "password"
	d.minLen, d.maxLen = length(s.minLen), length(s.maxLen)
	if d.maxLen >= 0 && d.minLen > d.maxLen {
		d.minLen, d.maxLen = -1, -1
	}
	d.minLen = cmp.Or(d.minLen, -1)
	if s.pattern != "" {
		if d.pattern = checked(s.pattern); d.pattern == "" {
			m.weak("a pattern that RE2 does not have is not checked")
		}
	}
}

func length(n *node) int {
	if n == nil {
		return -1
	}
	i, err := strconv.Atoi(n.text)
	if err != nil || i < 0 || i > 1<<30 {
		return -1
	}
	return i
}

// bounds takes over the smallest and largest number.
func (m *mapper) bounds(d *definition, s *shape) {
	limit := func(n *node, open bool, step int64) (string, bool) {
		if n == nil {
			return "", false
		}
		if open && d.typ == "integer" {
			if i, err := strconv.ParseInt(n.text, 10, 62); err == nil {
				return strconv.FormatInt(i+step, 10), false
			}
		}
		return n.text, open
	}
	d.min, d.minOpen = limit(s.min, s.minOpen, 1)
	d.max, d.maxOpen = limit(s.max, s.maxOpen, -1)
	if d.min != "" && d.max != "" {
		if n := file.CompareNumbers([]byte(d.min), []byte(d.max)); n > 0 || n == 0 && (d.minOpen || d.maxOpen) {
			d.min, d.max, d.minOpen, d.maxOpen = "", "", false, false
		}
	}
}

// values takes over the values of an enum, where the format of adapters has them.
func (m *mapper) values(d *definition, s *shape, types []string) {
	if s.enum == nil {
		return
	}
	var out []*node
	may := setOf(types, itself)
	odd := may["array"] || may["object"]
	for _, v := range s.enum {
		fits := v.kind == wire.String && may["string"] || v.kind == wire.Boolean && may["boolean"] ||
			v.kind == wire.Number && (may["number"] || may["integer"] && isWhole(v.text))
		if d.typ == "string" && !fits && v.kind < wire.String && v.kind > wire.Null { // 1.0 in YAML, without quotes
			v, fits = text(v.text), true
		}
		if fits {
			out = append(out, v)
		} else {
			odd = true
		}
	}
	out = distinct(out, (*node).number)
	if d.typ == "string" {
		fits := d.textLimit()
		out = slices.DeleteFunc(out, func(v *node) bool { return v.kind == wire.String && !fits(v.text) })
	}
	if odd || len(out) > maxEnum || len(out) == 0 {
		m.weak("the list of values is not checked")
		return
	}
	d.enum = out
}

// textLimit returns a function that reports whether a text meets the limits of its length and its pattern.
func (d *definition) textLimit() func(string) bool {
	pattern := regexp.MustCompile(d.pattern) // without one, it matches every text
	return func(s string) bool {
		n := utf8.RuneCountInString(s)
		return n >= d.minLen && (d.maxLen < 0 || n <= d.maxLen) && pattern.MatchString(s)
	}
}

// objectMembers describes the members of an object, up to m.levels objects deep.
func (m *mapper) objectMembers(d *definition, s *shape, depth int) {
	d.closed = !s.more
	m.furtherMembers(d, s, depth)
	if len(s.props) == 0 && len(s.required) == 0 {
		return
	}
	required, needs := setOf(s.required, itself), setOf(s.needs, itself)
	props := s.props
	if depth >= m.levels {
		if m.levels == maxLevels {
			m.weak("members of objects are described to four levels only")
		}
		if depth >= maxNeeded || len(s.required) == 0 || m.deep > maxDeep {
			return
		}
		// Without these the API refuses the object.
		props = slices.DeleteFunc(slices.Clone(props), func(p member) bool { return !required[p.name] })
	}
	left := 0
	for _, p := range props {
		if m.members > maxMembers+surplus && m.levels > 1 { // it will be described less deep: what is done now is in vain
			return
		}
		if len(d.props) == maxProps || m.members+m.deep > 20*maxMembers {
			left++
			continue
		}
		if len(p.name) > maxName || clean.Text(p.name, maxName) != p.name || p.name == "" {
			left++
			continue
		}
		e := m.define(p.schema, depth+1, 0)
		if m.isReadOnly(p.schema) {
			*m.counter(depth + 1)--
			continue
		}
		if !required[p.name] && !m.clears() {
			e.also = withoutNull(e.also) // it means the same as none
		}
		d.props = append(d.props, property{p.name, required[p.name], required[p.name] || needs[p.name], e})
	}
	described := setOf(s.props, func(p member) string { return p.name })
	for _, name := range s.required {
		if described[name] || !s.more || len(d.props) == maxProps || name == "" || len(name) > maxName || clean.Text(name, maxName) != name {
			continue
		}
		described[name] = true
		d.props = append(d.props, property{name, true, true, m.definition(&shape{}, depth+1, 0)})
	}
	if left > 0 {
		m.weak("members beyond 200, or with names that are not visible, are not described")
	}
	d.setVariants(s)
}

// clears reports whether null in the body of the operation says to clear what was there.
func (m *mapper) clears() bool { return m.raw.method == "PATCH" || m.raw.method == "PUT" }

func withoutNull(types []string) []string {
	return slices.DeleteFunc(slices.Clone(types), func(t string) bool { return t == "null" })
}

// isReadOnly reports whether a member is only in answers.
func (m *mapper) isReadOnly(n *node) bool {
	for range maxHops {
		if n.flag("readOnly") && (m.doc.combines || n.get("$ref") == nil) {
			return true
		}
		if list := n.list("allOf"); len(list) == 1 && n.get("$ref") == nil {
			n = list[0]
			continue
		}
		to, err := m.doc.follow(n)
		if err != nil || to == n {
			return false
		}
		n = to
	}
	return false
}

// describe returns the description of a value, of at most limit characters, with its default.
func (m *mapper) describe(s *shape, limit int) string {
	text := m.doc.prose(s.description, limit)
	if t := told(s.pattern); t != "" {
		text = strings.TrimLeft(strings.TrimRight(text, ". ")+". "+t, ". ")
	}
	f := s.fallback
	if !f.scalar() || len(f.text) > 40 || f.text == "" || clean.Text(f.text, 40) != f.text || clean.IsSecret(f.text) || strings.Contains(strings.ToLower(text), "default") {
		return text
	}
	if text == "" {
		return "Default: " + f.text
	}
	return text + " (default: " + f.text + ")"
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

// extents takes over how many elements an array has, and of which step a number is a multiple.
func (m *mapper) extents(d *definition, s *shape) {
	switch d.typ {
	case "array":
		d.minItems, d.maxItems, d.unique = count(s.minItems), count(s.maxItems), s.unique
		if d.maxItems > 0 && d.minItems > d.maxItems {
			d.minItems, d.maxItems = 0, 0
		}
		if s.maxItems != nil && d.maxItems == 0 {
			m.weak("a list that must be empty may have elements")
		}
	case "integer", "number":
		if s.step != nil && file.CompareNumbers([]byte(s.step.text), []byte("0")) > 0 {
			d.step = s.step.text
		}
	}
}

// count returns a number of elements, or 0 for none.
func count(n *node) int {
	if n == nil {
		return 0
	}
	i, err := strconv.Atoi(n.text)
	if err != nil || i < 0 || i > 1_000_000 {
		return 0
	}
	return i
}

// furtherMembers describes the members of an object that have no definition of their own.
func (m *mapper) furtherMembers(d *definition, s *shape, depth int) {
	if s.extra == nil {
		return
	}
	if e := m.shape(s.extra); e.untyped() && len(e.props) == 0 {
		return
	}
	if m.members > maxMembers+surplus && m.levels > 1 {
		return
	}
	if depth >= m.levels { // the API refuses members of another type, and the object with them
		if m.deep > maxDeep || depth >= maxNeeded {
			m.weak("members of objects are described to four levels only")
			return
		}
		m.beyond++
		defer func() { m.beyond-- }()
	}
	d.values = m.define(s.extra, depth+1, 0)
	d.values.also = withoutNull(d.values.also) // null passes for a member that is not described
}
