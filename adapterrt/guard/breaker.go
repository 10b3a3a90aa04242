package guard

import (
	"errors"
	"net"
	"sync"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// longestOpen is the longest time for which an API is not called.
const longestOpen = time.Minute

// breaker keeps calls away from an API that fails.
type breaker struct {
	adapter string
	rule    file.Breaker

	mu       sync.Mutex
	failures int           // in a row
	open     time.Duration // how long calls are refused this time; 0 if they are not
	until    time.Time
	probing  bool // a call is trying the API
}

func newBreaker(a *file.Adapter) *breaker { return &breaker{adapter: a.Name, rule: *a.Breaker} }

// Refuse returns the failure of a call that the breaker would not allow now; nil if it would.
func (g *Adapter) Refuse(now time.Time) *failure.Failure {
	b := g.breaker
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refuse(now)
}

func (b *breaker) refuse(now time.Time) *failure.Failure {
	wait := b.until.Sub(now)
	switch {
	case b.open == 0 || wait <= 0 && !b.probing:
		return nil
	case wait <= 0:
		wait = time.Second // for the answer to the probe
	}
	return &failure.Failure{
		Code: failure.TransportCircuitOpen, RetryAfter: wait,
		Message: "The API of adapter '" + b.adapter + "' does not work; it is tried again after a pause",
		Details: wire.Members(nil).Str("adapter", b.adapter).Int("retry_after_seconds", seconds(wait)).End(),
	}
}

// seconds returns d in seconds, rounded up.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// Try asks the breaker for one call. If there is no failure, the caller must call ended with the
// outcome of the call.
func (g *Adapter) Try(now func() time.Time) (ended func(*httpcall.Reply, *failure.Failure), f *failure.Failure) {
	b := g.breaker
	if b == nil {
		return func(*httpcall.Reply, *failure.Failure) {}, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if f := b.refuse(now()); f != nil {
		return nil, f
	}
	probe := b.open > 0
	b.probing = b.probing || probe
	return func(r *httpcall.Reply, f *failure.Failure) { b.note(probe, r, f, now()) }, nil
}

// note counts the outcome of a call.
func (b *breaker) note(probe bool, r *httpcall.Reply, f *failure.Failure, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if probe {
		b.probing = false
	} else if b.open > 0 {
		return // the call began before the breaker opened
	}
	switch {
	case r == nil && f == nil, f != nil && errors.Is(f.Cause, failure.ErrCancelled): // says nothing about the API
	case !isDown(r, f):
		b.failures, b.open, b.until = 0, 0, time.Time{}
	case probe:
		b.failures++
		b.open = min(2*b.open, longestOpen)
		b.until = now.Add(b.open)
	default:
		if b.failures++; b.failures >= b.rule.Failures {
			b.open = b.rule.Open
			b.until = now.Add(b.open)
		}
	}
}

// isDown reports whether an outcome shows that the API does not work: that it cannot be reached,
// does not answer in time, or that what is in front of it says so.
func isDown(r *httpcall.Reply, f *failure.Failure) bool {
	if f == nil {
		return r.Status >= 502 && r.Status <= 504
	}
	switch f.Code {
	case failure.TransportRefused, failure.TransportDNS, failure.TransportTimeout, failure.TransportTLS:
		return true
	case failure.TransportNetwork:
		var op *net.OpError
		return errors.As(f.Cause, &op) && op.Op == "dial" && !httpcall.IsDenied(f.Cause)
	}
	return false
}

// The states of a breaker.
const (
	BreakerClosed  = "closed"
	BreakerOpen    = "open"
	BreakerProbing = "half_open"
)

// Breaker returns the state of the adapter's breaker, "" if it has none.
func (g *Adapter) Breaker() string {
	b := g.breaker
	if b == nil {
		return ""
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state()
}

func (b *breaker) state() string {
	switch {
	case b.open == 0:
		return BreakerClosed
	case b.probing:
		return BreakerProbing
	}
	return BreakerOpen
}

// status returns the state as a JSON object.
func (b *breaker) status(now time.Time) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	o := wire.Members(nil).Str("state", b.state()).Int("failures", int64(b.failures))
	if wait := b.until.Sub(now); b.open > 0 && wait > 0 {
		o = o.Int("retry_after_seconds", seconds(wait))
	}
	return o.End()
}
