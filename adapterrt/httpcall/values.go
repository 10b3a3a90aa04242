package httpcall

import (
	"bytes"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Value is what a request gives for one parameter.
type Value struct {
	Raw      []byte // valid JSON
	Kind     wire.ValueKind
	Inside   bool // it stood in params, not beside them
	Fallback bool // it is a default, or set by the runtime
}

// Call is an operation with the values for its parameters, and the HTTP request
// that these become. The caller that keeps it reuses its slices.
type Call struct {
	Op       *file.Operation
	Values   []Value // by the operation's parameters
	Warnings []failure.Notice
	Out      Outgoing
	Media    []Media  // what the answer holds beside its data
	text     []byte   // scratch
	chosen   []string // fields that the request names, at the top of an item
	shown    int      // bytes of Media
	query    string   // the whole query of the URL, when a page says so itself
}

// Reuse empties the call, for another request to fill the memory that it has. It
// reports false when that grew beyond what most requests need, and is better let go.
func (c *Call) Reuse() bool {
	const giant = 64 << 10
	if cap(c.text) > giant || cap(c.Out.URL.Text) > giant || cap(c.Out.Body.Text) > giant {
		return false
	}
	c.Out.reset()
	clear(c.Values[:cap(c.Values)]) // they point into the request
	*c = Call{Values: c.Values[:0], Out: c.Out, text: c.text[:0]}
	return true
}

// Validate checks the values in the order that decides which mistake is reported,
// and fills in defaults. Unknown parameters are refused, or dropped with a warning.
func (c *Call) Validate(unknown []string) *failure.Failure {
	op := c.Op
	for _, i := range op.Required {
		if c.lacks(i) {
			return missingParam(op, op.Params[i], c.missing(), unknown)
		}
	}
	for i, p := range op.Params {
		if v := &c.Values[i]; v.Kind > wire.Null && !p.TypeFits(v.Raw) {
			return unfit(p, p.WrongType(v.Raw), v.Raw)
		}
	}
	if len(unknown) > 0 {
		return UnknownParams(op, unknown)
	}
	for i, p := range op.Params {
		v := &c.Values[i]
		if v.Kind > wire.Null && p.Constrained {
			if m := p.Constraint(v.Raw); m != nil {
				return unfit(p, m, v.Raw)
			}
		}
		if v.Kind == wire.Absent && p.Fallback != nil {
			*v = Value{Raw: p.Fallback, Kind: wire.KindOf(p.Fallback), Fallback: true}
		}
	}
	return nil
}

// lacks reports whether parameter i is not there; null is no value where it may not be one.
func (c *Call) lacks(i int) bool {
	k := c.Values[i].Kind
	return k == wire.Absent || k == wire.Null && c.Op.Params[i].Also&file.AlsoNull == 0
}

func (c *Call) missing() (names []string) {
	for _, i := range c.Op.Required {
		if c.lacks(i) {
			names = append(names, c.Op.Params[i].Name)
		}
	}
	return names
}

// The most warnings of a result.
const maxWarnings = 10

// Warn adds a warning to the result, once.
func (c *Call) Warn(w failure.Notice) {
	for _, o := range c.Warnings {
		if o.Code == w.Code && bytes.Equal(o.Details, w.Details) {
			return
		}
	}
	if len(c.Warnings) < maxWarnings {
		c.Warnings = append(c.Warnings, w)
	}
}

// AppendText appends a value's text as it goes into a URL or a header. Strings
// lose their quotes, whole numbers of integer parameters are plain digits,
// containers are compact JSON.
func AppendText(dst, raw []byte, integer bool) []byte {
	switch wire.KindOf(raw) {
	case wire.String:
		return wire.AppendUnescaped(dst, raw[1:len(raw)-1])
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
		dst = AppendText(dst, v, integer)
		return true
	})
	return dst
}
