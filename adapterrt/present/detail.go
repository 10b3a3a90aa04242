package present

import (
	"slices"
	"strconv"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/guard"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// New returns a Presenter with the options o.
func New(o Options) *Presenter {
	p := &Presenter{Options: o, Builtin: introspectOperation(o.Introspection)}
	p.builtinDetail = describe(p.Builtin, shown{verdict: guard.Allow, tool: p.toolName("", p.Builtin)}, p, "")
	p.protocol = p.protocolBlock()
	brief := *p
	brief.Introspection = Compact
	p.brief = &brief
	return p
}

// introspectOperation returns the operation introspect, which every runtime has. The closed
// form does not have the parameters that page and filter lists; its lists are complete.
func introspectOperation(form Introspection) *file.Operation {
	op := &file.Operation{
		Name: "introspect", Category: file.Read, Builtin: true, Description: "Discover operations and types",
		Required: []int{0},
	}
	for _, p := range [...]struct{ name, description string }{
		{"query", "operations or types; also adapter_info, quota_status"}, {"name", "Name of one, for its details"},
		{"first", "Of a list of operations: how many, default 100"}, {"after", "Last name of the list before"},
		{"adapter", "Only this adapter's"}, {"category", "Only create, read, update, delete or execute"},
		{"tag", "Only with this tag"}, {"match", "Only with these words in name or description"},
	} {
		d := file.Definition{Type: file.TypeString, MinLength: -1, MaxLength: -1, Description: p.description}
		if p.name == "first" {
			d.Type, d.Minimum, d.Maximum, d.Constrained = file.TypeInteger, &file.Bound{Raw: []byte("1")}, &file.Bound{Raw: []byte(strconv.Itoa(MostListed))}, true
		}
		if form == Strict && p.name != "query" && p.name != "name" {
			continue
		}
		op.Params = append(op.Params, &file.Param{Name: p.name, Definition: d, Required: p.name == "query"})
	}
	return op
}

// protocolBlock returns the _protocol member of a list of operations.
func (p *Presenter) protocolBlock() []byte {
	can := wire.Members(nil).Bool("batch", true).Bool("field_selection", true).Bool("pagination", true).
		Bool("warnings", true).Bool("confirmation", true).Bool("dangerous_operations", true).End()
	mode := p.Mode
	if mode > All && p.Introspection == Strict { // the specification has only these three
		mode = Semantic
	}
	limits := wire.Members(nil).Int("max_request_size", int64(p.Limits.Request)).Int("max_response_size", int64(p.Limits.Response)).
		Int("max_string_length", int64(p.Limits.Text)).Int("max_array_elements", int64(p.Limits.Elements)).Int("max_nesting_depth", int64(p.Limits.Depth)).End()
	return wire.Members(nil).Str("version", "1.0.0-draft").Str("conformance", "level-2").Str("mode", mode.String()).
		Raw("capabilities", can).Raw("limits", limits).Str("concurrency", "fully-concurrent").End()
}

// listed is how many operations a list has by default, and MostListed how many at most. An adapter
// has at most as many.
const listed, MostListed = 100, 2000

// shown is what introspection shows of an operation in addition to the file's front matter.
type shown struct {
	verdict guard.Verdict
	golden  []byte
	tool    string // the name of the tool that calls the operation
}

// Answer returns the complete answer.
func (d *Detail) Answer() []byte {
	if d.again == 0 {
		return d.text
	}
	params := d.text[d.from:d.to]
	return slices.Concat(d.text[:d.again], []byte(`,"params":`), params, d.text[d.again:])
}

// describe returns the details of an operation. among is its adapter's name if several
// adapters are offered together, and "" otherwise.
func describe(op *file.Operation, more shown, how *Presenter, among string) (d Detail) {
	params := append(make([]byte, 0, 1<<10), '[')
	for i, p := range op.Params {
		if p.Hidden {
			continue
		}
		params = wire.Comma(params)
		params = how.appendDescription(params, op, i)
	}
	params = append(params, ']')
	permissions := wire.Members(nil).Bool("readOnly", op.Category == file.Read).Bool("destructive", op.Category >= file.Update).End()
	o := wire.Members(make([]byte, 0, 2<<10)).Str("name", op.Name).Str("semantic_category", file.CategoryUpper[op.Category]).
		Str("endpoint", op.Category.String()).Str("mcpTool", more.tool).Str("description", op.Description).
		Raw("permissions", permissions).Raw(how.parametersKey(), params)
	const head = `{"operation":`
	d.to = len(head) + len(o)
	d.from = d.to - len(params)
	o = o.Raw("returns", appendReturns(nil, op)).Raw("examples", appendExample(nil, op, more.golden, among))
	if how.Introspection != Strict {
		if how.Introspection == Extended {
			d.again = len(head) + len(o)
		}
		if among != "" {
			o = o.Str("adapter", among)
		}
		o = extend(o, op, more.verdict)
	}
	d.text = slices.Concat([]byte(head), o.End(), []byte("}"))
	return d
}

func (p *Presenter) parametersKey() string {
	if p.Introspection == Compact {
		return "params"
	}
	return "parameters"
}

// extend adds the members that the closed form does not have.
func extend(o wire.Members, op *file.Operation, v guard.Verdict) wire.Members {
	if r := op.Returns; r != nil && (r.Description != "" || r.Fields != nil) {
		m := wire.Members(nil).Str("description", r.Description)
		if r.Fields != nil {
			m = m.Raw("fields", r.Fields)
		}
		o = o.Raw("response", m.End())
	}
	if d := &op.Danger; d.Declared || v != guard.Allow || d.Level >= file.Destructive {
		o = o.Raw("danger", wire.Members(nil).Str("level", d.Level.String()).Bool("requires_confirmation", v == guard.Confirm).
			Bool("denied", v == guard.Deny).End())
	}
	if op.Fields != nil {
		o = o.Bool("supports_fields", true)
		if op.Fields.Declared != nil {
			o = o.Raw("default_fields", clean.EscapeHidden(wire.AppendStrings(nil, op.Fields.Declared)))
		}
	}
	if g := op.Paging; g != nil {
		o = o.Bool("supports_pagination", true)
		o = o.Raw("pagination", wire.Members(nil).Str("style", g.Style).Int("default_limit", int64(g.Limit)).Int("max_limit", int64(g.Max)).End())
	}
	if d := op.Deprecated; d != nil {
		o = o.Raw("deprecated", d.Append(nil).End())
	}
	if op.Lifecycle != nil {
		o = o.Raw("lifecycle", op.Lifecycle)
	}
	return o
}

func appendReturns(dst []byte, op *file.Operation) []byte {
	if op.Returns == nil {
		return append(dst, `{"name":"JsonValue","kind":"scalar"}`...)
	}
	return append(dst, wire.Members(nil).Str("name", op.Returns.Name).Str("kind", op.Returns.Kind).End()...)
}

func (p *Presenter) appendDescription(dst []byte, op *file.Operation, i int) []byte {
	param := op.Params[i]
	o := wire.Members(make([]byte, 0, 256)).Str("name", param.Name).Str("type", param.Type.String()).Bool("required", param.Required)
	d := param.Definition
	d.Description = inBase64(op, i, d.Description)
	o = p.members(o, &d)
	if param.Fallback != nil {
		o = o.Raw("default", param.Fallback)
	}
	return append(dst, o.End()...)
}

// members adds everything that a definition says in addition to its type.
func (p *Presenter) members(o wire.Members, d *file.Definition) wire.Members {
	if d.Description != "" {
		o = o.Str("description", d.Description)
	}
	if len(d.Enum) > 0 {
		o = o.Raw("enum", d.Allowed())
	}
	if p.Introspection == Strict { // it has inclusive bounds only
		closed := *d
		closed.Minimum, closed.Maximum = inclusive(d.Minimum), inclusive(d.Maximum)
		o = withBounds(o, &closed)
	} else {
		o = withExtent(withBounds(o, d), d)
	}
	if d.Pattern != nil {
		o = o.Raw("pattern", clean.EscapeHidden(wire.AppendQuoted(nil, d.Pattern.String())))
	}
	if d.Format != "" {
		o = o.Str("format", d.Format)
	}
	if d.Items != nil {
		o = o.Raw("items", p.members(wire.Members(nil).Str("type", d.Items.Type.String()), d.Items).End())
	}
	if d.Also != 0 && p.Introspection != Strict { // the closed form has neither types nor properties
		o = o.Strs("types", append([]string{d.Type.String()}, d.Also.Names()...))
	}
	if d.Properties != nil && p.Introspection != Strict {
		list := wire.Members(nil)
		for i := range *d.Properties {
			e := &(*d.Properties)[i]
			list = list.Raw(e.Name, p.members(wire.Members(nil).Str("type", e.Type.String()).Bool("required", e.Required), &e.Definition).End())
		}
		o = o.Raw("properties", list.End())
	}
	if d.Forms != nil && p.Introspection != Strict {
		o = o.Raw("one_of", clean.EscapeHidden(appendForms(nil, d)))
	}
	if d.Values != nil && p.Introspection != Strict {
		o = o.Raw("additionalProperties", p.members(wire.Members(nil).Str("type", d.Values.Type.String()), d.Values).End())
	}
	if d.Sensitive {
		o = o.Bool("sensitive", true)
	}
	return o
}
