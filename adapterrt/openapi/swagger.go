package openapi

import (
	"cmp"
	"slices"
)

// swaggerOperation reads what Swagger 2.0 describes in its own way:
// https://swagger.io/specification/v2/
func (d *Document) swaggerOperation(op *rawOperation, params []*node) {
	consumes, produces := op.node.strs("consumes"), op.node.strs("produces")
	if op.node.get("consumes") == nil {
		consumes = d.root.strs("consumes")
	}
	if op.node.get("produces") == nil {
		produces = d.root.strs("produces")
	}
	var form []*node
	for _, p := range params {
		switch p.str("in") {
		case "body":
			op.body = &rawBody{required: p.flag("required"), description: p.str("description")}
			if len(consumes) == 0 {
				consumes = []string{"application/json"}
			}
			for _, kind := range consumes {
				op.body.content = append(op.body.content, media{kind: mediaType(kind), schema: p.get("schema"), examples: swaggerExamples(p)})
			}
		case "formData":
			form = append(form, p)
		default:
			op.params = append(op.params, d.swaggerParameter(p))
		}
	}
	if form != nil && op.body != nil {
		d.lose(op, op.node, "it has a body and a form: the form cannot be sent")
	}
	if form != nil && op.body == nil {
		op.body = d.swaggerForm(op.node, form, consumes)
	}
	if len(produces) == 0 {
		produces = []string{"application/json"}
	}
	d.readAnswers(op, func(status string, a *node) (content []media) {
		schema := a.get("schema")
		if schema == nil && (status[0] != '2' || status == "204" || op.node.get("produces") == nil) {
			return nil
		}
		for _, kind := range produces {
			m := media{kind: mediaType(kind), schema: schema}
			if e := a.get("examples").get(kind); e != nil {
				m.examples = []*node{e}
			}
			content = append(content, m)
		}
		return content
	})
}

func swaggerExamples(p *node) (out []*node) {
	for _, key := range [...]string{"example", "x-example"} {
		if e := p.get(key); e != nil {
			out = append(out, e)
		}
	}
	return out
}

// swaggerParameter reads a parameter that has the keywords of its schema itself.
func (d *Document) swaggerParameter(p *node) *rawParam {
	r := &rawParam{
		name: p.str("name"), in: p.str("in"), description: p.str("description"), required: p.flag("required"),
		schema: p, style: "simple", examples: swaggerExamples(p),
	}
	if s := p.get("schema"); s != nil { // not allowed, and common
		r.schema = s
	}
	if r.in == "query" {
		r.style = "form"
	}
	switch p.str("collectionFormat") {
	case "multi":
		r.explode = true
	case "ssv":
		r.style = "spaceDelimited"
	case "pipes":
		r.style = "pipeDelimited"
	case "tsv":
		r.style = "tabDelimited" // not in OpenAPI 3
	}
	return r
}

// swaggerForm makes one body of the form's parameters, as OpenAPI 3 has it.
func (d *Document) swaggerForm(at *node, form []*node, consumes []string) *rawBody {
	properties, required := object(at), array()
	b := &rawBody{}
	encoding := object(at)
	for _, p := range form {
		name := p.str("name")
		if name == "" || properties.get(name) != nil {
			continue
		}
		schema := p
		if p.str("type") == "file" {
			schema = object(p, "type", text("string"), "format", text("binary"), "description", p.get("description"))
		}
		properties.keys, properties.kids = append(properties.keys, name), append(properties.kids, schema)
		if p.flag("required") {
			b.required = true
			required.kids = append(required.kids, text(name))
		}
		if f := p.str("collectionFormat"); p.str("type") == "array" && f != "multi" {
			style := cmp.Or(map[string]string{"ssv": "spaceDelimited", "pipes": "pipeDelimited"}[f], "form")
			encoding.keys = append(encoding.keys, name)
			encoding.kids = append(encoding.kids, object(p, "style", text(style), "explode", boolean(false)))
		}
	}
	const urlencoded, multipart = "application/x-www-form-urlencoded", "multipart/form-data"
	consumed := func(kind string) bool {
		return slices.ContainsFunc(consumes, func(c string) bool { return mediaType(c) == kind })
	}
	kind := urlencoded
	files := slices.ContainsFunc(form, func(p *node) bool { return p.str("type") == "file" })
	if files || consumed(multipart) && !consumed(urlencoded) {
		kind = multipart
	}
	schema := object(at, "type", text("object"), "properties", properties, "required", required)
	b.content = []media{{kind: kind, schema: schema, encoding: encoding}}
	return b
}
