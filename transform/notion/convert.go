package notion

import "github.com/dragoman-proxy/dragoman/transform/tree"

// Convert converts value, which is one JSON value, and appends the result to
// dst. If value is not Notion's, ok is false and dst is returned as it was. The
// error is one of package tree's.
func Convert(dst, value []byte, o Options) (out []byte, ok bool, err error) {
	v, err := tree.Parse(value)
	if err != nil {
		return dst, false, err
	}
	d := inspect(v)
	if d.kind == nothing {
		return dst, false, nil
	}
	if o.Output == JSON {
		s := &simplifier{options: o, out: dst}
		s.document(d)
		return s.out, true, nil
	}
	c := &converter{options: o, writer: writer{out: dst}}
	c.document(d)
	return c.out, true, nil
}

// document writes all of the document.
func (c *converter) document(d document) {
	switch d.kind {
	case aBlock:
		c.block(d.value)
	case aPage:
		c.page(d.value, false)
		c.blocks(d.list)
	case blockList:
		c.blocks(d.list)
	case pageList:
		for e := range d.list.Elements() {
			if !hidden(e) {
				c.page(e, true)
			}
		}
	}
	c.footer(d.wrapper)
}
