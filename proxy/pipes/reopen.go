package pipes

import (
	"context"
	"time"
)

// How long to wait before a standing stream is opened again.
const (
	FirstReopen = time.Second
	LastReopen  = 30 * time.Second
)

// longOpen is how long a stream must have been open for the next wait to be short, although nothing came: a server, or what is
// before it, may end each stream after a minute, and while none is open, notifications are lost.
const longOpen = 10 * time.Second

// Reopening is the wait before a standing stream is opened again. It doubles each time
// until something comes, or a stream stays open for a while. The zero value begins with the shortest wait.
type Reopening struct {
	waited time.Duration
	opened time.Time // zero if no stream was open since the last wait
}

// Opened notes that a stream is open.
func (r *Reopening) Opened() { r.opened = time.Now() }

// Next returns how long to wait, now that no stream is open.
func (r *Reopening) Next() time.Duration {
	if !r.opened.IsZero() && time.Since(r.opened) >= longOpen {
		r.waited = 0
	}
	r.opened = time.Time{}
	r.waited = min(max(2*r.waited, FirstReopen), LastReopen)
	return r.waited
}

// Wait waits, for the time asked if that is more than 0: the server has then named a
// reconnection time. The error is the cause of ctx.
func (r *Reopening) Wait(ctx context.Context, asked time.Duration) error {
	wait := r.Next()
	if asked > 0 {
		wait = min(asked, LastReopen)
		r.waited = wait
	}
	return Sleep(ctx, wait)
}

// Heard notes that something came on the stream: the next wait is short.
func (r *Reopening) Heard() { r.waited = 0 }

// Sleep waits for d. The error is the cause of ctx.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
