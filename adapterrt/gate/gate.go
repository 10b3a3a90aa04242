// Package gate reads from the answer of a gate's source whether a request is supported.
//
// A gate refuses a request if its source says that the gated parameters of the request
// are not supported. For an operation of an adapter, the source is another operation of
// the adapter; for a tool of a server, it is another tool of the server. Package guard
// and package proxy/features/gate call the source, and both read its answer with a [Rule].
package gate

import (
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// A Rule says where the answer of a source lists what is supported.
type Rule struct {
	List        []string   // the path of member names to the rows, or to the single row
	Match       [][]string // for each condition: names of members, one of which must have the condition's value
	Capability  []string   // the path of member names, within a row, to what it supports
	MatchValues bool       // each requested value must be among the supported ones
}

// AppendRequested appends to dst what the value of a gated parameter requests: the elements
// of a list, the names of an object's members, the text of a string, or the parameter's name
// for a number or boolean. It appends nothing if the value is nil, null or empty.
func AppendRequested(dst []string, param string, value []byte) []string {
	if value == nil {
		return dst
	}
	switch wire.KindOf(value) {
	case wire.Null:
		return dst
	case wire.Array, wire.Object:
		return appendNames(dst, value, nil)
	case wire.String:
		if s := text(value); s != "" {
			dst = append(dst, s)
		}
		return dst
	}
	return append(dst, param)
}

// appendNames appends the elements of a list or the names of an object's members. If an
// element of a list has a value at the path member, it appends that value instead.
func appendNames(dst []string, value []byte, member []string) []string {
	object := wire.KindOf(value) == wire.Object
	wire.Each(value, func(name, v []byte) bool {
		switch inner := wire.Lookup(v, member); {
		case object:
			dst = append(dst, string(name))
		case inner != nil:
			dst = append(dst, text(inner))
		default:
			dst = append(dst, text(v))
		}
		return true
	})
	return dst
}

// Row returns the first row in a source's answer that meets all conditions of Match. values
// are the values of the conditions, in the order of Match; no row meets a condition whose
// value is nil. Row returns nil if there is no such row.
func (r *Rule) Row(answer []byte, values [][]byte) (row []byte) {
	rows := wire.Lookup(answer, r.List)
	switch {
	case rows == nil:
	case wire.KindOf(rows) == wire.Array:
		wire.Each(rows, func(_, e []byte) bool {
			if r.meets(e, values) {
				row = e
			}
			return row == nil
		})
	case r.meets(rows, values):
		row = rows
	}
	return row
}

func (r *Rule) meets(row []byte, values [][]byte) bool {
	for i, names := range r.Match {
		if values[i] == nil || !slices.ContainsFunc(names, func(name string) bool {
			v := wire.Member(row, name)
			return v != nil && wire.KindOf(v) > wire.Null && text(v) == text(values[i])
		}) {
			return false
		}
	}
	return true
}

// Supports reports whether a row has the capability and, with MatchValues, whether the
// capability contains all requested values.
func (r *Rule) Supports(row []byte, requested []string) bool {
	v := wire.Lookup(row, r.Capability)
	if v == nil {
		return false
	}
	var has []string
	switch wire.KindOf(v) {
	case wire.Boolean:
		return string(v) == "true"
	case wire.Array, wire.Object:
		has = appendNames(nil, v, []string{"name"})
	}
	if len(has) == 0 || !r.MatchValues {
		return len(has) > 0
	}
	return !slices.ContainsFunc(requested, func(s string) bool { return !slices.Contains(has, s) })
}

// text returns a string without quotes, a list or object in compact form, and any other
// value as it is written.
func text(raw []byte) string {
	switch wire.KindOf(raw) {
	case wire.String:
		return string(wire.Unquoted(raw))
	case wire.Array, wire.Object:
		return string(wire.AppendCompact(nil, raw))
	}
	return string(raw)
}

// A Refusal describes to the client why a gate refuses its request.
type Refusal struct {
	Params    []string // the gated parameters in the request
	Requested []string // the values that these parameters request
	Subject   string   // the parameter that names the subject of the request; "" for none
	Value     string   // the value of Subject in the request; "" for none
	Source    string   // where the client can look up what is supported
	Unknown   bool     // the source does not say what is supported
}

// Clean shortens the values for a message and removes characters that cannot be printed.
func (r *Refusal) Clean() {
	const most = 100 // values
	r.Requested = slices.Clone(r.Requested[:min(len(r.Requested), most)])
	for i, s := range r.Requested {
		r.Requested[i] = clean.Text(s, 100)
	}
	r.Value = clean.Text(r.Value, 200)
}

// String returns the message for the client. Call [Refusal.Clean] before it.
func (r *Refusal) String() string {
	verb, about := " not supported ", "here"
	if r.Unknown {
		verb = " not known to be supported "
	}
	if r.Value != "" {
		about = "for " + r.Subject + " '" + r.Value + "'"
	}
	return strings.Join(r.Params, ", ") + verb + about + ". Requested: " + clean.FirstRunes(strings.Join(r.Requested, ", "), 300) +
		". Consult " + r.Source + "."
}
