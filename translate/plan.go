package translate

import (
	"strings"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// plan is the compiled form of the rules between two revisions: a tree of places for every kind and method, and
// one shape with which a scan records all these places.
type plan struct {
	roots [wire.Error + 1][wire.NumMethods]*site
	shape *wire.Shape
}

// site is a place in a message, with the rules that act there, in order.
type site struct {
	rules   []*Rule
	inner   bool                  // some rule acts further in
	members *[wire.NumNames]*site // nil if no rule names a member: so it is for most places
	any     *site                 // of every member without an entry in members
	elem    *site
}

// below returns the site of a member or element, or nil if no rule names it.
func (s *site) below(c wire.Node) *site {
	if c.Element() {
		return s.elem
	}
	if s.members != nil {
		if next := s.members[c.Name()]; next != nil {
			return next
		}
	}
	return s.any
}

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

// Translator rewrites messages of one revision as messages of another, from clients and servers alike. It is
// immutable and safe for concurrent use.
type Translator struct {
	from, to *Revision
	options  Options
	plan     func() *plan // compiled at the first call, since most pairs are never used; nil if the two are the same
}
