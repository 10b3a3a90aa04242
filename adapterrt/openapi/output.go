package openapi

import (
	"cmp"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
)

// The limits of what a file says of answers. maxOutline is in bytes of JSON Schema, and makes an output schema of at most 270
// tokens. The tools of GitHub's API take 170 tokens each without, and 290 with it.
const (
	maxOutline   = 700
	outlineDepth = 3 // objects in objects; lists do not count
)

// outline sets what an operation answers, for the output schema of its tool: the names and types of members. It does not say
// which members there must be, nor which values, formats and lengths they have: APIs outgrow that. known are those of other
// operations, by schema.
func (d *Document) outline(op *operation, known map[*node]*definition) {
	if op.response.as != "" {
		return
	}
	schema := op.raw.success()
	if schema == nil {
		return
	}
	m := &mapper{doc: d, op: op, raw: op.raw, limit: maxSteps, answering: true, outlines: known}
	if d.steps > manySteps {
		m.limit = fewSteps
	}
	defer func() { d.steps += m.steps }()
	var items, path []string
	if op.paging != nil && op.paging.items != "" {
		items = strings.Split(op.paging.items, ".")
	}
	var chosen *file.Selection
	if op.fields != nil {
		chosen, path = file.NewSelection(op.fields), items
	}
	out := m.outlined(schema, path, chosen, 0)
	if out.isAny() {
		return
	}
	if op.paging != nil {
		out = out.orPage(items, op.paging.total != "")
	}
	if out.line == "" {
		out.line = out.flow(false)
	}
	op.response.schema = out
}

// success returns the schema of the JSON with which the operation succeeds; nil if none is described.
func (op *rawOperation) success() *node {
	var all []*node
	described := slices.ContainsFunc(op.answers, (*rawAnswer).success)
	for _, a := range op.answers {
		if described && a.status[0] != '2' || !described && a.status != "default" {
			continue
		}
		i := slices.IndexFunc(a.content, func(c media) bool { return c.kind == "application/json" })
		if i < 0 {
			i = slices.IndexFunc(a.content, func(c media) bool { return isJSON(c.kind) })
		}
		if i >= 0 && a.content[i].schema != nil {
			all = append(all, a.content[i].schema)
		}
	}
	switch all = distinct(all, (*node).string); len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return object(all[0], "anyOf", array(all...))
}

// outlined describes the values of a schema. Most operations of a document share theirs, alone or as the elements of a list.
func (m *mapper) outlined(n *node, path []string, chosen *file.Selection, lists int) *definition {
	key := n
	if len(n.keys) == 1 && n.str("$ref") != "" {
		if to, err := m.doc.pointed(n, n.str("$ref")); err == nil {
			key = to
		}
	}
	shared := path == nil && chosen == nil
	if out, there := m.outlines[key]; there && shared {
		return out
	}
	m.stack = nil
	s := m.shape(n)
	if s.format == "binary" { // no JSON
		s = &shape{}
	}
	out := typed(s)
	if s.plainType() == "array" && s.items != nil && lists < maxItems {
		if e := m.outlined(s.items, path, chosen, lists+1); !e.isAny() {
			out.items = e
		}
	} else {
		room := maxOutline - out.outlineSize()
		for queue := []*opened{{out, s, 0, s.refs, path, chosen}}; len(queue) > 0; queue = queue[1:] {
			queue = append(queue, m.open(queue[0], &room)...)
		}
	}
	if shared {
		m.outlines[key] = out
	}
	return out
}

// opened is a value of an outline whose elements and members are described next.
type opened struct {
	*definition
	shape  *shape
	depth  int
	refs   []*node // that led to it
	path   []string
	chosen *file.Selection // of the members at path; nil for all
}

// open describes the elements and members of o, as long as there is room, and returns those that have members themselves.
// The first ones are described before the deeper ones, so that each level is as complete as possible.
func (m *mapper) open(o *opened, room *int) (inner []*opened) {
	d, s, refs := o.definition, o.shape, o.refs
	for lists := 0; d.typ == "array" && s.items != nil && lists < maxItems; lists++ {
		m.stack = refs
		s = m.shape(s.items)
		refs = append(slices.Clip(refs), s.refs...)
		e := typed(s)
		size := e.outlineSize() + len(`,"items":`)
		if e.isAny() || size > *room {
			return nil
		}
		*room -= size
		d.items, d = e, e
	}
	if o.depth == outlineDepth || !slices.Contains(append([]string{d.typ}, d.also...), "object") || d.isAny() && len(s.props) == 0 {
		return nil
	}
	*room -= len(`,"properties":{}`)
	type candidate struct {
		*opened
		name string
		size int
		rank int
	}
	var all []candidate
	sum := 0
	for i, p := range s.props {
		if i == maxLooked || m.steps > m.limit {
			break
		}
		path, chosen := o.path, o.chosen
		switch {
		case chosen == nil:
		case len(path) > 0 && path[0] != p.name:
			path, chosen = nil, nil
		case len(path) > 0:
			path = path[1:]
		default:
			if chosen = chosen.Children[p.name]; chosen == nil {
				continue
			}
			if chosen.Whole {
				chosen = nil
			}
		}
		if p.name == "" || len(p.name) > maxName || clean.Text(p.name, maxName) != p.name || p.schema.flag("writeOnly") {
			continue
		}
		m.stack = refs
		t := m.shape(p.schema)
		e := typed(t)
		c := candidate{&opened{e, t, o.depth + 1, append(slices.Clip(refs), t.refs...), path, chosen}, p.name, len(p.name) + len(`"":,`) + e.outlineSize(), len(telling) + 1}
		switch i := slices.Index(telling, snake(p.name)); {
		case i >= 0:
			c.rank = i
		case isLink(p.name) || p.schema.flag("deprecated"):
			c.rank = len(telling) + 2
		case slices.Contains(s.required, p.name):
			c.rank = len(telling)
		}
		all, sum = append(all, c), sum+c.size
	}
	if sum > *room {
		order := slices.Clone(all)
		slices.SortStableFunc(order, func(a, b candidate) int { return cmp.Compare(a.rank, b.rank) })
		kept := map[string]bool{}
		left := *room
		for _, c := range order {
			if c.size <= left {
				left -= c.size
				kept[c.name] = true
			}
		}
		all = slices.DeleteFunc(all, func(c candidate) bool { return !kept[c.name] })
	}
	for _, c := range all {
		*room -= c.size
		d.props = append(d.props, property{name: c.name, definition: c.definition})
		inner = append(inner, c.opened)
	}
	return inner
}

// withoutOutlines removes what is said of the answers of operations, and returns of how many.
func withoutOutlines(ops []*operation) (described int) {
	for _, op := range ops {
		if op.response.schema != nil {
			op.response.schema = nil
			described++
		}
	}
	return described
}

// crowded reports whether what is said of answers leaves no room for what is worth more in a file of limited size: the operations
// and, unless they have no room in any case, their examples. The sizes are estimates, rather too large than too small.
func (f *File) crowded() bool {
	least, outlines, examples := len(f.front)+4<<10, 0, 0
	findings := slices.Clone(f.Findings)
	for _, op := range f.ops {
		if f.source == "" { // it is not finished
			least += len(op.mapsTo) + len(op.name) + 20
			findings = append(findings, op.findings...)
		}
		if s := op.response.schema; s != nil {
			outlines += len(s.line) + 40
		}
	}
	for _, x := range findings {
		least += len(x.Operation) + len(x.Place) + len(x.What) + len(x.Do) + 80
	}
	for i := range f.Drafts {
		examples += 2*(len(f.Drafts[i].Request)+len(f.Drafts[i].Receives)) + 200
	}
	return least > file.MaxFile || least+examples > file.MaxFile && least+examples-outlines <= file.MaxFile
}

// tooLarge is the finding that a file says nothing of the answers of so many operations.
func (d *Document) tooLarge(operations int) Finding {
	return Finding{Place: d.sources[0].name, Class: Weaker, What: "the answers of " + plural(operations, "operation") + " are not described, because the file would be too large",
		Do: "use --split, or select fewer operations with --include, if tools are to have output schemas"}
}

// anyTypes are the types of a value of which nothing is known.
var anyTypes = []string{"string", "number", "boolean", "array", "object", "null"}

func (d *definition) isAny() bool { return len(d.also)+1 == len(anyTypes) }

// typed returns a definition with the types of a shape and nothing else.
func typed(s *shape) *definition {
	types := slices.Clone(s.types)
	if i := slices.Index(types, "number"); i >= 0 {
		types = slices.DeleteFunc(types, func(t string) bool { return t == "integer" })
	}
	if types == nil {
		types = anyTypes
	} else if s.null {
		types = append(types, "null")
	}
	if i := slices.Index(types, "array"); i > 0 && s.items != nil { // only the first type may have items
		types = slices.Concat([]string{"array"}, types[:i], types[i+1:])
	}
	return &definition{typ: types[0], also: types[1:], minLen: -1, maxLen: -1}
}

// outlineSize returns the size of the JSON Schema of d, without its elements and members.
func (d *definition) outlineSize() int {
	n := len(`{"type":"string"}`)
	for _, t := range d.also {
		n += len(t) + len(`"",`)
	}
	return n
}

// orPage returns what the operation of a list answers: the API's answer d, or a page of it, made of the list at path.
func (d *definition) orPage(path []string, total bool) *definition {
	list := d
	for _, name := range path {
		i := slices.IndexFunc(list.props, func(p property) bool { return p.name == name })
		if i < 0 {
			return d
		}
		list = list.props[i].definition
	}
	plain := func(types ...string) *definition {
		return &definition{typ: types[0], also: types[1:], minLen: -1, maxLen: -1}
	}
	page := *d
	page.line, page.props = "", slices.Clone(d.props)
	if !slices.Contains(append([]string{d.typ}, d.also...), "object") {
		page.also = append(slices.Clip(d.also), "object")
	}
	add := func(name string, is *definition) {
		for i, p := range page.props {
			if p.name == name {
				if both := *p.definition; both.typ != is.typ && !slices.Contains(both.also, is.typ) {
					both.also = append(slices.Clip(both.also), is.typ)
					page.props[i].definition = &both
				}
				return
			}
		}
		page.props = append(page.props, property{name: name, definition: is})
	}
	items := plain("array")
	if list.typ == "array" && list.items != nil {
		items.items = plain(append([]string{list.items.typ}, list.items.also...)...)
	}
	info := plain("object")
	info.props = []property{{name: "hasNextPage", definition: plain("boolean")}, {name: "endCursor", definition: plain("string", "null")}}
	if total {
		info.props = append(info.props, property{name: "totalCount", definition: plain("number")})
	}
	add("items", items)
	add("pageInfo", info)
	return &page
}
