package adapterrt

import (
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// envelope is a parsed request. Its slices point into the request.
type envelope struct {
	top       []entry
	params    []entry
	operation []byte // unquoted; nil if absent
	adapter   []byte
	batch     []byte // the raw value of operations
	repeated  bool   // the request has a member twice; the last one counts
}

// entry is one member of an object.
type entry struct {
	key  []byte // unescaped
	raw  []byte
	kind wire.ValueKind
}

// limits are the limits of a request.
type limits struct{ size, text, elements, depth int }

const (
	maxText     = 1 << 20
	maxElements = 10_000
	maxNesting  = 32
)

// parse parses body and makes all checks that do not need the operation. If body has a
// member twice, the last one counts.
func (e *envelope) parse(body []byte, lim limits) *failure.Failure {
	e.top, e.params = e.top[:0], e.params[:0]
	e.operation, e.adapter, e.batch, e.repeated = nil, nil, nil, false
	if f := lim.check(body); f != nil {
		return f
	}
	if body = wire.Trim(body); body[0] != '{' {
		return failure.InvalidType("params", "object", file.TypeOf(body))
	}
	if f := e.members(body); f != nil {
		return f
	}
	var op *entry
	params := false
	for i := range e.top {
		switch m := &e.top[i]; string(m.key) {
		case "operation":
			e.repeated = e.repeated || op != nil
			op = m
		case "params":
			e.repeated = e.repeated || params
			params = true
		case "adapter":
			if m.kind != wire.String && m.kind != wire.Null {
				return failure.InvalidType("adapter", "string", m.kind.String())
			}
			if m.kind == wire.String {
				e.adapter = wire.Unquoted(m.raw)
			}
		case "operations":
			e.batch = m.raw
		}
	}
	if op == nil || op.kind == wire.Null {
		return nil
	}
	if op.kind != wire.String {
		return failure.InvalidType("operation", "string", file.TypeOf(op.raw))
	}
	e.operation = wire.Unquoted(op.raw)
	return nil
}

// check returns a failure if body is not valid JSON or exceeds a limit.
func (lim limits) check(body []byte) *failure.Failure {
	if len(body) > lim.size {
		return failure.TooLarge("request_size", lim.size, len(body), "bytes")
	}
	check := wire.Limits{Depth: lim.depth, Text: lim.text, Elements: lim.elements, Unicode: true}
	if bad := wire.Check(body, check); bad != nil {
		return refusedText(body, bad, check)
	}
	return nil
}

// members collects the members of the request in e.top and those of its params in
// e.params.
func (e *envelope) members(body []byte) (f *failure.Failure) {
	earlier := 0 // entries of e.params that come from an earlier params member, which does not count
	wire.EachIn(body, "params", func(name, raw []byte) bool {
		e.params = append(e.params, entry{name, raw, wire.KindOf(raw)})
		return true
	}, func(name, raw []byte) bool {
		m := entry{name, raw, wire.KindOf(raw)}
		if string(name) == "params" {
			switch m.kind {
			case wire.Object:
				e.params = slices.Delete(e.params, 0, earlier)
			case wire.Null:
				e.params = e.params[:0]
			default:
				f = failure.InvalidType("params", "object", file.TypeOf(raw))
				return false
			}
			earlier = len(e.params)
		}
		e.top = append(e.top, m)
		return true
	})
	return f
}

// refusedText returns the failure for a request that is not valid JSON or exceeds a limit.
func refusedText(body []byte, bad *wire.Fault, lim wire.Limits) *failure.Failure {
	switch bad.Why {
	case wire.BadUTF8, wire.HoldsNUL, wire.LoneSurrogate:
		where := clean.FirstRunes(strings.ToValidUTF8(location(body[:bad.At]), "\uFFFD"), 100)
		return failure.InvalidEncoding(where, bad.At)
	case wire.TooDeep:
		return failure.TooLarge("nesting_depth", lim.Depth, bad.Size, "levels")
	case wire.LongText:
		return failure.TooLarge("string_length", lim.Text, bad.Size, "bytes")
	case wire.ManyElements:
		return failure.TooLarge("array_elements", lim.Elements, bad.Size, "elements")
	}
	return &failure.Failure{
		Code:    failure.ValidationInvalidType,
		Message: "Request is not valid JSON: " + failure.BadJSON(bad.Why),
		Details: wire.Members(nil).Str("param_name", "params").Str("expected_type", "object").Int("byte_offset", int64(bad.At)).End(),
	}
}

// location returns the name of the member that contains a fault, such as params.owner. It
// returns "request" if the fault is in no member. before is the request up to the fault.
func location(before []byte) string {
	var last, member, param string
	depth := 0
	for i := 0; i < len(before); i++ {
		switch before[i] {
		case '"':
			from := i
			for i++; i < len(before) && before[i] != '"'; i++ {
				if before[i] == '\\' {
					i++
				}
			}
			if i < len(before) {
				last = string(wire.Unquoted(before[from : i+1]))
			}
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case ':':
			switch {
			case depth == 1:
				member, param = last, ""
			case depth == 2 && member == "params":
				param = last
			}
		case ',':
			switch depth {
			case 1:
				member, param = "", ""
			case 2:
				param = ""
			}
		}
	}
	switch {
	case member == "":
		return "request"
	case param == "":
		return member
	}
	return member + "." + param
}
