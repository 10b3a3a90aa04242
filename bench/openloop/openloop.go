// Package openloop makes calls at a fixed rate, whether or not earlier calls have been answered, and measures each from
// the time at which it was due.
//
// A closed loop waits for an answer before it makes the next call: a slow answer delays the calls behind it, and their
// waiting is not measured (coordinated omission). Here it is.
package openloop

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dragoman-proxy/dragoman/bench/histogram"
)

// Result is the measurement of one run.
type Result struct {
	Latency histogram.Histogram // of each call, from the time at which it was due
	Made    int                 // calls that were answered
	Missed  int                 // calls that were due and not begun when the run ended; they are in Latency with their age
	Wall    time.Duration
}

// Kept says whether the rate was kept: no more than one call in a hundred was missed.
func (r *Result) Kept() bool { return r.Missed*100 <= r.Made+r.Missed }

// Run makes rate calls a second for the length of slice. Each of calls belongs to one connection and makes one call; the
// next one that is free takes the next call that is due. Run waits half a slice more for calls that are late.
func Run(ctx context.Context, rate int, slice time.Duration, calls []func() error) (*Result, error) {
	if rate < 1 || slice <= 0 || len(calls) == 0 {
		return nil, errors.New("openloop: needs a rate, a length and a connection")
	}
	total := max(int64(slice.Seconds()*float64(rate)), 1)
	var next atomic.Int64
	each := make([]Result, len(calls))
	began := time.Now()
	due := func(i int64) time.Time { return began.Add(time.Duration(float64(i) * 1e9 / float64(rate))) }
	end := began.Add(slice + slice/2)
	g, ctx := errgroup.WithContext(ctx)
	for n, call := range calls {
		g.Go(func() error {
			mine := &each[n]
			for ctx.Err() == nil {
				i := next.Add(1) - 1
				if i >= total {
					return nil
				}
				sleepUntil(due(i))
				if now := time.Now(); now.After(end) {
					mine.Missed++
					mine.Latency.Record(now.Sub(due(i)).Nanoseconds())
					continue
				}
				if err := call(); err != nil {
					return err
				}
				mine.Made++
				mine.Latency.Record(time.Since(due(i)).Nanoseconds())
			}
			return ctx.Err()
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	sum := &Result{Wall: time.Since(began)}
	for i := range each {
		sum.Latency.Add(&each[i].Latency)
		sum.Made += each[i].Made
		sum.Missed += each[i].Missed
	}
	return sum, nil
}
