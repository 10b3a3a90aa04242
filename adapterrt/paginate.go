package adapterrt

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// The sizes of pages.
const (
	defaultPage = 20
	clampPage   = 100
	largestPage = 1000
	mostPages   = 20
)

// paging is a compiled pagination block.
type paging struct {
	style              string // cursor, offset, page, link_header
	limit, max         int
	start              int // number of the first page
	pages              int // followed for one request
	items, next, total []string
	position, size     int // parameters for these, -1 for none
	first, after       int // ours
}

func (c *checker) paging(n *node, path string, op *operation) {
	p := c.get(n, path, "pagination", wire.Object)
	if p == nil {
		return
	}
	path += ".pagination"
	c.known(p, path, "style", "param_name", "per_page_param", "default_limit", "max_limit", "items_path", "next_path", "total_path", "start_page", "max_pages")
	g := &paging{
		style: c.word(p, path, "style", "cursor", "offset", "page", "link_header"),
		start: c.whole(p, path, "start_page", 1, 0, 1), pages: c.whole(p, path, "max_pages", 1, 1, mostPages),
		items: splitPath(c.str(p, path, "items_path")), next: splitPath(c.str(p, path, "next_path")), total: splitPath(c.str(p, path, "total_path")),
		position: -1, size: -1,
	}
	g.max = c.whole(p, path, "max_limit", clampPage, 1, largestPage)
	g.limit = min(c.whole(p, path, "default_limit", defaultPage, 1, largestPage), g.max)
	if p.get("style") == nil {
		c.wrong(SchemaMissingField, path+".style", "pagination style is required", "cursor, offset, page or link_header", nil, p.line)
	}
	if op.category != Read {
		c.wrong(SchemaInvalidValue, path, "only read operations have pages", "category read", p, 0)
	}
	position, size := c.str(p, path, "param_name"), c.str(p, path, "per_page_param")
	if position == "" && g.style != "link_header" {
		c.wrong(SchemaMissingField, path+".param_name", "param_name is required", "name of the parameter for the position", nil, p.line)
	}
	if s := p.get("style"); s != nil && s.text == "cursor" && g.next == nil { // and not because the word is wrong
		c.wrong(SchemaMissingField, path+".next_path", "next_path is required", "dotted path of the next cursor", nil, p.line)
	}
	if position != "" {
		g.position = op.hiddenParam(position, g.style != "cursor")
	}
	if size != "" {
		g.size = op.hiddenParam(size, true)
	}
	for _, k := range [...]int{g.position, g.size} {
		if k >= 0 && (op.params[k].required || op.params[k].place == inPath) {
			c.wrong(SchemaInvalidValue, path, "parameters of pages must not be required", "optional parameters", p, 0)
		}
	}
	if _, ok := op.param([]byte("first")); ok {
		c.wrong(SchemaInvalidValue, path, "an operation with pages must not declare first", "another name", p, 0)
		return
	}
	if _, ok := op.param([]byte("after")); ok {
		c.wrong(SchemaInvalidValue, path, "an operation with pages must not declare after", "another name", p, 0)
		return
	}
	one := &bound{raw: []byte("1")}
	g.first = op.ownParam("first", definition{typ: typeInteger, minimum: one, description: "Items on a page, up to " + strconv.Itoa(g.max) + "; null for " + strconv.Itoa(g.limit)})
	g.after = op.ownParam("after", definition{typ: typeString, description: "endCursor of the page before; needs first"})
	op.paging = g
}

// splitPath parts a dotted path; nil for none.
func splitPath(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ".")
}

// ownParam declares a parameter that the runtime itself understands.
func (op *operation) ownParam(name string, d definition) int {
	d.minLength, d.maxLength, d.constrained = -1, -1, d.minimum != nil
	op.params = append(op.params, &param{definition: d, name: name, wire: name, place: inRuntime})
	return len(op.params) - 1
}

// hiddenParam is the parameter of that name, or one that only we may set.
func (op *operation) hiddenParam(name string, integer bool) int {
	for i, p := range op.params {
		if p.name == name || p.wire == name {
			return i
		}
	}
	p := &param{name: name, wire: name, hidden: true, place: inQuery, definition: definition{minLength: -1, maxLength: -1}}
	if integer {
		p.typ = typeInteger
	}
	switch {
	case op.adapter.target.graphql:
		p.place = inVariables
	case op.mapping != nil && op.mapping.method != "GET" && op.mapping.method != "DELETE":
		p.place = inBody
	}
	p.compile()
	op.placed[p.place] = append(op.placed[p.place], len(op.params))
	op.params = append(op.params, p)
	return len(op.params) - 1
}

// page is where in a list a request stands.
type page struct {
	limit    int
	position string // "" for the first page
	query    string // link_header: the whole query of the page
}

func badPaging(problem string) *Failure {
	f := invalidType("pagination", "a valid combination", "an invalid one")
	f.Message = "Invalid pagination: " + problem
	return f
}

// wantedPage reads first and after. It is nil when the request asks for no page
// and wants the API's answer as it is.
func (c *call) wantedPage(rt *Runtime) (*page, *Failure) {
	g := c.op.paging
	if g == nil {
		return nil, nil
	}
	first, after := c.values[g.first], c.values[g.after]
	if first.kind == wire.Absent && after.kind <= wire.Null {
		return nil, nil
	}
	if first.kind == wire.Absent {
		return nil, badPaging("'after' needs 'first'")
	}
	for _, k := range [...]int{g.position, g.size} {
		if k >= 0 && c.given(k) {
			return nil, badPaging("'first' excludes '" + c.op.params[k].name + "'")
		}
	}
	for _, name := range [...]string{"last", "before"} {
		if k, ok := c.op.param([]byte(name)); ok && c.given(k) {
			return nil, badPaging("'first' excludes '" + name + "'")
		}
	}
	p := &page{limit: g.limit}
	if first.kind == wire.Number {
		digits, _ := plainInteger(nil, first.raw)
		n, err := strconv.Atoi(string(digits))
		if err != nil {
			n = g.max
		}
		p.limit = min(n, g.max)
	}
	if after.kind == wire.String {
		position, ok := rt.openCursor(c, string(wire.Unquoted(after.raw)))
		if !ok {
			return nil, invalidValue("after", "is not a cursor of this operation and these parameters")
		}
		if p.position = position; g.style == "link_header" {
			p.query = position
		}
	}
	return p, nil
}

// given says whether the request itself set parameter k.
func (c *call) given(k int) bool {
	return c.values[k].kind != wire.Absent && !c.values[k].fallback
}

// turn sets the parameters of a page.
func (c *call) turn(p *page) {
	g := c.op.paging
	set := func(k int, raw []byte) {
		if k >= 0 {
			c.values[k] = value{raw: raw, kind: wire.KindOf(raw), fallback: true}
		}
	}
	set(g.size, strconv.AppendInt(nil, int64(p.limit), 10))
	switch {
	case g.style == "page" && p.position == "":
		set(g.position, strconv.AppendInt(nil, int64(g.start), 10))
	case g.style == "offset" && p.position == "":
		set(g.position, []byte("0"))
	case g.style == "page" || g.style == "offset":
		set(g.position, []byte(p.position))
	case g.style == "cursor" && p.position != "":
		set(g.position, wire.AppendQuoted(nil, p.position))
	}
	c.query = p.query
}

// performPages makes the calls for one request for a page and joins them.
func (c *call) performPages(ctx context.Context, rt *Runtime, p *page, r *Result) {
	g := c.op.paging
	start := p.position
	items := []byte{'['}
	var total []byte
	next, more := "", false
	for n := 0; n < g.pages; n++ {
		c.turn(p)
		answer := c.fetch(ctx, rt, r)
		if answer == nil {
			return
		}
		list := wire.Trim(wire.Lookup(r.Data, g.items))
		if list == nil || wire.KindOf(list) != wire.Array {
			c.warn(Notice{Code: "PAGINATION_ITEMS_MISSING", Message: "The response holds no list of items", Severity: "medium"})
			return
		}
		if t := wire.Lookup(r.Data, g.total); g.total != nil && t != nil && wire.KindOf(t) == wire.Number {
			total = t
		}
		inner := wire.Trim(list[1 : len(list)-1])
		if len(inner) > 0 {
			if len(items) > 1 {
				items = append(items, ',')
			}
			items = append(items, inner...)
		}
		if next, more = c.following(rt, p, answer, r.Data, list, total); !more || len(items) > rt.opt.MaxResponseBytes {
			break
		}
		p = &page{limit: p.limit, position: next}
		if g.style == "link_header" {
			p.query = next
		}
	}
	info := wire.Members(nil).Bool("hasNextPage", more).Bool("hasPreviousPage", start != "")
	info = info.Raw("startCursor", rt.cursor(c, start, start != "")).Raw("endCursor", rt.cursor(c, next, more))
	if total != nil {
		info = info.Raw("totalCount", total)
	}
	r.Data = wire.Members(nil).Raw("items", append(items, ']')).Raw("pageInfo", info.End()).End()
}

// cursor is the JSON text of a position's cursor, null for none.
func (rt *Runtime) cursor(c *call, position string, there bool) []byte {
	if !there {
		return []byte("null")
	}
	return wire.AppendQuoted(nil, rt.sealCursor(c, position))
}

// following is the position of the page after p, if there is one.
func (c *call) following(rt *Runtime, p *page, answer *reply, data, list, total []byte) (string, bool) {
	g := c.op.paging
	count := 0
	wire.Each(list, func(_, _ []byte) bool { count++; return true })
	at, _ := strconv.Atoi(p.position)
	if p.position == "" && g.style == "page" {
		at = g.start
	}
	full := count >= p.limit
	switch g.style {
	case "cursor":
		if c.op.graphql != nil && string(wire.Lookup(data, append(g.next[:len(g.next)-1:len(g.next)-1], "hasNextPage"))) == "false" {
			// A connection's last page has an endCursor, too:
			// https://relay.dev/graphql/connections.htm#sec-undefined.PageInfo
			return "", false
		}
		v := wire.Lookup(data, g.next)
		if v == nil || wire.KindOf(v) != wire.String && wire.KindOf(v) != wire.Number {
			return "", false
		}
		next := string(appendText(nil, v, false))
		return next, next != "" && next != p.position
	case "page":
		if total != nil {
			n, _ := strconv.Atoi(string(total))
			full = (at-g.start+1)*p.limit < n
		}
		return strconv.Itoa(at + 1), full && count > 0
	case "offset":
		if total != nil {
			n, _ := strconv.Atoi(string(total))
			full = at+count < n
		}
		return strconv.Itoa(at + count), full && count > 0
	}
	return c.nextLink(answer)
}

// nextLink is the query of a Link header's rel="next":
// https://www.rfc-editor.org/rfc/rfc8288. Another origin's is none, and the key
// that the API may have echoed is taken out.
func (c *call) nextLink(answer *reply) (string, bool) {
	a := c.op.adapter
	for _, h := range answer.header.Values("Link") {
		for h != "" {
			open := strings.IndexByte(h, '<')
			end := strings.IndexByte(h, '>')
			if open < 0 || end < open {
				break
			}
			target, rest := h[open+1:end], h[end+1:]
			params := rest
			if i := strings.Index(rest, ",<"); i >= 0 {
				params, rest = rest[:i], rest[i:]
			} else if i := strings.Index(rest, ", <"); i >= 0 {
				params, rest = rest[:i], rest[i:]
			} else {
				rest = ""
			}
			h = rest
			if !isNext(params) {
				continue
			}
			u, err := a.target.base.Parse(target)
			if err != nil || originOf(u) != a.target.origin || u.RawQuery == "" || len(u.RawQuery) > 4096 {
				return "", false
			}
			pairs := slices.DeleteFunc(strings.Split(u.RawQuery, "&"), func(p string) bool {
				k, _, _ := strings.Cut(p, "=")
				k, err := url.QueryUnescape(k)
				return err != nil || k == a.auth.query && k != ""
			})
			return string(appendLiteral(nil, strings.Join(pairs, "&"))), true
		}
	}
	return "", false
}

func isNext(params string) bool {
	for _, p := range strings.Split(params, ";") {
		k, v, _ := strings.Cut(strings.TrimSpace(p), "=")
		if strings.EqualFold(strings.TrimSpace(k), "rel") && slices.Contains(strings.Fields(strings.ToLower(strings.Trim(strings.TrimSpace(v), `"`))), "next") {
			return true
		}
	}
	return false
}

// A cursor carries all that the next page needs: its position, and a hash of what
// the list was asked for, under a seal that only this runtime's key makes.
const (
	cursorVersion = 1
	hashSize      = 8
	sealSize      = 8
)

func (rt *Runtime) sealCursor(c *call, position string) string {
	b := append([]byte{cursorVersion}, c.listHash()...)
	b = append(b, position...)
	return base64.RawURLEncoding.EncodeToString(append(b, rt.seal(b)...))
}

// openCursor is the position in a cursor, when it was made for this very list.
func (rt *Runtime) openCursor(c *call, s string) (string, bool) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	n := len(b) - sealSize
	if err != nil || n < 1+hashSize || b[0] != cursorVersion || !hmac.Equal(b[n:], rt.seal(b[:n])) {
		return "", false
	}
	if !hmac.Equal(b[1:1+hashSize], c.listHash()) {
		return "", false
	}
	return string(b[1+hashSize : n]), true
}

func (rt *Runtime) seal(b []byte) []byte {
	m := hmac.New(sha256.New, rt.opt.CursorKey)
	m.Write(b)
	return m.Sum(nil)[:sealSize]
}

// listHash is of the operation, its style, and every parameter but those that
// choose the page and what of an item is shown.
func (c *call) listHash() []byte {
	h := sha256.New()
	var size [8]byte
	part := func(b []byte) {
		binary.BigEndian.PutUint64(size[:], uint64(len(b)))
		h.Write(size[:])
		h.Write(b)
	}
	part([]byte(c.op.adapter.Name))
	part([]byte(c.op.name))
	part([]byte(c.op.paging.style))
	for i, p := range c.op.params {
		if v := c.values[i]; p.place != inRuntime && v.kind != wire.Absent && i != c.op.paging.position && i != c.op.paging.size {
			part([]byte(p.name))
			part(wire.AppendCompact(nil, v.raw))
		}
	}
	return h.Sum(nil)[:hashSize]
}
