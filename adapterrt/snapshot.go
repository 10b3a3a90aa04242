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
	shown    Shown
	how      *present.Presenter
	entries  map[*adapter]*present.Adapter
	full     *view
	views    map[string]*view // by grant
	nothing  *view
}

// snapshot makes the snapshot of adapters. It shows them as before does, and takes from it
// what has not changed.
func (rt *Runtime) snapshot(adapters []*adapter, before *snapshot) (*snapshot, error) {
	s := &snapshot{
		adapters: adapters, byName: map[string]*adapter{}, shown: before.shown, how: before.how,
		entries: map[*adapter]*present.Adapter{}, views: map[string]*view{},
	}
	if s.how == nil {
		s.how = rt.opt.presentation(s.shown.Mode)
	}
	for _, a := range adapters {
		s.byName[a.Name] = a
		if s.entries[a] = before.entries[a]; s.entries[a] == nil {
			s.entries[a] = present.NewAdapter(a.Adapter, a.guard.Verdict, s.how)
		}
	}
	var err error
	if s.full, err = rt.newView(s, nil); err != nil {
		return nil, err
	}
	if s.nothing, err = rt.newView(s, func(*file.Operation) bool { return false }); err != nil {
		return nil, err
	}
	for name, g := range s.shown.Grants {
		if s.views[name], err = rt.newView(s, g.permits); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// view returns what callers with a grant see. With a grant that does not exist they see nothing.
func (s *snapshot) view(grant string) *view {
	if grant == "" {
		return s.full
	}
	if v := s.views[grant]; v != nil {
		return v
	}
	return s.nothing
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
	Name string
	JSON []byte // its entry in tools/list, including annotations
}

// Tools returns the tools of the callers with a grant, in a stable order. The slice is shared,
// so callers of Tools must not change it.
func (rt *Runtime) Tools(grant string) []Tool { return rt.live.Load().view(grant).tools }

// maxToolName is the largest number of bytes in a tool name.
const maxToolName = 64

// makeTools makes the tools of v. It returns an error if two tools have the same name,
// because a call could mean either.
func (rt *Runtime) makeTools(v *view) error {
	if !rt.opt.PerAdapter {
		if err := rt.addTools(v, "", v.all); err != nil {
			return err
		}
	} else {
		for _, a := range v.adapters {
			if err := rt.addTools(v, a.Name, v.scopes[a.Name]); err != nil {
				return err
			}
		}
	}
	pinned := v.pinned()
	for _, a := range v.adapters {
		shown := v.scopes[a.Name].shown.Adapters[0]
		for _, op := range shown.Operations() {
			if v.mode != present.Discrete && !pinned[op] {
				continue
			}
			prefix := a.Name
			if len(v.adapters) == 1 {
				prefix = ""
			}
			name := v.unique(prefix, op.Name)
			v.toolOf[op] = name
			v.byTool[name] = &use{at: Endpoint{Adapter: a.Name}, operation: a.Name + "." + op.Name, calls: true}
			v.tools = append(v.tools, Tool{name, shown.DiscreteJSON(op, name)})
		}
	}
	return nil
}

// addTools adds the tools that call more than one operation.
func (rt *Runtime) addTools(v *view, adapter string, sc *scope) error {
	add := func(name string, u *use, entry func() []byte) error {
		if len(name) > maxToolName {
			return fmt.Errorf("adapters: tool name %s is longer than %d", name, maxToolName)
		}
		if other := v.byTool[name]; other != nil {
			return fmt.Errorf("adapters: tool %s belongs to adapter %s and to %s", name, other.at.Adapter, adapter)
		}
		v.byTool[name] = u
		v.tools = append(v.tools, Tool{name, entry()})
		return nil
	}
	switch v.mode {
	case present.Discrete:
		return nil
	case present.Search:
		for t := present.SearchOperations; t <= present.CallWrite; t++ {
			u := &use{at: Endpoint{Adapter: adapter}, finds: t, calls: t >= present.CallRead}
			if t == present.CallRead {
				u.at.Category = file.Read
			}
			if err := add(v.how.SearchTool(adapter, t), u, func() []byte { return sc.shown.SearchJSON(adapter, t) }); err != nil {
				return err
			}
		}
		return nil
	}
	var categories []file.Category
	if v.mode != present.Single {
		categories = append(categories, file.Create, file.Read, file.Update, file.Delete, file.Execute)
	}
	if v.mode != present.Semantic {
		categories = append(categories, file.AnyCategory)
	}
	for _, c := range categories {
		name := v.how.ToolName(adapter, c)
		u := &use{at: Endpoint{Adapter: adapter, Category: c}, calls: true}
		if err := add(name, u, func() []byte { return sc.shown.ToolJSON(adapter, name, c) }); err != nil {
			return err
		}
	}
	return nil
}

// pinned returns the operations of v that are pinned.
func (v *view) pinned() map[*file.Operation]bool {
	out := map[*file.Operation]bool{}
	for _, name := range v.pin {
		for _, s := range v.all.shown.Adapters {
			for _, op := range s.Operations() {
				if isNamed(op, name) {
					out[op] = true
				}
			}
		}
	}
	return out
}

// isNamed reports whether name is the operation's name, alone or behind its adapter's.
func isNamed(op *file.Operation, name string) bool {
	return name == op.Name || name == op.Adapter.Name+"."+op.Name
}

// Unpinned returns the names in Shown.Pin that no operation has.
func (rt *Runtime) Unpinned() (names []string) {
	s := rt.live.Load()
	for _, name := range s.shown.Pin {
		known := slices.ContainsFunc(s.adapters, func(a *adapter) bool {
			return slices.ContainsFunc(a.Operations, func(op *file.Operation) bool { return isNamed(op, name) })
		})
		if !known {
			names = append(names, name)
		}
	}
	return names
}
