package adapterrt

import (
	"bytes"
	"slices"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/near"
	"github.com/dragoman-proxy/dragoman/adapterrt/present"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// view is what one kind of caller sees of a snapshot: the operations that it may use, the
// tools that offer them, and all that introspection says. An operation that is not in a view
// does not exist for its callers.
type view struct {
	how      *present.Presenter
	pin      []string
	adapters []*adapter // that have an operation in the view, in the order of the files
	all      *scope
	scopes   map[string]*scope // by adapter
	mode     present.Mode      // never Auto
	tools    []Tool
	byTool   map[string]*use
	toolOf   map[*file.Operation]string // the tools that call one operation
}

// use is what a tool does with its arguments.
type use struct {
	at        Endpoint
	operation string       // the operation that the tool calls, with its adapter; "" for another tool
	finds     present.Tool // SearchOperations or DescribeOperations, if the tool calls no operation
	calls     bool         // the tool calls operations
}

// scope is the set of adapters among which a request's operation is looked up.
type scope struct {
	adapters []*adapter
	index    map[string][]offered // operations by name; nil for all operations of one adapter, which has its own index
	shown    *present.Catalogue
}

func (v *view) newScope(adapters []*adapter, shown []*present.Adapter, indexed bool) *scope {
	sc := &scope{adapters: adapters, shown: &present.Catalogue{How: v.how, Adapters: shown}}
	sc.shown.Ambiguous = func(name string) bool { return len(sc.index[name]) > 1 }
	if v.how.Mode >= present.Discrete || len(v.pin) > 0 {
		sc.shown.ToolOf = func(op *file.Operation) string { return v.toolName(op) }
	}
	if !indexed {
		return sc
	}
	sc.index = map[string][]offered{}
	for i, a := range adapters {
		for _, op := range shown[i].Operations() {
			sc.index[op.Name] = append(sc.index[op.Name], offered{a, op})
			if op.ToolName != "" && op.ToolName != op.Name {
				sc.index[op.ToolName] = append(sc.index[op.ToolName], offered{a, op})
			}
		}
	}
	return sc
}

// toolName returns the name of the tool that calls an operation.
func (v *view) toolName(op *file.Operation) string {
	if name := v.toolOf[op]; name != "" {
		return name
	}
	switch v.mode {
	case present.Search:
		return v.how.SearchTool(op.Adapter.Name, present.CallTool(op.Category))
	case present.Single:
		return v.how.ToolName(op.Adapter.Name, file.AnyCategory)
	}
	return v.how.ToolName(op.Adapter.Name, op.Category)
}

// offered is an operation and the adapter that has it.
type offered struct {
	a  *adapter
	op *file.Operation
}

// find returns the operation of that name as one. If several adapters have an operation
// of that name, it returns all of them as several.
func (sc *scope) find(name []byte) (one offered, several []offered) {
	if sc.index == nil {
		return offered{sc.adapters[0], sc.adapters[0].Index[string(name)]}, nil
	}
	switch ops := sc.index[string(name)]; len(ops) {
	case 0:
		return offered{}, nil
	case 1:
		return ops[0], nil
	default:
		return offered{}, ops
	}
}

// names returns the names of the operations, sorted.
func (sc *scope) names() []string {
	names := []string{sc.shown.How.Builtin.Name}
	if sc.index == nil {
		for _, op := range sc.adapters[0].Operations {
			names = append(names, op.Name)
		}
	}
	for name, ops := range sc.index {
		if slices.ContainsFunc(ops, func(o offered) bool { return o.op.Name == name }) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// narrow returns the scope of the adapter called name, or nil if sc has no such adapter.
func (sc *scope) narrow(v *view, name []byte) *scope {
	one := v.scopes[string(name)]
	if one == nil || len(sc.adapters) == 1 && sc.adapters[0] != one.adapters[0] {
		return nil
	}
	return one
}

// Tool is one MCP tool of the runtime.
type Tool struct {
	Name string
	JSON []byte // its entry in tools/list, including annotations
}

// maxOperationName is the largest number of bytes in the operation name of a request.
const maxOperationName = 200

// find returns the operation that a request names, in the scope of its endpoint.
func (v *view) find(at Endpoint, e *envelope) (*scope, offered, *failure.Failure) {
	if e.operation == nil {
		return nil, offered{}, &failure.Failure{
			Code: failure.ValidationMissingParam, Message: "Missing required parameter 'operation'. Expected: string.",
			Details: wire.Members(nil).Str("param_name", "operation").Str("expected_type", "string").Strs("missing", []string{"operation"}).End(),
		}
	}
	sc := v.all
	if at.Adapter != "" {
		if sc = v.scopes[at.Adapter]; sc == nil {
			return nil, offered{}, v.unknownAdapter(at.Adapter)
		}
	}
	name := e.operation
	if e.adapter != nil {
		if sc = sc.narrow(v, e.adapter); sc == nil {
			return nil, offered{}, v.unknownAdapter(string(e.adapter))
		}
	}
	if before, after, qualified := bytes.Cut(name, []byte(".")); qualified {
		if inner := sc.narrow(v, before); inner != nil {
			sc, name = inner, after
		}
	}
	if !file.IsCallable(name) || len(name) > maxOperationName {
		return nil, offered{}, failure.InvalidValue("operation", "is not a valid operation name")
	}
	if string(name) == v.how.Builtin.Name {
		return sc, offered{op: v.how.Builtin}, nil
	}
	one, several := sc.find(name)
	switch {
	case one.op != nil:
		return sc, one, nil
	case several == nil:
		return nil, offered{}, unknownOperation(string(name), sc.names(), sc.shown.Callable)
	default:
		var names []string
		for _, o := range several {
			names = append(names, o.a.Name)
		}
		return nil, offered{}, failure.Ambiguous(string(name), names)
	}
}

// maxAdapters is the largest number of adapters that a failure lists.
const maxAdapters = 20

// unknownAdapter returns the failure for an unknown adapter; it lists the loaded adapters.
func (v *view) unknownAdapter(name string) *failure.Failure {
	name = clean.FirstRunes(clean.Text(name, 100), 100)
	var names []string
	for _, a := range v.adapters[:min(len(v.adapters), maxAdapters)] {
		names = append(names, a.Name)
	}
	return &failure.Failure{
		Code: failure.NotFoundResource, Message: "Unknown adapter: '" + name + "'",
		Details: wire.Members(nil).Str("adapter", name).Strs("available", names).End(),
	}
}

// maxAvailable is the largest number of names that the failure for an unknown operation
// lists. If there are more than manyNames operations, only the names that sort next to
// the unknown one are compared with it.
const maxAvailable, manyNames = 50, 1000

// unknownOperation returns the failure for an unknown operation. It lists those of names
// that are most similar to name. names must be sorted; callable turns them into names
// that a request can use.
func unknownOperation(name string, names []string, callable func([]string) []string) *failure.Failure {
	if len(names) > manyNames {
		i, _ := slices.BinarySearch(names, name)
		from := min(max(i-maxAvailable/2, 0), len(names)-maxAvailable)
		names = names[from : from+maxAvailable]
	}
	type candidate struct {
		name     string
		distance int
	}
	list := make([]candidate, len(names))
	for i, n := range names {
		list[i] = candidate{n, near.Distance(name, n, maxOperationName)}
	}
	slices.SortStableFunc(list, func(a, b candidate) int { return a.distance - b.distance })
	available := make([]string, 0, min(len(list), maxAvailable))
	for _, n := range list[:cap(available)] {
		available = append(available, n.name)
	}
	d := wire.Members(nil).Str("operation", name).Strs("available", atMost(callable(available), maxAvailable)).Str("hint", "introspect")
	if meant := near.Names(name, names, maxMeant); len(meant) > 0 {
		d = d.Strs("did_you_mean", atMost(callable(meant), maxMeant))
	}
	return &failure.Failure{Code: failure.NotFoundOperation, Message: "Unknown operation: '" + name + "'", Details: d.End()}
}

// atMost returns the first n of names, or all.
func atMost(names []string, n int) []string { return names[:min(len(names), n)] }

// maxMeant is the largest number of names in did_you_mean.
const maxMeant = 3

// rightEndpoint refuses an operation at another category's endpoint.
func (v *view) rightEndpoint(op *file.Operation, at Endpoint) *failure.Failure {
	if at.Category == file.AnyCategory || at.Category == op.Category {
		return nil
	}
	right, wrong := v.how.ToolName(at.Adapter, op.Category), v.how.ToolName(at.Adapter, at.Category)
	if at.tool != "" && v.mode == present.Search {
		right, wrong = v.how.SearchTool(at.Adapter, present.CallTool(op.Category)), at.tool
	}
	return &failure.Failure{
		Code:    failure.ValidationEndpointMismatch,
		Message: "Operation '" + op.Name + "' must be called via " + right + ", not " + wrong,
		Details: wire.Members(nil).Str("operation", op.Name).Str("expected_endpoint", op.Category.String()).Str("actual_endpoint", at.Category.String()).End(),
	}
}
