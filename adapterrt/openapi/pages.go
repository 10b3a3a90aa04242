package openapi

import (
	"slices"
	"strconv"
	"strings"
)

// Names that APIs give to the parameters and members of pages.
var (
	sizeNames   = []string{"per_page", "page_size", "pagesize", "limit", "size", "count", "max_results", "maxresults", "top", "take", "rows"}
	pageNames   = []string{"page", "page_number", "page_no", "pagenumber", "page_num"}
	offsetNames = []string{"offset", "start_index", "skip", "start_at"}
	cursorNames = []string{"cursor", "page_token", "next_token", "starting_after", "start_cursor", "continuation_token", "next_page_token", "after", "page_cursor"}
	nextNames   = []string{"next_cursor", "next_page_token", "next_token", "nextcursor", "next_page", "end_cursor", "continuation_token", "next"}
	itemNames   = []string{"items", "data", "results", "values", "entries", "records", "list", "content", "nodes", "elements", "objects"}
	metaNames   = []string{"meta", "paging", "pagination", "page_info", "response_metadata"} // of objects with the next cursor in them
	totalNames  = []string{"total", "total_count", "total_results", "total_items", "count", "total_size", "total_elements"}
)

// pages looks for both halves of pages: the parameters, and in the answer a Link header or
// the members with the items and the next cursor. If one half is missing, there is a finding.
func (m *mapper) pages() {
	op := m.op
	if op.category != "read" || op.response.as != "" {
		return
	}
	size := m.parameterOf(sizeNames)
	page, offset, cursor := m.parameterOf(pageNames), m.parameterOf(offsetNames), m.parameterOf(cursorNames)
	if page == nil && offset == nil && cursor == nil {
		return
	}
	link, items, next, total := m.answerPages()
	p := &paging{items: items, total: total, start: 1}
	switch {
	case link && size != nil:
		p.style = "link_header"
	case cursor == nil && page != nil && page.typ == "string" && next != "" && items != "":
		p.style, p.position, p.next = "cursor", page.wire, next
		cursor = page
	case cursor != nil && next != "" && items != "":
		p.style, p.position, p.next = "cursor", cursor.wire, next
	case page != nil && size != nil && items != "":
		p.style, p.position = "page", page.wire
		if page.min == "0" || page.fallback == "0" {
			p.start = 0
		}
	case offset != nil && size != nil && items != "":
		p.style, p.position = "offset", offset.wire
	default:
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
		used = append(used, page, cursor) // the links have them
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
	// The runtime sets them; requests use first and after.
	op.params = slices.DeleteFunc(op.params, func(o *param) bool { return slices.Contains(used, o) })
	m.rename("first")
	m.rename("after")
	op.paging = p
	if p.style != "link_header" {
		m.find(Guessed, "pages: style "+p.style, "check it")
	}
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

// rename gives a parameter another name than first and after, which operations with pages
// have.
func (m *mapper) rename(name string) {
	for _, p := range m.op.params {
		if p.name == name {
			p.name = m.free("api_"+name, p.in)
		}
	}
}

// parameterOf returns the optional query parameter with one of the names.
func (m *mapper) parameterOf(names []string) *param {
	for _, name := range names {
		for _, p := range m.op.params {
			if p.in == "query" && p.typ != "array" && p.typ != "object" && (snake(p.wire) == name || strings.TrimPrefix(snake(p.wire), "api_") == name) {
				return p
			}
		}
	}
	return nil
}

// answerPages looks for the parts of pages in the first answer that succeeds. items is "." if
// the answer itself is the list.
func (m *mapper) answerPages() (link bool, items, next, total string) {
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
				return link, ".", "", ""
			}
			items, next, total = m.pageMembers(s)
			return link, items, next, total
		}
		return link, "", "", ""
	}
	return false, "", "", ""
}

func (m *mapper) pageMembers(s *shape) (items, next, total string) {
	var lists []string
	for _, e := range s.props {
		if strings.ContainsRune(e.name, '.') {
			continue
		}
		switch name := snake(e.name); {
		case slices.Contains(nextNames, name):
			t := m.shape(e.schema)
			if t.format != "uri" && t.format != "url" && (slices.Contains(t.types, "string") || slices.Contains(t.types, "integer")) {
				next = e.name
			}
		case slices.Contains(totalNames, name):
			total = e.name
		}
		if slices.Contains(m.shape(e.schema).types, "array") {
			lists = append(lists, e.name)
		}
	}
	if next == "" {
		for _, e := range s.props { // {"data": […], "meta": {"next_cursor": "…"}}
			if !slices.Contains(metaNames, snake(e.name)) {
				continue
			}
			for _, inner := range m.shape(e.schema).props {
				if slices.Contains(nextNames, snake(inner.name)) && !strings.ContainsRune(e.name+inner.name, '.') {
					next = e.name + "." + inner.name
				}
			}
		}
	}
	for _, name := range itemNames {
		if i := slices.IndexFunc(lists, func(s string) bool { return snake(s) == name }); i >= 0 {
			return lists[i], next, total
		}
	}
	if len(lists) == 1 {
		return lists[0], next, total
	}
	return "", next, total
}
