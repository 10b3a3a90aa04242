package translate

import (
	"strings"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// lay compiles the rules into one plan.
func lay(rules []*Rule) *plan {
	p := &plan{shape: new(wire.Shape)}
	var roots [wire.Error + 1][wire.NumMethods]*branch
	for _, r := range rules {
		for _, place := range r.At {
			methods := []wire.Method{place.Method}
			if place.Method == anyMethod {
				methods = methods[:0]
				for m := range wire.NumMethods {
					methods = append(methods, m)
				}
			}
			for _, m := range methods {
				root := &roots[place.Kind][m]
				if *root == nil {
					*root = new(branch)
				}
				s := (*root).at(place.Path)
				s.rules = append(s.rules, r)
			}
			p.record(place.Path, r.Reads)
		}
	}
	n := number(p.shape, 1)
	for kind := range roots {
		for method, root := range roots[kind] {
			if root != nil {
				p.sites[kind][method] = make(sites, n)
				p.sites[kind][method].fill(p.shape, root)
			}
		}
	}
	return p
}

// branch is a site and those further in, by the steps of paths.
type branch struct {
	site
	next map[wire.Step]*branch
}

// at returns the branch at a path below b. It adds missing ones on the way.
func (b *branch) at(path string) *branch {
	for _, step := range wire.ParsePath(path) {
		b.inner = true
		if b.next == nil {
			b.next = make(map[wire.Step]*branch)
		}
		if b.next[step] == nil {
			b.next[step] = new(branch)
		}
		b = b.next[step]
	}
	return b
}

// number gives s and the shapes in it numbers, beginning with n, and returns the number that follows.
func number(s *wire.Shape, n uint16) uint16 {
	s.Number = n
	n++
	s.Each(func(_ wire.Step, inner *wire.Shape) { n = number(inner, n) })
	return n
}

// fill enters b and what is further in at the numbers of the shapes. The shape of a member that no place names is that of
// any member.
func (list sites) fill(s *wire.Shape, b *branch) {
	list[s.Number] = &site{b.rules, b.inner}
	s.Each(func(step wire.Step, inner *wire.Shape) {
		next := b.next[step]
		if next == nil && !step.Elem {
			next = b.next[wire.Step{Any: true}]
		}
		if next != nil {
			list.fill(inner, next)
		}
	})
}

// record adds the value at path to the shape, and the values below it that the rule reads.
func (p *plan) record(path string, reads []string) {
	steps := wire.ParsePath(path)
	p.shape.At(steps...)
	for _, r := range reads {
		from := steps
		if rest, ok := strings.CutPrefix(r, "../"); ok {
			from, r = steps[:len(steps)-1], rest
		}
		p.shape.At(append(from[:len(from):len(from)], wire.ParsePath(r)...)...)
	}
}
