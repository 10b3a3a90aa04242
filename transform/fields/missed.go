package fields

import (
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/transform/tree"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// A Miss is a path that leads nowhere in a value.
type Miss struct {
	Path    string
	Exclude bool     // the path is one of those to leave out
	Step    string   // the step of Path that is missing
	Names   []string // the names that exist in its place
}

// maxAmong is how many names a [Miss] has at most.
const maxAmong = 100

// Missed returns the paths of a rule that lead nowhere in a value, perhaps
// because they are misspelt. sure is false if the value cannot show this for
// every path, because a list on the path is empty, a member is null, or the
// value is not valid JSON.
func (s *Selection) Missed(value []byte) (missed []Miss, sure bool) {
	if !wire.Valid(value) {
		return nil, false
	}
	value, sure = wire.Trim(value), true
	for _, root := range [...]*node{s.include, s.exclude} {
		if root == nil {
			continue
		}
		f := &finder{walk: walk{Selection: s, in: value, nodes: []*node{root}}, met: make(map[*node]*meeting)}
		f.at(root)
		f.look(0, 0)
		f.tell(root, nil, func(m Miss) {
			m.Exclude = root == s.exclude
			missed = append(missed, m)
		})
		sure = sure && !f.unsure
	}
	return missed, sure
}

// A finder records which nodes of the paths a value has.
type finder struct {
	walk
	met    map[*node]*meeting
	unsure bool
}

// meeting is what a value has where some paths have come to.
type meeting struct {
	names []string // of members
	open  bool     // an empty list, or null: another value may have more here
}

func (f *finder) at(n *node) *meeting {
	m := f.met[n]
	if m == nil {
		m = new(meeting)
		f.met[n] = m
	}
	return m
}

// look goes through the value at i, where the paths have come to nodes[from:].
func (f *finder) look(i, from int) (end int) {
	if len(f.nodes) == from || f.in[i] != '{' && f.in[i] != '[' {
		if string(f.in[i:min(i+4, len(f.in))]) == "null" {
			for _, n := range f.nodes[from:] {
				f.at(n).open = true
			}
		}
		return tree.SkipValue(f.in, i)
	}
	to, count := len(f.nodes), 0
	end = tree.Each(f.in, i, func(written []byte, i int) (int, bool) {
		if written != nil {
			name := unescaped(written)
			for _, n := range f.nodes[from:to] {
				if m := f.at(n); len(m.names) < maxAmong && !slices.Contains(m.names, name) {
					m.names = append(m.names, name)
				}
			}
			f.member(name, i, from, to)
		} else {
			f.element(count, from, to)
		}
		count++
		defer func() { f.nodes = f.nodes[:to] }()
		for _, n := range f.nodes[to:] {
			f.at(n)
		}
		return f.look(i, to), true
	})
	if f.in[i] == '[' && count == 0 {
		for _, n := range f.nodes[from:to] {
			f.at(n).open = true
		}
	}
	return end
}

// tell calls say with each path below a node that was not met.
func (f *finder) tell(n *node, path []string, say func(Miss)) {
	m := f.met[n]
	for _, way := range n.ways() {
		next := append(slices.Clip(path), way.name)
		switch {
		case f.met[way.to] != nil:
			f.tell(way.to, next, say)
		case m.open && len(m.names) == 0:
			f.unsure = true
		default:
			way.to.ends(next, func(path []string) {
				say(Miss{Path: strings.Join(path, "."), Step: way.name, Names: m.names})
			})
		}
	}
}

// A way is one step from a node to the next.
type way struct {
	name string
	to   *node
}

// ways returns the steps from n: the names in their order, then the star.
func (n *node) ways() (all []way) {
	for name, to := range n.names {
		all = append(all, way{strings.NewReplacer(`\`, `\\`, `.`, `\.`, `*`, `\*`).Replace(name), to})
	}
	slices.SortFunc(all, func(a, b way) int { return strings.Compare(a.name, b.name) })
	if n.any != nil {
		all = append(all, way{"*", n.any})
	}
	return all
}

// ends calls f with the paths that end at n or below it.
func (n *node) ends(path []string, f func(path []string)) {
	if n.end {
		f(path)
	}
	for _, way := range n.ways() {
		way.to.ends(append(slices.Clip(path), way.name), f)
	}
}
