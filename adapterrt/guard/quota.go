package guard

import (
	"context"
	"strconv"
	"time"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// status returns the usage of each quota as a JSON array, and the worst state among them. all is the
// usage by all replicas; nil for that in this process.
func (l *limiter) status(all []State, now time.Time) (state string, limits []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	worst := 0
	words := [...]string{"ok", "warn", "paused", "exhausted"}
	list := []byte{'['}
	for i, q := range l.rules.Quotas {
		u := l.current(i, now)
		used, resets := u.count, u.start.Add(q.Window)
		if all != nil {
			used, resets = int(all[i].Used), now.Add(all[i].Reset).Round(time.Second)
		}
		state := 0
		switch {
		case q.HardStop >= 0 && used >= q.HardStop:
			state = 3
		case q.Pause >= 0 && used >= q.Pause:
			state = 2
		case q.Warn >= 0 && used >= q.Warn:
			state = 1
		}
		worst = max(worst, state)
		o := wire.Members(nil).Str("metric", q.Metric).Int("used", int64(used)).Str("status", words[state]).
			Str("resets_at", resets.UTC().Format(time.RFC3339))
		for _, m := range [...]struct {
			key   string
			limit int
		}{{"warn", q.Warn}, {"pause", q.Pause}, {"hard_stop", q.HardStop}} {
			if m.limit >= 0 {
				o = o.Int(m.key, int64(m.limit))
			}
		}
		list = wire.Comma(list)
		list = append(list, o.End()...)
	}
	return words[worst], append(list, ']')
}

// QuotaStatus returns the usage of the adapters' quotas as JSON, as far as callers have used
// them. callers has the caller for each adapter. The quotas of single operations are not
// included.
func QuotaStatus(ctx context.Context, adapters []*Adapter, callers map[*Adapter]string, now time.Time) []byte {
	out := []byte(`{"quota_status":[`)
	for _, g := range adapters {
		l := g.counters(callers[g]).whole
		if l == nil && g.breaker == nil {
			continue
		}
		state, limits := "ok", []byte("[]")
		if l != nil {
			state, limits = l.status(l.together(ctx, g.sharing.Replicas), now)
		}
		o := wire.Members(nil).Str("adapter", g.adapter.Name).Str("status", state).Raw("limits", limits)
		if g.breaker != nil {
			o = o.Raw("breaker", g.breaker.status(now))
		}
		out = wire.Comma(out)
		out = append(out, o.End()...)
	}
	return append(out, "]}"...)
}

// together returns the usage of the quotas by all replicas; nil if it is this replica's own.
func (l *limiter) together(ctx context.Context, r Replicas) []State {
	if r == nil || len(l.rules.Quotas) == 0 {
		return nil
	}
	var limits []Limit
	for i, q := range l.rules.Quotas {
		limits = append(limits, Limit{ID: l.id + "q" + strconv.Itoa(i), Window: q.Window, Most: -1})
	}
	_, states, err := r.Charge(ctx, l.account, 0, limits)
	if err != nil || len(states) != len(limits) {
		return nil
	}
	return states
}
