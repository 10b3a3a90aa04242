package fields

import "slices"

// Apply appends to dst what the rule keeps of value, which is one JSON value:
// members in their order, numbers and texts as they are written, white space
// only inside what is kept whole. If no included path leads anywhere, matched
// is false and Apply appends an empty object or array, or a scalar as it is. On
// error, it returns dst as it was; the error is a [*SyntaxError] or
// [ErrNesting].
//
// An object that is left with no members is left out, unless it is an element
// of an array or the whole value. A path passes through arrays: it continues in
// each element.
func (s *Selection) Apply(dst, value []byte) (out []byte, matched bool, err error) {
	start := skipSpace(value, 0)
	if start == len(value) {
		return dst, false, &SyntaxError{start}
	}
	value = value[start:]
	matched = true
	if s.include != nil {
		w := &walk{Selection: s, in: value, out: dst, nodes: []*node{s.include}}
		if matched, err = w.whole(w.include); err != nil {
			return dst, false, err
		}
		if s.exclude == nil || !matched {
			return w.out, matched, nil
		}
		value = slices.Clone(w.out[len(dst):])
	}
	w := &walk{Selection: s, in: value, out: dst}
	if s.exclude != nil {
		w.nodes = []*node{s.exclude}
	}
	if _, err = w.whole(w.exclude); err != nil {
		return dst, false, err
	}
	return w.out, matched, nil
}

// Names returns up to n names of the members of an object, or of the first
// object in an array, for a message that says what could have been selected.
func Names(value []byte, n int) []string {
	var names []string
	i := skipSpace(value, 0)
	if i < len(value) && value[i] == '[' {
		i = skipSpace(value, i+1)
	}
	if i == len(value) || value[i] != '{' {
		return nil
	}
	each(value, i, func(quoted []byte, i int) (int, error) {
		if len(names) == n {
			return 0, ErrNesting // enough: any error ends it
		}
		names = append(names, unquote(quoted))
		return skipValue(value, i)
	})
	return names
}

// A walk goes through one value. Each of its methods takes the index i of a
// value and an index from: the paths have come to this value at nodes[from:].
// The method writes what is kept of the value and returns the value's end.
type walk struct {
	*Selection
	in    []byte
	out   []byte
	nodes []*node // a stack
	level int
}

// whole walks all of the input.
func (w *walk) whole(f func(i, from int) (end int, kept bool, err error)) (kept bool, err error) {
	mark := len(w.out)
	end, kept, err := f(0, 0)
	if err != nil {
		return false, err
	}
	if end = skipSpace(w.in, end); end != len(w.in) {
		return false, &SyntaxError{end}
	}
	if !kept {
		switch w.out = w.out[:mark]; w.in[0] {
		case '{':
			w.out = append(w.out, "{}"...)
		case '[':
			w.out = append(w.out, "[]"...)
		default:
			w.out = append(w.out, w.in...)
		}
	}
	return kept, nil
}

// copy keeps the value at i as it is.
func (w *walk) copy(i int) (end int, kept bool, err error) {
	if end, err = skipValue(w.in, i); err != nil {
		return 0, false, err
	}
	w.out = append(w.out, w.in[i:end]...)
	return end, true, nil
}

// skip keeps nothing of the value at i.
func (w *walk) skip(i int) (end int, kept bool, err error) {
	end, err = skipValue(w.in, i)
	return end, false, err
}

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

// begin writes a comma unless this is the first, and a member's name.
func (w *walk) begin(first bool, quoted []byte) {
	if !first {
		w.out = append(w.out, ',')
	}
	if quoted != nil {
		w.out = append(append(w.out, quoted...), ':')
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

func (w *walk) include(i, from int) (end int, kept bool, err error) {
	if w.ended(from) {
		return w.copy(i)
	}
	if w.in[i] != '{' && w.in[i] != '[' {
		return w.skip(i)
	}
	if w.level == maxNesting {
		return 0, false, ErrNesting
	}
	w.level++
	defer func() { w.level-- }()
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

func (w *walk) includeMembers(i, from int) (end int, kept bool, err error) {
	to := len(w.nodes)
	wrapper := false
	var pages []page // parts of out that stay only if something else stays
	w.out = append(w.out, '{')
	inside := len(w.out)
	end, err = each(w.in, i, func(quoted []byte, i int) (int, error) {
		name := unquote(quoted)
		mark := len(w.out)
		w.member(name, i, from, to)
		defer func() { w.nodes = w.nodes[:to] }()
		wraps := w.through[name] && (w.in[i] == '{' || w.in[i] == '[')
		ok := false
		w.begin(mark == inside, quoted)
		var end int
		var err error
		if len(w.nodes) > to {
			end, ok, err = w.include(i, to)
			kept, wrapper = kept || ok, wrapper || ok && wraps
		} else if !paging(name) && name != ownPages {
			end, err = skipValue(w.in, i)
		}
		if err == nil && !ok && (paging(name) || name == ownPages) {
			w.out = w.out[:mark]
			w.begin(mark == inside, quoted)
			end, ok, err = w.copy(i)
			pages = append(pages, page{mark, len(w.out), name == ownPages})
		}
		if !ok {
			w.out = w.out[:mark]
		}
		return end, err
	})
	if err != nil {
		return 0, false, err
	}
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
	return end, kept, nil
}

func (w *walk) includeElements(i, from int) (end int, kept bool, err error) {
	to, count := len(w.nodes), 0
	w.out = append(w.out, '[')
	inside := len(w.out)
	end, err = each(w.in, i, func(_ []byte, i int) (int, error) {
		mark := len(w.out)
		w.element(count, from, to)
		count++
		defer func() { w.nodes = w.nodes[:to] }()
		if len(w.nodes) == to {
			return skipValue(w.in, i)
		}
		w.begin(mark == inside, nil)
		element := len(w.out)
		end, ok, err := w.include(i, to)
		if err != nil {
			return 0, err
		}
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
		return end, nil
	})
	if err != nil {
		return 0, false, err
	}
	w.out = append(w.out, ']')
	return end, kept || count == 0, nil // an empty list counts as kept: it lacks nothing that is selected
}

func (w *walk) exclude(i, from int) (end int, kept bool, err error) {
	if len(w.nodes) == from {
		return w.copy(i)
	}
	if w.ended(from) {
		return w.skip(i)
	}
	if w.in[i] != '{' && w.in[i] != '[' {
		return w.copy(i)
	}
	if w.level == maxNesting {
		return 0, false, ErrNesting
	}
	w.level++
	defer func() { w.level-- }()
	opening := w.in[i]
	to, count, left := len(w.nodes), 0, 0
	w.out = append(w.out, opening)
	end, err = each(w.in, i, func(quoted []byte, i int) (int, error) {
		if quoted != nil {
			w.member(unquote(quoted), i, from, to)
		} else {
			w.element(count, from, to)
		}
		count++
		defer func() { w.nodes = w.nodes[:to] }()
		mark := len(w.out)
		w.begin(left == 0, quoted)
		value := len(w.out)
		gone := w.ended(to)
		end, ok, err := w.exclude(i, to)
		if err != nil {
			return 0, err
		}
		if !ok && !gone && quoted == nil { // an element that became empty keeps its place
			w.out, ok = append(w.out[:value], "{}"...), true
		}
		if !ok {
			w.out = w.out[:mark]
			return end, nil
		}
		left++
		return end, nil
	})
	if err != nil {
		return 0, false, err
	}
	w.out = append(w.out, opening+2) // ']' is two after '[', and '}' after '{'
	return end, opening == '[' || left > 0 || count == 0, nil
}
