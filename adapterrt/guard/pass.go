package guard

import (
	"context"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
)

// Pass is the permission for one call. Its holder must call Done when the call has ended.
type Pass struct {
	op       *file.Operation
	taken    []*limiter
	shared   []charged // by all replicas
	replicas Replicas
	now      func() time.Time
}

// Learn corrects the limits by the API's reply.
func (p *Pass) Learn(ctx context.Context, r *httpcall.Reply) {
	var told []correction
	for _, l := range p.taken {
		told = append(told, l.learn(p.op, r, p.now())...)
	}
	for i := range p.shared {
		p.shared[i].correct(ctx, p.replicas, told, p.now())
	}
}

// Again counts the call once more, because its request is sent once more.
func (p *Pass) Again(ctx context.Context) {
	for _, l := range p.taken {
		l.mu.Lock()
		l.count(p.op, 1)
		l.mu.Unlock()
	}
	for i := range p.shared {
		_ = p.replicas.Adjust(ctx, p.shared[i].account, 1, p.shared[i].limits) // this replica's own count has it
	}
}

// Done ends the call.
func (p *Pass) Done() {
	for _, l := range p.taken {
		l.give()
	}
}

// cancel takes back the call that was counted in this process.
func (p *Pass) cancel() {
	for _, l := range p.taken {
		l.cancel(p.op)
	}
	p.taken = nil
}

// share charges a call that this replica's own counters admit to the limits of all replicas. The
// refusal is nil if there is room, and also if the replicas cannot be asked: then this replica's own
// count holds.
func (g *Adapter) share(ctx context.Context, pass *Pass, places []*place, now time.Time) (warnings []failure.Notice, no *refusal, behind asked) {
	var all []charged
	for i, l := range pass.taken {
		if len(l.rules.Rules)+len(l.rules.Quotas) == 0 {
			continue
		}
		if n := len(all); n == 0 || all[n-1].account != l.account {
			all = append(all, charged{account: l.account})
		}
		c := &all[len(all)-1]
		c.limits, c.of = l.asks(c.limits, c.of, places[i], now)
	}
	for i := range all {
		c := &all[i]
		if len(c.limits) == 0 {
			continue
		}
		ok, states, err := g.sharing.Replicas.Charge(ctx, c.account, 1, c.limits)
		if err != nil || len(states) != len(c.limits) {
			continue
		}
		if ok {
			c.states = states
			pass.shared = append(pass.shared, *c)
			warnings = append(warnings, c.warnings(now)...)
			continue
		}
		for _, other := range pass.shared {
			g.giveBack(ctx, &other)
		}
		pass.shared = nil
		no, behind = c.refusal(states, now)
		return nil, no, behind
	}
	return warnings, nil, asked{}
}

// giveBack takes a call back that is not made after all. Without an answer the limits are stricter
// than they need to be, until they have recovered.
func (g *Adapter) giveBack(ctx context.Context, c *charged) {
	_ = g.sharing.Replicas.Adjust(context.WithoutCancel(ctx), c.account, -1, c.limits)
}
