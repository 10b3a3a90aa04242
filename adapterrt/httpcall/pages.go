package httpcall

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/escape"
	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Page is a page of a list.
type Page struct {
	limit    int
	position string // "" for the first page
	query    string // link_header: the whole query of the page
}

func badPaging(problem string) *failure.Failure {
	f := failure.InvalidType("pagination", "a valid combination", "an invalid one")
	f.Message = "Invalid pagination: " + problem
	return f
}

// WantedPage reads the parameters first and after. It returns nil if the request does not ask
// for a page; the result is then the API's answer as it is.
func (c *Call) WantedPage(seals Cursors) (*Page, *failure.Failure) {
	g := c.Op.Paging
	if g == nil {
		return nil, nil
	}
	first, after := c.Values[g.First], c.Values[g.After]
	if first.Kind == wire.Absent && after.Kind <= wire.Null {
		return nil, nil
	}
	if first.Kind == wire.Absent {
		return nil, badPaging("'" + c.Op.Params[g.After].Name + "' needs '" + c.Op.Params[g.First].Name + "'")
	}
	for _, k := range [...]int{g.Position, g.Size} {
		if k >= 0 && c.given(k) {
			return nil, badPaging("'" + c.Op.Params[g.First].Name + "' excludes '" + c.Op.Params[k].Name + "'")
		}
	}
	if c.Op.GraphQL != nil { // of a connection, they walk the list backwards; of other APIs, they are what the API says
		for _, name := range [...]string{"last", "before"} {
			if k, ok := c.Op.Param([]byte(name)); ok && c.given(k) {
				return nil, badPaging("'first' excludes '" + name + "'")
			}
		}
	}
	p := &Page{limit: g.Limit}
	if first.Kind == wire.Number {
		digits, _ := wire.AppendInteger(nil, first.Raw)
		n, err := strconv.Atoi(string(digits))
		if err != nil {
			n = g.Max
		}
		p.limit = min(n, g.Max)
	}
	if after.Kind == wire.String {
		position, ok := seals.open(c, string(wire.Unquoted(after.Raw)))
		if !ok {
			return nil, failure.InvalidValue(c.Op.Params[g.After].Name, "is not a cursor of this operation and these parameters")
		}
		if p.position = position; g.Style == "link_header" {
			p.query = position
		}
	}
	return p, nil
}

// given reports whether the request itself set parameter k.
func (c *Call) given(k int) bool {
	return c.Values[k].Kind != wire.Absent && !c.Values[k].Fallback
}

// Turn sets the API's parameters for page p.
func (c *Call) Turn(p *Page) {
	g := c.Op.Paging
	set := func(k int, raw []byte) {
		if k >= 0 {
			c.Values[k] = Value{Raw: raw, Kind: wire.KindOf(raw), Fallback: true}
		}
	}
	set(g.Size, strconv.AppendInt(nil, int64(p.limit), 10))
	switch {
	case g.Style == "page" && p.position == "":
		set(g.Position, strconv.AppendInt(nil, int64(g.Start), 10))
	case g.Style == "offset" && p.position == "":
		set(g.Position, []byte("0"))
	case g.Style == "page" || g.Style == "offset":
		set(g.Position, []byte(p.position))
	case g.Style == "cursor" && p.position != "":
		set(g.Position, wire.AppendQuoted(nil, p.position))
	}
	c.query = p.query
}

// Pages makes the calls for one request for a page and joins their items. It makes no further
// call when the size of the items, in bytes, exceeds the parameter most. fetch makes one call;
// if it returns a nil reply, Pages ends. ok is false if there is nothing to join; the result of
// the last call is then the answer.
func (c *Call) Pages(p *Page, seals Cursors, most int, fetch func() (data []byte, answer *Reply)) (joined []byte, ok bool) {
	g := c.Op.Paging
	start := p.position
	items := []byte{'['}
	var total []byte
	next, more := "", false
	for n := 0; n < g.Pages; n++ {
		c.Turn(p)
		data, answer := fetch()
		if answer == nil {
			return nil, false
		}
		list := wire.Trim(wire.Lookup(data, g.Items))
		if list == nil || wire.KindOf(list) != wire.Array {
			c.Warn(failure.Notice{Code: "PAGINATION_ITEMS_MISSING", Message: "The response holds no list of items", Severity: "medium"})
			return nil, false
		}
		if t := wire.Lookup(data, g.Total); g.Total != nil && t != nil && wire.KindOf(t) == wire.Number {
			total = t
		}
		inner := wire.Trim(list[1 : len(list)-1])
		if len(inner) > 0 {
			items = wire.Comma(items)
			items = append(items, inner...)
		}
		if next, more = c.following(p, answer, data, list, total); !more || len(items) > most {
			break
		}
		p = &Page{limit: p.limit, position: next}
		if g.Style == "link_header" {
			p.query = next
		}
	}
	info := wire.Members(nil).Bool("hasNextPage", more).Bool("hasPreviousPage", start != "")
	info = info.Raw("startCursor", seals.text(c, start, start != "")).Raw("endCursor", seals.text(c, next, more))
	if total != nil {
		info = info.Raw("totalCount", total)
	}
	return wire.Members(nil).Raw("items", append(items, ']')).Raw("pageInfo", info.End()).End(), true
}

// Cursors seals positions in lists with a key, so that clients cannot make cursors.
type Cursors struct{ Key []byte }

// text returns the cursor of a position as a JSON string, or null if there is no position.
func (k Cursors) text(c *Call, position string, there bool) []byte {
	if !there {
		return []byte("null")
	}
	return wire.AppendQuoted(nil, k.seal(c, position))
}

// following returns the position of the page after p, and whether there is one.
func (c *Call) following(p *Page, answer *Reply, data, list, total []byte) (string, bool) {
	g := c.Op.Paging
	count := 0
	wire.Each(list, func(_, _ []byte) bool { count++; return true })
	at, _ := strconv.Atoi(p.position)
	if p.position == "" && g.Style == "page" {
		at = g.Start
	}
	full := count >= p.limit
	switch g.Style {
	case "cursor":
		if c.Op.GraphQL != nil && string(wire.Lookup(data, append(g.Next[:len(g.Next)-1:len(g.Next)-1], "hasNextPage"))) == "false" {
			// The last page of a connection also has an endCursor:
			// https://relay.dev/graphql/connections.htm#sec-undefined.PageInfo
			return "", false
		}
		v := wire.Lookup(data, g.Next)
		if v == nil || wire.KindOf(v) != wire.String && wire.KindOf(v) != wire.Number {
			return "", false
		}
		next := string(AppendText(nil, v, false))
		return next, next != "" && next != p.position
	case "page":
		if total != nil {
			n, _ := strconv.Atoi(string(total))
			full = (at-g.Start+1)*p.limit < n
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

// nextLink returns the query of the URL with rel="next" in a Link header:
// https://www.rfc-editor.org/rfc/rfc8288. It ignores a URL of another origin, and removes
// a credential that the API may have repeated in the query.
func (c *Call) nextLink(answer *Reply) (string, bool) {
	a := c.Op.Adapter
	for _, h := range answer.Header.Values("Link") {
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
			u, err := c.Op.Target.Base.Parse(target)
			if err != nil || file.OriginOf(u) != c.Op.Target.Origin || u.RawQuery == "" || len(u.RawQuery) > 4096 {
				return "", false
			}
			pairs := slices.DeleteFunc(strings.Split(u.RawQuery, "&"), func(p string) bool {
				k, _, _ := strings.Cut(p, "=")
				k, err := url.QueryUnescape(k)
				return err != nil || a.Auth.Hides(k)
			})
			return string(escape.AppendLiteral(nil, strings.Join(pairs, "&"))), true
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

// A cursor contains everything that the next page needs: a version, a hash of the list's
// parameters, and the position, with a seal that can only be made with the key.
const (
	cursorVersion = 1
	hashSize      = 8
	sealSize      = 8
)

func (k Cursors) seal(c *Call, position string) string {
	b := append([]byte{cursorVersion}, c.listHash()...)
	b = append(b, position...)
	return base64.RawURLEncoding.EncodeToString(append(b, k.sum(b)...))
}

// open returns the position in a cursor. It reports false if the seal is wrong or the cursor
// was made for another list.
func (k Cursors) open(c *Call, s string) (string, bool) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	n := len(b) - sealSize
	if err != nil || n < 1+hashSize || b[0] != cursorVersion || !hmac.Equal(b[n:], k.sum(b[:n])) {
		return "", false
	}
	if !hmac.Equal(b[1:1+hashSize], c.listHash()) {
		return "", false
	}
	return string(b[1+hashSize : n]), true
}

func (k Cursors) sum(b []byte) []byte {
	m := hmac.New(sha256.New, k.Key)
	m.Write(b)
	return m.Sum(nil)[:sealSize]
}

// listHash returns a hash of the operation, its style of paging, the caller, and every parameter except
// those that select the page and the fields.
func (c *Call) listHash() []byte {
	d := NewDigest()
	d.Add(c.Op.Adapter.Name, c.Op.Name, string(c.Op.Paging.Style))
	if c.Caller != "" {
		d.Add("caller", c.Caller)
	}
	for i, p := range c.Op.Params {
		if v := c.Values[i]; p.Place != file.InRuntime && v.Kind != wire.Absent && i != c.Op.Paging.Position && i != c.Op.Paging.Size {
			d.Add(p.Name, string(wire.AppendCompact(nil, v.Raw)))
		}
	}
	return d.Sum(nil)[:hashSize]
}
