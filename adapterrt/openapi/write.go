package openapi

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
)

// keys returns the members of a definition but its items and properties.
func (d *definition) keys(required bool) (out pairs) {
	out.add("type", d.typ)
	out.list("types", d.also)
	out.flag("required", required)
	if d.enum != nil {
		out.add("enum", flowList(d.enum, value))
	}
	out.text("format", d.format)
	out.add(edgeKey("minimum", d.minOpen), d.min)
	out.add(edgeKey("maximum", d.maxOpen), d.max)
	out.add("minLength", lengthText(d.minLen))
	out.add("maxLength", lengthText(d.maxLen))
	out.quoted("pattern", d.pattern)
	d.extentKeys(&out)
	out.flag("sensitive", d.sensitive)
	out.add("one_of", d.forms())
	return out
}

// forms writes the variants of an object as a file has them: for each, its tag, and its members and whether they are required.
func (d *definition) forms() string {
	if d.variants == nil {
		return ""
	}
	return flowList(d.variants, func(v variant) string {
		var all pairs
		if d.tag != "" {
			all.add(scalar(d.tag), scalar(v.value))
		}
		for _, name := range v.members {
			if clean.Text(name, maxName) == name && len(name) <= maxName && name != "" {
				all.add(scalar(name), strconv.FormatBool(slices.Contains(v.required, name)))
			}
		}
		return flowMap(all)
	})
}

// lengthText writes a limit of length, or "" for none.
func lengthText(n int) string {
	if n < 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// flow writes a definition on one line. more are further members, in front of the description.
func (d *definition) flow(required bool, more ...pair) string {
	all := append(d.keys(required), more...)
	if d.items != nil {
		all.add("items", d.items.flow(false))
	}
	all.quoted("description", d.description)
	if d.props != nil {
		var props pairs
		for _, p := range d.props {
			props.add(scalar(p.name), p.flow(p.required))
		}
		all.add("properties", flowMap(props))
	}
	if d.values != nil {
		all.add("additionalProperties", d.values.flow(false))
	}
	return flowMap(all)
}

// hasProps reports whether the definition describes members somewhere.
func (d *definition) hasProps() bool {
	return d.props != nil || d.items != nil && d.items.hasProps() || d.values != nil && d.values.hasProps()
}

// definition writes a definition behind its key: on one line if it is short, otherwise as a
// block.
func (y *writer) definition(indent int, key string, d *definition, required bool, more ...pair) {
	if !d.hasProps() || len(d.props) < 3 {
		if flow := d.flow(required, more...); d.fits(indent+len(key)+2, flow) {
			y.line(indent, "%s: %s", key, flow)
			return
		}
	}
	y.line(indent, "%s:", key)
	y.block(indent+2, d, required, more...)
}

// fits reports whether a definition is written on one line, as flow, behind its key.
func (d *definition) fits(behind int, flow string) bool {
	return behind+len(flow) <= lineWidth || !d.hasProps() && d.enum == nil
}

func (y *writer) block(indent int, d *definition, required bool, more ...pair) {
	for _, p := range append(d.keys(required), more...) {
		y.wrapped(indent, p)
	}
	if d.description != "" {
		y.line(indent, "description: %s", quote(d.description))
	}
	if d.items != nil {
		y.definition(indent, "items", d.items, false)
	}
	if d.props != nil {
		y.line(indent, "properties:")
		for _, p := range d.props {
			y.definition(indent+2, scalar(p.name), p.definition, p.required)
		}
	}
	if d.values != nil {
		y.definition(indent, "additionalProperties", d.values, false)
	}
}

// shared are definitions that several operations have, under the names of their anchors.
type shared struct {
	names map[string]string // by the parameter's name and the text
	order []anchor
}

type anchor struct{ name, text string }

// maxAliased is how many values aliases of a file may expand to; adapter files allow 10,000.
const maxAliased = 9_000

// share finds the definitions of parameters that are repeated.
func share(ops []*operation) *shared {
	type use struct {
		text, param  string
		count, nodes int
		at           int
	}
	uses := map[string]*use{}
	var all []*use
	for _, op := range ops {
		for _, p := range op.params {
			if p.hasProps() {
				continue
			}
			p.line = p.flow(p.required, p.extra(op)...)
			text := p.line
			u := uses[p.name+text]
			if u == nil {
				u = &use{text: text, param: p.name, nodes: 2 + strings.Count(text, ": ") + strings.Count(text, ", "), at: len(all)}
				uses[p.name+text] = u
				all = append(all, u)
			}
			u.count++
		}
	}
	all = slices.DeleteFunc(all, func(u *use) bool { return u.count < 3 || len(u.text) < 60 })
	slices.SortStableFunc(all, func(a, b *use) int { return b.count*len(b.text) - a.count*len(a.text) })
	s := &shared{names: map[string]string{}}
	left := maxAliased
	var kept []*use
	for _, u := range all {
		if u.count*u.nodes <= left {
			left -= u.count * u.nodes
			kept = append(kept, u)
		}
	}
	slices.SortFunc(kept, func(a, b *use) int { return a.at - b.at })
	taken := map[string]bool{}
	for _, u := range kept {
		name := unique(taken, strings.ReplaceAll(u.param, "_", "-"), "-")
		s.names[u.param+u.text] = name
		s.order = append(s.order, anchor{name, u.text})
	}
	return s
}

// extra returns the members of a parameter beyond its definition.
func (p *param) extra(op *operation) (out pairs) {
	if p.wire != p.name && p.in != "path" {
		out.text("wire_name", p.wire)
	}
	inURL := op.raw.method == "GET" || op.raw.method == "DELETE"
	switch {
	case p.in == "query" && !inURL, p.in == "body" && inURL && op.request.from != p.name, p.in == "header":
		out.add("in", p.in)
	}
	out.add("style", p.style)
	out.add("encode", p.encode)
	out.text("content_type", p.content)
	if p.fileType != "" {
		out.add("file", "{type: "+quote(p.fileType)+"}")
	}
	if p.fixed != nil {
		out.add("hidden", "true")
		out.add("default", flowOf(p.fixed))
	}
	return out
}

// operation writes one operation.
func (y *writer) operation(op *operation, s *shared) {
	y.line(4, "- name: %s", op.name)
	if op.tool != "" {
		y.line(6, "tool_name: %s", scalar(op.tool))
	}
	y.line(6, "maps_to: %s", quote(op.mapsTo))
	if op.baseURL != "" {
		y.line(6, "base_url: %s", quote(op.baseURL))
	}
	if op.anonymous {
		y.line(6, "auth: none")
	}
	if len(op.scopes) > 0 && len(op.scopes) <= file.MaxScopes {
		y.line(6, "scopes: %s", flowList(op.scopes, scalar))
	}
	y.line(6, "description: %s", quote(op.description))
	if len(op.params) > 0 {
		y.line(6, "params:")
		for _, p := range op.params {
			if !p.hasProps() {
				if name := s.names[p.name+p.line]; name != "" {
					y.line(8, "%s: *%s", p.name, name)
					continue
				}
				if p.fits(8+len(p.name)+2, p.line) {
					y.line(8, "%s: %s", p.name, p.line)
					continue
				}
			}
			y.definition(8, p.name, p.definition, p.required, p.extra(op)...)
		}
	}
	if r := op.request.pairs(); r != nil {
		y.line(6, "request: %s", flowMap(r))
	}
	var r pairs
	r.add("as", op.response.as)
	r.text("accept", op.response.accept)
	if s := op.response.schema; s != nil {
		y.line(6, "response:")
		for _, p := range r {
			y.line(8, "%s: %s", p.key, p.value)
		}
		y.folded(8, "schema: "+s.line)
	} else if r != nil {
		y.line(6, "response: %s", flowMap(r))
	}
	if op.paging != nil {
		y.line(6, "pagination: %s", flowMap(op.paging.pairs()))
	}
	if op.fields != nil {
		y.line(6, "supports_fields: true")
		y.wrapped(6, pair{"default_fields", flowList(op.fields, scalar)})
	}
	if op.danger.danger != "" {
		y.line(6, "danger_level: %s", op.danger.danger)
	}
	if op.danger.confirm {
		y.line(6, "requires_confirmation: true")
	}
	if op.tags != nil {
		y.line(6, "tags: %s", flowList(op.tags, scalar))
	}
	if op.deprecated {
		y.line(6, "deprecated: {}")
	}
}

func (r *request) pairs() (out pairs) {
	out.add("as", r.as)
	out.flag("body_required", r.required)
	out.add("form_style", r.form)
	out.add("body_from", r.from)
	var headers pairs
	if r.kind != "" {
		headers.add("Content-Type", scalar(r.kind))
	}
	for _, h := range r.fixed {
		headers.add(scalar(h.key), scalar(h.value))
	}
	if headers != nil {
		out.add("headers", flowMap(headers))
	}
	return out
}

func (p *paging) pairs() (out pairs) {
	out.add("style", p.style)
	out.text("param_name", p.position)
	out.text("per_page_param", p.size)
	if p.start == 0 {
		out.add("start_page", "0")
	}
	out.text("items_path", p.items)
	out.text("next_path", p.next)
	out.text("total_path", p.total)
	if p.limit > 0 && (p.most == 0 || p.limit <= p.most) {
		out.add("default_limit", strconv.Itoa(p.limit))
	}
	if p.most > 0 {
		out.add("max_limit", strconv.Itoa(p.most))
	}
	return out
}

// extentKeys adds the keys of an extent and of open bounds.
func (d *definition) extentKeys(out *pairs) {
	out.add("multipleOf", d.step)
	out.add("minItems", countText(d.minItems))
	out.add("maxItems", countText(d.maxItems))
	out.flag("uniqueItems", d.unique)
}

func countText(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// edgeKey returns the key of a bound.
func edgeKey(key string, open bool) string {
	if open {
		return "exclusive" + strings.ToUpper(key[:1]) + key[1:]
	}
	return key
}
