package adapterrt

import (
	"context"
	"fmt"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/credential"
	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/guard"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
)

// loginTime is how long a call waits for a person to log in.
const loginTime = 5 * time.Minute

// loggedIn asks the user to log in and then sends the request of the call. f is the
// failure that says that the call needs a login. Only one call of an adapter asks the
// user at a time.
func (c *call) loggedIn(ctx context.Context, rt *Runtime, r *Result, f *failure.Failure) (*httpcall.Reply, *failure.Failure) {
	l, err := c.a.signer.Login()
	if err != nil {
		return nil, f
	}
	start := rt.opt.Now()
	defer func() { c.asked += rt.opt.Now().Sub(start) }()
	ctx, stop := context.WithTimeout(ctx, loginTime)
	defer stop()
	select {
	case c.a.login <- struct{}{}:
		defer func() { <-c.a.login }()
	case <-ctx.Done():
		return nil, f
	}
	if answer, f := c.try(ctx, rt, r); f == nil || f.Code != failure.AuthLoginRequired {
		return answer, f // the user has logged in for another call
	}
	if err := l.Through(ctx, rt.opt.Listen, c.send); err != nil {
		own := *f // other calls share f
		own.Cause = fmt.Errorf("%w; %w", f.Cause, err)
		return nil, &own
	}
	return c.try(ctx, rt, r)
}

// fetch makes one HTTP call and sets the result's data or failure. It returns nil if
// the call failed.
func (c *call) fetch(ctx context.Context, rt *Runtime, r *Result) *httpcall.Reply {
	answer, f := c.try(ctx, rt, r)
	if f != nil && f.Code == failure.AuthLoginRequired && c.send != nil && c.own == nil {
		answer, f = c.loggedIn(ctx, rt, r, f)
	}
	if f != nil {
		r.Call.Status = f.Answered
		r.Failure = c.CarriedOut(f)
		return nil
	}
	r.Call.Status, r.Call.Bytes = answer.Status, r.Call.Bytes+len(answer.Body)
	how := rt.reading
	how.Plain = true
	if r.Data, f = c.Read(answer, how); f != nil {
		r.Failure = c.CarriedOut(f)
		return nil
	}
	made := r.Data
	if r.plain = c.Plain; r.plain != nil {
		made = r.plain
	}
	if r.Failure = c.lost(r, rt.adopt(ctx, made, answer.Body)); r.Failure != nil {
		return nil
	}
	return answer
}

// lost returns f, the reason why the answer that r had cannot be passed on.
func (c *call) lost(r *Result, f *failure.Failure) *failure.Failure {
	if f != nil {
		f.Answered = r.Call.Status
	}
	return c.CarriedOut(f)
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
	c.Out.Asks = c.send != nil && c.own == nil
	if c.Op.Cache == nil { // calls that wait for a cached answer must not wait for this call's slow client
		c.Out.Progress = c.progress
	}
	start, waited := rt.opt.Now(), c.waited
	answer, f := rt.request(ctx, c)
	r.Call.Upstream += max(rt.opt.Now().Sub(start)-(c.waited-waited), 0)
	return answer, f
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
// it. If the API answers 401 and the token can be renewed, or that the token lacks scopes, attempt obtains
// another one and sends the request once more: a refused request had no effect.
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
	if f != nil || !a.signer.Renews() || of.own != nil || c.Out.Anonymous {
		return r, f
	}
	if scopes, says := credential.Insufficient(r); says {
		again, f := a.signer.StepUp(ctx, &c.Out, scopes)
		if f != nil {
			return nil, f
		}
		if !again {
			return r, nil
		}
		return rt.send(ctx, a, &c.Out)
	}
	if r.Status != 401 {
		return r, nil
	}
	if f := a.signer.Renew(ctx, &c.Out); f != nil {
		return nil, f
	}
	return rt.send(ctx, a, &c.Out)
}
