package openapi

import (
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
)

// The limits of a proposal.
const (
	minFields = 3   // paths; fewer would hide too much
	maxFields = 12  // paths
	mostPlain = 9   // plain members, if there are others
	maxBeside = 6   // plain members beside a list, if the list is what the answer is about
	maxLooked = 200 // members of an object
)

// naming are names of members by which a person knows an object, the best first.
var naming = []string{"name", "login", "title", "message", "key", "slug", "email", "id"}

// telling are names of members that say most about an object. They come before others if not
// all can be shown: some documents have the members in alphabetical order.
var telling = []string{"id", "number", "name", "title", "state", "status", "type", "kind", "email", "amount", "currency", "description",
	"created", "created_at", "updated", "updated_at"}

// best returns at most n of the names, in their order.
func best(names []string, n int) []string {
	if len(names) <= n {
		return names
	}
	rank := func(name string) int {
		if i := slices.Index(telling, snake(name)); i >= 0 {
			return i
		}
		return len(telling)
	}
	order := slices.Clone(names)
	slices.SortStableFunc(order, func(x, y string) int { return rank(x) - rank(y) })
	order = order[:n]
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !slices.Contains(order, name) })
}

// propose sets the fields that an answer is reduced to if a request does not choose others.
// There are none if the answer is not JSON with a known form, or if nothing would be left out.
func (d *Document) propose(op *operation) {
	if op.category != "read" || op.response.as != "" && op.response.as != "auto" {
		return
	}
	m := &mapper{doc: d, op: op, levels: 1, limit: maxSteps, raw: op.raw, answering: true}
	if d.steps > manySteps {
		m.limit = fewSteps
	}
	defer func() { d.steps += m.steps }()
	s := m.jsonAnswer()
	if s != nil && op.paging != nil && op.paging.items != "" { // requests choose fields of the items
		for _, name := range strings.Split(op.paging.items, ".") {
			s = m.memberOf(s, name)
		}
	}
	s = m.element(s)
	if s == nil {
		return
	}
	if paths, all := m.paths(s); len(paths) >= minFields && !all {
		op.fields = paths
		m.find(Guessed, "default_fields are a proposal: of the answer, only these are shown unless a request asks for others with fields", "check them")
	}
}

// jsonAnswer returns the form of the first answer that succeeds, or nil.
func (m *mapper) jsonAnswer() *shape {
	for _, a := range m.raw.answers {
		if a.status[0] != '2' && a.status != "default" {
			continue
		}
		for _, c := range a.content {
			if isJSON(c.kind) && c.schema != nil {
				return m.shape(c.schema)
			}
		}
	}
	return nil
}

// memberOf returns the form of a member, or nil.
func (m *mapper) memberOf(s *shape, name string) *shape {
	if s == nil {
		return nil
	}
	if i := slices.IndexFunc(s.props, func(e member) bool { return e.name == name }); i >= 0 {
		return m.shape(s.props[i].schema)
	}
	return nil
}

// element returns the form of objects, or of those in a list; nil for all else.
func (m *mapper) element(s *shape) *shape {
	if s != nil && s.plainType() == "array" {
		s = m.shape(s.items)
	}
	if s == nil || s.plainType() != "object" || len(s.props) == 0 || s.cut {
		return nil
	}
	return s
}

// paths chooses members of an object: its plain ones and, of each object in it, the one that
// names it. If the object is only around a list, it chooses the plain ones of the elements.
// all reports that nothing else is in the answer.
func (m *mapper) paths(s *shape) (paths []string, all bool) {
	plain, other, complete := m.plain(s)
	if list := m.list(other); list != nil && len(plain) <= maxBeside {
		inner, deeper, whole := m.plain(m.element(m.shape(list.schema)))
		if len(inner) == 0 {
			return nil, false
		}
		for _, e := range other {
			if slices.Contains(metaNames, snake(e.name)) && len(plain) < maxBeside {
				plain = append(plain, e.name) // the way to the next page
			}
		}
		for _, name := range best(inner, maxFields-len(plain)) {
			paths = append(paths, list.name+"."+name)
		}
		all = complete && whole && len(deeper) == 0 && len(other) == 1 && len(paths) == len(inner)
		return append(plain, paths...), all
	}
	all = complete && len(other) == 0 && len(plain) <= maxFields
	most := maxFields
	if len(other) > 0 {
		most = mostPlain
	}
	paths = best(plain, most)
	for _, e := range other {
		if len(paths) == maxFields {
			break
		}
		t := m.shape(e.schema)
		if t.plainType() == "array" && m.isPlain(m.shape(t.items)) {
			paths = append(paths, e.name)
			continue
		}
		if t = m.element(t); t == nil {
			continue
		}
		if name := m.nameOf(t); name != "" {
			paths = append(paths, e.name+"."+name)
		}
	}
	return paths, all
}

// nameOf returns the plain member that says most about an object: one that is required, and
// of these one with a usual name. It is "" if there is none.
func (m *mapper) nameOf(s *shape) string {
	plain, _, _ := m.plain(s)
	required := common(plain, s.required, itself)
	for _, list := range [...][]string{required, plain} {
		for _, name := range naming {
			if slices.Contains(list, name) {
				return name
			}
		}
	}
	for _, list := range [...][]string{required, plain} {
		if len(list) > 0 {
			return list[0]
		}
	}
	return ""
}

// plain returns the members of an object that are texts, numbers or truth values, and the
// objects and lists. complete reports that it has no further members.
func (m *mapper) plain(s *shape) (plain []string, other []member, complete bool) {
	complete = true
	for i, e := range s.props {
		switch t := m.shape(e.schema); {
		case i >= maxLooked || m.steps > m.limit:
			return plain, other, false
		case e.name == "" || len(e.name) > maxName || clean.Text(e.name, maxName) != e.name || strings.ContainsAny(e.name, ".,"),
			e.schema.flag("deprecated"), e.schema.flag("writeOnly"):
			complete = false
		case !m.isPlain(t):
			other = append(other, e)
		case isLink(e.name):
			complete = false
		default:
			plain = append(plain, e.name)
		}
	}
	return plain, other, complete
}

func (m *mapper) isPlain(s *shape) bool {
	return len(s.types) > 0 && !slices.Contains(s.types, "object") && !slices.Contains(s.types, "array")
}

// isLink reports whether a member has an address for programs, or a second id.
func isLink(name string) bool {
	name = snake(name)
	if name == "html_url" || name == "web_url" {
		return false
	}
	return name == "url" || name == "uri" || name == "href" || name == "self" || name == "etag" || name == "node_id" ||
		strings.HasSuffix(name, "_url") || strings.HasSuffix(name, "_uri") || strings.HasSuffix(name, "_href")
}

// list returns the list of objects that an answer is about: the one with a usual name, or the
// only one.
func (m *mapper) list(members []member) *member {
	var lists []*member
	for i, e := range members {
		t := m.shape(e.schema)
		if t.plainType() != "array" || m.element(t) == nil {
			continue
		}
		if slices.Contains(itemNames, snake(e.name)) {
			return &members[i]
		}
		lists = append(lists, &members[i])
	}
	if len(lists) == 1 {
		return lists[0]
	}
	return nil
}
