package file

import (
	"strconv"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// The default and the limits of page sizes, and the largest max_pages.
const (
	defaultPage = 20
	clampPage   = 100
	largestPage = 1000
	mostPages   = 20
)

var pagingBlock = block{"operations.CATEGORY[].pagination", "A call with `first` gets a page of that many items, and with `after` the ones behind a cursor, whatever the style of the API. If the API has parameters of these names, they are `page_first` and `page_after`. For read operations.", []key{
	{"style", "cursor, offset, page, link_header", must, "How the API names a position: by a cursor of its own, the number of an item, the number of a page, or the Link header of the page before."},
	{"param_name", "string", "", "The API's parameter for the position; required but for link_header."},
	{"per_page_param", "string", "", "The API's parameter for the number of items."},
	{"items_path", "dotted path", "", "Where the items are in an answer. Without it, the answer is the list."},
	{"next_path", "dotted path", "", "Where the next cursor is; required for cursor."},
	{"total_path", "dotted path", "", "Where the number of all items is."},
	{"default_limit", "integer 1–1000", "20", "The items of a call with `first: null`."},
	{"max_limit", "integer 1–1000", "100", "The most that a call may ask for."},
	{"start_page", "integer 0–1", "1", "The number of the first page."},
	{"max_pages", "integer 1–20", "1", "How many pages of the API one call may fetch."},
}}

func (c *checker) paging(n *node, path string, op *Operation) {
	p := c.get(n, path, "pagination", wire.Object)
	if p == nil {
		return
	}
	path += ".pagination"
	c.known(p, path, &pagingBlock)
	g := &Paging{
		Style: c.word(p, path, "style", "cursor", "offset", "page", "link_header"),
		Start: c.whole(p, path, "start_page", 1, 0, 1), Pages: c.whole(p, path, "max_pages", 1, 1, mostPages),
		Items: splitPath(c.str(p, path, "items_path")), Next: splitPath(c.str(p, path, "next_path")), Total: splitPath(c.str(p, path, "total_path")),
		Position: -1, Size: -1,
	}
	g.Max = c.whole(p, path, "max_limit", clampPage, 1, largestPage)
	g.Limit = min(c.whole(p, path, "default_limit", defaultPage, 1, largestPage), g.Max)
	if !p.has("style") {
		c.wrong(SchemaMissingField, path+".style", "pagination style is required", "cursor, offset, page or link_header", nil, p.line)
	}
	if op.Category != Read {
		c.wrong(SchemaInvalidValue, path, "only read operations have pages", "category read", p, 0)
	}
	position, size := c.str(p, path, "param_name"), c.str(p, path, "per_page_param")
	if position == "" && g.Style != "link_header" {
		c.wrong(SchemaMissingField, path+".param_name", "param_name is required", "name of the parameter for the position", nil, p.line)
	}
	if s := p.get("style"); s != nil && s.text == "cursor" && g.Next == nil { // not only because the word is unknown
		c.wrong(SchemaMissingField, path+".next_path", "next_path is required", "dotted path of the next cursor", nil, p.line)
	}
	if position != "" {
		g.Position = op.hiddenParam(position, g.Style != "cursor")
	}
	if size != "" {
		g.Size = op.hiddenParam(size, true)
	}
	for _, k := range [...]int{g.Position, g.Size} {
		if k >= 0 && (op.Params[k].Required || op.Params[k].Place == InPath) {
			c.wrong(SchemaInvalidValue, path, "parameters of pages must not be required", "optional parameters", p, 0)
		}
	}
	g.First = op.ownParam("first", Definition{Type: TypeInteger, Minimum: &Bound{Raw: []byte("1")}, Description: "Items on a page, up to " + strconv.Itoa(g.Max) + "; null for " + strconv.Itoa(g.Limit)})
	g.After = op.ownParam("after", Definition{Type: TypeString, Description: "endCursor of the page before; needs " + op.Params[g.First].Name})
	op.Paging = g
}

// ownParam adds a parameter that the runtime itself reads, and returns its index. If the API has
// a parameter of that name, it has page_ in front.
func (op *Operation) ownParam(name string, d Definition) int {
	for _, taken := op.Param([]byte(name)); taken; _, taken = op.Param([]byte(name)) {
		name = "page_" + name
	}
	d.MinLength, d.MaxLength, d.Constrained = -1, -1, d.Minimum != nil
	op.Params = append(op.Params, &Param{Definition: d, Name: name, Wire: name, Place: InRuntime})
	return len(op.Params) - 1
}

// hiddenParam returns the index of the parameter called name. If there is none, it adds one
// that only the runtime may set.
func (op *Operation) hiddenParam(name string, integer bool) int {
	for i, p := range op.Params {
		if p.Name == name || p.Wire == name {
			return i
		}
	}
	p := &Param{Name: name, Wire: name, Hidden: true, Place: InQuery, Definition: Definition{MinLength: -1, MaxLength: -1}}
	if integer {
		p.Type = TypeInteger
	}
	switch {
	case op.Adapter.Target.graphql:
		p.Place = InVariables
	case op.Mapping != nil && op.Mapping.Method != "GET" && op.Mapping.Method != "DELETE":
		p.Place = InBody
	}
	p.compile()
	p.inBody()
	op.Placed[p.Place] = append(op.Placed[p.Place], len(op.Params))
	op.Params = append(op.Params, p)
	return len(op.Params) - 1
}
