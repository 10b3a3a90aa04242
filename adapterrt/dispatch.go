package adapterrt

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/guard"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
	"github.com/dragoman-proxy/dragoman/adapterrt/near"
	"github.com/dragoman-proxy/dragoman/adapterrt/present"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// run takes a request through the stages. The first stage that fails sets the result.
func (c *call) run(ctx context.Context, rt *Runtime, at Endpoint, req *Request, r *Result) {
	lim := rt.opt.limits()
	if r.Failure = c.env.parse(req.Body, lim); r.Failure != nil {
		return
	}
	if c.env.batch != nil && !c.inner {
		r.Call.Operation = "batch"
		r.Failure = rt.batch(ctx, at, req, &c.env, r)
		return
	}
	v := rt.live.Load().view(req.Grant)
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
	if r.Failure = c.identify(rt, c.a, req); r.Failure != nil {
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
			return r.Data, answer
		})
		if ok {
			r.Data = joined
		}
	} else {
		c.fetch(ctx, rt, r)
	}
	if r.Failure != nil {
		return
	}
	r.Data = c.Decoded(c.Selected(r.Data, selected, page != nil))
	r.Media = c.Media
	if c.single && selected == c.ownSelection() {
		c.checkSchema(r.Data)
	}
	if d := c.Op.Deprecated; d != nil {
		c.Warn(deprecated(c.Op.Name, d))
	}
	r.Warnings = slices.Clone(c.Warnings)
	r.Meta = c.meta(req, r)
	if req.Shape != nil {
		req.Shape(r)
	}
}

// ownSelection returns the fields that the operation returns if a request selects none.
func (c *call) ownSelection() *file.Selection {
	if c.Op.Fields == nil {
		return nil
	}
	return c.Op.Fields.Fallback
}

// checkSchema warns if data does not fit the schema that the file declares.
func (c *call) checkSchema(data []byte) {
	if c.Op.Schema == nil || len(data) == 0 {
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
		by.Ask = c.asking(rt, req)
	}
	f := rt.confirmations.Check(ctx, &c.Call, c.a.guard.Judgement(c.Op), by, rt.opt.Now)
	if f == nil && by.Ask != nil && rt.live.Load().byName[c.a.Name] != c.a {
		return &failure.Failure{Code: failure.ConflictVersionMismatch, Message: "Adapter '" + c.a.Name + "' changed before it was confirmed. Send the request again."}
	}
	return f
}

// asking returns a function that calls req.Ask and adds the time that it takes to c.asked.
func (c *call) asking(rt *Runtime, req *Request) func(context.Context, string) (bool, error) {
	return func(ctx context.Context, question string) (bool, error) {
		start := rt.opt.Now()
		defer func() { c.asked += rt.opt.Now().Sub(start) }()
		return req.Ask(ctx, question)
	}
}

// fetch makes one HTTP call and sets the result's data or failure. It returns nil if
// the call failed.
func (c *call) fetch(ctx context.Context, rt *Runtime, r *Result) *httpcall.Reply {
	answer, f := c.try(ctx, rt, r)
	if f != nil && f.Code == failure.AuthLoginRequired && c.send != nil && c.own == nil {
		answer, f = c.loggedIn(ctx, rt, r, f)
	}
	if f != nil {
		r.Failure = f
		return nil
	}
	r.Call.Status, r.Call.Bytes = answer.Status, r.Call.Bytes+len(answer.Body)
	if r.Data, r.Failure = c.Read(answer, rt.reading); r.Failure != nil {
		return nil
	}
	return answer
}

// try builds the request and makes one HTTP call.
func (c *call) try(ctx context.Context, rt *Runtime, r *Result) (*httpcall.Reply, *failure.Failure) {
	if f := c.Build(); f != nil {
		return nil, f
	}
	if id := r.Call.RequestID; len(id) <= 128 && file.IsHeaderValue(id) {
		c.Out.ID = id
	}
	c.Out.Trace = c.trace
	if c.Op.Cache == nil { // calls that wait for a cached answer must not wait for this call's slow client
		c.Out.Progress = c.progress
	}
	start, waited := rt.opt.Now(), c.waited
	answer, f := rt.request(ctx, c)
	r.Call.Upstream += max(rt.opt.Now().Sub(start)-(c.waited-waited), 0)
	return answer, f
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
	o := wire.Members(nil).Str("operation", op)
	for _, f := range [...]struct{ key, val string }{{"since", d.Since}, {"replacement", d.Replacement}, {"removal_date", d.Removal}} {
		if f.val != "" {
			o = o.Str(f.key, f.val)
		}
	}
	return failure.Notice{Code: "DEPRECATION_WARNING", Message: "Operation '" + op + "' is deprecated", Details: o.End(), Severity: "medium"}
}

// maxOperationName is the largest number of bytes in the operation name of a request.
const maxOperationName = 200

// find returns the operation that a request names, in the scope of its endpoint.
func (v *view) find(at Endpoint, e *envelope) (*scope, offered, *failure.Failure) {
	if e.operation == nil {
		return nil, offered{}, &failure.Failure{
			Code: failure.ValidationMissingParam, Message: "Missing required parameter 'operation'. Expected: string.",
			Details: wire.Members(nil).Str("param_name", "operation").Str("expected_type", "string").Strs("missing", []string{"operation"}).End(),
		}
	}
	sc := v.all
	if at.Adapter != "" {
		if sc = v.scopes[at.Adapter]; sc == nil {
			return nil, offered{}, v.unknownAdapter(at.Adapter)
		}
	}
	name := e.operation
	if e.adapter != nil {
		if sc = sc.narrow(v, e.adapter); sc == nil {
			return nil, offered{}, v.unknownAdapter(string(e.adapter))
		}
	}
	if before, after, qualified := bytes.Cut(name, []byte(".")); qualified {
		if inner := sc.narrow(v, before); inner != nil {
			sc, name = inner, after
		}
	}
	if !file.IsSnake(name) || len(name) > maxOperationName {
		return nil, offered{}, failure.InvalidValue("operation", "is not a valid operation name")
	}
	if string(name) == v.how.Builtin.Name {
		return sc, offered{op: v.how.Builtin}, nil
	}
	one, several := sc.find(name)
	switch {
	case one.op != nil:
		return sc, one, nil
	case several == nil:
		return nil, offered{}, unknownOperation(string(name), sc.names(), sc.shown.Callable)
	default:
		var names []string
		for _, o := range several {
			names = append(names, o.a.Name)
		}
		return nil, offered{}, failure.Ambiguous(string(name), names)
	}
}

// maxAdapters is the largest number of adapters that a failure lists.
const maxAdapters = 20

// unknownAdapter returns the failure for an unknown adapter; it lists the loaded adapters.
func (v *view) unknownAdapter(name string) *failure.Failure {
	name = clean.FirstRunes(clean.Text(name, 100), 100)
	var names []string
	for _, a := range v.adapters[:min(len(v.adapters), maxAdapters)] {
		names = append(names, a.Name)
	}
	return &failure.Failure{
		Code: failure.NotFoundResource, Message: "Unknown adapter: '" + name + "'",
		Details: wire.Members(nil).Str("adapter", name).Strs("available", names).End(),
	}
}

// maxAvailable is the largest number of names that the failure for an unknown operation
// lists. If there are more than manyNames operations, only the names that sort next to
// the unknown one are compared with it.
const maxAvailable, manyNames = 50, 1000

// unknownOperation returns the failure for an unknown operation. It lists those of names
// that are most similar to name. names must be sorted; callable turns them into names
// that a request can use.
func unknownOperation(name string, names []string, callable func([]string) []string) *failure.Failure {
	if len(names) > manyNames {
		i, _ := slices.BinarySearch(names, name)
		from := min(max(i-maxAvailable/2, 0), len(names)-maxAvailable)
		names = names[from : from+maxAvailable]
	}
	type candidate struct {
		name     string
		distance int
	}
	list := make([]candidate, len(names))
	for i, n := range names {
		list[i] = candidate{n, near.Distance(name, n, maxOperationName)}
	}
	slices.SortStableFunc(list, func(a, b candidate) int { return a.distance - b.distance })
	available := make([]string, 0, min(len(list), maxAvailable))
	for _, n := range list[:cap(available)] {
		available = append(available, n.name)
	}
	d := wire.Members(nil).Str("operation", name).Strs("available", atMost(callable(available), maxAvailable)).Str("hint", "introspect")
	if meant := near.Names(name, names, maxMeant); len(meant) > 0 {
		d = d.Strs("did_you_mean", atMost(callable(meant), maxMeant))
	}
	return &failure.Failure{Code: failure.NotFoundOperation, Message: "Unknown operation: '" + name + "'", Details: d.End()}
}

func atMost(names []string, n int) []string { return names[:min(len(names), n)] }

// maxMeant is the largest number of names in did_you_mean.
const maxMeant = 3

// rightEndpoint refuses an operation at another category's endpoint.
func (v *view) rightEndpoint(op *file.Operation, at Endpoint) *failure.Failure {
	if at.Category == file.AnyCategory || at.Category == op.Category {
		return nil
	}
	right, wrong := v.how.ToolName(at.Adapter, op.Category), v.how.ToolName(at.Adapter, at.Category)
	if at.tool != "" && v.mode == present.Search {
		right, wrong = v.how.SearchTool(at.Adapter, present.CallTool(op.Category)), at.tool
	}
	return &failure.Failure{
		Code:    failure.ValidationEndpointMismatch,
		Message: "Operation '" + op.Name + "' must be called via " + right + ", not " + wrong,
		Details: wire.Members(nil).Str("operation", op.Name).Str("expected_endpoint", op.Category.String()).Str("actual_endpoint", at.Category.String()).End(),
	}
}

// request sends c.Out with the adapter's credentials, through the cache if the operation
// has one.
func (rt *Runtime) request(ctx context.Context, c *call) (r *httpcall.Reply, f *failure.Failure) {
	if c.Op.Cache != nil {
		r, c.cached, f = rt.cache.Fetch(ctx, &c.Call, &upstream{rt, c})
		return r, f
	}
	if f := c.authorize(ctx, &c.Out); f != nil {
		return nil, f
	}
	r, f = rt.deliver(ctx, c, &c.Call)
	if c.Op.Category != file.Read {
		rt.cache.Clear(c.Op.Adapter) // also after a failure, because the request may have had an effect
	}
	return r, f
}

// upstream sends the requests of the cache and the gates to the API, on behalf of a call.
type upstream struct {
	rt *Runtime
	c  *call
}

// Authorize adds the credentials to o.
func (u *upstream) Authorize(ctx context.Context, o *httpcall.Outgoing) *failure.Failure {
	return u.c.authorize(ctx, o)
}

// authorize adds the credentials to a request: the caller's own, or the adapter's.
func (c *call) authorize(ctx context.Context, o *httpcall.Outgoing) *failure.Failure {
	if c.own != nil {
		return c.a.signer.Present(o, c.own)
	}
	return c.a.signer.Authorize(ctx, o)
}

// Send sends the request of c, which already has its credentials, if the limits allow it.
func (u *upstream) Send(ctx context.Context, c *httpcall.Call) (*httpcall.Reply, *failure.Failure) {
	return u.rt.deliver(ctx, u.c, c)
}

// deliver sends the request of c, on behalf of the call of, if the adapter's limits and its
// breaker allow it. A call that is over a limit waits for its turn; a request that the API
// refused for the moment is sent once more. Together, these waits take no longer than the
// operation's max_wait_ms and its timeout.
func (rt *Runtime) deliver(ctx context.Context, of *call, c *httpcall.Call) (r *httpcall.Reply, f *failure.Failure) {
	a := of.a
	if f := a.guard.Refuse(rt.opt.Now()); f != nil {
		return nil, f
	}
	w := guard.Patience{Left: min(c.Op.MaxWait()-of.waited, c.Out.Timeout), Tell: waiting(c)}
	if rt.hasty {
		w.Left = 0
	}
	defer func() { of.waited += w.Waited }()
	var pass guard.Pass
	if a.guard.Limited() {
		if pass, f = a.guard.Admit(ctx, c, string(of.goOn), &w, rt.opt.Now); f != nil {
			return nil, f
		}
		defer pass.Done()
	}
	if r, f = rt.attempt(ctx, of, c, w.Waited); f != nil {
		return nil, f
	}
	pass.Learn(ctx, r)
	if c.Out.Repeatable && a.Target.Retries > 0 {
		return r, nil // the client has done all that it may
	}
	after, again := httpcall.AsksAgain(r, c.Out.Repeatable, rt.opt.Now())
	if !again || w.Left <= 0 || after > w.Left {
		return r, nil
	}
	if !w.Pause(ctx, after, nil) {
		return nil, failure.Cancelled()
	}
	pass.Again(ctx)
	if r, f = rt.attempt(ctx, of, c, w.Waited); f == nil {
		pass.Learn(ctx, r)
	}
	return r, f
}

// waiting returns a function that tells the client that c waits. It is nil if the client did not
// ask for progress.
func waiting(c *httpcall.Call) func() {
	if c.Out.Progress == nil {
		return nil
	}
	return func() { c.Out.Progress(0, "Waiting for the rate limit of "+c.Op.Adapter.Name) }
}

// attempt sends the request of c, which has waited for its turn, if the adapter's breaker allows
// it. If the API answers 401 and the token can be renewed, attempt renews it and sends the request
// once more: a refused request had no effect.
func (rt *Runtime) attempt(ctx context.Context, of *call, c *httpcall.Call, waited time.Duration) (r *httpcall.Reply, f *failure.Failure) {
	a := of.a
	ended, f := a.guard.Try(rt.opt.Now)
	if f != nil {
		return nil, f
	}
	defer func() { ended(r, f) }()
	whole := c.Out.Timeout
	defer func() { c.Out.Timeout = whole }()
	c.Out.Timeout = max(whole-waited, time.Millisecond)
	r, f = rt.send(ctx, a, &c.Out)
	if f != nil || r.Status != 401 || !a.signer.Renews() || of.own != nil {
		return r, f
	}
	if f := a.signer.Renew(ctx, &c.Out); f != nil {
		return nil, f
	}
	return rt.send(ctx, a, &c.Out)
}
