package openapi

import (
	"cmp"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// rank returns the order in which representations of a body are preferred. It is negative for
// those that cannot be sent.
func rank(kind string) int {
	switch {
	case kind == "application/json":
		return 0
	case isJSON(kind):
		return 1
	case kind == "application/x-www-form-urlencoded":
		return 2
	case kind == "multipart/form-data":
		return 3
	case isTextual(kind):
		return 4
	case strings.HasPrefix(kind, "multipart/"):
		return -1
	}
	return 5
}

// isTextual reports whether a body of this type is sent as text.
func isTextual(kind string) bool {
	return strings.HasPrefix(kind, "text/") || kind == "application/xml" || strings.HasSuffix(kind, "+xml") || kind == "application/yaml" ||
		kind == "application/x-yaml" || kind == "application/graphql" || kind == "application/x-ndjson" || kind == "application/jsonl" || kind == "application/sparql-query" || kind == "application/sql" || kind == "application/csv"
}

// body maps the request's body.
func (m *mapper) body() {
	b := m.raw.body
	if b == nil || len(b.content) == 0 {
		return
	}
	if m.raw.method == "GET" {
		switch s := m.shape(b.content[0].schema); {
		case b.required:
			m.drop("a GET request with a body", "")
		case len(s.props) > 0 || s.plainType() != "object":
			m.weak("the body of a GET request is left out")
		}
		return
	}
	content := slices.DeleteFunc(slices.Clone(b.content), func(c media) bool { return rank(c.kind) < 0 })
	if len(content) == 0 {
		m.drop("its body is "+quoted(b.content[0].kind), "")
		return
	}
	c := slices.MinFunc(content, func(x, y media) int { return rank(x.kind) - rank(y.kind) })
	m.describing = paramText
	r := &m.op.request
	switch rank(c.kind) {
	case 0:
	case 1:
		if strings.HasSuffix(c.kind, "+json") {
			r.kind = c.kind
		}
	case 2, 3:
		r.as = map[int]string{2: "form", 3: "multipart"}[rank(c.kind)]
		m.formBody(b, c)
		return
	case 4:
		if r.as = "text"; c.kind != "text/plain" && !strings.Contains(c.kind, "*") {
			r.kind = c.kind
		}
		m.wholeBody(b, &definition{typ: "string", minLen: -1, maxLen: -1, description: m.doc.prose(b.description, paramText), examples: texts(c.examples)})
		return
	default:
		if r.as = "bytes"; c.kind != "application/octet-stream" && !strings.Contains(c.kind, "*") {
			r.kind = c.kind
		}
		d := &definition{typ: "string", minLen: -1, maxLen: -1, description: cmp.Or(m.doc.prose(b.description, paramText-12), "The content") + ", as base64"}
		m.wholeBody(b, d)
		return
	}
	m.jsonBody(b, c)
}

func texts(list []*node) (out []*node) {
	for _, n := range list {
		if n.kind == wire.String {
			out = append(out, n)
		}
	}
	return out
}

// wholeBody adds the parameter whose value is the whole body.
func (m *mapper) wholeBody(b *rawBody, d *definition) {
	if d.description == "" {
		d.description = cmp.Or(m.doc.prose(b.description, paramText), "The whole body")
	}
	m.add(&param{in: "body", wire: "body", required: b.required, definition: d})
	m.op.request.from = m.op.params[len(m.op.params)-1].name
}

func (m *mapper) jsonBody(b *rawBody, c media) {
	s := m.shape(c.schema)
	if s.plainType() != "object" || len(s.props) == 0 || s.wide || s.variants != nil || b.required && len(s.required)+len(m.op.params) > maxParams {
		mark := len(m.stack)
		m.stack = append(m.stack, s.refs...)
		d := m.definition(s, 0, 0)
		m.stack = m.stack[:mark]
		d.examples = append(slices.Clone(c.examples), d.examples...)
		m.wholeBody(b, d)
		return
	}
	m.bodyMembers(b, c, s, func(*param) {})
}

// bodyMembers makes a parameter of each member of a body.
func (m *mapper) bodyMembers(b *rawBody, c media, s *shape, set func(p *param)) {
	mark := len(m.stack)
	m.stack = append(m.stack, s.refs...)
	defer func() { m.stack = m.stack[:mark] }()
	if s.joined {
		m.weak("members that fit no single variant are accepted")
	}
	if s.further {
		m.weak("further members of the body cannot be sent")
	}
	for _, key := range s.unchecked {
		m.weak(key + " is not checked")
	}
	names := s.required
	if !b.required && len(names) > 0 {
		m.weak("members that are required in an optional body are not required")
		names = nil
	}
	required, needs := setOf(names, itself), setOf(s.needs, itself)
	props := slices.Clone(s.props)
	slices.SortStableFunc(props, func(x, y member) int { // the required ones first
		return order(required[x.name]) - order(required[y.name])
	})
	any := false
	for _, e := range props {
		if m.isReadOnly(e.schema) {
			continue
		}
		p := &param{in: "body", wire: e.name, required: required[e.name], needed: b.required && needs[e.name]}
		m.describing = paramText
		p.definition = m.define(e.schema, 0, 0)
		for _, whole := range append(slices.Clone(c.examples), s.examples...) {
			if v := whole.get(e.name); v != nil && v.kind != wire.Null {
				p.examples = append([]*node{v}, p.examples...)
				break
			}
		}
		if set(p); p.spread {
			m.spread(p)
		} else {
			m.add(p)
		}
		any = any || p.required && (!p.spread || slices.ContainsFunc(p.props, func(e property) bool { return e.required }))
	}
	described := setOf(props, func(e member) string { return e.name })
	for _, name := range names {
		if !described[name] {
			m.add(&param{in: "body", wire: name, required: true, definition: m.definition(&shape{}, 0, 0)})
			any = true
		}
	}
	// Servers that read forms want their type, even if no member is sent.
	m.op.request.required = !any && (b.required || m.op.request.as == "form" && m.raw.method == "POST" && len(s.required) == 0)
}

func order(required bool) int {
	if required {
		return 0
	}
	return 1
}

// formBody maps a form. Its members have no types but text, so the encoding says how lists
// and objects are written: https://spec.openapis.org/oas/v3.1.0#encoding-object
func (m *mapper) formBody(b *rawBody, c media) {
	s := m.shape(c.schema)
	if len(s.props) == 0 {
		if s.more {
			m.weak("the members of the form are not described, and cannot be sent")
		}
		m.op.request.required = b.required || m.op.request.as == "form" && m.raw.method == "POST"
		return
	}
	deep := m.allDeep(s, c.encoding)
	if deep {
		m.op.request.form = "brackets"
	}
	m.bodyMembers(b, c, s, func(p *param) { m.encode(p, c.encoding.get(p.wire), deep) })
	if m.op.request.as != "multipart" {
		return
	}
	for _, p := range m.op.params { // only texts can be files
		if p.in == "body" && p.format == "binary" && p.typ != "string" {
			p.format, p.fileType = "", ""
		}
	}
}

// allDeep reports whether all lists and objects of a form are written as deep objects, and there is one.
func (m *mapper) allDeep(s *shape, encoding *node) bool {
	any := false
	for _, e := range s.props {
		if types := m.shape(e.schema).types; !slices.Contains(types, "array") && !slices.Contains(types, "object") {
			continue
		}
		if encoding.get(e.name).str("style") != "deepObject" {
			return false
		}
		any = true
	}
	return any
}

// encode says how a member of a form is written, by its encoding, which may be nil. deep says that the whole form has deep objects.
func (m *mapper) encode(p *param, e *node, deep bool) {
	list, object := p.may("array"), p.may("object")
	style, explode := cmp.Or(e.str("style"), "form"), e.get("explode")
	styled := e.get("style") != nil || explode != nil || e.get("allowReserved") != nil
	spread := explode == nil && style == "form" || explode != nil && e.flag("explode")
	file := p.format == "binary" || p.items != nil && p.items.format == "binary"
	if e.flag("allowReserved") && m.op.request.as == "form" {
		p.encode = "reserved"
	}
	switch {
	case !list && !object || file || deep:
	case style == "deepObject" && object && !list && len(p.props) > 0 && !p.deep():
		p.style = "deep_object"
	case style == "deepObject":
		p.style = "brackets"
	case spread && list:
		p.style = "repeat"
	case m.op.request.as != "form" && !m.doc.combines && spread: // since 3.1, styles are also for parts
	case spread && styled && style == "form" && len(p.props) > 0:
		p.spread = true
	case spread && styled:
		m.weak("member " + quoted(p.wire) + " of the form is sent as JSON, and not as its members")
	case !spread:
		p.style = map[string]string{"form": "csv", "spaceDelimited": "space", "pipeDelimited": "pipe"}[style]
	}
	kind := e.str("contentType")
	if kind == "" || styled && m.op.request.as == "form" {
		return
	}
	one := !strings.ContainsAny(kind, ",*")
	switch {
	case isJSON(mediaType(kind)) && (list || object) && one:
		if p.style = "json"; m.op.request.as == "multipart" && mediaType(kind) != "application/json" {
			p.content = kind
		}
	case m.op.request.as != "multipart":
	case !file && one && p.typ == "string" && p.format == "" && !isTextual(mediaType(kind)) && !isJSON(mediaType(kind)):
		p.format = "binary" // since 3.1, a schema does not say it
		p.fileType = kind
	case file:
		p.fileType = kind
	case one && mediaType(kind) != "text/plain":
		p.content = kind
	}
	if len(kind) > 200 || !file && !one {
		p.fileType, p.content = "", ""
	}
	if e.get("headers") != nil {
		m.weak("the headers of parts of a form are not sent")
	}
}
