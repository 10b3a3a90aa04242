package httpcall

import (
	"bytes"
	"encoding/base64"
	"strconv"

	"github.com/dragoman-proxy/dragoman/adapterrt/escape"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// addPairs adds parameter i to q as one or several pairs. It adds none if the value is absent
// or null.
func (c *Call) addPairs(q *Pairs, i int) {
	p, v := c.Op.Params[i], c.Values[i]
	if v.Kind <= wire.Null {
		return
	}
	if p.Body != nil && p.Body.Base64 {
		v.Raw = bytes.Clone(c.sent(i))
	}
	pair := func(integer bool, raw []byte, keys ...[]byte) {
		q.next()
		q.Text = append(q.Text, p.QueryKey...)
		for _, k := range keys {
			q.Text = append(q.Text, "%5B"...)
			q.Text = append(escape.AppendQuery(q.Text, k), "%5D"...)
		}
		q.Text = append(q.Text, '=')
		if wire.KindOf(raw) == wire.Array && p.Style != file.StyleJSON {
			c.text = appendJoined(c.text[:0], raw, integer)
		} else {
			c.text = AppendText(c.text[:0], raw, integer)
		}
		q.Text = appendPart(q.Text, p, c.text)
	}
	switch {
	case v.Kind >= wire.Array && p.Style == file.StyleBrackets:
		c.bracketed(q, []byte(p.QueryKey), v.Raw, &p.Definition, p.Index)
	case v.Kind >= wire.Array && p.Style.Separator() != "":
		c.separated(q, p, v.Raw, p.Style.Separator())
	case v.Kind == wire.Array && p.Style == file.StyleRepeat:
		wire.Each(v.Raw, func(_, e []byte) bool {
			if wire.KindOf(e) != wire.Null {
				pair(p.IntegerItems(), e)
			}
			return true
		})
	case v.Kind == wire.Object && p.Style == file.StyleDeep:
		wire.Each(v.Raw, func(k, e []byte) bool {
			if wire.KindOf(e) == wire.Object {
				wire.Each(e, func(k2, e2 []byte) bool {
					pair(false, e2, k, k2)
					return !q.full()
				})
			} else if wire.KindOf(e) != wire.Null {
				pair(false, e, k)
			}
			return true
		})
	default:
		pair(p.IntegerItems(), v.Raw)
	}
}

// bracketed adds a value as pairs, one for each scalar in it. Their keys begin with key and
// contain the scalar's place in brackets: a[b][0]=v. d is the value's definition, or nil.
func (c *Call) bracketed(q *Pairs, key, raw []byte, d *file.Definition, index file.Index) {
	if q.keys += len(key); q.full() {
		return
	}
	switch wire.KindOf(raw) {
	case wire.Null:
	case wire.Object:
		wire.Each(raw, func(name, v []byte) bool {
			inner := append(escape.AppendQuery(append(key[:len(key):len(key)], "%5B"...), name), "%5D"...)
			c.bracketed(q, inner, v, d.Property(name), index)
			return !q.full()
		})
	case wire.Array:
		n := 0
		wire.Each(raw, func(_, v []byte) bool {
			inner := append(key[:len(key):len(key)], "%5B"...)
			if index == file.IndexNumbers || index == file.IndexMixed && wire.KindOf(v) >= wire.Array {
				inner = strconv.AppendInt(inner, int64(n), 10)
			}
			n++
			c.bracketed(q, append(inner, "%5D"...), v, d.Element(), index)
			return !q.full()
		})
	default:
		q.next()
		q.Text = append(append(q.Text, key...), '=')
		c.text = AppendText(c.text[:0], raw, d != nil && d.Type == file.TypeInteger)
		q.Text = escape.AppendQuery(q.Text, c.text)
	}
}

// appendPart appends the text of a value, or of an element of it, as the parameter's encoding says.
func appendPart(dst []byte, p *file.Param, text []byte) []byte {
	if p.Encode == file.EncodeReserved {
		return escape.AppendQueryReserved(dst, text)
	}
	return escape.AppendQuery(dst, text)
}

// separated adds an array or object as one pair. sep, which must be escaped, separates the elements, or the names and values.
func (c *Call) separated(q *Pairs, p *file.Param, raw []byte, sep string) {
	q.next()
	q.Text = append(append(q.Text, p.QueryKey...), '=')
	n := 0
	wire.Each(raw, func(name, v []byte) bool {
		if wire.KindOf(v) == wire.Null {
			return true
		}
		if n++; n > 1 {
			q.Text = append(q.Text, sep...)
		}
		if name != nil {
			q.Text = append(appendPart(q.Text, p, name), sep...)
		}
		c.text = AppendText(c.text[:0], v, p.IntegerItems())
		q.Text = appendPart(q.Text, p, c.text)
		return !q.full()
	})
}

// sent returns the JSON of a parameter for a body. The result may point into c.text.
func (c *Call) sent(i int) []byte {
	v := c.Values[i]
	if b := c.Op.Params[i].Body; b == nil || !b.Base64 || v.Kind != wire.String {
		return v.Raw
	}
	c.text = append(base64.StdEncoding.AppendEncode(append(c.text[:0], '"'), wire.Unquoted(v.Raw)), '"')
	return c.text
}
