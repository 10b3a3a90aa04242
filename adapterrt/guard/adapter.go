package guard

import (
	"bytes"
	"container/list"
	"sync"
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

	own *counters // of calls with the adapter's own credential

	mu      sync.Mutex
	callers map[string]*list.Element // of callers with credentials of their own
	order   list.List                // of *callerCounters, those used last in front
}

// counters are the counters of one caller, or of all who share a credential.
type counters struct {
	whole      *limiter   // of the whole adapter; nil if it has no limits
	operations []*limiter // by operation; nil if no operation has limits
}

type callerCounters struct {
	caller string
	*counters
}

// maxCallers is the largest number of callers of an adapter whose calls are counted. For
// more, those who have not called for the longest time are forgotten.
const maxCallers = 10_000

// New returns an Adapter with a judgement of each operation, and with counters for the
// adapter and the operations that have limits.
func New(a *file.Adapter, p *Policy) *Adapter {
	g := &Adapter{adapter: a, judgements: make([]Judgement, len(a.Operations)), limited: a.Limits != nil}
	for i, op := range a.Operations {
		g.judgements[i] = p.judge(op)
		g.limited = g.limited || op.Limits != nil
	}
	g.own = newCounters(a)
	return g
}

func newCounters(a *file.Adapter) *counters {
	c := &counters{}
	if a.Limits != nil {
		c.whole = newLimiter(a.Limits)
	}
	for i, op := range a.Operations {
		if op.Limits == nil {
			continue
		}
		if c.operations == nil {
			c.operations = make([]*limiter, len(a.Operations))
		}
		c.operations[i] = newLimiter(op.Limits)
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
	return g.remember(caller, newCounters(g.adapter))
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
	g.carry(g.own, old.own, old.adapter)
	old.mu.Lock()
	defer old.mu.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	for e := old.order.Back(); e != nil; e = e.Prev() {
		was := e.Value.(*callerCounters)
		c := newCounters(g.adapter)
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

// Admit counts a call against the limits of its caller. It returns a failure if a limit does
// not allow the call. Otherwise the caller of Admit must call done when the call has ended,
// with the API's reply, or nil if there was none.
func (g *Adapter) Admit(c *httpcall.Call, goOn string, now func() time.Time) (done func(*httpcall.Reply), f *failure.Failure) {
	op, counted := c.Op, g.counters(c.Caller)
	var taken []*limiter
	done = func(r *httpcall.Reply) {
		for _, l := range taken {
			l.give(op, r, now())
		}
	}
	for _, l := range [...]*limiter{counted.whole, counted.of(op)} {
		if l == nil {
			continue
		}
		warning, f := l.take(op, goOn, now())
		if f != nil {
			done(nil)
			return nil, f
		}
		taken = append(taken, l)
		if warning != nil {
			c.Warn(*warning)
		}
	}
	return done, nil
}

// Judgement returns the judgement of an operation.
func (g *Adapter) Judgement(op *file.Operation) *Judgement { return &g.judgements[op.Index] }
