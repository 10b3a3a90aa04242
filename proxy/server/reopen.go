package server

import (
	"context"
	"time"
)

// How long to wait before a standing stream is opened again.
const (
	FirstReopen = time.Second
	LastReopen  = 30 * time.Second
)

// Reopening is the wait before a standing stream is opened again. It doubles each time
// until something comes. The zero value begins with the shortest wait.
type Reopening struct{ waited time.Duration }

// Wait waits, for the time asked if that is more than 0: the server has then named a
// reconnection time. The error is the cause of ctx.
func (r *Reopening) Wait(ctx context.Context, asked time.Duration) error {
	r.waited = min(max(2*r.waited, FirstReopen), LastReopen)
	if asked > 0 {
		r.waited = min(asked, LastReopen)
	}
	return Sleep(ctx, r.waited)
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
