package adapterrt

import (
	"bytes"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// introspectOperation is the operation that every runtime has.
func introspectOperation() *operation {
	op := &operation{
		name: "introspect", category: Read, builtin: true, description: "Discover operations and types",
		required: []int{0},
	}
	any := definition{typ: typeString, minLength: -1, maxLength: -1}
	query, name := &param{name: "query", definition: any, required: true}, &param{name: "name", definition: any}
	query.description = "operations or types; also adapter_info, quota_status"
	name.description = "Which one, for its details"
	op.params = []*param{query, name}
	return op
}

// protocolBlock is the _protocol member of a list of operations.
func protocolBlock(opt *Options) []byte {
	can := wire.Members(nil).Bool("batch", opt.Batch).Bool("field_selection", true).Bool("pagination", true).
		Bool("warnings", true).Bool("confirmation", true).Bool("dangerous_operations", true).End()
	limits := wire.Members(nil).Int("max_request_size", int64(opt.MaxRequestBytes)).Int("max_response_size", int64(opt.MaxResponseBytes)).
		Int("max_string_length", maxText).Int("max_array_elements", maxElements).Int("max_nesting_depth", maxNesting).End()
	return wire.Members(nil).Str("version", "1.0.0-draft").Str("conformance", "level-2").Str("mode", opt.Mode.String()).
		Raw("capabilities", can).Raw("limits", limits).Str("concurrency", "fully-concurrent").End()
}

// answer works out what introspection says of a scope, when it is first asked.
func (sc *scope) answer(rt *Runtime) {
	several := len(sc.adapters) > 1
	list := append([]byte(`{"_protocol":`), rt.protocol...)
	list = append(list, `,"operations":[`...)
	for _, a := range sc.adapters {
		prefix := ""
		if several {
			prefix = "[" + a.Name + "] "
		}
		for _, op := range a.ops {
			list = append(op.appendItem(list, prefix), ',')
		}
	}
	list = rt.builtin.appendItem(list, "")
	sc.operations = bytes.Clone(append(list, "]}"...))

	types := []byte(`{"types":[`)
	for _, t := range protocolTypes() {
		types = append(t.appendItem(types), ',')
	}
	for _, a := range sc.adapters {
		for i := range a.generated {
			types = append(a.generated[i].appendItem(types), ',')
		}
	}
	types[len(types)-1] = ']'
	sc.types = bytes.Clone(append(types, '}'))

	info := []byte(`{"adapters":[`)
	for i, a := range sc.adapters {
		if i > 0 {
			info = append(info, ',')
		}
		info = a.appendInfo(info)
	}
	sc.info = append(info, "]}"...)
	if len(sc.adapters) == 1 {
		sc.info = append(sc.adapters[0].appendInfo([]byte(`{"adapter":`)), '}')
	}
}

func (op *operation) appendItem(dst []byte, prefix string) []byte {
	o := wire.Members(nil).Str("name", op.name).Str("semantic_category", categoryUpper[op.category]).
		Str("endpoint", op.category.String()).Str("description", prefix+op.description)
	return append(dst, o.End()...)
}

func (a *Adapter) appendInfo(dst []byte) []byte {
	o := wire.Members(nil).Str("name", a.Name).Str("version", a.Version).Str("description", a.Description).
		Int("operation_count", int64(len(a.ops)))
	for _, m := range [...]struct{ key, val string }{{"author", a.Author}, {"created", a.Created}, {"modified", a.Modified}} {
		if m.val != "" {
			o = o.Str(m.key, cleanText(m.val, 200))
		}
	}
	for _, m := range [...]struct {
		key string
		val []string
	}{{"tags", a.Tags}, {"triggers", a.Triggers}} {
		if len(m.val) > 0 {
			clean := make([]string, len(m.val))
			for i, s := range m.val {
				clean[i] = cleanText(s, 100)
			}
			o = o.Strs(m.key, clean)
		}
	}
	if a.trust.about != nil {
		o = o.Raw("trust", a.trust.about)
	}
	return append(dst, o.End()...)
}

// introspect answers out of what was worked out before.
func (sc *scope) introspect(rt *Runtime, c *call) ([]byte, *Failure) {
	sc.answered.Do(func() { sc.answer(rt) })
	query := string(wire.Unquoted(c.values[0].raw))
	named := c.values[1].kind == wire.String
	var name string
	if named {
		name = string(wire.Unquoted(c.values[1].raw))
	}
	switch query {
	case "operations":
		if named {
			return sc.operation(rt, name), nil
		}
		return sc.operations, nil
	case "types":
		if named {
			return sc.typ(name), nil
		}
		return sc.types, nil
	case "quota_status":
		return sc.quotaStatus(rt), nil
	case "adapter_info":
		if !named {
			return sc.info, nil
		}
		for _, a := range sc.adapters {
			if a.Name == name {
				return append(a.appendInfo([]byte(`{"adapter":`)), '}'), nil
			}
		}
		return []byte(`{"adapter":null}`), nil
	}
	query = firstRunes(cleanText(query, 60), 60)
	return nil, &Failure{Code: InvalidQueryType, Message: "Unknown introspection query: '" + query + "'. Use 'operations' or 'types'."}
}

// qualified parts adapter.name when sc has the adapter.
func (sc *scope) qualified(name string) ([]*Adapter, string) {
	if before, after, ok := strings.Cut(name, "."); ok {
		for i, a := range sc.adapters {
			if a.Name == before {
				return sc.adapters[i : i+1], after
			}
		}
	}
	return sc.adapters, name
}

func (sc *scope) operation(rt *Runtime, name string) []byte {
	adapters, name := sc.qualified(name)
	if name == rt.builtin.name {
		return rt.builtin.detail.answer()
	}
	for _, a := range adapters {
		if op := a.index[name]; op != nil {
			return op.detail.answer()
		}
	}
	return []byte(`{"operation":null}`)
}

func (sc *scope) typ(name string) []byte {
	adapters, name := sc.qualified(name)
	for _, t := range protocolTypes() {
		if t.name == name {
			return t.appendDetail(nil)
		}
	}
	for _, a := range adapters {
		for i := range a.generated {
			if t := &a.generated[i]; t.name == name {
				return t.appendDetail(nil)
			}
		}
	}
	return []byte(`{"type":null}`)
}

// precompute writes what introspection says of the adapter's operations.
func (a *Adapter) precompute(opt *Options) {
	for _, op := range a.ops {
		op.judge(opt)
		op.detail = op.describe(opt)
	}
	a.generateTypes()
}

// detail is the answer to introspect operations with an operation's name. What it
// says of the parameters, it may say twice, and keeps once.
type detail struct {
	text     []byte
	from, to int // the parameters
	again    int // where they stand a second time; 0 for nowhere
}

// answer is the whole of it.
func (d *detail) answer() []byte {
	if d.again == 0 {
		return d.text
	}
	params := d.text[d.from:d.to]
	return slices.Concat(d.text[:d.again], []byte(`,"params":`), params, d.text[d.again:])
}

func (op *operation) describe(opt *Options) (d detail) {
	adapter := ""
	if op.adapter != nil {
		adapter = op.adapter.Name
	}
	tool := opt.toolName(adapter, op.category)
	if opt.Mode == Single {
		tool = opt.toolName(adapter, AnyCategory)
	}
	params := append(make([]byte, 0, 1<<10), '[')
	for _, p := range op.params {
		if p.hidden {
			continue
		}
		if len(params) > 1 {
			params = append(params, ',')
		}
		params = p.appendDescription(params)
	}
	params = append(params, ']')
	permissions := wire.Members(nil).Bool("readOnly", op.category == Read).Bool("destructive", op.category >= Update).End()
	o := wire.Members(make([]byte, 0, 2<<10)).Str("name", op.name).Str("semantic_category", categoryUpper[op.category]).
		Str("endpoint", op.category.String()).Str("mcpTool", tool).Str("description", op.description).
		Raw("permissions", permissions).Raw("parameters", params)
	const head = `{"operation":`
	d.to = len(head) + len(o)
	d.from = d.to - len(params)
	o = o.Raw("returns", op.appendReturns(nil)).Raw("examples", op.appendExample(nil))
	if !opt.StrictIntrospection {
		d.again = len(head) + len(o)
		o = op.extend(o)
	}
	d.text = slices.Concat([]byte(head), o.End(), []byte("}"))
	return d
}

// extend adds what the closed form has no room for.
func (op *operation) extend(o wire.Members) wire.Members {
	if r := op.returns; r != nil && (r.description != "" || r.fields != nil) {
		m := wire.Members(nil).Str("description", r.description)
		if r.fields != nil {
			m = m.Raw("fields", r.fields)
		}
		o = o.Raw("response", m.End())
	}
	if d := &op.danger; d.declared || d.verdict != allow || d.level >= destructive {
		o = o.Raw("danger", wire.Members(nil).Str("level", d.level.String()).Bool("requires_confirmation", d.verdict == confirm).
			Bool("denied", d.verdict == deny).End())
	}
	if op.fields != nil {
		o = o.Bool("supports_fields", true)
		if op.fields.declared != nil {
			o = o.Raw("default_fields", escapeHidden(wire.AppendStrings(nil, op.fields.declared)))
		}
	}
	if g := op.paging; g != nil {
		o = o.Bool("supports_pagination", true)
		o = o.Raw("pagination", wire.Members(nil).Str("style", g.style).Int("default_limit", int64(g.limit)).Int("max_limit", int64(g.max)).End())
	}
	if d := op.deprecated; d != nil {
		m := wire.Members(nil)
		for _, f := range [...]struct{ key, val string }{{"since", d.since}, {"replacement", d.replacement}, {"removal_date", d.removal}} {
			if f.val != "" {
				m = m.Str(f.key, f.val)
			}
		}
		o = o.Raw("deprecated", m.End())
	}
	if op.lifecycle != nil {
		o = o.Raw("lifecycle", op.lifecycle)
	}
	return o
}

func (op *operation) appendReturns(dst []byte) []byte {
	if op.returns == nil {
		return append(dst, `{"name":"JsonValue","kind":"scalar"}`...)
	}
	return append(dst, wire.Members(nil).Str("name", op.returns.name).Str("kind", op.returns.kind).End()...)
}

func (p *param) appendDescription(dst []byte) []byte {
	o := wire.Members(make([]byte, 0, 256)).Str("name", p.name).Str("type", p.typ.String()).Bool("required", p.required)
	o = p.definition.members(o)
	if p.fallback != nil {
		o = o.Raw("default", p.fallback)
	}
	return append(dst, o.End()...)
}

// members adds all that a definition says beyond its type.
func (d *definition) members(o wire.Members) wire.Members {
	if d.description != "" {
		o = o.Str("description", d.description)
	}
	if len(d.enum) > 0 {
		values := []byte{'['}
		for i, e := range d.enum {
			if i > 0 {
				values = append(values, ',')
			}
			values = append(values, e.raw...)
		}
		o = o.Raw("enum", append(values, ']'))
	}
	if d.minimum != nil {
		o = o.Raw("minimum", d.minimum.raw)
	}
	if d.maximum != nil {
		o = o.Raw("maximum", d.maximum.raw)
	}
	if d.minLength >= 0 {
		o = o.Int("minLength", int64(d.minLength))
	}
	if d.maxLength >= 0 {
		o = o.Int("maxLength", int64(d.maxLength))
	}
	if d.pattern != nil {
		o = o.Raw("pattern", escapeHidden(wire.AppendQuoted(nil, d.pattern.String())))
	}
	if d.format != "" {
		o = o.Str("format", d.format)
	}
	if d.items != nil {
		o = o.Raw("items", d.items.members(wire.Members(nil).Str("type", d.items.typ.String())).End())
	}
	if d.sensitive {
		o = o.Bool("sensitive", true)
	}
	return o
}

// appendExample writes one request with a value for all that is required.
func (op *operation) appendExample(dst []byte) []byte {
	params := wire.Members(nil)
	for _, p := range op.params {
		if p.required {
			params = params.Raw(p.name, p.exampleValue())
		}
	}
	if op.builtin {
		params = wire.Members(nil).Str("query", "operations")
	}
	request := wire.Members(nil).Str("operation", op.name).Raw("params", params.End()).End()
	return append(append(append(dst, `[{"request":`...), request...), "}]"...)
}

func (d *definition) exampleValue() []byte {
	switch {
	case len(d.enum) > 0:
		return d.enum[0].raw
	case d.minimum != nil:
		return d.minimum.raw
	case d.typ == typeInteger || d.typ == typeNumber:
		return []byte("1")
	case d.typ == typeBoolean:
		return []byte("true")
	case d.typ == typeArray:
		return []byte("[]")
	case d.typ == typeObject:
		return []byte("{}")
	}
	return []byte(`"…"`)
}
