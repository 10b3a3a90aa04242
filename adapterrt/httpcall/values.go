package httpcall

import (
	"bytes"
	"strconv"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Value is the value of one parameter in a request.
type Value struct {
	Raw      []byte // valid JSON
	Kind     wire.ValueKind
	Inside   bool // it was in params, not at the top level of the request
	Fallback bool // it is a default, or set by the runtime
}

// Call is an operation with the values of its parameters, and the HTTP request that is built
// from them. A caller that keeps it can reuse its slices.
type Call struct {
	Op       *file.Operation
	Values   []Value // by the operation's parameters
	Warnings []failure.Notice
	Out      Outgoing
	// Caller stands for the credential with which the call is made, if that is not the
	// adapter's. What is kept for one caller must not reach another.
	Caller string
	Media  []Media  // images and files of the answer
	Plain  []byte   // the text that stands for the data, if [Reading.Plain] asks for it; nil for none
	text   []byte   // scratch
	chosen []string // top-level fields that the request selects
	shown  int      // bytes of Media
	query  string   // the complete query of the URL, if it comes from the link of a page
}

// Reuse empties the call, so that another request can use its memory. It reports false if
// the memory grew beyond what most requests need, and should be released instead.
func (c *Call) Reuse() bool {
	const giant = 64 << 10
	if cap(c.text) > giant || cap(c.Out.URL.Text) > giant || cap(c.Out.Body.Text) > giant {
		return false
	}
	c.Out.reset()
	clear(c.Values[:cap(c.Values)]) // the values point into the request
	*c = Call{Values: c.Values[:0], Out: c.Out, text: c.text[:0]}
	return true
}

// Validate checks the values and fills in defaults. The order of the checks decides which
// mistake is reported. It returns a failure if there are unknown parameters.
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

// ReadTexts reads values that were sent as text although the parameter's type is another, and warns of
// each: models send JSON inside a string, and numbers and booleans in quotes.
func (c *Call) ReadTexts(lim wire.Limits) {
	for i, p := range c.Op.Params {
		v := &c.Values[i]
		if v.Kind < wire.String {
			continue
		}
		v.Raw = p.ReadText(v.Raw, lim, p.Name, func(at, expected string) {
			c.Warn(failure.Notice{Code: "VALIDATION_SENT_AS_TEXT_WARNING", Message: "Parameter '" + at + "' was sent as text and read as " + expected + ". Send it as " + expected + ".",
				Details: wire.Members(nil).Str("param_name", at).Str("expected_type", expected).End(), Severity: "low"})
		})
		v.Kind = wire.KindOf(v.Raw)
	}
}

// lacks reports whether parameter i has no value. null is a value only if the parameter's types
// include null.
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

// maxWarnings is the largest number of warnings in a result.
const maxWarnings = 10

// Warn adds a warning to the result, unless the result has an equal one already.
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

// cut adds a warning that the data has only the first kept units.
func (c *Call) cut(unit string, kept int) {
	c.Warn(failure.Notice{Code: "VALIDATION_TRUNCATED_WARNING", Message: "Only the first " + strconv.Itoa(kept) + " " + unit + " of the response are here",
		Details:  wire.Members(nil).Str("field", "data.items").Int("truncated_count", int64(kept)).Int("limit", int64(kept)).Str("unit", unit).End(),
		Severity: "medium"})
}

// AppendText appends a value as text for a URL or a header. Strings lose their quotes,
// integers of integer parameters become plain digits, and containers are compact JSON.
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

// appendJoined appends the elements of an array, or the names and values of an object, separated by commas.
func appendJoined(dst, raw []byte, integer bool) []byte {
	n := 0
	wire.Each(raw, func(name, v []byte) bool {
		if wire.KindOf(v) == wire.Null {
			return true
		}
		if n++; n > 1 {
			dst = append(dst, ',')
		}
		if name != nil {
			dst = append(append(dst, name...), ',')
		}
		dst = AppendText(dst, v, integer)
		return true
	})
	return dst
}

// lookup returns the value at a path of member names and, for lists, of indexes. It returns nil
// if there is none.
func lookup(raw []byte, path []string) []byte {
	for _, name := range path {
		if raw = wire.Trim(raw); len(raw) == 0 || raw[0] != '[' {
			if raw = wire.Member(raw, name); raw == nil {
				return nil
			}
			continue
		}
		want, err := strconv.Atoi(name)
		var found []byte
		wire.Each(raw, func(_, v []byte) bool {
			if want--; err == nil && want == -1 {
				found = v
			}
			return want >= 0
		})
		if raw = found; raw == nil {
			return nil
		}
	}
	return raw
}
