package adapterrt

import (
	"slices"
	"strconv"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/present"
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

// newView makes the view of the operations that visible allows.
func (rt *Runtime) newView(s *snapshot, visible func(*file.Operation) bool) (*view, error) {
	v := &view{how: s.how, pin: s.shown.Pin, scopes: map[string]*scope{}, byTool: map[string]*use{}, toolOf: map[*file.Operation]string{}}
	count := 0
	for _, a := range s.adapters {
		shown := s.entries[a]
		if visible != nil {
			if shown = shown.Only(visible); len(shown.Operations()) == 0 {
				continue
			}
		}
		v.adapters = append(v.adapters, a)
		v.scopes[a.Name] = v.newScope([]*adapter{a}, []*present.Adapter{shown}, visible != nil)
		count += len(shown.Operations())
	}
	if len(v.adapters) == 1 {
		v.all = v.scopes[v.adapters[0].Name]
	} else {
		var shown []*present.Adapter
		for _, a := range v.adapters {
			shown = append(shown, v.scopes[a.Name].shown.Adapters...)
		}
		v.all = v.newScope(v.adapters, shown, true)
	}
	v.mode = v.how.Mode.Of(count)
	return v, rt.makeTools(v)
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
	for name := range sc.index {
		names = append(names, name)
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

// unique returns the name of the tool for one operation: it differs from the names of all
// tools of v.
func (v *view) unique(adapter, operation string) string {
	name := v.how.OperationTool(adapter, operation, maxToolName)
	for i := 2; v.byTool[name] != nil; i++ {
		suffix := "_" + strconv.Itoa(i)
		name = v.how.OperationTool(adapter, operation, maxToolName-len(suffix)) + suffix
	}
	return name
}
