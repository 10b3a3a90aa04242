package proxy

import (
	"context"
	"time"
)

// How long to wait before a standing stream is opened again.
const (
	firstReopen = time.Second
	lastReopen  = 30 * time.Second
)

// reopening is the wait before a standing stream is opened again, twice as long each time
// as long as nothing comes. The zero value begins with the shortest.
type reopening struct{ waited time.Duration }

// wait waits, for as long as the server has asked for if it has, else 0. The error is
// the cause of ctx's end.
func (r *reopening) wait(ctx context.Context, asked time.Duration) error {
	r.waited = min(max(2*r.waited, firstReopen), lastReopen)
	if asked > 0 {
		r.waited = min(asked, lastReopen)
	}
	return sleep(ctx, r.waited)
}

// heard says that something came: the next wait is short.
func (r *reopening) heard() { r.waited = 0 }

// sleep waits for d. The error is the cause of ctx's end.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
