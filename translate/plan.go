package translate

import (
	"strings"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// lay compiles the rules into one plan.
func lay(rules []*Rule) *plan {
	p := &plan{shape: new(wire.Shape)}
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
				s := p.site(place.Kind, m, place.Path)
				s.rules = append(s.rules, r)
			}
			p.record(place.Path, r.Reads)
		}
	}
	return p
}

func (p *plan) site(kind wire.Kind, method wire.Method, path string) *site {
	root := &p.roots[kind][method]
	if *root == nil {
		*root = new(site)
	}
	s := *root
	for _, step := range wire.ParsePath(path) {
		s.inner = true
		var next **site
		switch {
		case step.Elem:
			next = &s.elem
		case step.Any:
			next = &s.any
		default:
			if s.members == nil {
				s.members = new([wire.NumNames]*site)
			}
			next = &s.members[step.Name]
		}
		if *next == nil {
			*next = new(site)
		}
		s = *next
	}
	return s
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
