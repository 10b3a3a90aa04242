// Package gate reads from the answer of a source whether it supports what a request
// asks for.
//
// A gate holds a request back while the source says that it does not support the
// parameters that the gate is about. The source is an operation of an API for an
// adapter's operation, and a tool of the server for the server's tools: package guard
// and package proxy/gate ask it, and both read the answer with a [Rule].
package gate

import (
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// A Rule says where the answer of a source has what is supported.
type Rule struct {
	List        []string   // the members that lead to the rows, or to the one row
	Match       [][]string // of each condition: the members of a row, one of which has its value
	Capability  []string   // the members of the row that lead to what it supports
	MatchValues bool       // each requested value must be among those
}

// AppendRequested appends what the value of a gated parameter asks for: the elements of a
// list, the members of an object, the parameter's name for a number or boolean, and nothing
// for a value that is nil, null or empty.
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

// appendNames appends the elements of a list, or their members of that name where they
// have one, or the names of the members of an object.
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

// Row is the first row in a source's answer that meets the conditions of Match, which have
// these values, in their order; a value that is nil is met by none. Row returns nil where
// there is no such row.
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

// Supports reports whether a row has the capability, of the requested values where those
// must match.
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

// text is a string without quotes, a list or object without blanks, and anything else as it
// is written.
func text(raw []byte) string {
	switch wire.KindOf(raw) {
	case wire.String:
		return string(wire.Unquoted(raw))
	case wire.Array, wire.Object:
		return string(wire.AppendCompact(nil, raw))
	}
	return string(raw)
}

// A Refusal is what the client is told of a request that a gate holds back.
type Refusal struct {
	Params    []string // the gated parameters that the request has
	Requested []string // what they ask for
	Subject   string   // the parameter that says what the request is about; "" for none
	Value     string   // and its value in the request; "" for none
	Source    string   // where the client finds what is supported
	Unknown   bool     // the source does not say what is supported
}

// Clean makes the values fit for a message: short, and without what is not printed.
func (r *Refusal) Clean() {
	const most = 100 // values
	r.Requested = slices.Clone(r.Requested[:min(len(r.Requested), most)])
	for i, s := range r.Requested {
		r.Requested[i] = clean.Text(s, 100)
	}
	r.Value = clean.Text(r.Value, 200)
}

// String is the message for the client. The values in it are [Refusal.Clean]ed before.
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
