package file

import (
	"cmp"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// maxItems is the largest limit for the number of elements.
const maxItems = 1_000_000

// edge reads an inclusive limit of a number, or in its place an exclusive one.
func (c *checker) edge(n *node, path, key, exclusive string, d *Definition) *Bound {
	in, out := c.limit(n, path, key, d), c.limit(n, path, exclusive, d)
	if in != nil && out != nil {
		c.wrong(SchemaInvalidValue, join(path, exclusive), exclusive+" is given beside "+key, "one of them", n.get(exclusive), 0)
	}
	if out != nil {
		out.Open = true
	}
	return cmp.Or(in, out)
}

func (c *checker) count(n *node, path, key string, d *Definition) int {
	if n.get(key) != nil && !d.may(TypeArray) {
		c.wrong(SchemaInvalidValue, join(path, key), key+" is for arrays", "type array", n.get(key), 0)
		return 0
	}
	return c.whole(n, path, key, 0, 1, maxItems)
}

// beyond reports whether no number is between b, a minimum, and most.
func (b *Bound) beyond(most *Bound) bool {
	n := CompareNumbers(b.Raw, most.Raw)
	return n > 0 || n == 0 && (b.Open || most.Open)
}

// extent reads how many elements an array has, and of which step a number is a multiple.
func (c *checker) extent(n *node, path string, d *Definition) {
	d.MinItems, d.MaxItems = c.count(n, path, "minItems", d), c.count(n, path, "maxItems", d)
	if d.MaxItems > 0 && d.MinItems > d.MaxItems {
		c.wrong(SchemaInvalidValue, join(path, "minItems"), "minItems is above maxItems", "minItems <= maxItems", n.get("minItems"), 0)
	}
	if d.Unique = c.flag(n, path, "uniqueItems", false); d.Unique && !d.may(TypeArray) {
		c.wrong(SchemaInvalidValue, join(path, "uniqueItems"), "uniqueItems is for arrays", "type array", n.get("uniqueItems"), 0)
	}
	if step := c.limit(n, path, "multipleOf", d); step != nil {
		if CompareNumbers(step.Raw, []byte("0")) <= 0 {
			c.wrong(SchemaInvalidValue, join(path, "multipleOf"), "multipleOf is not above 0", "a number above 0", n.get("multipleOf"), 0)
		} else {
			d.Step = step.Raw
		}
	}
}

// limit reads a number that limits numbers.
func (c *checker) limit(n *node, path, key string, d *Definition) *Bound {
	v := c.get(n, path, key, wire.Number)
	if v == nil {
		return nil
	}
	if d.Type != TypeInteger && d.Type != TypeNumber {
		c.wrong(SchemaInvalidValue, join(path, key), key+" is for numbers", "type integer or number", v, 0)
		return nil
	}
	return &Bound{Raw: []byte(v.text)}
}
