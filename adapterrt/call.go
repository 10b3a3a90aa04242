package adapterrt

import (
	"bytes"
	"strings"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// value is what a request gives for one parameter.
type value struct {
	raw      []byte // valid JSON
	kind     wire.ValueKind
	inside   bool // it stood in params, not beside them
	fallback bool // it is a default, or set by the runtime
}

// call is one request on its way through an operation. It is pooled; everything
// in it belongs to it, but for what points into the request's body.
type call struct {
	env      envelope
	op       *operation
	values   []value // by the operation's parameters
	unknown  []string
	warnings []Notice
	out      outgoing
	text     []byte // scratch
	token    []byte // a confirmation
	goOn     []byte // leave to go on over a quota's pause
	inner    bool   // one of a batch
	trace    []Header
	query    string // the whole query of the URL, when a page says so itself
	cached   string // what the cache did: hit, miss, revalidated
}

// resolve finds the value of every declared parameter: in params, else beside it.
// What nobody declared is noted; names starting with _ are metadata.
func (c *call) resolve(op *operation) *Failure {
	c.op = op
	c.unknown = c.unknown[:0]
	if n := len(op.params); cap(c.values) < n {
		c.values = make([]value, n)
	} else {
		c.values = c.values[:n]
		clear(c.values)
	}
	for i := range c.env.params {
		m := &c.env.params[i]
		if k, ok := op.param(m.key); ok {
			c.env.repeated = c.env.repeated || c.values[k].inside
			c.values[k] = value{raw: m.raw, kind: m.kind, inside: true}
		} else if op.category == Update && string(m.key) == "input" && m.kind == wire.Object {
			if f := c.lift(m.raw); f != nil {
				return f
			}
		} else if !c.noteToken(m) {
			c.stray(m.key)
		}
	}
	for i := range c.env.top {
		m := &c.env.top[i]
		switch string(m.key) {
		case "operation", "params", "operations", "adapter":
			continue
		}
		if k, ok := op.param(m.key); !ok {
			if !c.noteToken(m) {
				c.stray(m.key)
			}
		} else if !c.values[k].inside {
			c.env.repeated = c.env.repeated || c.values[k].kind != wire.Absent
			c.values[k] = value{raw: m.raw, kind: m.kind}
		}
	}
	return nil
}

func (c *call) stray(key []byte) {
	if len(key) > 0 && key[0] == '_' {
		return
	}
	name := string(key)
	if len(name) > maxUnknownName {
		name = firstRunes(name, maxUnknownName)
	}
	for _, u := range c.unknown {
		if u == name {
			return
		}
	}
	if len(c.unknown) < maxUnknown {
		c.unknown = append(c.unknown, name)
	}
}

// lift takes the members of an update's input for parameters: the other way
// clients write an update.
func (c *call) lift(input []byte) (f *Failure) {
	var unknown []string
	wire.Each(input, func(name, raw []byte) bool {
		k, ok := c.op.param(name)
		switch {
		case !ok:
			if len(unknown) < maxUnknown {
				unknown = append(unknown, firstRunes(string(name), maxUnknownName))
			}
		case c.op.params[k].place == inPath:
			f = invalidValue(c.op.params[k].name, "must not be part of input")
			return false
		case !c.values[k].inside:
			c.values[k] = value{raw: raw, kind: wire.KindOf(raw), inside: true}
		}
		return true
	})
	if f == nil && len(unknown) > 0 {
		f = unknownParams(c.op, unknown)
		f.Code = ValidationUnknownField
		f.Message = "Unknown field(s) in input for operation '" + c.op.name + "': " + strings.Join(unknown, ", ")
	}
	return f
}

// validate checks the values in the order that decides which mistake is reported,
// and fills in defaults. Unknown parameters are refused, or dropped with a warning.
func (c *call) validate(loose bool) *Failure {
	op := c.op
	for _, i := range op.required {
		if c.values[i].kind <= wire.Null {
			return missingParam(op.name, op.params[i], c.missing())
		}
	}
	for i, p := range op.params {
		if v := &c.values[i]; v.kind > wire.Null && !p.typeFits(v.raw) {
			return p.unfit(p.wrongType(v.raw), v.raw)
		}
	}
	if len(c.unknown) > 0 {
		f := unknownParams(op, c.unknown)
		if !loose {
			return f
		}
		c.warn(Notice{"VALIDATION_UNKNOWN_PARAM_WARNING", f.Message, f.Details, "low"})
	}
	for i, p := range op.params {
		v := &c.values[i]
		if v.kind > wire.Null && p.constrained {
			if m := p.constraint(v.raw); m != nil {
				return p.unfit(m, v.raw)
			}
		}
		if v.kind == wire.Absent && p.fallback != nil {
			*v = value{raw: p.fallback, kind: wire.KindOf(p.fallback), fallback: true}
		}
	}
	return nil
}

func (c *call) missing() (names []string) {
	for _, i := range c.op.required {
		if c.values[i].kind <= wire.Null {
			names = append(names, c.op.params[i].name)
		}
	}
	return names
}

// The most warnings of a result.
const maxWarnings = 10

func (c *call) warn(w Notice) {
	for _, o := range c.warnings {
		if o.Code == w.Code && bytes.Equal(o.Details, w.Details) {
			return
		}
	}
	if len(c.warnings) < maxWarnings {
		c.warnings = append(c.warnings, w)
	}
}

// appendText appends a value's text as it goes into a URL or a header. Strings
// lose their quotes, whole numbers of integer parameters are plain digits,
// containers are compact JSON.
func appendText(dst, raw []byte, integer bool) []byte {
	switch wire.KindOf(raw) {
	case wire.String:
		return appendUnquoted(dst, raw)
	case wire.Number:
		if integer {
			if out, ok := plainInteger(dst, raw); ok {
				return out
			}
		}
		return append(dst, raw...)
	case wire.Array, wire.Object:
		return wire.AppendCompact(dst, raw)
	}
	return append(dst, raw...)
}

func (d *definition) integerItems() bool {
	return d.typ == typeInteger || d.items != nil && d.items.typ == typeInteger
}

// appendJoined appends an array's elements with commas between.
func appendJoined(dst, raw []byte, integer bool) []byte {
	n := 0
	wire.Each(raw, func(_, v []byte) bool {
		if wire.KindOf(v) == wire.Null {
			return true
		}
		if n++; n > 1 {
			dst = append(dst, ',')
		}
		dst = appendText(dst, v, integer)
		return true
	})
	return dst
}
