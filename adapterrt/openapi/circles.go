package openapi

import "github.com/dragoman-proxy/dragoman/translate/wire"

// circles knows which values of a document contain themselves by way of references. It finds the strongly connected parts of
// what refers to what (Tarjan), from each value that it is asked about.
type circles struct {
	follow func(n *node, ref string) (*node, error)
	order  map[*node]int // when a value was reached, from 1
	low    map[*node]int // the earliest value that is reached from it
	open   map[*node]bool
	path   []*node
	inside map[*node]bool // in a circle
}

// maxChain is how long a chain of references may be; beyond, a circle is assumed.
const maxChain = 5000

func (c *circles) visit(n *node, depth int) {
	at := len(c.order) + 1
	c.order[n], c.low[n], c.open[n] = at, at, true
	c.path = append(c.path, n)
	itself := depth >= maxChain
	if !itself {
		c.references(n, func(to *node) {
			if c.order[to] == 0 {
				c.visit(to, depth+1)
				c.low[n] = min(c.low[n], c.low[to])
			} else if c.open[to] {
				c.low[n] = min(c.low[n], c.order[to])
			}
			itself = itself || to == n
		})
	}
	if c.low[n] != at {
		return
	}
	for i := len(c.path) - 1; ; i-- {
		last := c.path[i]
		c.path, c.open[last] = c.path[:i], false
		c.inside[last] = itself || last != n || c.inside[n]
		if last == n {
			return
		}
		c.inside[n] = true
	}
}

// references calls yield for each value that something in n refers to.
func (c *circles) references(n *node, yield func(*node)) {
	if n.is(wire.Object) {
		if ref := n.get("$ref"); ref.is(wire.String) {
			if to, err := c.follow(n, ref.text); err == nil {
				yield(to)
			}
		}
	}
	if n != nil {
		for _, kid := range n.kids {
			c.references(kid, yield)
		}
	}
}
