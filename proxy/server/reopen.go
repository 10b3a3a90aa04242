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

// Reopening is the wait before a standing stream is opened again, twice as long each time
// as long as nothing comes. The zero value begins with the shortest.
type Reopening struct{ waited time.Duration }

// Wait waits, for as long as the server has asked for if it has, else 0. The error is
// the cause of ctx's end.
func (r *Reopening) Wait(ctx context.Context, asked time.Duration) error {
	r.waited = min(max(2*r.waited, FirstReopen), LastReopen)
	if asked > 0 {
		r.waited = min(asked, LastReopen)
	}
	return Sleep(ctx, r.waited)
}

// Heard says that something came: the next wait is short.
func (r *Reopening) Heard() { r.waited = 0 }

// Sleep waits for d. The error is the cause of ctx's end.
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
