package adapters

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/tidwall/sjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/adapterrt"
	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/proxy/features/owntools"
	"github.com/dragoman-proxy/dragoman/proxy/features/shape"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/principal"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/transform"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// The data that an adapter's operation returns is shaped before it is wrapped in a tool result or
// in the response of a plain endpoint, so that it is the same for both. The rule is the one for the
// operation, with the adapter as the server; it is in the configuration, or in the transform block
// of the adapter file. After that only the token budget of the complete result is enforced.

// readRules reads the transform rules of the adapter files, which were checked with the files.
func (a *Adapters) readRules() error {
	var given []transform.Rule
	for _, t := range a.runtime.Transforms() {
		r, err := transform.GivenRule(transform.Match{Server: t.Adapter, Tool: t.Operation}, t.JSON)
		if err != nil {
			return fmt.Errorf("adapter %s, operation %s: transform: %w", t.Adapter, t.Operation, err)
		}
		given = append(given, r)
	}
	a.given = given
	return nil
}

// Rules returns the transform rules of the adapter files. a may be nil.
func (a *Adapters) Rules() []transform.Rule {
	if a == nil {
		return nil
	}
	return a.given
}

// resultShaping shapes the results of the operations that one request calls.
type resultShaping struct {
	log        *zap.Logger
	shaping    *shape.Shaping
	call       transform.Call
	structured bool           // the client gets structured content
	tool       string         // the MCP tool that was called; "" for a plain endpoint
	settled    transform.Name // the operation whose rule was applied last
	cut        bool           // part of a result was left out
	tokens     int            // the number of tokens of the results that were cut, before the cut
}

// around returns the tokens of what surrounds the data in the complete result. The numbers in the warning
// are the largest that there may be.
func (d *resultShaping) around(r *adapterrt.Result, budget int) *transform.Around {
	one := adapterrt.Result{Warnings: r.Warnings, Meta: r.Meta}
	whole := d.shaping.Engine.Count(one.JSON())
	one.Warnings = append(slices.Clip(r.Warnings), truncated("", &transform.Report{
		TokensBefore: len(r.Data), TokensAfter: len(r.Data), Budget: len(r.Data), Arrays: []transform.ArrayCut{{Path: "items.items", Total: len(r.Data), Kept: len(r.Data)}},
	}))
	around := &transform.Around{Whole: whole, Cut: d.shaping.Engine.Count(one.JSON())}
	if d.structured && r.IsStructured() { // its text becomes a preview
		around.Cut += transform.Preview(budget)
	}
	return around
}

// shape shapes one result; it is [adapterrt.Request.Shape].
func (d *resultShaping) shape(r *adapterrt.Result) {
	began := time.Now()
	if d.tool != "" { // compact, as in a tool result
		r.Data = wire.AppendCompact(make([]byte, 0, len(r.Data)), r.Data)
	}
	names := []transform.Name{{Server: r.Call.Adapter, Tool: r.Call.Operation}}
	if d.tool != "" {
		names = append(names, transform.Name{Server: d.shaping.Server, Tool: d.tool})
	}
	d.settled = d.shaping.Engine.Closest(names...)
	call := d.call
	call.Server, call.Tool = d.settled.Server, d.settled.Tool
	if budget := d.shaping.Engine.Budget(&call); budget > 0 {
		call.Around = d.around(r, budget)
	}
	data, notice, report := d.shaping.Engine.Data(nil, r.Data, &call)
	if report.Outcome == transform.Passed {
		return
	}
	d.shaping.Note(d.log, d.settled.Tool, &report, time.Since(began))
	r.Data = data
	if notice == "" {
		return
	}
	d.cut = true
	d.tokens += report.TokensBefore
	r.Warnings = append(r.Warnings, truncated(notice, &report))
}

// truncated returns the warning that a result was cut.
func truncated(notice string, r *transform.Report) failure.Notice {
	field, unit := "data", "tokens"
	before, after, limit := r.TokensBefore, r.TokensAfter, r.Budget
	if after == 0 {
		unit, before, after, limit = "bytes", r.BytesBefore, r.BytesAfter, r.BytesAfter
	}
	for i, a := range r.Arrays {
		if i > 0 && a.Total-a.Kept <= before-after {
			continue
		}
		unit, before, after, limit = "items", a.Total, a.Kept, a.Kept
		if field = "data"; a.Path != "." {
			field += "." + a.Path
		}
	}
	details := []byte(`{}`)
	for _, m := range []struct {
		key   string
		value any
	}{{"field", field}, {"original_count", before}, {"truncated_count", after}, {"limit", limit}, {"unit", unit}} {
		details, _ = sjson.SetBytes(details, m.key, m.value) // cannot fail: the key and the value are plain
	}
	severity := "medium"
	if 2*after >= before {
		severity = "low"
	}
	return failure.Notice{Code: "VALIDATION_TRUNCATED_WARNING", Message: notice, Details: details, Severity: severity}
}

// reduceCall prepares the shaping of a tool call. It returns nil if results are not shaped.
func (a *Adapters) reduceCall(c *owntools.Call) *resultShaping {
	w := c.Wanted
	if w == nil {
		return nil
	}
	d := &resultShaping{log: a.log, shaping: w.Shaping, structured: w.Structured, tool: c.Tool, call: transform.Call{
		Session: c.Session, Caller: c.Caller, MaxTokens: w.MaxTokens, Full: w.Full,
	}}
	return d
}

// reduceHTTP prepares the shaping for a plain endpoint, whose client cannot ask for the rest of a
// cut result. It returns nil if results are not shaped.
func (a *Adapters) reduceHTTP(s *shape.Shaping, req *downstream.Request) *resultShaping {
	if s == nil {
		return nil
	}
	return &resultShaping{log: a.log, shaping: s, call: transform.Call{
		Caller: principal.Mark(req.Header("Authorization")), MaxTokens: shape.Budget(req.Header(shape.BudgetHeader)), NoMore: true,
	}}
}

// setHeaders adds the response headers that say that the result was cut.
func (d *resultShaping) setHeaders(resp *downstream.Response) {
	if d == nil || !d.cut {
		return
	}
	resp.Header = append(resp.Header, mcp.Header{Name: "X-Truncated", Value: "true"},
		mcp.Header{Name: "X-Original-Tokens", Value: strconv.Itoa(d.tokens)})
}
