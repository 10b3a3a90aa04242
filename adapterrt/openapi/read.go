package openapi

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// methods are the methods of operations, in the order in which an object with all of them is
// read. Those behind the first five have no place in an adapter.
var methods = []string{"get", "put", "post", "patch", "delete", "head", "options", "trace", "query"}

// maxOthers is how many different methods of additionalOperations are told apart.
const maxOthers = 50

// others counts the operations with methods of their own, which OpenAPI has since 3.2.
func (d *Document) others(item *node) {
	more, _ := d.whole(item.get("additionalOperations"))
	if !more.is(wire.Object) {
		return
	}
	for i, method := range more.keys {
		if more.kids[i].kind != wire.Null {
			d.unsent(method)
		}
	}
}

// unsent counts an operation whose method adapters do not have.
func (d *Document) unsent(method string) {
	if !file.IsToken(method) || len(method) > 20 || len(d.left) > maxOthers {
		method = "other"
	}
	d.left[method+" operation, which adapters have no method for"]++
}

// maxPaths is the largest number of operations of a document.
const maxPaths = 20_000

// Read parses a document. name is its file name, which messages show. load reads the files
// that the document refers to; if it is nil, there are none. The error is an [*Error].
func Read(name string, data []byte, load Load) (*Document, error) {
	return ReadMost(name, data, load, MaxFiles)
}

// ReadMost is [Read] for a document that may have other than [MaxFiles] files.
func ReadMost(name string, data []byte, load Load, files int) (*Document, error) {
	sum := sha256.Sum256(data)
	d := &Document{Digest: hex.EncodeToString(sum[:]), load: load, most: min(max(files, 1), maxSources), failed: map[string]error{}, targets: map[refKey]refTarget{}, left: map[string]int{}}
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
	case v == "3.0" || v == "3.1" || strings.HasPrefix(v, "3.0.") || v == "3.2" || strings.HasPrefix(v, "3.1.") || strings.HasPrefix(v, "3.2."):
		d.Format, d.combines = "OpenAPI "+clean.Text(v, 20), !strings.HasPrefix(v, "3.0")
	case w == "2.0" || w == "2":
		d.Format, d.swagger = "Swagger 2.0", true
	case v != "" || w != "":
		return refuse("version " + quoted(v+w) + " is not supported: only OpenAPI 3.0 to 3.2, and Swagger 2.0")
	case d.root.get("openapi") == nil && d.root.get("discoveryVersion") != nil:
		return refuse("this is a Google discovery document; only OpenAPI 3.0 to 3.2, and Swagger 2.0 are supported")
	case d.root.get("info").str("_postman_id") != "" || strings.Contains(d.root.get("info").str("schema"), "getpostman"):
		return refuse("this is a Postman collection; only OpenAPI 3.0 to 3.2, and Swagger 2.0 are supported")
	default:
		return refuse(`not a description of an API: it has no member "openapi" or "swagger" with the version`)
	}
	info := d.root.get("info")
	d.Title, d.Version = clean.Text(info.str("title"), 120), clean.Text(info.word("version"), 60)
	d.about = cmp.Or(info.str("summary"), info.str("description"))
	if err := cmp.Or(d.operations(), d.limit); err != nil {
		return nil, err
	}
	return d, nil
}

// operations reads all operations.
func (d *Document) operations() error {
	paths, err := d.whole(d.root.get("paths"))
	if err != nil {
		return &Error{d.sources[0].name, int(d.root.get("paths").line), "paths: " + err.Error()}
	}
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
		lose := func(operation string, at *node, what string) {
			if len(d.lost) == maxPaths {
				return
			}
			d.lost = append(d.lost, Finding{Operation: operation, Place: d.place(at), Class: Dropped, What: what})
		}
		item, err := d.whole(paths.kids[i])
		switch {
		case err != nil:
			lose(short(path), paths.kids[i], err.Error())
			continue
		case item.kind == wire.Null:
			continue
		case item.kind != wire.Object:
			lose(short(path), item, "it is no object")
			continue
		}
		d.others(item)
		for _, method := range methods {
			at := item.get(method)
			if at == nil || at.kind == wire.Null {
				continue
			}
			n, err := d.whole(at)
			switch title := strings.ToUpper(method) + " " + short(path); {
			case err != nil:
				lose(title, at, err.Error())
				continue
			case n.kind != wire.Object:
				lose(title, at, "it is no object")
				continue
			}
			if len(d.ops) == maxPaths {
				return &Error{d.sources[0].name, int(n.line), fmt.Sprintf("more than %d operations", maxPaths)}
			}
			if slices.Index(methods, method) > 4 {
				if method == "query" {
					d.unsent("QUERY")
				} else {
					d.left[strings.ToUpper(method)+" operation"]++
				}
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
	for _, owner := range [...]*node{n, item} {
		list, err := d.resolved(owner.get("parameters"))
		switch {
		case err != nil:
			d.lose(op, owner.get("parameters"), "its parameters cannot be read, and are left out: "+err.Error())
		case list != nil && list.kind != wire.Array && list.kind != wire.Null:
			d.lose(op, list, "its parameters are no list, and are left out")
		}
		if !list.is(wire.Array) {
			continue
		}
		for _, p := range list.kids {
			to, err := d.resolved(p)
			switch {
			case err != nil:
				d.lose(op, p, "a parameter cannot be read, and is left out: "+err.Error())
			case to.is(wire.Object):
				params = append(params, to)
			default:
				d.lose(op, p, "a parameter that is no object is left out")
			}
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
	b, err := d.resolved(n.get("requestBody"))
	switch {
	case err != nil:
		op.unread = err
	case b.is(wire.Object):
		op.body = &rawBody{required: b.flag("required"), description: b.str("description")}
		if op.body.content, err = d.content(b.get("content")); len(op.body.content) == 0 {
			op.unread = err
		} else if err != nil {
			d.lose(op, b, "a form of its body cannot be read: "+err.Error())
		}
		if len(op.body.content) == 0 && err == nil {
			d.lose(op, b, "its body is not described, and cannot be sent")
		}
	case b != nil && b.kind != wire.Null:
		d.lose(op, b, "its body is no object, and cannot be sent")
	}
	d.readAnswers(op, func(_ string, a *node) []media {
		content, err := d.content(a.get("content"))
		if err != nil {
			d.lose(op, a, "an answer cannot be read: "+err.Error())
		}
		return content
	})
	if op.servers = n.list("servers"); op.servers == nil {
		op.servers = item.list("servers")
	}
	return op
}
