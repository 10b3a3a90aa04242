package adapterrt

import (
	"fmt"
	"slices"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/present"
)

// snapshot is a set of adapters with all that is worked out once for it. It never
// changes; reloading swaps it.
type snapshot struct {
	adapters []*adapter // in the order of the files
	byName   map[string]*adapter
	all      *scope
	scopes   map[string]*scope
	tools    []Tool
	byTool   map[string]Endpoint
}

// scope is the adapters that a request may mean.
type scope struct {
	adapters []*adapter
	index    map[string][]offered // of several; one has its own
	shown    *present.Catalogue
}

// snapshot works out what adapters come to. What before knew of those that stay is
// taken from there.
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

// offered is an operation and whose it is.
type offered struct {
	a  *adapter
	op *file.Operation
}

// find is the operation of that name, and all of them when there are several.
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

// names are those of the operations, sorted.
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

// narrow is the scope of one adapter in sc, nil when sc has none of that name.
func (sc *scope) narrow(s *snapshot, name []byte) *scope {
	one := s.scopes[string(name)]
	if one == nil || len(sc.adapters) == 1 && sc.adapters[0] != one.adapters[0] {
		return nil
	}
	return one
}

// Transform is how the answers of an operation are to be shortened, by whoever
// does that.
type Transform struct {
	Adapter, Operation string
	JSON               []byte // the transform block that counts for it
}

// Transforms lists the operations that have a transform block, their own or their
// adapter's.
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
	JSON     []byte // its entry in tools/list, annotations and all
}

// Tools are the runtime's tools, in an order that stays. The slice is shared and
// must not be changed.
func (rt *Runtime) Tools() []Tool { return rt.live.Load().tools }

// Tool is the endpoint behind a tool's name.
func (rt *Runtime) Tool(name string) (Endpoint, bool) {
	e, ok := rt.live.Load().byTool[name]
	return e, ok
}

// The longest name a tool may have.
const maxToolName = 64

// makeTools writes the tools of s. Two of one name are an error: a call could
// mean either.
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
