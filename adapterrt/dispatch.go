package adapterrt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/guard"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
	"github.com/dragoman-proxy/dragoman/adapterrt/present"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Dispatch runs one request to its result. It does not panic and returns soon
// after ctx ends.
func (rt *Runtime) Dispatch(ctx context.Context, at Endpoint, req *Request) Result {
	return rt.dispatch(ctx, at, req, false)
}

// dispatch does what Dispatch does; inner says that the request is part of a batch.
func (rt *Runtime) dispatch(ctx context.Context, at Endpoint, req *Request, inner bool) (r Result) {
	start := rt.opt.Now()
	c := rt.calls.Get().(*call)
	r.Call.RequestID = req.ID
	defer func() {
		start = start.Add(c.asked)
		if p := recover(); p != nil {
			// The call does not go back into the pool, because its state is unknown.
			r = Result{Call: r.Call, Failure: failure.Ours(req.ID, fmt.Errorf("panic: %s", clean.MaskSecrets(clean.MaskKnown(fmt.Sprint(p), c.Out.Secrets))))}
		} else {
			c.release(&rt.calls)
		}
		rt.finish(&r, req, start)
	}()
	c.inner, c.trace, c.progress, c.send = inner, req.Trace, req.Progress, req.Send
	c.run(ctx, rt, at, req, &r)
	return r
}

// finish completes a result with its duration and outcome.
func (rt *Runtime) finish(r *Result, req *Request, start time.Time) {
	r.Call.Duration = rt.opt.Now().Sub(start)
	if f := r.Failure; f != nil {
		r.Data, r.Warnings, r.Meta, r.Media, r.whole, r.plain, r.text = nil, nil, nil, nil, nil, nil, nil
		r.Call.Outcome, r.Call.Cause, r.Call.Original = f.Code, f.Cause, f.Original
		r.Cancelled = errors.Is(f.Cause, failure.ErrCancelled)
	}
}

// release puts the call back into the pool, unless its buffers grew beyond what most
// requests need.
func (c *call) release(pool *sync.Pool) {
	if !c.Reuse() || cap(c.env.params)+cap(c.env.top) > 1024 {
		return
	}
	clear(c.env.top[:cap(c.env.top)]) // the entries point into the request
	clear(c.env.params[:cap(c.env.params)])
	c.Out.Progress = nil
	*c = call{
		Call:    c.Call,
		env:     envelope{top: c.env.top[:0], params: c.env.params[:0]},
		unknown: c.unknown[:0],
	}
	pool.Put(c)
}

// run takes a request through the stages. The first stage that fails sets the result.
func (c *call) run(ctx context.Context, rt *Runtime, at Endpoint, req *Request, r *Result) {
	lim := rt.opt.limits()
	if r.Failure = c.env.parse(req.Body, lim); r.Failure != nil {
		return
	}
	v := rt.live.Load().view(req.Grant)
	if c.env.batch != nil && !c.inner {
		r.Call.Operation = "batch"
		r.Failure = v.batch(at, req, &c.env, rt.opt.MaxResponseBytes, func(at Endpoint, one *Request) Result { return rt.dispatch(ctx, at, one, true) },
			func(answer []byte, n int) ([]byte, error) { return rt.grow(ctx, answer, n) }, r)
		return
	}
	sc, found, f := v.find(at, &c.env)
	if f != nil {
		r.Failure = f
		return
	}
	op := found.op
	r.Call.Operation, r.Call.Category = op.Name, op.Category
	if a := op.Adapter; a != nil {
		r.Call.Adapter, r.Call.Version = a.Name, a.Version
	}
	if r.Failure = v.rightEndpoint(op, at); r.Failure != nil {
		return
	}
	if r.Failure = c.resolve(found.a, op); r.Failure == nil {
		if at.lenient {
			c.ReadTexts(wire.Limits{Depth: lim.depth - paramDepth, Text: lim.text, Elements: lim.elements, Unicode: true})
		}
		r.Failure = c.Validate(c.unknown)
	}
	r.Call.Repeated = c.env.repeated
	if op.Builtin {
		if r.Failure == nil {
			r.Data, r.Failure = sc.shown.Answer(c.question(), func() []byte {
				guards := map[*guard.Adapter]string{}
				var order []*guard.Adapter
				for _, a := range sc.adapters {
					if f := c.identify(rt, a, req); f != nil {
						continue // a caller without a credential has no quota
					}
					order = append(order, a.guard)
					guards[a.guard] = c.Caller
				}
				return guard.QuotaStatus(ctx, order, guards, rt.opt.Now())
			})
		}
		if r.Failure != nil {
			r.Failure.Details = nil // the schema of introspection is closed
		}
		return
	}
	if r.Failure != nil {
		return
	}
	c.single = at.single
	c.perform(ctx, rt, req, r)
}

// paramDepth is the depth of a parameter's value in a request: {"params":{"name":…}}
const paramDepth = 2

// question returns the parameters of a call of introspect.
func (c *call) question() *present.Question {
	text := func(i int) string {
		if i >= len(c.Values) || c.Values[i].Kind != wire.String {
			return ""
		}
		return string(wire.Unquoted(c.Values[i].Raw))
	}
	q := &present.Question{
		Query: text(0), Name: text(1), Named: c.Values[1].Kind == wire.String,
		After: text(3), Adapter: text(4), Category: text(5), Tag: text(6), Match: text(7),
	}
	if len(c.Values) > 2 {
		if digits, ok := wire.AppendInteger(nil, c.Values[2].Raw); ok {
			q.First, _ = strconv.Atoi(string(digits)) // Validate has checked the bounds
		}
	}
	return q
}

// perform makes the HTTP calls of a validated request.
func (c *call) perform(ctx context.Context, rt *Runtime, req *Request, r *Result) {
	if f := c.identify(rt, c.a, req); f != nil && !c.Op.Anonymous {
		r.Failure = f
		return
	}
	selected, f := c.WantedFields()
	if f != nil {
		r.Failure = f
		return
	}
	page, f := c.WantedPage(rt.cursors)
	if f != nil {
		r.Failure = f
		return
	}
	if c.Op.Danger.Level >= file.Destructive {
		r.Call.Danger = c.Op.Danger.Level.String()
	}
	if r.Failure = c.confirm(ctx, rt, req); r.Failure != nil {
		return
	}
	if len(c.Op.Gates) > 0 {
		c.Out.Trace = c.trace // the gates' requests belong to the same trace
		if r.Call.Gate, r.Call.Gates, r.Failure = rt.gates.Check(ctx, &c.Call, &upstream{rt, c}); r.Failure != nil {
			return
		}
	}
	defer func() { r.Call.Cache, r.Call.Waited, r.Call.Breaker = c.cached, c.waited, c.a.guard.Breaker() }()
	if page != nil {
		joined, ok := c.Pages(page, rt.cursors, rt.opt.MaxResponseBytes, func() ([]byte, *httpcall.Reply) {
			answer := c.fetch(ctx, rt, r)
			if answer == nil {
				return nil, nil
			}
			if r.Failure = c.lost(r, rt.write(ctx, r)); r.Failure != nil {
				return nil, nil
			}
			return r.Data, answer
		})
		if ok {
			r.Data = joined
			r.Failure = c.lost(r, rt.adopt(ctx, joined, nil))
		}
	} else {
		c.fetch(ctx, rt, r)
	}
	if r.Failure != nil {
		return
	}
	if req.Shape != nil || c.Op.Schema != nil || selected != nil {
		if r.Failure = c.lost(r, rt.write(ctx, r)); r.Failure != nil {
			return
		}
	}
	was := r.Data
	r.Data = c.Decoded(c.Selected(r.Data, selected, page != nil))
	if r.Failure = c.lost(r, rt.adopt(ctx, r.Data, was)); r.Failure != nil {
		return
	}
	r.Media = c.Media
	if c.single && (c.Op.Fields == nil || selected == c.Op.Fields.Fallback) {
		c.checkSchema(r.Data)
	}
	if d := c.Op.Deprecated; d != nil {
		c.Warn(deprecated(c.Op.Name, d))
	}
	r.Warnings = slices.Clone(c.Warnings)
	r.Meta = c.meta(req, r)
	r.structured = c.single && c.Op.Schema != nil
	if req.Shape != nil {
		was := r.Data
		req.Shape(r)
		r.Failure = c.lost(r, rt.adopt(ctx, r.Data, was))
	}
}

// checkSchema warns if data does not fit the schema that the file declares.
func (c *call) checkSchema(data []byte) {
	if c.Op.Schema == nil || len(data) == 0 || wire.KindOf(data) == wire.Null { // null stands for an answer without a body
		return
	}
	if why := c.Op.Schema.Misfit(data); why != "" {
		c.Warn(failure.Notice{
			Code: "RESPONSE_SCHEMA_MISMATCH", Message: "The API's answer differs from its description: " + clean.Text(why, 300), Severity: "low",
		})
	}
}

// confirm returns nil if the adapter may run the operation and, if the operation needs
// a confirmation, it is confirmed.
func (c *call) confirm(ctx context.Context, rt *Runtime, req *Request) *failure.Failure {
	by := guard.Asker{Session: req.Session, Caller: req.Caller, Token: string(c.token)}
	if c.single {
		by.Place = "the argument _confirmation"
	}
	if req.Ask != nil && c.a.guard.Verdict(c.Op) == guard.Confirm {
		by.Ask = func(ctx context.Context, question string) (bool, error) {
			start := rt.opt.Now()
			defer func() { c.asked += rt.opt.Now().Sub(start) }()
			return req.Ask(ctx, question)
		}
	}
	f := rt.confirmations.Check(ctx, &c.Call, c.a.guard.Judgement(c.Op), by, rt.opt.Now)
	if f == nil && by.Ask != nil && rt.live.Load().byName[c.a.Name] != c.a {
		return &failure.Failure{Code: failure.ConflictVersionMismatch, Message: "Adapter '" + c.a.Name + "' changed before it was confirmed. Send the request again."}
	}
	return f
}

// meta returns the _meta object of a result: the request's ID and duration, if the
// request has an ID, and what the cache did. It returns nil if there is nothing to say.
func (c *call) meta(req *Request, r *Result) []byte {
	if req.ID == "" && c.cached == "" {
		return nil
	}
	o := wire.Members(nil)
	if req.ID != "" {
		o = o.Str("request_id", req.ID).Int("duration_ms", r.Call.Upstream.Milliseconds())
	}
	if c.cached != "" {
		o = o.Str("cache", c.cached)
	}
	return o.End()
}

func deprecated(op string, d *file.Deprecation) failure.Notice {
	o := d.Append(wire.Members(nil).Str("operation", op))
	return failure.Notice{Code: "DEPRECATION_WARNING", Message: "Operation '" + op + "' is deprecated", Details: o.End(), Severity: "medium"}
}
