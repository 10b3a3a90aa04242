package file

import (
	"cmp"
	"math/big"
	"slices"
	"strconv"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Extent says how many elements an array has, and of which step a number is a multiple.
type Extent struct {
	MinItems int // 0 for none
	MaxItems int // 0 for none
	Unique   bool
	Step     []byte // a number above 0; nil for none
}

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

// extent reads the limits of numbers and arrays beyond the bounds, and the definition of members that have none of their own.
func (c *checker) extent(n *node, path string, depth int, d *Definition) {
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
	e := c.get(n, path, "additionalProperties", wire.Object)
	if e == nil {
		return
	}
	path = join(path, "additionalProperties")
	if !d.may(TypeObject) {
		c.wrong(SchemaInvalidValue, path, "additionalProperties is for objects", "type object", e, 0)
		return
	}
	c.misspelt(e, path, shapeKeys, &valueBlock)
	if v := new(Definition); c.definition(e, path, depth, v) {
		d.Values, d.Sensitive = v, d.Sensitive || v.Sensitive
	}
}

func (c *checker) count(n *node, path, key string, d *Definition) int {
	if n.get(key) != nil && !d.may(TypeArray) {
		c.wrong(SchemaInvalidValue, join(path, key), key+" is for arrays", "type array", n.get(key), 0)
		return 0
	}
	return c.whole(n, path, key, 0, 1, maxItems)
}

// outside says how the number raw is beyond the bounds of d, or returns nil.
func (d *Definition) outside(raw []byte) *Mismatch {
	if b := d.Minimum; b != nil {
		if n := CompareNumbers(raw, b.Raw); n < 0 || n == 0 && b.Open {
			return b.passed("must be >", "minimum", "exclusiveMinimum")
		}
	}
	if b := d.Maximum; b != nil {
		if n := CompareNumbers(raw, b.Raw); n > 0 || n == 0 && b.Open {
			return b.passed("must be <", "maximum", "exclusiveMaximum")
		}
	}
	if d.Step != nil && !multiple(raw, d.Step) {
		return &Mismatch{Text: "must be a multiple of " + string(d.Step), Key: "multipleOf", Limit: d.Step}
	}
	return nil
}

// passed is the mismatch of a number that is beyond b.
func (b *Bound) passed(text, key, exclusive string) *Mismatch {
	if b.Open {
		return &Mismatch{Text: text + " " + string(b.Raw), Key: exclusive, Limit: b.Raw}
	}
	return &Mismatch{Text: text + "= " + string(b.Raw), Key: key, Limit: b.Raw}
}

// beyond reports whether no number is between b, a minimum, and most.
func (b *Bound) beyond(most *Bound) bool {
	n := CompareNumbers(b.Raw, most.Raw)
	return n > 0 || n == 0 && (b.Open || most.Open)
}

// multiple reports whether a number is a multiple of step. Unless both are integers of a usual size, it leaves that to the API.
func multiple(raw, step []byte) bool {
	var bufA, bufB [64]byte
	a, ok := wire.AppendInteger(bufA[:0], raw)
	b, okToo := wire.AppendInteger(bufB[:0], step)
	if !ok || !okToo || len(a) > 40 || len(b) > 40 {
		return true
	}
	x, fine := new(big.Int).SetString(string(a), 10)
	y, fineToo := new(big.Int).SetString(string(b), 10)
	return !fine || !fineToo || y.Sign() == 0 || x.Rem(x, y).Sign() == 0
}

// elements checks the number of elements of an array, and each of them.
func (d *Definition) elements(raw []byte) (bad *Mismatch) {
	var there map[string]bool
	if d.Unique {
		there = map[string]bool{}
	}
	i := 0
	wire.Each(raw, func(_, v []byte) bool {
		switch {
		case d.MaxItems > 0 && i == d.MaxItems:
			bad = &Mismatch{Text: "must have <= " + strconv.Itoa(d.MaxItems) + " elements", Key: "maxItems", Limit: strconv.AppendInt(nil, int64(d.MaxItems), 10)}
			return false
		case there != nil && wire.KindOf(v) < wire.Array:
			if there[string(v)] {
				bad = &Mismatch{Text: "is there twice", Where: index("", i), Key: "uniqueItems", Limit: []byte("true")}
				return false
			}
			there[string(v)] = true
		}
		if d.Items != nil {
			if bad = d.Items.mismatch(v); bad != nil {
				bad.Where = index("", i) + bad.Where
			}
		}
		i++
		return bad == nil
	})
	if bad == nil && i < d.MinItems {
		bad = &Mismatch{Text: "must have >= " + strconv.Itoa(d.MinItems) + " elements", Key: "minItems", Limit: strconv.AppendInt(nil, int64(d.MinItems), 10)}
	}
	return bad
}

// members checks the members of an object that have a definition. The API checks the others.
func (d *Definition) members(raw []byte) (bad *Mismatch) {
	var list []Property
	if d.Properties != nil {
		list = *d.Properties
	}
	var room [64]bool
	there := room[:]
	if len(list) > len(room) {
		there = make([]bool, len(list))
	}
	wire.Each(raw, func(name, v []byte) bool {
		i := slices.IndexFunc(list, func(p Property) bool { return p.Name == string(name) })
		if i < 0 {
			if d.Values != nil && (wire.KindOf(v) != wire.Null || d.Values.Also&AlsoNull != 0) {
				if bad = d.Values.mismatch(v); bad != nil {
					bad.Where = "." + clean.Text(string(name), 100) + bad.Where
				}
			}
			return bad == nil
		}
		p := &list[i]
		if wire.KindOf(v) == wire.Null && p.Also&AlsoNull == 0 {
			return true // null counts as missing if the member is required; otherwise the API decides
		}
		there[i] = true
		if bad = p.mismatch(v); bad != nil {
			bad.Where = "." + p.Name + bad.Where
		}
		return bad == nil
	})
	for i := range list {
		if p := &list[i]; bad == nil && p.Required && !there[i] {
			bad = &Mismatch{Where: "." + p.Name, Text: "is required. Expected: " + p.Expects() + ".", Key: "expected_type", Limit: wire.AppendQuoted(nil, p.Expects())}
		}
	}
	return bad
}
