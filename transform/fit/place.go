package fit

import (
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-proxy/dragoman/transform/tape"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// A Place is the From-th entry of what is at Path: an item of a list, a member of
// an object, a line of a text, a piece of a long line.
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

// SplitPath reads a path that JoinPath wrote, or a person.
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

// A Cut says how much of a list, a map or a text is there.
type Cut struct {
	Path        []string
	Kept, Total int
	What        string // items, keys, lines
}

// Gap is the first place, in the order of the document, of which something is
// missing; ok is false where nothing is.
func (p *Plan) Gap() (at Place, ok bool) {
	for _, n := range p.parts {
		if d := p.docs[n]; !d.part.Solid {
			if at, ok := p.gapIn(d); ok {
				if d.part.Name != nil {
					at.Path = slices.Concat(d.part.Name, at.Path)
				}
				return at, true
			}
		}
	}
	return Place{}, false
}

func (p *Plan) gapIn(d *doc) (at Place, ok bool) {
	if d.text != nil {
		for i := range d.text.ranks {
			if !d.kept.has(i) {
				return d.text.place(i), true
			}
		}
		return at, false
	}
	t := d.tree
	for n := range uint32(len(t.Nodes)) {
		sub, made := t.inner[n]
		switch {
		case made:
			if at, ok := p.gapIn(p.docs[sub]); ok {
				at.Path = append(t.path(n), at.Path...)
				return at, true
			}
		case t.ranks[n] != none && !d.kept.has(int(n)):
			return t.place(n), true
		}
	}
	return at, false
}

// Coarse is a place in the outermost list that it is in, or the place itself: what
// a reader would name.
func (p *Plan) Coarse(at Place) Place {
	d, path := p.part(at.Path)
	if d == nil || d.tree == nil {
		return at
	}
	n := uint32(0)
	skip := len(at.Path) - len(path)
	for i, step := range path {
		m, place := d.tree.child(n, step)
		if m == 0 {
			return at
		}
		if d.tree.Doc[d.tree.Nodes[n].Pos] == '[' {
			return Place{at.Path[:skip+i], place}
		}
		n = m
	}
	return at
}

// part is the doc that a path begins with, and the rest of the path.
func (p *Plan) part(path []string) (*doc, []string) {
	for _, n := range p.parts {
		d := p.docs[n]
		switch {
		case d.part.Solid:
		case len(path) >= len(d.part.Name) && slices.Equal(path[:len(d.part.Name)], d.part.Name):
			return d, path[len(d.part.Name):]
		}
	}
	return nil, nil
}

// place is where a node is in what it is in.
func (t *tree) place(n uint32) Place {
	path, from, in := []string(nil), 0, uint32(0)
	for in != n {
		i := 0
		for m := in + 1; m < t.Nodes[in].Next; m = t.Nodes[m].Next {
			if n < t.Nodes[m].Next {
				from = i
				if n == m {
					return Place{path, from}
				}
				path = append(path, t.step(m, i))
				in = m
				break
			}
			i++
		}
	}
	return Place{path, from}
}

// path leads to a node.
func (t *tree) path(n uint32) []string {
	at := t.place(n)
	if n == 0 {
		return nil
	}
	in := uint32(0)
	for _, s := range at.Path {
		in, _ = t.child(in, s)
	}
	return append(at.Path, t.step(n, at.From))
}

func (t *tree) step(m uint32, i int) string {
	if t.Name(m) != nil {
		return t.Label(m)
	}
	return strconv.Itoa(i)
}

// child is the node that a step leads to, and which one it is; 0 for none.
func (t *tree) child(n uint32, step string) (m uint32, i int) {
	k, err := strconv.Atoi(step)
	for m = n + 1; m < t.Nodes[n].Next; m = t.Nodes[m].Next {
		if name := t.Name(m); name != nil && wire.IsText(name, step) || name == nil && err == nil && i == k {
			return m, i
		}
		i++
	}
	return 0, 0
}

// Cuts are up to most lists, maps and texts of which something is missing, in the
// order of the document.
func (p *Plan) Cuts(most int) (all []Cut) {
	for _, n := range p.parts {
		if d := p.docs[n]; !d.part.Solid && (d.count > 0 || len(p.parts) == 1) {
			all = p.cutsIn(all, d, slices.Clone(d.part.Name), most)
		}
	}
	return all
}

func (p *Plan) cutsIn(all []Cut, d *doc, path []string, most int) []Cut {
	if len(all) >= most {
		return all
	}
	if d.text != nil {
		lines, kept := 0, 0
		for i := range d.text.line {
			if i == 0 || d.text.line[i] != d.text.line[i-1] {
				lines++
				if d.kept.has(i) {
					kept++
				}
			}
		}
		if kept < lines {
			all = append(all, Cut{path, kept, lines, "lines"})
		} else if !p.whole(d) {
			all = append(all, Cut{path, d.count, len(d.text.line), "pieces"})
		}
		return all
	}
	return p.cutsBelow(all, d, 0, path, most)
}

// cutsBelow follows what is shown, up to the lists and maps that are cut.
func (p *Plan) cutsBelow(all []Cut, d *doc, n uint32, path []string, most int) []Cut {
	t := d.tree
	at := &t.Nodes[n]
	isList := t.Doc[at.Pos] == '['
	if sub, ok := t.inner[n]; ok {
		return p.cutsIn(all, p.docs[sub], path, most)
	}
	if tape.Scalar(t.Raw(n)) || at.Count == 0 || t.ranks[n] != none && !t.entries.has(int(n)) {
		return all
	}
	if isList || t.isMap(n) {
		kept := 0
		for m := n + 1; m < at.Next; m = t.Nodes[m].Next {
			if d.shown(m) {
				kept++
			}
		}
		if kept < int(at.Count) && len(all) < most {
			what := "keys"
			if isList {
				what = "items"
			}
			return append(all, Cut{path, kept, int(at.Count), what})
		}
	}
	if len(path) >= 4 {
		return all
	}
	i := 0
	for m := n + 1; m < at.Next && len(all) < most; m = t.Nodes[m].Next {
		if d.shown(m) {
			all = p.cutsBelow(all, d, m, append(path[:len(path):len(path)], t.step(m, i)), most)
		}
		i++
	}
	return all
}
