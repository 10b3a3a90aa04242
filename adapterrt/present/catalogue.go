package present

import (
	"strings"
	"sync"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/find"
	"github.com/dragoman-proxy/dragoman/adapterrt/guard"
)

// Adapter holds what introspection shows of an adapter, or of some of its operations. It is
// computed when the adapter is loaded.
type Adapter struct {
	adapter    *file.Adapter
	operations []*file.Operation          // that are shown
	index      map[string]*file.Operation // of operations
	verdict    func(*file.Operation) guard.Verdict
	how        *Presenter
	details    []Detail // by operation of the file; nil if they are made when they are asked for
	generated  []generatedType
	golden     map[string][]byte // params of an example in the documentation, by operation
}

// NewAdapter computes what introspection shows of the adapter's operations. verdict returns
// the verdict on an operation.
func NewAdapter(a *file.Adapter, verdict func(*file.Operation) guard.Verdict, p *Presenter) *Adapter {
	s := &Adapter{
		adapter: a, operations: a.Operations, index: a.Index, verdict: verdict, how: p,
		generated: generateTypes(a), golden: goldenParams(a),
	}
	if p.Mode <= All && !p.Later {
		details := make([]Detail, len(a.Operations))
		for i, op := range a.Operations {
			details[i] = s.Detail(op)
		}
		s.details = details
	}
	return s
}

// Only returns an Adapter that shows only the operations that visible allows.
func (s *Adapter) Only(visible func(*file.Operation) bool) *Adapter {
	some := *s
	some.operations, some.index, some.generated = nil, map[string]*file.Operation{}, nil
	for _, op := range s.operations {
		if visible(op) {
			some.operations = append(some.operations, op)
			some.index[op.Name] = op
			if op.ToolName != "" {
				some.index[op.ToolName] = op
			}
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

func (s *Adapter) shown(op *file.Operation, tool string) shown {
	return shown{s.verdict(op), s.golden[op.Name], tool}
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

// searched is the index of a Catalogue's operations.
type searched struct {
	index *find.Index
	items []item       // by document
	at    map[item]int // the document of an item
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

func adapterNames(list []*Adapter) (names []string) {
	for _, s := range list {
		names = append(names, s.adapter.Name)
	}
	return names
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

// item is an operation in a list. The adapter is nil for introspect, which all have.
type item struct {
	s  *Adapter
	op *file.Operation
}
