package file

import (
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/pattern"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

var requestBlock = block{"operations.CATEGORY[].request", "Without it, the parameters of the body are the members of a JSON object. [Which body needs which key](adapters.md#requests). GET and GraphQL take only `headers`.", []key{
	{"as", "json, form, multipart, text, bytes", "", "The format of the body. Without it, `target.serialization`."},
	{"body_required", "boolean", "false", "`{}` or an empty form is sent if no parameter gives a body."},
	{"body_from", "string", "", "The parameter whose value is the whole body; required for text and bytes. Not for forms."},
	{"body", "any", "", "A template of a JSON body: `\"{name}\"` stands for the value of a parameter, `{name}` within a text for its text. It must name all parameters of the body, and excludes `body_from`."},
	{"form_style", "json, repeat, brackets", "", "How a form writes arrays and objects whose parameter has no `style`."},
	{"index", "numbers, none", "numbers", "Whether a form writes `a[0]=v` or `a[]=v`."},
	{"encode", "map", "", "Parameters that callers give as text and the API wants in base64: `name: base64`."},
	{"headers", "map", "", "Further headers: name and value. No credentials."},
}}

// request reads an operation's request block. It returns the parameters that the block names
// for the body as bound; placement then places them in the body.
func (c *checker) request(n *node, path string, op *Operation) (bound map[int]bool) {
	r := c.get(n, path, "request", wire.Object)
	if r == nil {
		if op.Adapter.Target.Form {
			op.Request = &Request{As: AsForm, Whole: -1}
		}
		return nil
	}
	path += ".request"
	c.only(r, path, &requestBlock)
	q := &Request{Whole: -1, Headers: c.headers(r, path)}
	c.templates(r.get("headers"), join(path, "headers"))
	op.Request = q
	if op.Adapter.Target.graphql || op.Mapping != nil && op.Mapping.Method == "GET" {
		for _, f := range r.fields {
			if f.key != "headers" && f.val.kind != wire.Null {
				c.wrong(SchemaInvalidValue, join(path, f.key), "a GET request and a GraphQL request take only headers here", "only headers", f.val, 0)
			}
		}
		return nil
	}
	words := bodyFormats
	if op.Adapter.Target.Form {
		words = []string{"form", "json", "multipart", "text", "bytes"} // the first is the default
	}
	q.As = BodyFormat(slices.Index(bodyFormats, c.word(r, path, "as", words...)))
	q.Required = c.flag(r, path, "body_required", false)
	q.form = map[string]Style{"": styleDefault, "json": StyleJSON, "repeat": StyleRepeat, "brackets": StyleBrackets}[c.word(r, path, "form_style", "", "json", "repeat", "brackets")]
	if c.word(r, path, "index", "numbers", "none") == "none" {
		q.index = IndexNone
	}
	inForm := q.As == AsForm || q.As == AsMultipart
	for _, key := range [...]string{"form_style", "index"} {
		if v := r.get(key); v != nil && !inForm {
			c.wrong(SchemaInvalidValue, join(path, key), key+" is for forms", "as: form or multipart", v, 0)
		}
	}
	bound = map[int]bool{}
	if name := c.str(r, path, "body_from"); name != "" {
		q.Whole = c.bound(name, r.get("body_from"), path+".body_from", op)
		if q.Whole >= 0 {
			bound[q.Whole] = true
		}
		switch {
		case inForm:
			c.wrong(SchemaInvalidValue, path+".body_from", "a form is made of all parameters of the body", "as: json, text or bytes", r.get("body_from"), 0)
		case r.get("body") != nil:
			c.wrong(SchemaInvalidValue, path+".body_from", "body_from and body exclude each other", "one of them", r.get("body_from"), 0)
		case q.As > AsMultipart && q.Whole >= 0 && op.Params[q.Whole].Type != TypeString:
			c.wrong(SchemaInvalidValue, path+".body_from", "a body of text or bytes comes from a string", "type string", r.get("body_from"), 0)
		}
	} else if q.As == AsText || q.As == AsBytes {
		c.wrong(SchemaMissingField, path+".body_from", "a body of text or bytes comes from one parameter", "name of a parameter", r.get("body_from"), r.line)
	}
	if b := r.get("body"); b != nil && b.kind != wire.Null {
		t := &template{c: c, op: op, bound: bound}
		part := t.part(b, path+".body")
		if q.Body = &part; q.As != AsJSON {
			c.wrong(SchemaInvalidValue, path+".body", "a template is for JSON", "as: json", b, 0)
		}
	}
	if e := c.get(r, path, "encode", wire.Object); e != nil {
		for _, f := range e.fields {
			at := join(path+".encode", clean.FirstRunes(f.key, 60))
			c.word(e, path+".encode", f.key, "base64")
			if k := c.bound(f.key, &node{kind: wire.String, text: f.key, line: f.line}, at, op); k >= 0 {
				if op.Params[k].Type != TypeString {
					c.wrong(SchemaInvalidValue, at, "only text can be encoded", "type string", f.val, 0)
				}
				op.Params[k].rules().Base64 = true
			}
		}
	}
	for _, h := range q.Headers {
		if q.As == AsMultipart && strings.EqualFold(h.Name, "Content-Type") {
			c.wrong(SchemaInvalidValue, path+".headers.Content-Type", "a multipart body has a type of its own", "no Content-Type", r.get("headers"), 0)
		}
	}
	return bound
}

// bound returns the index of the parameter that a block of the operation names at path, or -1 if there
// is no such parameter.
func (c *checker) bound(name string, v *node, path string, op *Operation) int {
	k, ok := op.Param([]byte(name))
	if !ok {
		c.wrong(SchemaUnresolvedRef, path, "there is no parameter "+clean.FirstRunes(name, 60)+meantParam(name, op), "name of a parameter", v, 0)
		return -1
	}
	return k
}

func meantParam(name string, op *Operation) string {
	_, meant, _ := strings.Cut(unknownField(field{key: name}, op.Names()), ", ")
	if meant != "" {
		return ", " + meant
	}
	return ""
}

// A placeholder of a template: {name}.
var placeholder = pattern.Later(`\{([A-Za-z][A-Za-z0-9_-]*)\}`)

// texts splits s at the placeholders in it.
func (c *checker) texts(s string, v *node, path string, op *Operation) (parts []TextPart) {
	at := 0
	for _, m := range placeholder().FindAllStringSubmatchIndex(s, -1) {
		if m[0] > at {
			parts = append(parts, TextPart{Literal: s[at:m[0]], Param: -1})
		}
		if k := c.bound(s[m[2]:m[3]], v, path, op); k >= 0 {
			parts = append(parts, TextPart{Param: k})
		}
		at = m[1]
	}
	if at < len(s) {
		parts = append(parts, TextPart{Literal: s[at:], Param: -1})
	}
	return parts
}

// maxTemplate is the largest number of values in a template.
const maxTemplate = 2000

// template compiles the body template of a request block.
type template struct {
	c     *checker
	op    *Operation
	bound map[int]bool
	all   int
}

func (t *template) part(n *node, path string) (p BodyPart) {
	if t.all++; t.all > maxTemplate {
		if t.all == maxTemplate+1 {
			t.c.wrong(SchemaInvalidValue, path, "the template is too large", "up to 2000 values", n, 0)
		}
		return p
	}
	switch n.kind {
	case wire.Object:
		p.Kind = PartObject
		for _, f := range n.fields {
			e := t.part(f.val, join(path, clean.FirstRunes(f.key, 60)))
			e.name, e.Key = f.key, string(wire.AppendQuoted(nil, f.key))+":"
			p.Parts = append(p.Parts, e)
		}
		return p
	case wire.Array:
		p.Kind = PartArray
		for i, e := range n.list {
			p.Parts = append(p.Parts, t.part(e, index(path, i)))
		}
		return p
	case wire.String:
		parts := t.c.texts(n.text, n, path, t.op)
		for _, e := range parts {
			if e.Param >= 0 {
				t.bound[e.Param] = true
			}
		}
		switch {
		case len(parts) == 1 && parts[0].Param >= 0:
			return BodyPart{Kind: PartParam, Param: parts[0].Param}
		case len(parts) > 1:
			return BodyPart{Kind: PartText, Text: parts}
		}
	}
	return BodyPart{Literal: n.JSON(nil)}
}

// bodyShape builds the shape of the body. It is called when every parameter has its place.
func (c *checker) bodyShape(n *node, path string, op *Operation, bound map[int]bool) {
	q, declared := op.Request, n.get("params")
	nested := false
	for _, i := range op.Placed[InBody] {
		p := op.Params[i]
		nested = nested || p.Body != nil && p.Body.Path != nil
		if q == nil {
			continue
		}
		if q.form != styleDefault && declared.get(p.Name).get("style") == nil {
			p.Style, p.Index = q.form, q.index
		}
		if q.Whole >= 0 && i != q.Whole || q.Body != nil && !p.Hidden && !bound[i] {
			c.wrong(SchemaUnresolvedRef, path+".params."+p.Name, "this parameter has no place in the body of the request block", "a place in the body, or in: query", nil, n.get("request").line)
		}
	}
	for i, p := range op.Params {
		if f := p.IsFile(); f != nil && (q == nil || q.As != AsMultipart || p.Place != InBody) {
			c.wrong(SchemaInvalidValue, path+".params."+p.Name+".file", "files are sent in multipart bodies", "request: {as: multipart}", nil, declared.get(p.Name).lineOr(n.line))
		} else if p.Body != nil && p.Body.Type != "" && (q == nil || q.As != AsMultipart || p.Place != InBody) {
			c.wrong(SchemaInvalidValue, path+".params."+p.Name+".content_type", "content_type is for the parts of multipart bodies", "request: {as: multipart}", nil, declared.get(p.Name).lineOr(n.line))
		} else if p.Body != nil && p.Body.Base64 && p.Place != InBody {
			c.wrong(SchemaInvalidValue, path+".request.encode."+p.Name, "parameters outside of the body cannot be encoded", "a parameter of the body", nil, n.get("request").line)
		} else if q != nil && q.As == AsMultipart && p.Place == InBody && f == nil && (p.Format == "binary" || p.Items != nil && p.Items.Format == "binary") {
			op.Params[i].rules().File = &FilePart{}
		}
	}
	switch {
	case q != nil && q.Body != nil:
		if nested {
			c.wrong(SchemaInvalidValue, path+".request.body", "wire_path and a template exclude each other", "one of them", n.get("request").get("body"), 0)
		}
		for _, i := range op.Placed[InBody] {
			if p := op.Params[i]; p.Hidden && q.Body.Kind == PartObject { // a parameter of pagination
				q.Body.Parts = append(q.Body.Parts, BodyPart{Key: p.BodyKey, name: p.Wire, Kind: PartParam, Param: i})
			}
		}
	case nested && (q == nil || q.As == AsJSON && q.Whole < 0):
		if q == nil {
			q = &Request{Whole: -1}
			op.Request = q
		}
		q.Body = &BodyPart{Kind: PartObject, Loose: !q.Required}
		for _, i := range op.Placed[InBody] {
			p := op.Params[i]
			names := []string{p.Wire}
			if p.Body != nil && p.Body.Path != nil {
				names = p.Body.Path
			}
			if !q.Body.put(names, i) {
				c.wrong(SchemaDuplicateName, path+".params."+p.Name, "another parameter is sent in the same place", "a wire_path of its own", nil, declared.get(p.Name).lineOr(n.line))
			}
		}
	}
}

// fileNames links the names of files to the parameters in them. These parameters are then not
// sent on their own.
func (c *checker) fileNames(n *node, path string, op *Operation) {
	for _, p := range op.Params {
		f := n.get("params").get(p.Name).get("file")
		part := p.IsFile()
		if part == nil || f.get("name") == nil {
			continue
		}
		at := path + ".params." + p.Name + ".file"
		part.Name = c.texts(c.str(f, at, "name"), f.get("name"), at+".name", op)
		for _, t := range part.Name {
			if t.Param >= 0 && op.Params[t.Param].Place == InBody && n.get("params").get(op.Params[t.Param].Name).get("in") == nil {
				op.Params[t.Param].Place = InFileName
			}
		}
	}
}
