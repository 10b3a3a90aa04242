package openapi

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// lineWidth is the length up to which a definition is written on one line.
const lineWidth = 150

// quote writes a text in double quotes, as YAML and JSON have them.
func quote(s string) string { return string(wire.AppendQuoted(nil, s)) }

// scalar writes a text without quotes if YAML reads it as the same text.
func scalar(s string) string {
	if isPlain(s) {
		return s
	}
	return quote(s)
}

// value writes a scalar of the document.
func value(n *node) string {
	if n.kind == wire.String {
		return scalar(n.text)
	}
	return string(n.JSON(nil))
}

// keys returns the members of a definition but its items and properties, as YAML.
func (d *definition) keys(required bool) (out []pair) {
	add := func(key, value string) { out = append(out, pair{key, value}) }
	add("type", d.typ)
	if len(d.also) > 0 {
		words := make([]string, len(d.also))
		for i, w := range d.also {
			if words[i] = w; w == "null" {
				words[i] = `"null"`
			}
		}
		add("types", "["+strings.Join(words, ", ")+"]")
	}
	if required {
		add("required", "true")
	}
	if d.enum != nil {
		words := make([]string, len(d.enum))
		for i, v := range d.enum {
			words[i] = value(v)
		}
		add("enum", "["+strings.Join(words, ", ")+"]")
	}
	if d.format != "" {
		add("format", scalar(d.format))
	}
	if d.min != "" {
		add("minimum", d.min)
	}
	if d.max != "" {
		add("maximum", d.max)
	}
	if d.minLen >= 0 {
		add("minLength", strconv.Itoa(d.minLen))
	}
	if d.maxLen >= 0 {
		add("maxLength", strconv.Itoa(d.maxLen))
	}
	if d.pattern != "" {
		add("pattern", quote(d.pattern))
	}
	if d.sensitive {
		add("sensitive", "true")
	}
	return out
}

// flow writes a definition on one line. more are further members, in front of the description.
func (d *definition) flow(required bool, more ...pair) string {
	all := append(d.keys(required), more...)
	if d.items != nil {
		all = append(all, pair{"items", d.items.flow(false)})
	}
	if d.description != "" {
		all = append(all, pair{"description", quote(d.description)})
	}
	if d.props != nil {
		var props []string
		for _, p := range d.props {
			props = append(props, scalar(p.name)+": "+p.flow(p.required))
		}
		all = append(all, pair{"properties", "{" + strings.Join(props, ", ") + "}"})
	}
	return flowMap(all)
}

func flowMap(all []pair) string {
	parts := make([]string, len(all))
	for i, p := range all {
		parts[i] = p.key + ": " + p.value
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// hasProps reports whether the definition describes members somewhere.
func (d *definition) hasProps() bool { return d.props != nil || d.items != nil && d.items.hasProps() }

// writer writes the lines of YAML with their indentation.
type writer struct{ strings.Builder }

func (y *writer) line(indent int, format string, args ...any) {
	y.WriteString(strings.Repeat(" ", indent))
	fmt.Fprintf(y, format, args...)
	y.WriteByte('\n')
}

// definition writes a definition behind its key: on one line if it is short, otherwise as a
// block.
func (y *writer) definition(indent int, key string, d *definition, required bool, more ...pair) {
	line := key + ": "
	if !d.hasProps() || len(d.props) < 3 {
		if flow := d.flow(required, more...); indent+len(line)+len(flow) <= lineWidth || !d.hasProps() && d.enum == nil {
			y.line(indent, "%s%s", line, flow)
			return
		}
	}
	y.line(indent, "%s:", key)
	y.block(indent+2, d, required, more...)
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
}

// wrapped writes a member whose value may be a long list, on several lines.
func (y *writer) wrapped(indent int, p pair) {
	if !strings.HasPrefix(p.value, "[") || len(p.value) < lineWidth-indent {
		y.line(indent, "%s: %s", p.key, p.value)
		return
	}
	y.line(indent, "%s:", p.key)
	row := ""
	for part := range strings.SplitSeq(p.value, ", ") {
		if row != "" && indent+2+len(row)+len(part) > lineWidth-20 {
			y.line(indent+2, "%s,", row)
			row = ""
		}
		if row != "" {
			row += ", "
		}
		row += part
	}
	y.line(indent+2, "%s", row)
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
			text := p.flow(p.required, p.extra(op)...)
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
		whole := strings.ReplaceAll(u.param, "_", "-")
		name := whole
		for i := 2; taken[name]; i++ {
			name = whole + "-" + strconv.Itoa(i)
		}
		taken[name] = true
		s.names[u.param+u.text] = name
		s.order = append(s.order, anchor{name, u.text})
	}
	return s
}

// extra returns the members of a parameter beyond its definition.
func (p *param) extra(op *operation) (out []pair) {
	if p.wire != p.name && p.in != "path" {
		out = append(out, pair{"wire_name", scalar(p.wire)})
	}
	inURL := op.raw.method == "GET" || op.raw.method == "DELETE"
	switch {
	case p.in == "query" && !inURL, p.in == "body" && inURL && op.request.from != p.name, p.in == "header":
		out = append(out, pair{"in", p.in})
	}
	if p.style != "" {
		out = append(out, pair{"style", p.style})
	}
	if p.encode != "" {
		out = append(out, pair{"encode", p.encode})
	}
	return out
}

// operation writes one operation.
func (y *writer) operation(op *operation, s *shared) {
	y.line(4, "- name: %s", op.name)
	y.line(6, "maps_to: %s", quote(op.mapsTo))
	y.line(6, "description: %s", quote(op.description))
	if len(op.params) > 0 {
		y.line(6, "params:")
		for _, p := range op.params {
			extra := p.extra(op)
			if !p.hasProps() {
				if name := s.names[p.name+p.flow(p.required, extra...)]; name != "" {
					y.line(8, "%s: *%s", p.name, name)
					continue
				}
			}
			y.definition(8, p.name, p.definition, p.required, extra...)
		}
	}
	if r := op.request.pairs(); r != nil {
		y.line(6, "request: %s", flowMap(r))
	}
	if op.response.as != "" || op.response.accept != "" {
		var r []pair
		if op.response.as != "" {
			r = append(r, pair{"as", op.response.as})
		}
		if op.response.accept != "" {
			r = append(r, pair{"accept", scalar(op.response.accept)})
		}
		y.line(6, "response: %s", flowMap(r))
	}
	if op.paging != nil {
		y.line(6, "pagination: %s", flowMap(op.paging.pairs()))
	}
	if op.fields != nil {
		words := make([]string, len(op.fields))
		for i, path := range op.fields {
			words[i] = scalar(path)
		}
		y.line(6, "supports_fields: true")
		y.wrapped(6, pair{"default_fields", "[" + strings.Join(words, ", ") + "]"})
	}
	if op.danger.danger != "" {
		y.line(6, "danger_level: %s", op.danger.danger)
	}
	if op.danger.confirm {
		y.line(6, "requires_confirmation: true")
	}
	if op.deprecated {
		y.line(6, "deprecated: {}")
	}
}

func (r *request) pairs() (out []pair) {
	if r.as != "" {
		out = append(out, pair{"as", r.as})
	}
	if r.required {
		out = append(out, pair{"body_required", "true"})
	}
	if r.form != "" {
		out = append(out, pair{"form_style", r.form})
	}
	if r.from != "" {
		out = append(out, pair{"body_from", r.from})
	}
	if r.kind != "" {
		out = append(out, pair{"headers", "{Content-Type: " + scalar(r.kind) + "}"})
	}
	return out
}

func (p *paging) pairs() []pair {
	out := []pair{{"style", p.style}}
	text := func(key, v string) {
		if v != "" {
			out = append(out, pair{key, scalar(v)})
		}
	}
	text("param_name", p.position)
	text("per_page_param", p.size)
	if p.start == 0 {
		out = append(out, pair{"start_page", "0"})
	}
	text("items_path", p.items)
	text("next_path", p.next)
	text("total_path", p.total)
	if p.limit > 0 && (p.most == 0 || p.limit <= p.most) {
		out = append(out, pair{"default_limit", strconv.Itoa(p.limit)})
	}
	if p.most > 0 {
		out = append(out, pair{"max_limit", strconv.Itoa(p.most)})
	}
	return out
}
