package guard

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
)

// maxQueue is the largest number of calls of an adapter that wait for their turn.
const maxQueue = 64

// noteAfter is the time after which a call that waits says so.
const noteAfter = time.Second

// Patience is how long a call may still wait, and what it has waited already.
type Patience struct {
	Left   time.Duration
	Waited time.Duration
	Tell   func() // is called once, after one second of waiting; may be nil
}

// Pause waits for d, or until wake has a value, but not longer than is left. It returns false if
// ctx ends before.
func (w *Patience) Pause(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	start := time.Now()
	defer func() {
		took := time.Since(start)
		w.Waited += took
		w.Left -= took
	}()
	end := time.NewTimer(min(d, w.Left))
	defer end.Stop()
	var note <-chan time.Time
	if w.Tell != nil {
		t := time.NewTimer(noteAfter - w.Waited)
		defer t.Stop()
		note = t.C
	}
	for {
		select {
		case <-end.C:
			return ctx.Err() == nil
		case <-wake:
			return ctx.Err() == nil
		case <-ctx.Done():
			return false
		case <-note:
			w.Tell()
			w.Tell = nil
		}
	}
}

// enter counts a call. If it is not the call's turn, enter waits for that as long as w allows, and
// while there is room, which counts the calls of the adapter that wait. The caller must call leave.
func (l *limiter) enter(ctx context.Context, p *place, w *Patience, room *atomic.Int32, now func() time.Time) (*failure.Notice, *failure.Failure) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		warning, no := l.take(p, now())
		if no == nil {
			return warning, nil
		}
		if f := l.stay(ctx, p, no, w, room); f != nil {
			return nil, f
		}
	}
}

// stay waits in the queue until it may be the call's turn. It returns a failure if the call cannot
// wait for that. l.mu must be held; it is not held while the call waits.
func (l *limiter) stay(ctx context.Context, p *place, no *refusal, w *Patience, room *atomic.Int32) *failure.Failure {
	if !no.fits(w) {
		return no.f
	}
	if p.wake == nil {
		if room.Add(1) > maxQueue {
			room.Add(-1)
			return no.f
		}
		p.wake = make(chan struct{}, 1)
		l.queue = append(l.queue, p)
	}
	d, wake := no.after, p.wake
	d = cmp.Or(d, w.Left)
	if no.everywhere {
		wake = nil // the end of a call here frees no place among all replicas
	}
	l.mu.Unlock()
	stays := w.Pause(ctx, d, wake)
	l.mu.Lock()
	if !stays {
		return failure.Cancelled()
	}
	return nil
}

// leave takes a call out of the queue, if it is there.
func (l *limiter) leave(p *place, room *atomic.Int32) {
	if p.wake == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	room.Add(-1)
	p.wake = nil
	l.queue = slices.DeleteFunc(l.queue, func(other *place) bool { return other == p })
	l.wake()
}

// fits reports whether waiting helps within the time that is left.
func (no *refusal) fits(w *Patience) bool { return no.waits && w.Left > 0 && no.after <= w.Left }

// cancel takes back a call that was counted and is not made after all.
func (l *limiter) cancel(op *file.Operation) {
	l.mu.Lock()
	l.count(op, -1)
	l.mu.Unlock()
	l.give()
}
