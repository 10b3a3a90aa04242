package adapterrt

import (
	"fmt"
	"slices"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/present"
)

// snapshot is a set of adapters with all that is computed once for it. It never
// changes; a reload replaces it.
type snapshot struct {
	adapters []*adapter // in the order of the files
	byName   map[string]*adapter
	all      *scope
	scopes   map[string]*scope
	tools    []Tool
	byTool   map[string]Endpoint
}

// scope is the set of adapters among which a request's operation is looked up.
type scope struct {
	adapters []*adapter
	index    map[string][]offered // operations by name; nil for one adapter, which has its own index
	shown    *present.Catalogue
}

// snapshot makes the snapshot of adapters. It takes the scopes of adapters that have not
// changed from before.
func (rt *Runtime) snapshot(adapters []*adapter, before *snapshot) (*snapshot, error) {
	s := &snapshot{adapters: adapters, byName: map[string]*adapter{}, scopes: map[string]*scope{}}
	for _, a := range adapters {
		s.byName[a.Name] = a
		if before != nil && before.byName[a.Name] == a {
			s.scopes[a.Name] = before.scopes[a.Name]
		} else {
			s.scopes[a.Name] = rt.newScope([]*adapter{a})
		}
	}
	if len(adapters) == 1 {
		s.all = s.scopes[adapters[0].Name]
	} else {
		s.all = rt.newScope(adapters)
	}
	return s, rt.makeTools(s)
}

func (rt *Runtime) newScope(adapters []*adapter) *scope {
	sc := &scope{adapters: adapters, shown: &present.Catalogue{How: rt.shows}}
	for _, a := range adapters {
		sc.shown.Adapters = append(sc.shown.Adapters, a.shown)
	}
	sc.shown.Ambiguous = func(name string) bool { return len(sc.index[name]) > 1 }
	if len(adapters) == 1 {
		return sc
	}
	sc.index = map[string][]offered{}
	for _, a := range adapters {
		for _, op := range a.Operations {
			sc.index[op.Name] = append(sc.index[op.Name], offered{a, op})
		}
	}
	return sc
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
func (sc *scope) names(rt *Runtime) []string {
	names := []string{rt.shows.Builtin.Name}
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
func (sc *scope) narrow(s *snapshot, name []byte) *scope {
	one := s.scopes[string(name)]
	if one == nil || len(sc.adapters) == 1 && sc.adapters[0] != one.adapters[0] {
		return nil
	}
	return one
}

// Transform is the transform block of an operation. The runtime only reports it: its
// caller shortens the answers.
type Transform struct {
	Adapter, Operation string
	JSON               []byte // the operation's own transform block, otherwise its adapter's
}

// Transforms returns the transform blocks of the operations that have one, their own or
// their adapter's.
func (rt *Runtime) Transforms() []Transform {
	var out []Transform
	for _, a := range rt.live.Load().adapters {
		for _, op := range a.Operations {
			if op.Transform != nil {
				out = append(out, Transform{a.Name, op.Name, op.Transform})
			}
		}
	}
	return out
}

// Tool is one MCP tool of the runtime.
type Tool struct {
	Name     string
	Endpoint Endpoint
	JSON     []byte // its entry in tools/list, including annotations
}

// Tools returns the runtime's tools, in a stable order. The slice is shared, so callers
// must not change it.
func (rt *Runtime) Tools() []Tool { return rt.live.Load().tools }

// Tool returns the endpoint of the tool called name, and whether there is such a tool.
func (rt *Runtime) Tool(name string) (Endpoint, bool) {
	e, ok := rt.live.Load().byTool[name]
	return e, ok
}

// maxToolName is the largest number of bytes in a tool name.
const maxToolName = 64

// makeTools makes the tools of s. It returns an error if two tools have the same name,
// because a call could mean either.
func (rt *Runtime) makeTools(s *snapshot) error {
	s.byTool = map[string]Endpoint{}
	add := func(adapter string, sc *scope) error {
		var categories []file.Category
		if rt.shows.Mode != present.Single {
			categories = append(categories, file.Create, file.Read, file.Update, file.Delete, file.Execute)
		}
		if rt.shows.Mode != present.Semantic {
			categories = append(categories, file.AnyCategory)
		}
		for _, c := range categories {
			name := rt.shows.ToolName(adapter, c)
			if len(name) > maxToolName {
				return fmt.Errorf("adapters: tool name %s is longer than %d", name, maxToolName)
			}
			if other, ok := s.byTool[name]; ok {
				return fmt.Errorf("adapters: tool %s belongs to adapter %s and to %s", name, other.Adapter, adapter)
			}
			e := Endpoint{adapter, c}
			s.byTool[name] = e
			s.tools = append(s.tools, Tool{name, e, sc.shown.ToolJSON(adapter, name, c)})
		}
		return nil
	}
	if !rt.opt.PerAdapter {
		return add("", s.all)
	}
	for _, a := range s.adapters {
		if err := add(a.Name, s.scopes[a.Name]); err != nil {
			return err
		}
	}
	return nil
}
