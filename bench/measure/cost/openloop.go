package cost

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dragoman-proxy/dragoman/bench/histogram"
)

// openResult is the measurement of one run.
type openResult struct {
	latency histogram.Histogram // of each call, from the time at which it was due
	made    int                 // calls that were answered
	missed  int                 // calls that were due and not begun when the run ended; they are in latency with their age
}

// kept says whether the rate was kept: no more than one call in a hundred was missed.
func (r *openResult) kept() bool { return r.missed*100 <= r.made+r.missed }

// A closed loop waits for an answer before it makes the next call: a slow answer delays the calls behind it, and their
// waiting is not measured (coordinated omission). Here it is: calls are made at a fixed rate, whether or not earlier ones have been
// answered, and each is measured from the time at which it was due.

// openLoop makes rate calls a second for the length of slice. Each of calls belongs to one connection and makes one call; the
// next one that is free takes the next call that is due. It waits half a slice more for calls that are late.
func openLoop(ctx context.Context, rate int, slice time.Duration, calls []func() error) (*openResult, error) {
	if rate < 1 || slice <= 0 || len(calls) == 0 {
		return nil, errors.New("an open loop needs a rate, a length and a connection")
	}
	total := max(int64(slice.Seconds()*float64(rate)), 1)
	var next atomic.Int64
	each := make([]openResult, len(calls))
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
					mine.missed++
					mine.latency.Record(now.Sub(due(i)).Nanoseconds())
					continue
				}
				if err := call(); err != nil {
					return err
				}
				mine.made++
				mine.latency.Record(time.Since(due(i)).Nanoseconds())
			}
			return ctx.Err()
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	sum := new(openResult)
	for i := range each {
		sum.latency.Add(&each[i].latency)
		sum.made += each[i].made
		sum.missed += each[i].missed
	}
	return sum, nil
}
