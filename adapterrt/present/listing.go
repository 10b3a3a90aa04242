package present

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// maxKnown is the largest number of names that a failure lists.
const maxKnown = 20

// Question holds the parameters of a call of introspect. All but the first three are for
// lists of operations; "" and 0 mean that a parameter is absent.
type Question struct {
	Query string
	Name  string
	Named bool

	First                                int
	After, Adapter, Category, Tag, Match string
}

// listing returns the first parameter of q that is only for lists, or "" if there is none.
func (q *Question) listing() string {
	if q.First > 0 {
		return "first"
	}
	for _, p := range [...]struct{ name, value string }{{"after", q.After}, {"adapter", q.Adapter}, {"category", q.Category}, {"tag", q.Tag}, {"match", q.Match}} {
		if p.value != "" {
			return p.name
		}
	}
	return ""
}

// list returns the operations that q selects. If there are more, it says how to list them.
// In the closed form, which has no member for that, the list is complete.
func (k *Catalogue) list(q *Question) ([]byte, *failure.Failure) {
	items, f := k.chosen(q)
	if f != nil {
		return nil, f
	}
	if q.After != "" {
		at := slices.IndexFunc(items, func(i item) bool { return k.nameOf(i.s, i.op) == q.After })
		if at < 0 {
			return nil, failure.InvalidValue("after", "is not an operation of this list")
		}
		items = items[at+1:]
	}
	first := q.First
	if first == 0 {
		if first = listed; k.How.Introspection == Strict {
			first = len(items)
		}
	}
	shown := items[:min(first, len(items))]
	list := append([]byte(`{"_protocol":`), k.How.protocol...)
	list = append(list, `,"operations":[`...)
	for _, i := range shown {
		list = wire.Comma(list)
		prefix := ""
		if i.s != nil && len(k.Adapters) > 1 {
			prefix = "[" + i.s.adapter.Name + "] "
		}
		list = append(list, wire.Members(nil).Str("name", i.op.Name).Str("semantic_category", file.CategoryUpper[i.op.Category]).
			Str("endpoint", i.op.Category.String()).Str("description", prefix+i.op.Description).End()...)
	}
	list = append(list, ']')
	if left := len(items) - len(shown); left > 0 {
		last := shown[len(shown)-1]
		list = append(list, `,"more":`...)
		list = wire.AppendQuoted(list, strconv.Itoa(left)+" more operations. Go on with after \""+k.nameOf(last.s, last.op)+
			"\" and first, or narrow with adapter, category, tag, match.")
	}
	return bytes.Clone(append(list, '}')), nil
}

// chosen returns the operations that q selects, without regard to first and after.
func (k *Catalogue) chosen(q *Question) ([]item, *failure.Failure) {
	if _, known := file.CategoryOf(strings.ToLower(q.Category)); !known && q.Category != "" {
		return nil, failure.InvalidValue("category", "must be one of: create, read, update, delete, execute")
	}
	words := strings.Fields(strings.ToLower(q.Match))
	fits := func(op *file.Operation) bool {
		if q.Category != "" && !strings.EqualFold(op.Category.String(), q.Category) {
			return false
		}
		if len(words) == 0 {
			return true
		}
		text := strings.ToLower(op.Name + " " + op.Description)
		return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) })
	}
	var items []item
	var names, tags []string
	adapter, tag := q.Adapter == "", q.Tag == ""
	for _, s := range k.Adapters {
		names = append(names, s.adapter.Name)
		if q.Adapter != "" && s.adapter.Name != q.Adapter {
			continue
		}
		adapter = true
		for _, op := range s.operations {
			if q.Tag != "" && !slices.Contains(op.Tags, q.Tag) {
				continue
			}
			if tag = true; fits(op) {
				items = append(items, item{s, op})
			}
		}
	}
	switch {
	case !adapter:
		return nil, failure.InvalidValue("adapter", "must be one of: "+known(names))
	case !tag:
		for _, s := range k.Adapters {
			for _, op := range s.operations {
				if q.Adapter == "" || s.adapter.Name == q.Adapter {
					tags = append(tags, op.Tags...)
				}
			}
		}
		return nil, failure.InvalidValue("tag", "must be one of: "+known(tags))
	}
	if q.Adapter == "" && q.Tag == "" && fits(k.How.Builtin) {
		items = append(items, item{nil, k.How.Builtin})
	}
	return items, nil
}

// known returns names sorted and joined, at most maxKnown of them.
func known(names []string) string {
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) > maxKnown {
		return strings.Join(names[:maxKnown], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}

// Callable returns the names of operations as a request has to write them: with the adapter's
// name if several adapters have an operation of that name.
func (k *Catalogue) Callable(names []string) (out []string) {
	for _, name := range names {
		if !k.Ambiguous(name) {
			out = append(out, name)
			continue
		}
		for _, s := range k.Adapters {
			if op := s.index[name]; op != nil {
				out = append(out, k.nameOf(s, op))
			}
		}
	}
	return out
}

// nameOf returns the name with which a request names an operation among those of k.
func (k *Catalogue) nameOf(s *Adapter, op *file.Operation) string {
	if s != nil && len(k.Adapters) > 1 && k.Ambiguous(op.Name) {
		return s.adapter.Name + "." + op.Name
	}
	return op.Name
}
