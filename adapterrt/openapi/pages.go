package openapi

import (
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/pattern"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Names that APIs give to the parameters and members of pages.
var (
	sizeNames   = []string{"per_page", "page_size", "pagesize", "page_limit", "limit", "size", "count", "max_results", "maxresults", "top", "take", "rows"}
	pageNames   = []string{"page", "page_number", "page_no", "pagenumber", "page_num"}
	offsetNames = []string{"offset", "page_offset", "start_index", "skip", "start_at"}
	cursorNames = []string{"cursor", "page_token", "next_token", "starting_after", "start_cursor", "continuation_token", "continue", "next_page_token",
		"pagination_token", "next_cursor", "after_cursor", "page_cursor", "page_after", "marker", "bookmark", "after"}
	nextNames = []string{"next_cursor", "next_page_token", "next_token", "nextcursor", "next_page_cursor", "next_page_key", "next_marker", "next_offset",
		"end_cursor", "continuation_token", "next_page", "next"}
	itemNames  = []string{"items", "data", "results", "values", "entries", "records", "list", "content", "nodes", "elements", "objects"}
	metaNames  = []string{"meta", "metadata", "paging", "pagination", "page_info", "response_metadata", "next_page", "next", "cursors"} // of objects with the next cursor in them
	totalNames = []string{"total", "total_count", "total_results", "total_items", "count", "total_size", "total_elements"}
)

// What descriptions say of positions in lists.
var (
	opaque   = pattern.Later(`(?i)\b(?:tokens?|cursors?|opaque|continuation|bookmark|base64)\b|\b(?:returned|received|provided|obtained|supplied|given)\b.*\b(?:previous|previously|prior|last|earlier|preceding)\b|\b(?:previous|previously|prior|last|preceding)\b.*\b(?:returned|received|response|request|call)\b`)
	counting = pattern.Later(`(?i)\b(?:numbers?|index|zero|skip|amount|how many|count|(?:0|1|zero|one)-based|integer)\b`)
	pageOf   = pattern.Later(`(?i)\bpage (?:number|index)\b|\bnumber of pages\b|\bpages to skip\b|\bnumber of the page\b`)
	fromOne  = pattern.Later(`(?i)\b(?:1|one)-based\b|\b(?:starts|starting|begins) (?:at|with|from) (?:1|one)\b`)
	dates    = pattern.Later(`(?i)\b(?:dates?|time|timestamps?|datetime|iso ?-?8601|rfc ?3339|epoch|days?)\b`)
	address  = pattern.Later(`(?i)\b(?:urls?|uris?|links?|hrefs?|https?|path)\b`)
	onwards  = pattern.Later(`(?i)\b(?:next|subsequent|following|more|continue|remaining)\b`)
)

// position is how a parameter says where a page begins.
type position int

const (
	noPosition position = iota // it is a filter, or something else
	unclear                    // the document does not say whether it is a number
	numeric                    // of a page, or of an item
	token                      // that an answer has given
)

// position tells by the type and the description of a parameter with a name of a position what its values are. The name
// alone says nothing: an offset may be a token, and what is after a date is a filter.
func (m *mapper) position(p *param, named position) position {
	told := m.told(p)
	hidden := m.doc.says(opaque(), told)
	switch {
	case p.format == "date" || p.format == "date-time" || p.enum != nil || named == token && p.name == "after" && !hidden && m.doc.says(dates(), told):
		return noPosition
	case named == token:
		return token
	case hidden && p.typ == "string":
		return token
	case hidden && !m.doc.says(counting(), told):
		return unclear
	case p.typ != "string":
		return numeric
	case p.format != "":
		return noPosition
	case m.doc.says(dates(), told) && !m.doc.says(counting(), told):
		return noPosition
	case isWhole(p.fallback) || slices.ContainsFunc(p.examples, func(n *node) bool { return isWhole(n.text) }) || m.doc.says(counting(), told):
		return numeric
	}
	return unclear
}

// maxTold is how much of a description is read, in bytes.
const maxTold = 600

// told returns what the document says of a parameter, with its marks.
func (m *mapper) told(p *param) string {
	for _, raw := range m.raw.params {
		if raw.in == p.in && raw.name == p.wire {
			text := raw.description
			if raw.schema.get("description") != nil || raw.schema.get("$ref") != nil {
				text += " " + m.shape(raw.schema).description
			}
			return text[:min(len(text), maxTold)]
		}
	}
	return p.description
}

// pages looks for both halves of pages: the parameters, and in the answer a Link header or
// the members with the items and the next cursor. If one half is missing, or one of them may
// be read in two ways, there is a finding, and the parameters stay as they are.
func (m *mapper) pages() {
	op := m.op
	if op.category != "read" || op.response.as != "" && op.response.as != "auto" {
		return
	}
	size := m.parameterOf(sizeNames, func(p *param) bool { return m.isSize(p) })
	at := map[position]*param{}
	var page, offset *param
	for _, names := range [...][]string{cursorNames, pageNames, offsetNames} {
		named := numeric
		if &names[0] == &cursorNames[0] {
			named = token
		}
		p := m.parameterOf(names, func(p *param) bool { return m.position(p, named) != noPosition })
		if p == nil {
			continue
		}
		is := m.position(p, named)
		if at[is] == nil {
			at[is] = p
		}
		if is == numeric && &names[0] == &pageNames[0] {
			page = p
		} else if is == numeric {
			offset = p
		}
	}
	cursor, doubtful := at[token], at[unclear]
	if page == nil && offset == nil && cursor == nil && doubtful == nil {
		return
	}
	m.answering = true
	defer func() { m.answering = false }()
	link, items, total, answer := m.answerPages()
	next := ""
	if cursor == nil && doubtful != nil && doubtful.typ == "string" {
		if next = m.next(answer, doubtful); next != "" { // what the answer gives is what the parameter takes
			cursor, doubtful = doubtful, nil
		}
	} else if cursor != nil {
		next = m.next(answer, cursor)
	}
	p := &paging{items: items, total: total, start: 1}
	switch {
	case link && size != nil:
		p.style = "link_header"
	case cursor != nil && next != "" && items != "":
		p.style, p.position, p.next = "cursor", cursor.wire, next
	case cursor != nil || doubtful != nil: // a page or an offset beside it may be of the same pages, or not
	case page != nil && size != nil && items != "" && m.next(answer, nil) == "":
		p.style, p.position = "page", page.wire
		if page.min == "0" || page.fallback == "0" {
			p.start = 0
		}
	case page == nil && offset != nil && size != nil && items != "" && m.fromZero(offset):
		p.style, p.position = "offset", offset.wire
	}
	if p.style == "" {
		m.find(Guessed, "it seems to have pages, but the document does not say how they go on", "add a pagination block")
		return
	}
	if p.items == "." {
		p.items = ""
	}
	used := []*param{size}
	switch p.style {
	case "cursor":
		used = append(used, cursor)
	case "page":
		used = append(used, page)
	case "offset":
		used = append(used, offset)
	default:
		used = append(used, page, cursor, doubtful) // the links have them
	}
	used = slices.DeleteFunc(used, func(u *param) bool { return u == nil })
	if slices.ContainsFunc(used, func(u *param) bool { return u.required }) {
		m.find(Guessed, "it has pages with required parameters", "add a pagination block")
		return
	}
	if size != nil {
		p.size = size.wire
		p.limits(size)
	}
	// The runtime sets them; requests use first and after, or other names if the API has these.
	op.params = slices.DeleteFunc(op.params, func(o *param) bool { return slices.Contains(used, o) })
	op.paging = p
	if p.style != "link_header" {
		m.find(Guessed, "pages: style "+p.style, "check it")
		return
	}
	for _, u := range used[1:] {
		m.weak("query parameter " + quoted(u.wire) + " is left out: the links of the answers lead from page to page")
	}
}

// isSize reports whether a parameter is a number of items: some documents have all parameters as texts.
func (m *mapper) isSize(p *param) bool {
	return p.typ == "integer" || p.typ == "number" ||
		p.typ == "string" && p.format == "" && p.enum == nil && (isWhole(p.fallback) || m.doc.says(counting(), m.told(p)) || slices.ContainsFunc(p.examples, func(n *node) bool { return isWhole(n.text) }))
}

// fromZero reports whether an offset counts items, the first of which is 0.
func (m *mapper) fromZero(p *param) bool {
	told := m.told(p)
	return p.min != "1" && p.fallback != "1" && !m.doc.says(pageOf(), told) && !m.doc.says(fromOne(), told)
}

// limits takes over the default and the largest size of pages.
func (p *paging) limits(size *param) {
	if n, err := strconv.Atoi(size.max); err == nil && n > 0 {
		p.most = min(n, 1000)
	}
	if n, err := strconv.Atoi(size.fallback); err == nil && n > 0 && n <= 1000 {
		p.limit = n
	}
	_, after, ok := strings.Cut(size.description, "(max ")
	if n, err := strconv.Atoi(strings.TrimSuffix(strings.Fields(after + " x")[0], ")")); p.most == 0 && ok && err == nil && n > 0 && n <= 1000 {
		p.most = n
	}
}

// parameterOf returns the first parameter in the query that has one of the names and fits. The
// order of the names counts, not that of the parameters.
func (m *mapper) parameterOf(names []string, fits func(p *param) bool) *param {
	called := make([]string, len(m.op.params))
	for i, p := range m.op.params {
		called[i] = strings.TrimPrefix(snake(p.wire), "api_")
	}
	for _, name := range names {
		for i, p := range m.op.params {
			if p.in == "query" && p.fixed == nil && (p.typ == "string" || p.typ == "integer" || p.typ == "number") && called[i] == name && fits(p) {
				return p
			}
		}
	}
	return nil
}

// answerPages looks for the parts of pages in the first answer that succeeds, which it returns
// if it is an object. items is "." if the answer itself is the list.
func (m *mapper) answerPages() (link bool, items, total string, answer *shape) {
	for _, a := range m.raw.answers {
		if a.status[0] != '2' {
			continue
		}
		link = slices.Contains(a.headers, "link")
		for _, c := range a.content {
			if !isJSON(c.kind) {
				continue
			}
			s := m.shape(c.schema)
			if slices.Contains(s.types, "array") {
				return link, ".", "", nil
			}
			items, total = m.pageMembers(s)
			return link, items, total, s
		}
		return link, "", "", nil
	}
	return false, "", "", nil
}

func (m *mapper) pageMembers(s *shape) (items, total string) {
	var lists []string
	for _, e := range s.props {
		if strings.ContainsRune(e.name, '.') {
			continue
		}
		t := m.shape(e.schema)
		if slices.Contains(totalNames, snake(e.name)) && (slices.Contains(t.types, "integer") || slices.Contains(t.types, "number")) {
			total = e.name
		}
		if slices.Contains(t.types, "array") {
			lists = append(lists, e.name)
		}
	}
	for _, name := range itemNames {
		if i := slices.IndexFunc(lists, func(s string) bool { return snake(s) == name }); i >= 0 {
			return lists[i], total
		}
	}
	if len(lists) == 1 {
		return lists[0], total
	}
	return "", total
}

// next returns the path of the member of an answer that has the value of the parameter p for
// the next page, or "". Without p, it looks for a member that can be nothing but a token.
func (m *mapper) next(s *shape, p *param) string {
	if s == nil {
		return ""
	}
	wants := ""
	if p != nil {
		wants = snake(p.wire)
	}
	return m.nextIn(s, wants, p == nil, false, 0)
}

// maxNext is how many objects around a cursor are looked into.
const maxNext = 3

// nextIn looks into one object of an answer. behind says that the object is about the next page.
func (m *mapper) nextIn(s *shape, wants string, sure, behind bool, depth int) string {
	for _, name := range nextNames { // the surest name first
		for _, e := range s.props {
			if snake(e.name) == name && !strings.ContainsRune(e.name, '.') && m.goesOn(e, sure || name == "next" || name == "next_page", sure, name) {
				return e.name
			}
		}
	}
	if sure {
		return ""
	}
	for _, e := range s.props { // {"next_page": {"offset": "…"}}, {"cursor": "for more"}
		name := snake(e.name)
		if strings.ContainsRune(e.name, '.') || name != wants && !(behind && slices.Contains(cursorNames, name)) {
			continue
		}
		if m.goesOn(e, !behind, false, name) {
			return e.name
		}
	}
	if depth == maxNext {
		return ""
	}
	for _, e := range s.props { // {"data": […], "meta": {"next_cursor": "…"}}
		name := snake(e.name)
		if !slices.Contains(metaNames, name) || strings.ContainsRune(e.name, '.') {
			continue
		}
		if in := m.shape(e.schema); in.props != nil {
			if path := m.nextIn(in, wants, sure, behind || strings.HasPrefix(name, "next"), depth+1); path != "" {
				return e.name + "." + path
			}
		}
	}
	return ""
}

// goesOn reports whether a member of an answer has a token for the next page. weak says that its name may as well be that
// of a URL or of the page before, so that what is said of it counts; text that only texts count.
func (m *mapper) goesOn(e member, weak, text bool, name string) bool {
	t := m.shape(e.schema)
	switch {
	case t.format == "uri" || t.format == "url" || t.format == "uri-reference" || !slices.Contains(t.types, "string") && (text || !slices.Contains(t.types, "integer")):
		return false
	case m.doc.says(address(), t.description) && !m.doc.says(opaque(), t.description):
		return false
	}
	for _, x := range t.examples {
		if x.is(wire.String) && (strings.Contains(x.text, "://") || strings.HasPrefix(x.text, "/") || strings.HasPrefix(x.text, "?")) {
			return false
		}
	}
	if !weak {
		return true
	}
	if strings.HasPrefix(name, "next") {
		return strings.HasSuffix(name, "token") || strings.HasSuffix(name, "cursor") || m.doc.says(opaque(), t.description) || !slices.Contains(t.types, "string") && !text
	}
	return m.doc.says(onwards(), t.description)
}
