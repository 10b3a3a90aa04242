package adapterrt

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/brief"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/present"
)

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
	given := v.givenNames()
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
			name := op.ToolName
			switch {
			case name == "":
				name = v.unique(prefix, op.Name)
			case given[name] > 1 || v.byTool[name] != nil || v.how.ToolPrefix != "":
				name = v.unique(prefix, name)
			}
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

// givenNames counts the names of tools that the files of v give: which of two would have it must not depend on their order.
func (v *view) givenNames() map[string]int {
	count := map[string]int{}
	for _, s := range v.all.shown.Adapters {
		for _, op := range s.Operations() {
			if op.ToolName != "" {
				count[op.ToolName]++
			}
		}
	}
	return count
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
	return name == op.Name || name == op.Adapter.Name+"."+op.Name || op.ToolName != "" && (name == op.ToolName || name == op.Adapter.Name+"."+op.ToolName)
}

// unique returns the name of the tool for one operation: it differs from the names of all
// tools of v, and by a number only if there is nothing else.
func (v *view) unique(adapter, operation string) string {
	name := v.how.OperationTool(adapter, operation, maxToolName, nil)
	other := v.byTool[name]
	if other == nil {
		return name
	}
	telling := map[string]bool{} // what the other one has not
	for _, w := range brief.Words(operation) {
		telling[w] = true
	}
	for _, w := range brief.Words(other.operation[strings.IndexByte(other.operation, '.')+1:]) {
		delete(telling, w)
	}
	apart := adapter
	if adapter != "" {
		apart += "_" // aa and b_c, aa_b and c
	}
	for _, adapter := range [...]string{adapter, apart} {
		if name = v.how.OperationTool(adapter, operation, maxToolName, telling); v.byTool[name] == nil {
			return name
		}
	}
	for i := 2; v.byTool[name] != nil; i++ {
		suffix := "_" + strconv.Itoa(i)
		name = v.how.OperationTool(adapter, operation, maxToolName-len(suffix), telling) + suffix
	}
	return name
}
