package openapi

import (
	"cmp"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// maxParams is the largest number of parameters of an operation in an adapter file.
const maxParams = 200

// noParameters are header parameters that OpenAPI says to ignore:
// https://spec.openapis.org/oas/v3.1.0#parameter-object
var noParameters = []string{"accept", "content-type", "authorization"}

// parameters maps the parameters outside of the body, and the path.
func (m *mapper) parameters() {
	names, prefixes := map[string]string{}, map[string]string{}
	path, fragment, _ := strings.Cut(m.raw.path, "#")
	inPath := placeholders(path)
	if len(inPath) > maxParams {
		m.drop("its path has more than 200 parameters", "")
		return
	}
	for _, name := range inPath {
		raw := m.pathParameter(name)
		p := &param{in: "path", wire: raw.name, required: true}
		m.describing = paramText
		p.definition = m.parameterDefinition(raw)
		if raw.reserved || strings.ContainsAny(name, "*+=") {
			p.encode = "reserved"
		}
		if p.typ == "object" {
			m.drop("path parameter "+quoted(name)+" is an object", "")
			return
		}
		if p.typ == "array" {
			p.style = cmp.Or(separators[raw.style], "csv") // those of Swagger
		}
		switch array := p.typ == "array"; {
		case raw.style == "label" && !(array && raw.explode):
			prefixes[name] = "."
		case raw.style == "matrix" && !(array && raw.explode):
			prefixes[name] = ";" + raw.name + "="
		case raw.style == "label" || raw.style == "matrix":
			m.drop("path parameter "+quoted(name)+" is a list in the style "+raw.style, "")
			return
		}
		p.also = withoutNull(p.also)
		p.name = m.free(paramName(raw.name), "path")
		p.wire = p.name // its place is the placeholder
		names[name] = p.name
		m.op.params = append(m.op.params, p)
	}
	if !m.mapping(path, names, prefixes) {
		return
	}
	for _, raw := range m.raw.params {
		if fragment != "" && m.fixed(raw) {
			continue
		}
		if m.base.carries(m.raw, raw) {
			continue
		}
		switch raw.in {
		case "path":
			if !slices.ContainsFunc(inPath, func(s string) bool { return bare(s) == raw.name || s == raw.name }) {
				m.weak("path parameter " + quoted(raw.name) + " is not in the path, and is left out")
			}
		case "query":
			m.query(raw)
		case "header":
			m.header(raw)
		case "cookie":
			m.leave(raw, "cookies are not sent", "add it to auth.also as an api_key in: cookie, if the API needs it")
		case "querystring":
			m.leave(raw, "the whole query as one value is not supported", "")
		default:
			m.leave(raw, "it is in no place that is known", "")
		}
		if m.op.dropped {
			return
		}
	}
}

// leave leaves a parameter out. The operation is dropped if it cannot be called without.
func (m *mapper) leave(raw *rawParam, why, do string) {
	if raw.required {
		m.drop("required "+short(raw.in)+" parameter "+quoted(raw.name)+": "+why, do)
	} else {
		m.find(Weaker, short(raw.in)+" parameter "+quoted(raw.name)+" is left out: "+why, do)
	}
}

// placeholders returns the names in braces of a path, each once.
func placeholders(path string) (out []string) {
	for {
		_, after, found := strings.Cut(path, "{")
		name, more, closed := strings.Cut(after, "}")
		if !found || !closed {
			return distinct(out, itself)
		}
		if !strings.Contains(name, "{") {
			out = append(out, name)
		}
		path = more
	}
}

// bare returns the name of a placeholder without the marks of URI templates and of gRPC:
// {+path}, {path*}, {name=projects/*}.
func bare(s string) string {
	s, _, _ = strings.Cut(s, "=")
	return strings.Trim(s, "+*")
}

// pathParameter returns the parameter of a placeholder. If the document does not declare it,
// it is a string.
func (m *mapper) pathParameter(name string) *rawParam {
	for _, p := range m.raw.params {
		if p.in == "path" && (p.name == name || p.name == bare(name)) {
			return p
		}
	}
	m.weak("path parameter " + quoted(name) + " is not declared: any text is accepted")
	return &rawParam{name: cmp.Or(bare(name), "param"), in: "path", style: "simple", schema: object(m.raw.node, "type", text("string"))}
}

// parameterDefinition makes the definition of a parameter outside of the body.
func (m *mapper) parameterDefinition(raw *rawParam) *definition {
	d, s := m.defined(raw.schema, 0, 0)
	if t := m.doc.prose(raw.description, paramText); t != "" {
		s.description = raw.description
		d.description = m.describe(s, paramText)
	}
	d.examples = append(slices.Clone(raw.examples), d.examples...)
	return d
}

// free returns a name that no other parameter of the operation has. place is put in front of
// the name of the second one.
func (m *mapper) free(name, place string) string {
	taken := setOf(m.op.params, func(p *param) string { return p.name })
	if !taken[name] {
		return name
	}
	return unique(taken, place+"_"+name, "_")
}

// add adds a parameter in a query, header or body.
func (m *mapper) add(p *param) {
	switch {
	case p.required && (p.wire == "" || len(p.wire) > 256 || clean.Text(p.wire, 256) != p.wire):
		m.drop("a required "+p.in+" parameter has a name that is not valid", "")
		return
	case p.required && len(m.op.params) == maxParams:
		m.drop("it has more than 200 parameters, and further ones are required", "")
		return
	case p.wire == "" || len(p.wire) > 256 || clean.Text(p.wire, 256) != p.wire:
		m.weak("a " + p.in + " parameter whose name is not valid is left out")
		return
	case len(m.op.params) == maxParams:
		m.weak("parameters beyond 200 are left out")
		return
	case slices.ContainsFunc(m.op.params, func(o *param) bool { return o.in == p.in && o.wire == p.wire }):
		return
	}
	if !p.required && !(p.in == "body" && m.clears()) {
		p.also = withoutNull(p.also)
	}
	if raw := (&rawParam{name: p.wire, in: p.in, description: p.description}); p.typ == "string" && p.in != "body" && raw.likeness() == surely {
		p.sensitive = true // a credential that only some operations need
	}
	p.name = m.free(paramName(p.wire), p.in)
	m.op.params = append(m.op.params, p)
}

func (m *mapper) query(raw *rawParam) {
	if m.raw.node != nil && strings.Contains(m.raw.path, "?"+raw.name+"=") {
		return // the path has it
	}
	m.describing = paramText
	p := &param{in: "query", wire: raw.name, required: raw.required, definition: m.parameterDefinition(raw)}
	list := p.may("array")
	if raw.reserved {
		p.encode = "reserved"
	}
	switch object := p.typ == "object"; {
	case raw.json:
		if p.style = "json"; p.typ != "array" && !object {
			p.style = ""
		}
	case raw.style == "deepObject" && (object || slices.Contains(p.also, "object")):
		if p.style = "deep_object"; p.deep() {
			p.style = "brackets"
		}
	case raw.style == "deepObject" && (list || slices.Contains(p.also, "array")):
		p.style = "brackets" // not defined by OpenAPI, and common
	case raw.style == "form" && raw.explode && object && len(p.props) > 0:
		m.spread(p)
		return
	case object && raw.style == "form" && raw.explode: // any member may be a parameter
		m.leave(raw, "its members would be parameters of any name", "")
		return
	case object && (raw.explode || separators[raw.style] == ""):
		m.leave(raw, "the style "+quoted(raw.style)+" is not supported for objects", "")
		return
	case !list && !object:
	case raw.style == "tabDelimited":
		m.leave(raw, "lists separated by tabs are not supported", "")
		return
	case raw.explode:
		p.style = "repeat"
	default:
		p.style = separators[raw.style]
	}
	m.add(p)
}

// separators are the styles of adapters that put a list, or the names and values of an object, between separators.
var separators = map[string]string{"form": "csv", "simple": "csv", "spaceDelimited": "space", "pipeDelimited": "pipe"}

// deep reports whether an object has objects in its members.
func (d *definition) deep() bool {
	return slices.ContainsFunc(d.props, func(p property) bool {
		return p.typ == "object" || p.typ == "array" || slices.Contains(p.also, "object")
	})
}

// spread makes parameters of the members of an object: with style form and explode, each is
// sent under its own name.
func (m *mapper) spread(p *param) {
	if !p.closed {
		m.weak("further members of " + quoted(p.wire) + " cannot be sent")
	}
	for _, e := range p.props {
		q := &param{in: p.in, wire: e.name, required: p.required && e.required, definition: e.definition}
		switch q.typ {
		case "array":
			q.style = "csv"
		case "object":
			q.style = "json"
		}
		m.add(q)
	}
}

func (m *mapper) header(raw *rawParam) {
	low := strings.ToLower(raw.name)
	switch {
	case slices.Contains(noParameters, low):
		return
	case !file.IsToken(raw.name) || file.IsForbiddenHeader(raw.name):
		m.leave(raw, "this header cannot be set", "")
		return
	}
	m.describing = paramText
	p := &param{in: "header", wire: raw.name, required: raw.required, definition: m.parameterDefinition(raw)}
	switch {
	case p.typ != "object" || raw.json:
	case raw.explode:
		m.leave(raw, "an object in a header as names with values is not supported", "")
		return
	default:
		p.style = "csv"
	}
	m.add(p)
}

// declaredType sends the Content-Type that Swagger 2.0 documents declare as a required header, also if there is no body.
func (m *mapper) declaredType() {
	r := &m.op.request
	if !m.doc.swagger || m.op.dropped || r.as != "" || r.kind != "" {
		return
	}
	for _, p := range m.raw.params {
		if p.in != "header" || !p.required || !strings.EqualFold(p.name, "content-type") {
			continue
		}
		s := m.shape(p.schema)
		r.kind = "application/json"
		for _, v := range append(slices.Clone(s.enum), s.fallback) {
			if v.is(wire.String) && file.IsHeaderValue(v.text) && strings.Contains(v.text, "/") && len(v.text) < 200 {
				r.kind = v.text
				break
			}
		}
	}
}
