package openapi

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

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
	d.about = cmp.Or(info.str("summary"), info.str("description"))
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
