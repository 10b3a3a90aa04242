package guard

import (
	"bytes"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
)

// Adapter is an adapter with the judgements of its operations and the counters of its limits.
type Adapter struct {
	adapter    *file.Adapter
	judgements []Judgement // by operation
	limiter    *limiter    // of the whole adapter; nil if it has no limits
	limiters   []*limiter  // by operation; nil if no operation has limits
}

// New returns an Adapter with a judgement of each operation, and with counters for the
// adapter and the operations that have limits.
func New(a *file.Adapter, p *Policy) *Adapter {
	g := &Adapter{adapter: a, judgements: make([]Judgement, len(a.Operations))}
	if a.Limits != nil {
		g.limiter = newLimiter(a.Limits)
	}
	for i, op := range a.Operations {
		g.judgements[i] = p.judge(op)
		if op.Limits != nil {
			if g.limiters == nil {
				g.limiters = make([]*limiter, len(a.Operations))
			}
			g.limiters[i] = newLimiter(op.Limits)
		}
	}
	return g
}

// Verdict returns the verdict on calls of an operation.
func (g *Adapter) Verdict(op *file.Operation) Verdict { return g.judgements[op.Index].verdict }

// Carry takes over the counters of old, the adapter's previous version, for limits that
// have not changed.
func (g *Adapter) Carry(old *Adapter) {
	if g.limiter != nil && old.limiter != nil && bytes.Equal(old.limiter.rules.Source, g.limiter.rules.Source) {
		g.limiter = old.limiter
	}
	for i, l := range g.limiters {
		was := old.adapter.Index[g.adapter.Operations[i].Name]
		if l == nil || was == nil || old.limiters == nil {
			continue
		}
		if before := old.limiters[was.Index]; before != nil && bytes.Equal(before.rules.Source, l.rules.Source) {
			g.limiters[i] = before
		}
	}
}

// limiterOf returns the operation's own limiter, or nil if it has none.
func (g *Adapter) limiterOf(op *file.Operation) *limiter {
	if g.limiters == nil {
		return nil
	}
	return g.limiters[op.Index]
}

// Limited reports whether the adapter or one of its operations has limits.
func (g *Adapter) Limited() bool { return g.limiter != nil || g.limiters != nil }

// Admit counts a call against its limits. It returns a failure if a limit does not allow
// the call. Otherwise the caller must call done when the call has ended, with the API's
// reply, or nil if there was none.
func (g *Adapter) Admit(c *httpcall.Call, goOn string, now func() time.Time) (done func(*httpcall.Reply), f *failure.Failure) {
	op := c.Op
	var taken []*limiter
	done = func(r *httpcall.Reply) {
		for _, l := range taken {
			l.give(op, r, now())
		}
	}
	for _, l := range [...]*limiter{g.limiter, g.limiterOf(op)} {
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
