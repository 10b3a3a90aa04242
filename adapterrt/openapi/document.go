package openapi

import (
	"strings"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Document is a description of an API.
type Document struct {
	Format  string // "OpenAPI 3.0.3", "Swagger 2.0"
	Title   string
	Version string
	Digest  string // SHA-256 of the first file, in hexadecimal

	about    string // the description of the API
	root     *node
	sources  []*source
	load     Load
	most     int              // files
	failed   map[string]error // files that cannot be read
	limit    error            // of documents, that is reached
	count    int              // values in all files
	steps    int              // work that the operations of one import have needed
	targets  map[refKey]refTarget
	memory   memory
	kin      *family
	mappings map[*node]map[*node][]string // of discriminators
	said     map[saying]bool
	page     []byte   // of the file that was written last; the next one is written there
	notes    []string // what is odd in the document as a whole
	left     map[string]int
	lost     []Finding // paths that cannot be read
	circles  *circles  // of schemas; nil until asked for
	swagger  bool

	combines bool // members beside a $ref count; before OpenAPI 3.1 they do not
	ops      []*rawOperation
}

// family says which named schemas of a document are extended by which, by allOf:
// https://spec.openapis.org/oas/v3.1.0#composition-and-inheritance-polymorphism
type family struct {
	names    map[*node]string
	children map[*node][]*node
	parents  map[*node][]*node
	lines    map[*node][]*node // what above has found
}

// rawOperation is an operation as a document describes it, in either format.
type rawOperation struct {
	node        *node
	method      string
	path        string
	id          string
	summary     string
	description string
	tags        []string
	deprecated  bool
	advice      advice // for programs that make tools of it
	params      []*rawParam
	body        *rawBody
	answers     []*rawAnswer
	security    *node   // a list of alternatives
	servers     []*node // of its own; nil for those of the document
	unread      error   // why its body cannot be read
	lost        []Finding
}

// lose reports something that is not read.
func (d *Document) lose(op *rawOperation, at *node, what string) {
	if len(op.lost) < maxFindings {
		op.lost = append(op.lost, Finding{Place: d.place(at), Class: Weaker, What: what})
	}
}

// rawParam is a parameter in a path, query, header or cookie.
type rawParam struct {
	name, in    string
	description string
	required    bool
	schema      *node
	style       string // of OpenAPI 3
	explode     bool
	reserved    bool // allowReserved
	json        bool // the value is sent as JSON
	examples    []*node
}

type rawBody struct {
	required    bool
	description string
	content     []media
}

// media is a representation of a body or an answer.
type media struct {
	kind     string // media type, without parameters, in lower case
	schema   *node
	examples []*node
	encoding *node
}

type rawAnswer struct {
	status  string
	content []media
	headers []string // names in lower case
}

// success reports whether the answer is one of the statuses 2xx or 3xx.
func (a *rawAnswer) success() bool { return a.status[0] == '2' || a.status[0] == '3' }

// readAnswers reads the answers of an operation. content returns the representations of one.
func (d *Document) readAnswers(op *rawOperation, content func(status string, a *node) []media) {
	r, err := d.whole(op.node.get("responses"))
	if err != nil {
		d.lose(op, op.node.get("responses"), "its answers cannot be read: "+err.Error())
	}
	if !r.is(wire.Object) {
		return
	}
	for i, status := range r.keys {
		a, err := d.resolved(r.kids[i])
		if err != nil {
			d.lose(op, r.kids[i], "an answer cannot be read: "+err.Error())
		}
		if status == "" || !a.is(wire.Object) {
			continue
		}
		answer := &rawAnswer{status: status, content: content(status, a)}
		if h, _ := d.whole(a.get("headers")); h.is(wire.Object) {
			for _, name := range h.keys {
				answer.headers = append(answer.headers, strings.ToLower(name))
			}
		}
		op.answers = append(op.answers, answer)
	}
}

// parameter reads a parameter of OpenAPI 3, with the defaults of its style:
// https://spec.openapis.org/oas/v3.1.0#fixed-fields-for-use-with-schema
func (d *Document) parameter(p *node) *rawParam {
	r := &rawParam{
		name: p.str("name"), in: p.str("in"), description: p.str("description"), required: p.flag("required"),
		schema: p.get("schema"), style: p.str("style"), reserved: p.flag("allowReserved"), examples: d.examples(p),
	}
	if r.style == "" {
		r.style = "simple"
		if r.in == "query" || r.in == "cookie" {
			r.style = "form"
		}
	}
	if r.explode = r.style == "form"; p.get("explode") != nil {
		r.explode = p.flag("explode")
	}
	if c, _ := d.content(p.get("content")); len(c) > 0 && r.schema == nil {
		r.schema, r.json = c[0].schema, isJSON(c[0].kind)
		r.examples = append(r.examples, c[0].examples...)
	}
	return r
}

// content reads a map from media types to representations. The error says which of them cannot be read.
func (d *Document) content(c *node) (out []media, wrong error) {
	c, err := d.whole(c)
	if !c.is(wire.Object) {
		return nil, err
	}
	for i, kind := range c.keys {
		m, err := d.whole(c.kids[i])
		if err != nil {
			wrong = err
			continue
		}
		out = append(out, media{kind: mediaType(kind), schema: m.get("schema"), examples: d.examples(m), encoding: m.get("encoding")})
	}
	return out, wrong
}

// examples returns the examples in a parameter or representation.
func (d *Document) examples(n *node) (out []*node) {
	if e := n.get("example"); e != nil {
		out = append(out, e)
	}
	if all := n.get("examples"); all.is(wire.Object) {
		for _, e := range all.kids {
			e, _ = d.follow(e)
			for _, key := range [...]string{"value", "dataValue"} { // the second since 3.2
				if v := e.get(key); v != nil {
					out = append(out, v)
				}
			}
		}
	}
	return out
}

// mediaType returns a media type without parameters, in lower case.
func mediaType(s string) string {
	s, _, _ = strings.Cut(s, ";")
	return strings.ToLower(strings.TrimSpace(s))
}

func isJSON(kind string) bool {
	return kind == "application/json" || kind == "text/json" || strings.HasSuffix(kind, "+json") || kind == "*/*" || kind == "application/*" || kind == ""
}

func (op *rawOperation) tag() string {
	if len(op.tags) == 0 {
		return ""
	}
	return op.tags[0]
}

// area returns the first part of the path that is no version and no placeholder, by which
// operations without tags are grouped.
func (op *rawOperation) area() string {
	for _, s := range strings.Split(op.path, "/") {
		if s != "" && s != "api" && !isVersion(s) && !strings.Contains(s, "{") {
			return s
		}
	}
	return "other"
}

// isVersion reports whether a part of a path is a version: v1, v2.1, 2024-01.
func isVersion(s string) bool {
	t := strings.TrimPrefix(s, "v")
	return t != "" && strings.Trim(t, "0123456789.-") == "" || len(t) > 1 && t != s && t[0] >= '0' && t[0] <= '9' && len(t) < 9 && strings.Trim(t, "0123456789.alphbet") == ""
}
