// Package gate refuses calls of the server's tools that use parameters which the server does
// not support.
//
// A gate of the configuration names a tool, parameters of it, and another tool of the
// server, the source, whose result says whether these parameters are supported. The source
// is called each time such a parameter is used, so that a change of its result takes effect
// at once. The caller makes the call of the source, with the client's credentials.
package gate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/adapterrt/gate"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// defaultTimeMS is timeout_ms where the configuration does not set it, as in an adapter's file.
const defaultTimeMS = 2000

// A Verdict is the decision of a gate about a call, as the metrics name it.
type Verdict string

const (
	None    Verdict = ""        // the call has none of the gated parameters
	Passed  Verdict = "passed"  // the source says that it supports them
	Open    Verdict = "open"    // the source does not say, and the configuration lets the call pass
	Refused Verdict = "refused" // the source does not support them, or does not say
)

// Ask calls the source: params are those of a tools/call, without the braces around them.
// It returns the result.
type Ask func(ctx context.Context, params string) (result []byte, err error)

// A Gate is one gate of the configuration.
type Gate struct {
	config.Gate
	rule   gate.Rule
	wanted []string // the values of the rule's conditions; each may be a {parameter}
}

// New returns the gates of a configuration, in their order.
func New(configured []config.Gate) []Gate {
	gates := make([]Gate, len(configured))
	for i, c := range configured {
		g := &gates[i]
		g.Gate = c
		g.rule = gate.Rule{List: path(c.List), Capability: path(c.Capability), MatchValues: c.MatchValues}
		for names, value := range c.Match {
			g.rule.Match = append(g.rule.Match, strings.Split(names, "|"))
			g.wanted = append(g.wanted, value)
		}
	}
	return gates
}

// path splits a dotted path into the names of members.
func path(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == '.' })
}

// Twice returns the name of an argument that the gate reads and that occurs twice in a call, or "" if there is none: the server may
// take another one than the gate has asked about.
func (g *Gate) Twice(arguments []byte) string {
	var seen []string
	twice := ""
	if len(arguments) == 0 || wire.KindOf(arguments) != wire.Object {
		return ""
	}
	wire.Each(arguments, func(name, _ []byte) bool {
		switch n := string(name); {
		case !g.reads(n):
		case slices.Contains(seen, n):
			twice = n
		default:
			seen = append(seen, n)
		}
		return twice == ""
	})
	return twice
}

// reads reports whether the gate reads an argument.
func (g *Gate) reads(name string) bool {
	is := func(v string) bool { return placeholder(v) == name }
	if name == g.Subject || slices.Contains(g.Params, name) || slices.ContainsFunc(g.wanted, is) {
		return name != ""
	}
	for _, v := range g.SourceParams {
		if text, ok := v.(string); ok && is(text) {
			return name != ""
		}
	}
	return false
}

// Check calls the source if a call with these arguments has a gated parameter. If the verdict
// is Refused, refusal is the result of the call for the client. err says why the source does
// not say what is supported.
func (g *Gate) Check(ctx context.Context, arguments []byte, ask Ask) (v Verdict, refusal []byte, err error) {
	r := gate.Refusal{Subject: g.Subject, Source: g.Source + " (" + g.Capability + ")"}
	for _, param := range g.Params {
		if more := gate.AppendRequested(r.Requested, param, wire.Member(arguments, param)); len(more) > len(r.Requested) {
			r.Requested, r.Params = more, append(r.Params, param)
		}
	}
	if len(r.Requested) == 0 {
		return None, nil, nil
	}
	row, err := g.row(ctx, arguments, ask)
	switch {
	case err == nil && g.rule.Supports(row, r.Requested):
		return Passed, nil, nil
	case err != nil && g.OnUnavailable != "deny":
		return Open, nil, err
	}
	r.Unknown = err != nil
	if subject := wire.Member(arguments, g.Subject); subject != nil && g.Subject != "" {
		r.Value = gjson.ParseBytes(subject).String()
	}
	r.Clean()
	return Refused, g.result(&r), err
}

// result returns the result of a refused call.
func (g *Gate) result(r *gate.Refusal) []byte {
	text := append([]byte(`{"code":`), wire.AppendQuoted(nil, g.ErrorCode)...)
	text = append(wire.AppendQuoted(append(text, `,"message":`...), r.String()), '}')
	result := wire.AppendQuoted([]byte(`{"content":[{"type":"text","text":`), string(text))
	return append(result, `}],"isError":true}`...)
}

// row returns the row of the source's result that matches the call.
func (g *Gate) row(ctx context.Context, arguments []byte, ask Ask) ([]byte, error) {
	params, err := g.call(arguments)
	if err != nil {
		return nil, err
	}
	timeout := time.Duration(cmp.Or(g.TimeoutMS, defaultTimeMS)) * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	result, err := ask(ctx, params)
	if err != nil {
		return nil, err
	}
	answer, err := rows(result)
	if err != nil {
		return nil, err
	}
	values := make([][]byte, len(g.wanted))
	for i, v := range g.wanted {
		if param := placeholder(v); param != "" {
			values[i] = wire.Member(arguments, param)
		} else {
			values[i] = wire.AppendQuoted(nil, v)
		}
	}
	row := g.rule.Row(answer, values)
	if row == nil {
		return nil, errors.New("the source's result has no row that matches the call")
	}
	return row, nil
}

// call returns the params of the call of the source, without braces.
func (g *Gate) call(arguments []byte) (string, error) {
	given := make(map[string]any)
	for name, v := range g.SourceParams {
		if text, ok := v.(string); ok && placeholder(text) != "" {
			value := wire.Member(arguments, placeholder(text))
			if value == nil || wire.KindOf(value) == wire.Null {
				continue
			}
			v = json.RawMessage(value)
		}
		given[name] = v
	}
	raw, err := json.Marshal(given)
	return `"name":` + string(wire.AppendQuoted(nil, g.Source)) + `,"arguments":` + string(raw), err
}

// placeholder returns the name in {name}, or "" for a literal.
func placeholder(text string) string {
	if inner, ok := strings.CutPrefix(text, "{"); ok && strings.HasSuffix(inner, "}") {
		return strings.TrimSuffix(inner, "}")
	}
	return ""
}

// rows returns the JSON in a result: its structured content, else its first text.
func rows(result []byte) ([]byte, error) {
	if gjson.GetBytes(result, "isError").Bool() {
		return nil, errors.New("the source's result is an error")
	}
	if structured := wire.Member(result, "structuredContent"); structured != nil {
		return structured, nil
	}
	text := []byte(gjson.GetBytes(result, "content.0.text").Str)
	if !wire.Valid(text) {
		return nil, errors.New("the source's result is not JSON")
	}
	return text, nil
}
