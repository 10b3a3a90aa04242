package fit

import (
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// A Place is the From-th entry of the value at Path: an item of a list, a
// member of an object, a line of a text, a piece of a long line.
type Place struct {
	Path []string
	From int
}

// JoinPath writes a path with dots between its steps. \. is a dot in a step, \- a
// step that is empty.
func JoinPath(path []string) string {
	escape := strings.NewReplacer(`\`, `\\`, `.`, `\.`)
	steps := make([]string, len(path))
	for i, step := range path {
		if steps[i] = escape.Replace(step); step == "" {
			steps[i] = `\-`
		}
	}
	return strings.Join(steps, ".")
}

// SplitPath returns the steps of a path that JoinPath or a person wrote.
func SplitPath(path string) (steps []string) {
	if path == "" {
		return nil
	}
	var step []byte
	for i := 0; i < len(path); i++ {
		switch c := path[i]; {
		case c == '.':
			steps, step = append(steps, string(step)), nil
		case c == '\\' && i+1 < len(path):
			if i++; path[i] != '-' {
				step = append(step, path[i])
			}
		default:
			step = append(step, c)
		}
	}
	return append(steps, string(step))
}

// number returns the number of a node among the entries of the node it is in.
func (p *Plan) number(n uint32) int {
	if up := p.at(n).up; p.at(up).kind != text {
		return int(n - p.at(up).first)
	}
	return int(p.at(n).at)
}

// partName returns the first steps of paths into a part.
func (p *Plan) partName(i int) []string {
	if p.Name == nil {
		return nil
	}
	return p.Name(i)
}

// Part returns the text of the part of that name, or nil if there is none.
func (p *Plan) Part(name []string) []byte {
	for i := range p.parts {
		if len(name) > 0 && !p.parts[i].Solid && slices.Equal(name, p.partName(i)) {
			return p.parts[i].Text
		}
	}
	return nil
}

// path returns the path to a node.
func (p *Plan) path(n uint32) []string {
	up := p.at(n).up
	switch {
	case n == 0:
		return nil
	case up == 0:
		return p.partName(int(n - 1))
	case p.at(up).kind == quoted:
		return p.path(up)
	case p.at(up).kind == object:
		return append(p.path(up), string(wire.AppendUnescaped(nil, p.name(n))))
	}
	return append(p.path(up), strconv.Itoa(p.number(n)))
}

// place returns the place of a node.
func (p *Plan) place(n uint32) Place {
	switch up := p.at(n).up; {
	case up == 0:
		return Place{Path: p.path(n)}
	case p.at(up).kind == quoted:
		return p.place(up)
	default:
		return Place{p.path(up), p.number(n)}
	}
}

// find returns the node that a path leads to.
func (p *Plan) find(path []string) (n uint32, ok bool) {
	for i := 0; i < len(p.parts) && n == 0; i++ {
		if name := p.partName(i); !p.parts[i].Solid && len(path) >= len(name) && slices.Equal(path[:len(name)], name) {
			n, path = uint32(i+1), path[len(name):]
		}
	}
	for _, step := range path {
		if n == 0 {
			return 0, false
		}
		n = p.child(n, step)
	}
	return p.inner(n), n > 0 || len(path) == 0
}

// inner returns the content of a long string, or the node itself. It expands
// that node, even an object or list that was a unit.
func (p *Plan) inner(n uint32) uint32 {
	if p.at(n).kind == quoted && !p.is(n, unit) {
		p.expand(n)
		n = p.at(n).first
	}
	if k := p.at(n).kind; (k == object || k == list) && p.is(n, unit) && p.total(n) > 0 {
		p.at(n).is &^= unit
	}
	if n > 0 && !p.is(n, unit) {
		p.expand(n)
	}
	return n
}

// child returns the node that a step leads to, or 0 if there is none.
func (p *Plan) child(n uint32, step string) uint32 {
	n = p.inner(n)
	number, err := strconv.Atoi(step)
	for m := p.at(n).first; m < p.end(n) && p.at(n).kind != line; m++ {
		if name := p.name(m); name != nil && wire.IsText(name, step) || name == nil && err == nil && p.number(m) == number {
			return m
		}
	}
	return 0
}

// total returns how many entries a node has, including those that are not
// recorded.
func (p *Plan) total(n uint32) int {
	if d := p.docOf(n); len(d.Nodes) > 0 {
		return int(d.Nodes[p.at(n).at].Count)
	}
	return int(p.at(n).count)
}

// Gap returns the first place, in the order of the answer, of which something
// is missing. If it is in a list, Gap returns the item of the outermost list,
// which is the place that a reader would name. ok is false if nothing is
// missing.
func (p *Plan) Gap() (at Place, ok bool) {
	n := uint32(0)
	for i := range uint32(len(p.parts)) {
		if n == 0 && !p.parts[i].Solid {
			n = p.missing(i + 1)
		}
	}
	if n == 0 {
		return Place{}, false
	}
	named := n
	for m := n; m > 0; m = p.at(m).up {
		if p.at(p.at(m).up).kind == list {
			named = m
		}
	}
	return p.place(named), true
}

// missing returns the first node in n that is not kept, which may be n itself,
// or 0 if there is none.
func (p *Plan) missing(n uint32) uint32 {
	if p.at(n).kept == 0 || n == p.clip.node {
		return n
	}
	for m := p.at(n).first; m < p.end(n) && !p.is(n, unit); m++ {
		if gone := p.missing(m); gone > 0 {
			return gone
		}
	}
	return 0
}

// A Cut says how much of a list, a map or a text is kept.
type Cut struct {
	Path        []string
	Kept, Total int
	What        string // items, keys, lines, pieces
}

// Cuts returns the lists, maps and texts of which something is missing, in the
// order of the document. most is the maximum length of the result.
func (p *Plan) Cuts(most int) (all []Cut) {
	for i := range uint32(len(p.parts)) {
		if !p.parts[i].Solid && (p.at(i+1).kept > 0 || len(p.parts) == 1) {
			all = p.cuts(all, i+1, most)
		}
	}
	return all
}

// cuts goes down the nodes that are kept, and stops at lists, maps and texts
// that are cut.
func (p *Plan) cuts(all []Cut, n uint32, most int) []Cut {
	if p.is(n, unit) || len(all) >= most {
		return all
	}
	what := map[kind]string{list: "items", text: "lines", line: "pieces"}[p.at(n).kind]
	if p.isMap(n) {
		what = "keys"
	}
	kept := 0
	for m := p.at(n).first; m < p.end(n); m++ {
		if p.at(m).kept > 0 && m != p.clip.node {
			kept++
		}
	}
	if total := p.total(n); kept < total && what != "" {
		path := p.path(n)
		if what == "pieces" {
			path = path[:len(path)-1]
		}
		return append(all, Cut{path, kept, total, what})
	}
	for m := p.at(n).first; m < p.end(n); m++ {
		if p.at(m).kept > 0 {
			all = p.cuts(all, m, most)
		}
	}
	return all
}
