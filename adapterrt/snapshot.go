package adapterrt

import (
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

// Tools returns the tools of the callers with a grant, in a stable order. The slice is shared,
// so callers of Tools must not change it.
func (rt *Runtime) Tools(grant string) []Tool { return rt.live.Load().view(grant).tools }

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

// Grants returns the names of the grants.
func (rt *Runtime) Grants() []string { return sortedKeys(rt.live.Load().shown.Grants) }

// Idle returns the patterns of all grants that match no operation, as grant: pattern.
func (rt *Runtime) Idle() (idle []string) {
	s := rt.live.Load()
	for _, name := range sortedKeys(s.shown.Grants) {
		g := s.shown.Grants[name]
		for _, text := range append(append([]string{}, g.Allow...), g.Deny...) {
			used := false
			for _, a := range s.adapters {
				for _, op := range a.Operations {
					used = used || matchesAny([]string{text}, op)
				}
			}
			if !used {
				idle = append(idle, name+": "+text)
			}
		}
	}
	return idle
}
