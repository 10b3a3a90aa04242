package guard

import (
	"bytes"
	"container/list"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
)

// Adapter is an adapter with the judgements of its operations and the counters of its limits.
type Adapter struct {
	adapter    *file.Adapter
	judgements []Judgement // by operation
	limited    bool        // the adapter or one of its operations has limits
	sharing    *Sharing

	own     *counters     // of calls with the adapter's own credential, and of all callers together
	waiting *atomic.Int32 // calls that wait for their turn; shared with other versions of the adapter
	breaker *breaker      // nil for none

	mu      sync.Mutex
	callers map[string]*list.Element // of callers with credentials of their own
	order   list.List                // of *callerCounters, those used last in front
}

// counters are the counters of one caller, or of all callers that share a credential.
type counters struct {
	whole      *limiter   // of the whole adapter; nil if it has no limits
	operations []*limiter // by operation; nil if no operation has limits
}

type callerCounters struct {
	caller string
	*counters
}

// maxCallers is the largest number of callers of an adapter whose calls are counted. For
// more, the callers whose last call is the oldest are forgotten.
const maxCallers = 10_000

// New returns an Adapter with a judgement of each operation, and with counters for the
// adapter and the operations that have limits.
func New(a *file.Adapter, p *Policy, s *Sharing) *Adapter {
	g := &Adapter{adapter: a, sharing: s, judgements: make([]Judgement, len(a.Operations)), limited: a.Limits != nil, waiting: new(atomic.Int32)}
	for i, op := range a.Operations {
		g.judgements[i] = p.judge(op)
		g.limited = g.limited || op.Limits != nil
	}
	g.own = g.newCounters("", nil)
	if a.Breaker != nil {
		g.breaker = newBreaker(a)
	}
	return g
}

// newCounters returns the counters of a caller; all are those of all callers together, nil if
// these are asked for.
func (g *Adapter) newCounters(caller string, all *counters) *counters {
	a, c := g.adapter, &counters{}
	limit := func(r *file.Limits, op *file.Operation, shared func() *limiter) *limiter {
		if all != nil && r.Shared {
			return shared()
		}
		l := newLimiter(r)
		l.identify(a, op, caller, g.sharing)
		return l
	}
	if a.Limits != nil {
		c.whole = limit(a.Limits, nil, func() *limiter { return all.whole })
	}
	for i, op := range a.Operations {
		if op.Limits == nil {
			continue
		}
		if c.operations == nil {
			c.operations = make([]*limiter, len(a.Operations))
		}
		c.operations[i] = limit(op.Limits, op, func() *limiter { return all.operations[i] })
	}
	return c
}

// counters returns the counters of a caller, "" for those of the adapter's own credential.
func (g *Adapter) counters(caller string) *counters {
	if caller == "" || !g.limited {
		return g.own
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if e := g.callers[caller]; e != nil {
		g.order.MoveToFront(e)
		return e.Value.(*callerCounters).counters
	}
	return g.remember(caller, g.newCounters(caller, g.own))
}

// remember keeps the counters of a caller. g.mu must be held.
func (g *Adapter) remember(caller string, c *counters) *counters {
	if g.callers == nil {
		g.callers = map[string]*list.Element{}
	}
	g.callers[caller] = g.order.PushFront(&callerCounters{caller, c})
	if g.order.Len() > maxCallers {
		delete(g.callers, g.order.Remove(g.order.Back()).(*callerCounters).caller)
	}
	return c
}

// Verdict returns the verdict on calls of an operation.
func (g *Adapter) Verdict(op *file.Operation) Verdict { return g.judgements[op.Index].verdict }

// Carry takes over the counters of old, the adapter's previous version, for limits that
// have not changed.
func (g *Adapter) Carry(old *Adapter) {
	g.waiting = old.waiting
	if g.breaker != nil && old.breaker != nil && g.breaker.rule == old.breaker.rule {
		g.breaker = old.breaker
	}
	g.carry(g.own, old.own, old.adapter)
	old.mu.Lock()
	defer old.mu.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	for e := old.order.Back(); e != nil; e = e.Prev() {
		was := e.Value.(*callerCounters)
		c := g.newCounters(was.caller, g.own)
		g.carry(c, was.counters, old.adapter)
		g.remember(was.caller, c)
	}
}

// carry takes over the counters of was, which are of the version old, into c.
func (g *Adapter) carry(c, was *counters, old *file.Adapter) {
	if c.whole != nil && was.whole != nil && bytes.Equal(was.whole.rules.Source, c.whole.rules.Source) {
		c.whole = was.whole
	}
	for i, l := range c.operations {
		op := old.Index[g.adapter.Operations[i].Name]
		if l == nil || op == nil || was.operations == nil {
			continue
		}
		if before := was.operations[op.Index]; before != nil && bytes.Equal(before.rules.Source, l.rules.Source) {
			c.operations[i] = before
		}
	}
}

// of returns the operation's own limiter, or nil if it has none.
func (c *counters) of(op *file.Operation) *limiter {
	if c.operations == nil {
		return nil
	}
	return c.operations[op.Index]
}

// Limited reports whether the adapter or one of its operations has limits.
func (g *Adapter) Limited() bool { return g.limited }

// Admit counts a call against the limits of its caller. If a limit is reached, Admit waits for
// the call's turn as long as w allows. It returns a failure if the call may not be made; goOn is
// the token for calls beyond a quota's pause.
func (g *Adapter) Admit(ctx context.Context, c *httpcall.Call, goOn string, w *Patience, now func() time.Time) (pass Pass, f *failure.Failure) {
	counted := g.counters(c.Caller)
	pass = Pass{op: c.Op, now: now, replicas: g.sharing.Replicas}
	if pass.replicas != nil {
		f = g.admitShared(ctx, c, counted, &pass, goOn, w)
		return pass, f
	}
	// The whole adapter comes last, so that a call that waits for its operation's turn takes no
	// place from the others.
	for _, l := range [...]*limiter{counted.of(c.Op), counted.whole} {
		if l == nil {
			continue
		}
		p := &place{op: c.Op, goOn: goOn}
		warning, f := l.enter(ctx, p, w, g.waiting, now)
		l.leave(p, g.waiting)
		if f != nil {
			pass.cancel()
			return Pass{}, f
		}
		pass.taken = append(pass.taken, l)
		if warning != nil {
			c.Warn(*warning)
		}
	}
	return pass, nil
}

// admitShared does what Admit does if all replicas count together. This replica's own counters are
// asked first: what they refuse needs no round trip, and an engine that has lost its counts permits
// no replica more than its own.
func (g *Adapter) admitShared(ctx context.Context, c *httpcall.Call, counted *counters, pass *Pass, goOn string, w *Patience) *failure.Failure {
	var limiters []*limiter
	var places []*place
	for _, l := range [...]*limiter{counted.of(c.Op), counted.whole} {
		if l != nil {
			p := &place{op: c.Op, goOn: goOn}
			defer l.leave(p, g.waiting)
			limiters, places = append(limiters, l), append(places, p)
		}
	}
	for {
		var warnings []failure.Notice
		for i, l := range limiters {
			warning, f := l.enter(ctx, places[i], w, g.waiting, pass.now)
			if f != nil {
				pass.cancel()
				return f
			}
			pass.taken = append(pass.taken, l)
			if warning != nil {
				warnings = append(warnings, *warning)
			}
		}
		all, no, behind := g.share(ctx, pass, places, pass.now())
		if no == nil {
			if pass.shared != nil {
				warnings = all
			}
			for _, w := range warnings {
				c.Warn(w)
			}
			return nil
		}
		pass.cancel()
		l, p := behind.l, behind.p
		l.mu.Lock()
		p.behind = behind.rule
		f := l.stay(ctx, p, no, w, g.waiting)
		l.mu.Unlock()
		if f != nil {
			return f
		}
	}
}

// Judgement returns the judgement of an operation.
func (g *Adapter) Judgement(op *file.Operation) *Judgement { return &g.judgements[op.Index] }
