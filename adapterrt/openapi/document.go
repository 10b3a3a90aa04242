package openapi

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Document is a description of an API.
type Document struct {
	Format  string // "OpenAPI 3.0.3", "Swagger 2.0"
	Title   string
	Version string
	Digest  string // SHA-256 of the first file, in hexadecimal

	about   string // the description of the API
	root    *node
	sources []*source
	load    Load
	failed  map[string]error // files that cannot be read
	count   int              // values in all files
	steps   int              // work that the operations of one import have needed
	targets map[refKey]refTarget
	noted   map[string]bool
	notes   []string // what is odd in the document as a whole
	left    map[string]int
	lost    []Finding // paths that cannot be read
	swagger bool
	ops     []*rawOperation
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
	params      []*rawParam
	body        *rawBody
	answers     []*rawAnswer
	security    *node   // a list of alternatives
	servers     []*node // of its own; nil for those of the document
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

// methods are the methods of operations, in the order in which an object with all of them is
// read. The last three have no place in an adapter.
var methods = []string{"get", "put", "post", "patch", "delete", "head", "options", "trace"}

// maxPaths is the largest number of operations of a document.
const maxPaths = 20_000

// Read parses a document. name is its file name, which messages show. load reads the files
// that the document refers to; if it is nil, there are none. The error is an [*Error].
func Read(name string, data []byte, load Load) (*Document, error) {
	sum := sha256.Sum256(data)
	d := &Document{Digest: hex.EncodeToString(sum[:]), load: load, failed: map[string]error{}, targets: map[refKey]refTarget{}, noted: map[string]bool{}, left: map[string]int{}}
	s, err := d.parse(name, name, data)
	if err != nil {
		return nil, err
	}
	d.root = s.root
	refuse := func(msg string) (*Document, error) { return nil, &Error{name, int(d.root.line), msg} }
	if d.root.kind != wire.Object {
		return refuse("not a description of an API: the document is no object")
	}
	switch v, w := d.root.word("openapi"), d.root.word("swagger"); {
	case v == "3.0" || v == "3.1" || strings.HasPrefix(v, "3.0.") || strings.HasPrefix(v, "3.1.") || strings.HasPrefix(v, "3.2."):
		d.Format = "OpenAPI " + clean.Text(v, 20)
	case w == "2.0" || w == "2":
		d.Format, d.swagger = "Swagger 2.0", true
	case v != "" || w != "":
		return refuse("version " + quoted(v+w) + " is not supported: only OpenAPI 3.0 and 3.1, and Swagger 2.0")
	case d.root.get("openapi") == nil && d.root.get("discoveryVersion") != nil:
		return refuse("this is a Google discovery document; only OpenAPI 3.0 and 3.1, and Swagger 2.0 are supported")
	case d.root.get("info").str("_postman_id") != "" || strings.Contains(d.root.get("info").str("schema"), "getpostman"):
		return refuse("this is a Postman collection; only OpenAPI 3.0 and 3.1, and Swagger 2.0 are supported")
	default:
		return refuse(`not a description of an API: it has no member "openapi" or "swagger" with the version`)
	}
	info := d.root.get("info")
	d.Title, d.Version = clean.Text(info.str("title"), 120), clean.Text(info.word("version"), 60)
	d.about = info.str("summary")
	if d.about == "" {
		d.about = info.str("description")
	}
	if err := d.operations(); err != nil {
		return nil, err
	}
	return d, nil
}

// operations reads all operations.
func (d *Document) operations() error {
	paths := d.root.get("paths")
	if paths != nil && paths.kind != wire.Object {
		return &Error{d.sources[0].name, int(paths.line), "paths is no object"}
	}
	for _, key := range [...]string{"webhooks", "x-webhooks"} {
		if w := d.root.get(key); w != nil {
			d.left["webhook"] += len(w.keys)
		}
	}
	if paths == nil {
		return nil
	}
	for i, path := range paths.keys {
		if strings.HasPrefix(path, "x-") {
			continue
		}
		item, err := d.follow(paths.kids[i])
		if err != nil {
			what := "$ref " + quoted(paths.kids[i].str("$ref")) + ": " + err.Error()
			d.lost = append(d.lost, Finding{Operation: short(path), Place: d.place(paths.kids[i]), Class: Dropped, What: what})
			continue
		}
		if item.kind != wire.Object {
			continue
		}
		for _, method := range methods {
			n := item.get(method)
			if !n.is(wire.Object) {
				continue
			}
			if len(d.ops) == maxPaths {
				return &Error{d.sources[0].name, int(n.line), fmt.Sprintf("more than %d operations", maxPaths)}
			}
			if slices.Index(methods, method) > 4 {
				d.left[strings.ToUpper(method)+" operation"]++
				continue
			}
			d.ops = append(d.ops, d.operation(strings.ToUpper(method), path, item, n))
			for _, key := range [...]string{"callbacks", "x-callbacks"} {
				if c := n.get(key); c != nil {
					d.left["callback"] += len(c.keys)
				}
			}
		}
	}
	return nil
}

func (d *Document) operation(method, path string, item, n *node) *rawOperation {
	op := &rawOperation{
		node: n, method: method, path: path, id: n.str("operationId"), deprecated: n.flag("deprecated"),
		summary: n.str("summary"), description: n.str("description"), tags: n.strs("tags"),
	}
	if op.security = n.get("security"); op.security == nil {
		op.security = d.root.get("security")
	}
	var params []*node
	for _, p := range slices.Concat(n.list("parameters"), item.list("parameters")) {
		if p = d.resolved(p); p.is(wire.Object) {
			params = append(params, p)
		}
	}
	// An operation's parameter replaces that of its path.
	params = distinct(params, func(p *node) [2]string { return [2]string{p.str("name"), p.str("in")} })
	if d.swagger {
		d.swaggerOperation(op, params)
		return op
	}
	for _, p := range params {
		op.params = append(op.params, d.parameter(p))
	}
	if b := d.resolved(n.get("requestBody")); b.is(wire.Object) {
		op.body = &rawBody{required: b.flag("required"), description: b.str("description"), content: d.content(b.get("content"))}
	}
	d.readAnswers(op, func(_ string, a *node) []media { return d.content(a.get("content")) })
	if op.servers = n.list("servers"); op.servers == nil {
		op.servers = item.list("servers")
	}
	return op
}

// readAnswers reads the answers of an operation. content returns the representations of one.
func (d *Document) readAnswers(op *rawOperation, content func(status string, a *node) []media) {
	r := op.node.get("responses")
	if !r.is(wire.Object) {
		return
	}
	for i, status := range r.keys {
		a := d.resolved(r.kids[i])
		if status == "" || !a.is(wire.Object) {
			continue
		}
		answer := &rawAnswer{status: status, content: content(status, a)}
		if h := a.get("headers"); h.is(wire.Object) {
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
	if c := d.content(p.get("content")); len(c) > 0 && r.schema == nil {
		r.schema, r.json = c[0].schema, isJSON(c[0].kind)
		r.examples = append(r.examples, c[0].examples...)
	}
	return r
}

// content reads a map from media types to representations.
func (d *Document) content(c *node) (out []media) {
	if !c.is(wire.Object) {
		return nil
	}
	for i, kind := range c.keys {
		m := c.kids[i]
		out = append(out, media{kind: mediaType(kind), schema: m.get("schema"), examples: d.examples(m), encoding: m.get("encoding")})
	}
	return out
}

// examples returns the examples in a parameter or representation.
func (d *Document) examples(n *node) (out []*node) {
	if e := n.get("example"); e != nil {
		out = append(out, e)
	}
	if all := n.get("examples"); all.is(wire.Object) {
		for _, e := range all.kids {
			if e.get("$ref") != nil {
				e = d.resolved(e)
			}
			if v := e.get("value"); v != nil {
				out = append(out, v)
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

var errNoOperations = errors.New("the document has no operations")
