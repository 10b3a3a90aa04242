package fields

import (
	"slices"

	"github.com/dragoman-proxy/dragoman/transform/tree"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Apply appends to dst what the rule keeps of value, which is one JSON value:
// members in their order, numbers and texts as they are written, white space
// only inside what is kept whole. If no included path leads anywhere, matched
// is false and Apply appends an empty object or array, or a scalar as it is. On
// error, it returns dst as it was; the error is [tree.ErrSyntax].
//
// An object that is left with no members is left out, unless it is an element
// of an array or the whole value. A path passes through arrays: it continues in
// each element.
func (s *Selection) Apply(dst, value []byte) (out []byte, matched bool, err error) {
	if !wire.Valid(value) {
		return dst, false, tree.ErrSyntax
	}
	value = wire.Trim(value)
	matched = true
	if s.include != nil {
		w := &walk{Selection: s, in: value, out: dst, nodes: []*node{s.include}}
		if matched = w.whole(w.include); s.exclude == nil || !matched {
			return w.out, matched, nil
		}
		value = slices.Clone(w.out[len(dst):])
	}
	w := &walk{Selection: s, in: value, out: dst}
	if s.exclude != nil {
		w.nodes = []*node{s.exclude}
	}
	w.whole(w.exclude)
	return w.out, matched, nil
}

// Names returns up to n names of the members of an object, or of the first
// object in an array, for a message that says what could have been selected.
// value is valid JSON, or the beginning of it.
func Names(value []byte, n int) []string {
	var names []string
	i := tree.SkipSpace(value, 0)
	if i < len(value) && value[i] == '[' {
		i = tree.SkipSpace(value, i+1)
	}
	if i == len(value) || value[i] != '{' {
		return nil
	}
	tree.Each(value, i, func(name []byte, i int) (int, bool) {
		if len(names) == n {
			return i, false
		}
		names = append(names, unescaped(name))
		return tree.SkipValue(value, i), true
	})
	return names
}

func unescaped(name []byte) string { return string(wire.AppendUnescaped(nil, name)) }

// A walk goes through one value. Each of its methods takes the index i of a
// value and an index from: the paths have come to this value at nodes[from:].
// The method writes what is kept of the value and returns the value's end.
type walk struct {
	*Selection
	in    []byte
	out   []byte
	nodes []*node // a stack
}

// whole walks all of the input.
func (w *walk) whole(f func(i, from int) (end int, kept bool)) (kept bool) {
	mark := len(w.out)
	if _, kept = f(0, 0); !kept {
		switch w.out = w.out[:mark]; w.in[0] {
		case '{':
			w.out = append(w.out, "{}"...)
		case '[':
			w.out = append(w.out, "[]"...)
		default:
			w.out = append(w.out, w.in...)
		}
	}
	return kept
}

// copy keeps the value at i as it is.
func (w *walk) copy(i int) (end int, kept bool) {
	end = tree.SkipValue(w.in, i)
	w.out = append(w.out, w.in[i:end]...)
	return end, true
}

// skip keeps nothing of the value at i.
func (w *walk) skip(i int) (end int, kept bool) { return tree.SkipValue(w.in, i), false }

// ended reports whether a path ends here.
func (w *walk) ended(from int) bool {
	return slices.ContainsFunc(w.nodes[from:], func(n *node) bool { return n.end })
}

func (w *walk) push(n *node, from int) {
	if n != nil && !slices.Contains(w.nodes[from:], n) {
		w.nodes = append(w.nodes, n)
	}
}

// member pushes the nodes to which nodes[from:to] lead by a member's name. At a
// wrapper of lists it pushes nodes[from:to] as well, because paths pass through
// it.
func (w *walk) member(name string, i, from, to int) {
	through := w.through[name] && (w.in[i] == '{' || w.in[i] == '[')
	for _, n := range w.nodes[from:to] {
		w.push(n.names[name], to)
		w.push(n.any, to)
		if through {
			w.push(n, to)
		}
	}
}

// element pushes the nodes to which nodes[from:to] lead by an element's index,
// and those of nodes[from:to] whose paths pass through an array.
func (w *walk) element(index, from, to int) {
	for _, n := range w.nodes[from:to] {
		w.push(n.index[index], to)
		if n.named {
			w.push(n, to)
		}
	}
}

// paging reports whether a member of that name says where a list continues.
// Such members stay next to a wrapper of which something is kept.
func paging(name string) bool {
	switch name {
	case "pageInfo", "has_more", "next_cursor", "nextCursor", "pagination":
		return true
	}
	return false
}

// ownPages is the name of the member that package transform adds to say where a
// list that it cut continues. It stays next to anything that is kept.
const ownPages = "_pagination"

func (w *walk) include(i, from int) (end int, kept bool) {
	if w.ended(from) {
		return w.copy(i)
	}
	if w.in[i] != '{' && w.in[i] != '[' {
		return w.skip(i)
	}
	if w.in[i] == '[' {
		return w.includeElements(i, from)
	}
	return w.includeMembers(i, from)
}

// A page is the position in the output of a member that says where a list
// continues.
type page struct {
	from, to int
	own      bool
}

func (w *walk) includeMembers(i, from int) (end int, kept bool) {
	to := len(w.nodes)
	wrapper := false
	var pages []page // parts of out that stay only if something else stays
	w.out = append(w.out, '{')
	inside := len(w.out)
	end = tree.Each(w.in, i, func(written []byte, i int) (end int, more bool) {
		name := unescaped(written)
		mark := len(w.out)
		w.member(name, i, from, to)
		defer func() { w.nodes = w.nodes[:to] }()
		wraps := w.through[name] && (w.in[i] == '{' || w.in[i] == '[')
		ok := false
		w.out = wire.AppendKey(w.out, written)
		if len(w.nodes) > to {
			end, ok = w.include(i, to)
			kept, wrapper = kept || ok, wrapper || ok && wraps
		} else if !paging(name) && name != ownPages {
			end = tree.SkipValue(w.in, i)
		}
		if !ok && (paging(name) || name == ownPages) {
			w.out = w.out[:mark]
			w.out = wire.AppendKey(w.out, written)
			end, ok = w.copy(i)
			pages = append(pages, page{mark, len(w.out), name == ownPages})
		}
		if !ok {
			w.out = w.out[:mark]
		}
		return end, true
	})
	if !wrapper {
		for _, p := range slices.Backward(pages) {
			if !p.own || !kept {
				w.out = slices.Delete(w.out, p.from, p.to)
			}
		}
		if len(w.out) > inside && w.out[inside] == ',' {
			w.out = slices.Delete(w.out, inside, inside+1)
		}
	}
	w.out = append(w.out, '}')
	return end, kept
}

func (w *walk) includeElements(i, from int) (end int, kept bool) {
	to, count := len(w.nodes), 0
	w.out = append(w.out, '[')
	end = tree.Each(w.in, i, func(_ []byte, i int) (int, bool) {
		mark := len(w.out)
		w.element(count, from, to)
		count++
		defer func() { w.nodes = w.nodes[:to] }()
		if len(w.nodes) == to {
			return tree.SkipValue(w.in, i), true
		}
		w.out = wire.Comma(w.out)
		element := len(w.out)
		end, ok := w.include(i, to)
		kept = kept || ok
		switch {
		case ok:
		case w.in[i] == '{':
			w.out = append(w.out[:element], "{}"...)
		case w.in[i] == '[':
			w.out = append(w.out[:element], "[]"...)
		default:
			w.out = w.out[:mark]
		}
		return end, true
	})
	w.out = append(w.out, ']')
	return end, kept || count == 0 // an empty list counts as kept: it lacks nothing that is selected
}

func (w *walk) exclude(i, from int) (end int, kept bool) {
	if len(w.nodes) == from {
		return w.copy(i)
	}
	if w.ended(from) {
		return w.skip(i)
	}
	if w.in[i] != '{' && w.in[i] != '[' {
		return w.copy(i)
	}
	opening := w.in[i]
	to, count, left := len(w.nodes), 0, 0
	w.out = append(w.out, opening)
	end = tree.Each(w.in, i, func(name []byte, i int) (int, bool) {
		mark := len(w.out)
		if name != nil {
			w.member(unescaped(name), i, from, to)
			w.out = wire.AppendKey(w.out, name)
		} else {
			w.element(count, from, to)
			w.out = wire.Comma(w.out)
		}
		count++
		defer func() { w.nodes = w.nodes[:to] }()
		value := len(w.out)
		gone := w.ended(to)
		end, ok := w.exclude(i, to)
		if !ok && !gone && name == nil { // an element that became empty keeps its place
			w.out, ok = append(w.out[:value], "{}"...), true
		}
		if !ok {
			w.out = w.out[:mark]
			return end, true
		}
		left++
		return end, true
	})
	w.out = append(w.out, opening+2) // ']' is two after '[', and '}' after '{'
	return end, opening == '[' || left > 0 || count == 0
}
