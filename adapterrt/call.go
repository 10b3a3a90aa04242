package adapterrt

import (
	"bytes"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
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
	a        *adapter
	op       *file.Operation
	values   []value // by the operation's parameters
	unknown  []string
	warnings []failure.Notice
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
func (c *call) resolve(a *adapter, op *file.Operation) *failure.Failure {
	c.a, c.op = a, op
	c.unknown = c.unknown[:0]
	if n := len(op.Params); cap(c.values) < n {
		c.values = make([]value, n)
	} else {
		c.values = c.values[:n]
		clear(c.values)
	}
	for i := range c.env.params {
		m := &c.env.params[i]
		if k, ok := op.Param(m.key); ok {
			c.env.repeated = c.env.repeated || c.values[k].inside
			c.values[k] = value{raw: m.raw, kind: m.kind, inside: true}
		} else if op.Category == file.Update && string(m.key) == "input" && m.kind == wire.Object {
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
		if k, ok := op.Param(m.key); !ok {
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
		name = clean.FirstRunes(name, maxUnknownName)
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
func (c *call) lift(input []byte) (f *failure.Failure) {
	var unknown []string
	wire.Each(input, func(name, raw []byte) bool {
		k, ok := c.op.Param(name)
		switch {
		case !ok:
			if len(unknown) < maxUnknown {
				unknown = append(unknown, clean.FirstRunes(string(name), maxUnknownName))
			}
		case c.op.Params[k].Place == file.InPath:
			f = failure.InvalidValue(c.op.Params[k].Name, "must not be part of input")
			return false
		case !c.values[k].inside:
			c.values[k] = value{raw: raw, kind: wire.KindOf(raw), inside: true}
		}
		return true
	})
	if f == nil && len(unknown) > 0 {
		f = unknownParams(c.op, unknown)
		f.Code = failure.ValidationUnknownField
		f.Message = "Unknown field(s) in input for operation '" + c.op.Name + "': " + strings.Join(unknown, ", ")
	}
	return f
}

// validate checks the values in the order that decides which mistake is reported,
// and fills in defaults. Unknown parameters are refused, or dropped with a warning.
func (c *call) validate(loose bool) *failure.Failure {
	op := c.op
	for _, i := range op.Required {
		if c.values[i].kind <= wire.Null {
			return missingParam(op.Name, op.Params[i], c.missing())
		}
	}
	for i, p := range op.Params {
		if v := &c.values[i]; v.kind > wire.Null && !p.TypeFits(v.raw) {
			return unfit(p, p.WrongType(v.raw), v.raw)
		}
	}
	if len(c.unknown) > 0 {
		f := unknownParams(op, c.unknown)
		if !loose {
			return f
		}
		c.warn(failure.Notice{Code: "VALIDATION_UNKNOWN_PARAM_WARNING", Message: f.Message, Details: f.Details, Severity: "low"})
	}
	for i, p := range op.Params {
		v := &c.values[i]
		if v.kind > wire.Null && p.Constrained {
			if m := p.Constraint(v.raw); m != nil {
				return unfit(p, m, v.raw)
			}
		}
		if v.kind == wire.Absent && p.Fallback != nil {
			*v = value{raw: p.Fallback, kind: wire.KindOf(p.Fallback), fallback: true}
		}
	}
	return nil
}

func (c *call) missing() (names []string) {
	for _, i := range c.op.Required {
		if c.values[i].kind <= wire.Null {
			names = append(names, c.op.Params[i].Name)
		}
	}
	return names
}

// The most warnings of a result.
const maxWarnings = 10

func (c *call) warn(w failure.Notice) {
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
			if out, ok := wire.AppendInteger(dst, raw); ok {
				return out
			}
		}
		return append(dst, raw...)
	case wire.Array, wire.Object:
		return wire.AppendCompact(dst, raw)
	}
	return append(dst, raw...)
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
