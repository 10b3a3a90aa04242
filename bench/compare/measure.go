package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dragoman-proxy/dragoman/bench/compare/process"
	"github.com/dragoman-proxy/dragoman/bench/histogram"
	"github.com/dragoman-proxy/dragoman/bench/openloop"
)

// loads returns the numbers of connections that call at the same time.
func loads() []int { return []int{1, 8} }

// cell is the measurement of one way with one kind of call under one load, over all turns.
type cell struct {
	rate     int // calls a second; 0 for a closed loop
	calls    int
	missed   int // calls that were due and not made, in an open loop
	wall     time.Duration
	cpu      time.Duration // of the proxy
	resident int64         // of the proxy, the greatest of all turns
	latency  histogram.Histogram
	slow     []int64 // the 99th percentile of each turn
}

func (c *cell) perSecond() float64 { return float64(c.calls) / c.wall.Seconds() }

func (c *cell) cpuPerCall() float64 { return float64(c.cpu.Microseconds()) / float64(c.calls) }

// key identifies a cell.
type key struct {
	way        string
	work, load int
}

// measure measures all ways in turns. Each round starts with another way, so that
// the order of the ways does not favor one of them.
func measure(ctx context.Context, p plan, ways []*way, list []work) (map[key]*cell, error) {
	cells := map[key]*cell{}
	for round := range p.rounds {
		for i := range list {
			for _, load := range loads() {
				for n := range ways {
					w := ways[(n+round)%len(ways)]
					k := key{w.name, i, load}
					if cells[k] == nil {
						cells[k] = &cell{rate: p.rate}
					}
					if err := cells[k].turn(ctx, w, &list[i], load, p.slice); err != nil {
						return nil, fmt.Errorf("%s, %s, %d connections: %w", w.name, list[i].name, load, err)
					}
				}
			}
		}
	}
	return cells, nil
}

// caller is one client with the call that it repeats.
type caller struct {
	*client
	request []byte
	size    int
	latency histogram.Histogram
}

// turn runs load clients for the length of a slice. Each makes calls, one after the
// other.
func (c *cell) turn(ctx context.Context, w *way, call *work, load int, slice time.Duration) error {
	callers := make([]*caller, 0, load)
	defer func() {
		for _, one := range callers {
			one.conn.Close()
		}
	}()
	for range load {
		one, err := dial(w)
		if err != nil {
			return err
		}
		callers = append(callers, &caller{client: one, request: one.wrap(call.request)})
	}
	for _, one := range callers {
		var err error
		if one.size, err = one.warm(call, one.request); err != nil {
			return err
		}
	}
	before, err := w.usage()
	if err != nil {
		return err
	}
	began := time.Now()
	now, err := c.load(ctx, callers, slice)
	if err != nil {
		return err
	}
	c.wall += time.Since(began)
	after, err := w.usage()
	if err != nil {
		return err
	}
	c.cpu += after.CPU - before.CPU
	c.resident = max(c.resident, after.Resident)
	c.latency.Add(now)
	c.slow = append(c.slow, now.Quantile(0.99))
	return nil
}

// load makes calls for the length of a slice, in an open loop if the cell has a rate, and returns how long they took.
func (c *cell) load(ctx context.Context, callers []*caller, slice time.Duration) (*histogram.Histogram, error) {
	if c.rate > 0 {
		calls := make([]func() error, len(callers))
		for i, one := range callers {
			calls[i] = func() error { return one.call(one.request, one.size) }
		}
		r, err := openloop.Run(ctx, c.rate, slice, calls)
		if err != nil {
			return nil, err
		}
		c.calls += r.Made
		c.missed += r.Missed
		return &r.Latency, nil
	}
	end := time.Now().Add(slice)
	g, ctx := errgroup.WithContext(ctx)
	for _, one := range callers {
		g.Go(func() error { return one.repeat(ctx, end) })
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	now := new(histogram.Histogram)
	for _, one := range callers {
		now.Add(&one.latency)
	}
	c.calls += int(now.Total())
	return now, nil
}

// repeat makes calls until end, but at least one.
func (c *caller) repeat(ctx context.Context, end time.Time) error {
	for began := time.Now(); ; {
		if err := c.call(c.request, c.size); err != nil {
			return err
		}
		now := time.Now()
		c.latency.Record(now.Sub(began).Nanoseconds())
		if began = now; now.After(end) || ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// usage reads what the proxy has used so far. It is zero for the direct way.
func (w *way) usage() (process.Usage, error) {
	if w.proxy == nil {
		return process.Usage{}, nil
	}
	return w.proxy.Usage()
}
