package present

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/guard"
	"github.com/dragoman-proxy/dragoman/adapterrt/near"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

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
		{"tag", "Only of adapters with this tag"}, {"match", "Only with these words in name or description"},
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

// Adapter holds what introspection shows of an adapter, or of some of its operations. It is
// computed when the adapter is loaded.
type Adapter struct {
	adapter    *file.Adapter
	operations []*file.Operation          // that are shown
	index      map[string]*file.Operation // of operations
	verdict    func(*file.Operation) guard.Verdict
	how        *Presenter
	details    []Detail // by operation of the file; nil in the modes that show them in another form
	generated  []generatedType
	golden     map[string][]byte // params of an example in the documentation, by operation
}

// Only returns an Adapter that shows only the operations that visible allows.
func (s *Adapter) Only(visible func(*file.Operation) bool) *Adapter {
	some := *s
	some.operations, some.index, some.generated = nil, map[string]*file.Operation{}, nil
	for _, op := range s.operations {
		if visible(op) {
			some.operations = append(some.operations, op)
			some.index[op.Name] = op
		}
	}
	for _, t := range s.generated {
		if t.of == nil || visible(t.of) {
			some.generated = append(some.generated, t)
		}
	}
	return &some
}

// Operations returns the operations that are shown.
func (s *Adapter) Operations() []*file.Operation { return s.operations }

// shown is what introspection shows of an operation in addition to the file's front matter.
type shown struct {
	verdict guard.Verdict
	golden  []byte
	tool    string // the name of the tool that calls the operation
}

func (s *Adapter) shown(op *file.Operation, tool string) shown {
	return shown{s.verdict(op), s.golden[op.Name], tool}
}

// NewAdapter computes what introspection shows of the adapter's operations. verdict returns
// the verdict on an operation.
func NewAdapter(a *file.Adapter, verdict func(*file.Operation) guard.Verdict, p *Presenter) *Adapter {
	s := &Adapter{
		adapter: a, operations: a.Operations, index: a.Index, verdict: verdict, how: p,
		generated: generateTypes(a), golden: goldenParams(a),
	}
	if p.Mode <= All {
		details := make([]Detail, len(a.Operations))
		for i, op := range a.Operations {
			details[i] = s.Detail(op)
		}
		s.details = details
	}
	return s
}

// Detail returns the details of an operation, as they are if no other adapter is offered.
func (s *Adapter) Detail(op *file.Operation) Detail {
	if s.details != nil {
		return s.details[op.Index]
	}
	return describe(op, s.shown(op, s.how.toolName(s.adapter.Name, op)), s.how, "")
}

// Catalogue answers introspection for adapters that are offered together.
type Catalogue struct {
	Adapters  []*Adapter
	Ambiguous func(operation string) bool // several of the adapters have it
	How       *Presenter
	// ToolOf returns the name of the tool that calls an operation. It is nil in the modes in
	// which the name does not depend on what else is offered.
	ToolOf func(op *file.Operation) string

	answered   sync.Once
	operations []byte // the answer to introspect operations
	types      []byte
	info       []byte

	indexed sync.Once
	found   searched
}

// work computes the answers. It runs once, at the first request.
func (k *Catalogue) work() {
	k.operations, _ = k.list(&Question{})

	types := []byte(`{"types":[`)
	for _, t := range file.ProtocolTypes() {
		types = append((&generatedType{DeclaredType: t}).appendItem(types), ',')
	}
	for _, s := range k.Adapters {
		for i := range s.generated {
			types = append(s.generated[i].appendItem(types), ',')
		}
	}
	types[len(types)-1] = ']'
	k.types = bytes.Clone(append(types, '}'))

	info := []byte(`{"adapters":[`)
	for i, s := range k.Adapters {
		if i > 0 {
			info = append(info, ',')
		}
		info = appendInfo(info, s)
	}
	k.info = append(info, "]}"...)
	if len(k.Adapters) == 1 {
		k.info = append(appendInfo([]byte(`{"adapter":`), k.Adapters[0]), '}')
	}
}

func appendInfo(dst []byte, s *Adapter) []byte {
	a := s.adapter
	o := wire.Members(nil).Str("name", a.Name).Str("version", a.Version).Str("description", a.Description).
		Int("operation_count", int64(len(s.operations)))
	for _, m := range [...]struct{ key, val string }{{"author", a.Author}, {"created", a.Created}, {"modified", a.Modified}} {
		if m.val != "" {
			o = o.Str(m.key, clean.Text(m.val, 200))
		}
	}
	for _, m := range [...]struct {
		key string
		val []string
	}{{"tags", a.Tags}, {"triggers", a.Triggers}} {
		if len(m.val) > 0 {
			tidy := make([]string, len(m.val))
			for i, s := range m.val {
				tidy[i] = clean.Text(s, 100)
			}
			o = o.Strs(m.key, tidy)
		}
	}
	if a.Trust.About != nil {
		o = o.Raw("trust", a.Trust.About)
	}
	return append(dst, o.End()...)
}

// Answer returns the answer to q as JSON, from what NewAdapter computed. It calls quotas for
// the JSON of quota_status, because that changes with every call.
func (k *Catalogue) Answer(q *Question, quotas func() []byte) ([]byte, *failure.Failure) {
	k.answered.Do(k.work)
	if key := q.listing(); key != "" && (q.Query != "operations" || q.Named) {
		return nil, failure.InvalidValue(key, "is for a list of operations")
	}
	switch q.Query {
	case "operations":
		if q.Named {
			return k.operation(q.Name)
		}
		if q.listing() == "" {
			return k.operations, nil
		}
		return k.list(q)
	case "types":
		if q.Named {
			return k.typ(q.Name)
		}
		return k.types, nil
	case "quota_status":
		return quotas(), nil
	case "adapter_info":
		if !q.Named {
			return k.info, nil
		}
		for _, s := range k.Adapters {
			if s.adapter.Name == q.Name {
				return append(appendInfo([]byte(`{"adapter":`), s), '}'), nil
			}
		}
		return []byte(`{"adapter":null}`), nil
	}
	query := clean.FirstRunes(clean.Text(q.Query, 60), 60)
	return nil, &failure.Failure{Code: failure.InvalidQueryType, Message: "Unknown introspection query: '" + query + "'. Use 'operations' or 'types'."}
}

// qualified splits adapter.name if there is an adapter of that name. Otherwise it returns
// all adapters and name.
func (k *Catalogue) qualified(name string) ([]*Adapter, string) {
	if before, after, ok := strings.Cut(name, "."); ok {
		for i, s := range k.Adapters {
			if s.adapter.Name == before {
				return k.Adapters[i : i+1], after
			}
		}
	}
	return k.Adapters, name
}

func (k *Catalogue) operation(name string) ([]byte, *failure.Failure) {
	s, op, f := k.lookup(name)
	switch {
	case f != nil:
		return nil, f
	case op == nil:
		_, name = k.qualified(name)
		return k.nothing("operation", name, func(s *Adapter, add func(string)) {
			for _, op := range s.operations {
				add(op.Name)
			}
		}), nil
	case s == nil:
		return k.How.builtinDetail.Answer(), nil
	case len(k.Adapters) == 1 && k.ToolOf == nil:
		d := s.Detail(op)
		return d.Answer(), nil
	}
	d := k.describe(s, op, k.How)
	return d.Answer(), nil
}

// lookup returns the operation called name, and its adapter, which is nil for introspect. op is
// nil if there is no such operation.
func (k *Catalogue) lookup(name string) (s *Adapter, op *file.Operation, f *failure.Failure) {
	adapters, name := k.qualified(name)
	if name == k.How.Builtin.Name {
		return nil, k.How.Builtin, nil
	}
	var found []*Adapter
	for _, s := range adapters {
		if s.index[name] != nil {
			found = append(found, s)
		}
	}
	switch len(found) {
	case 0:
		return nil, nil, nil
	case 1:
		return found[0], found[0].index[name], nil
	}
	return nil, nil, failure.Ambiguous(name, adapterNames(found))
}

// describe returns the details of an operation among those of k.
func (k *Catalogue) describe(s *Adapter, op *file.Operation, how *Presenter) Detail {
	tool, among := how.toolName(s.adapter.Name, op), ""
	if k.ToolOf != nil {
		tool = k.ToolOf(op)
	}
	if len(k.Adapters) > 1 {
		among = s.adapter.Name
	}
	return describe(op, s.shown(op, tool), how, among)
}

// maxMeant is the largest number of names in did_you_mean, and maxSought of names that are compared
// for it.
const maxMeant, maxSought = 3, 5000

// nothing returns the answer for a name that does not exist. It contains similar names,
// except in the closed form.
func (k *Catalogue) nothing(what, name string, names func(s *Adapter, add func(string))) []byte {
	o := wire.Members(nil).Raw(what, []byte("null"))
	if k.How.Introspection == Strict {
		return o.End()
	}
	var among []string
	for _, s := range k.Adapters {
		if len(among) < maxSought {
			names(s, func(n string) { among = append(among, n) })
		}
	}
	if meant := near.Names(clean.FirstRunes(name, 200), among, maxMeant); len(meant) > 0 {
		o = o.Strs("did_you_mean", k.Callable(meant))
	}
	return o.End()
}

func adapterNames(list []*Adapter) (names []string) {
	for _, s := range list {
		names = append(names, s.adapter.Name)
	}
	return names
}

func (k *Catalogue) typ(name string) ([]byte, *failure.Failure) {
	adapters, name := k.qualified(name)
	for _, t := range file.ProtocolTypes() {
		if t.Name == name {
			return (&generatedType{DeclaredType: t}).appendDetail(nil), nil
		}
	}
	var found []*Adapter
	var answer []byte
	for _, s := range adapters {
		for i := range s.generated {
			if t := &s.generated[i]; t.Name == name {
				found, answer = append(found, s), t.appendDetail(nil)
				break
			}
		}
	}
	switch len(found) {
	case 0:
		return k.nothing("type", name, func(s *Adapter, add func(string)) {
			for i := range s.generated {
				add(s.generated[i].Name)
			}
		}), nil
	case 1:
		return answer, nil
	}
	return nil, failure.Ambiguous(name, adapterNames(found))
}

// Detail is the answer to introspect operations with an operation's name. The answer may
// contain the parameters twice; Detail keeps them once.
type Detail struct {
	text     []byte
	from, to int // the parameters in text
	again    int // where Answer inserts them a second time; 0 for nowhere
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
	for _, p := range op.Params {
		if p.Hidden {
			continue
		}
		if len(params) > 1 {
			params = append(params, ',')
		}
		params = how.appendDescription(params, p)
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
		m := wire.Members(nil)
		for _, f := range [...]struct{ key, val string }{{"since", d.Since}, {"replacement", d.Replacement}, {"removal_date", d.Removal}} {
			if f.val != "" {
				m = m.Str(f.key, f.val)
			}
		}
		o = o.Raw("deprecated", m.End())
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

func (p *Presenter) appendDescription(dst []byte, param *file.Param) []byte {
	o := wire.Members(make([]byte, 0, 256)).Str("name", param.Name).Str("type", param.Type.String()).Bool("required", param.Required)
	o = p.members(o, &param.Definition)
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
		values := []byte{'['}
		for i, e := range d.Enum {
			if i > 0 {
				values = append(values, ',')
			}
			values = append(values, e.Raw...)
		}
		o = o.Raw("enum", append(values, ']'))
	}
	o = withBounds(o, d)
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
	if d.Sensitive {
		o = o.Bool("sensitive", true)
	}
	return o
}
