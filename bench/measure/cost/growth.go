package cost

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dragoman-proxy/dragoman/bench/measure/process"
	"github.com/dragoman-proxy/dragoman/translate"
)

// growth says which sizes are measured, and how long each.
type growth struct {
	slice                                   time.Duration
	tools, kilobytes, connections, adapters []int
}

func growthPlan(quick bool, slice time.Duration) growth {
	if quick {
		return growth{min(slice, 10*time.Millisecond), []int{1, 50}, []int{1, 64}, []int{1, 20}, []int{1, 10}}
	}
	return growth{slice, []int{1, 50, 500, 5000}, []int{1, 10, 100, 1000, 10_000, largest / 1000}, []int{1, 10, 100, 1000, 10_000}, []int{1, 10, 100, 1000}}
}

// series is how one cost grows with one number.
type series struct {
	what, unit string // such as "processor time of a list", "µs"
	each       string // what is counted, such as "tool"
	points     []sized
}

type sized struct {
	n    int
	cost float64
}

// step is how the cost grows from one size to the next: with n^exponent.
type step struct {
	from, to int
	exponent float64
}

func (s *series) steps() (list []step) {
	for i := 1; i < len(s.points); i++ {
		a, b := s.points[i-1], s.points[i]
		e := 0.0
		if a.cost > 0 && b.cost > 0 {
			e = math.Log(b.cost/a.cost) / math.Log(float64(b.n)/float64(a.n))
		}
		list = append(list, step{a.n, b.n, e})
	}
	return list
}

// linear is the largest exponent that counts as linear: noise and caches make that of it.
const linear = 1.1

// verdict says how the cost grows in the last step, and names all steps in which it grows more than linearly.
func (s *series) verdict() string {
	steps := s.steps()
	if len(steps) == 0 {
		return ""
	}
	var said []string
	switch e := steps[len(steps)-1].exponent; {
	case e < 0.15:
		said = append(said, "constant")
	case e < 0.9:
		said = append(said, "less than linear")
	case e <= linear:
		said = append(said, "linear")
	}
	for _, t := range steps {
		if t.exponent > linear {
			said = append(said, fmt.Sprintf("**more than linear from %s to %s: n^%.2f**", thousands(t.from), thousands(t.to), t.exponent))
		}
	}
	return strings.Join(said, "; ")
}

func growthTable(all []series) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nMeasured on %s, %s. The last column is about the step to the largest size; it also names each step\nin which the cost grows more than in proportion (more than n^%.1f).\n\n| cost | number: cost (for each) | grows |\n|---|---|---|\n", time.Now().UTC().Format(time.DateOnly), machine(), linear)
	for i := range all {
		s := &all[i]
		var cells []string
		for _, p := range s.points {
			cells = append(cells, fmt.Sprintf("%s: %s (%s)", thousands(p.n), figure(p.cost), figure(p.cost/float64(p.n))))
		}
		fmt.Fprintf(&b, "| %s, in %s, by %s | %s | %s |\n", s.what, s.unit, s.each, strings.Join(cells, "; "), s.verdict())
	}
	b.WriteString("\n")
	return b.String()
}

// figure writes a number with three digits.
func figure(f float64) string {
	if f >= 1000 {
		return thousands(int(f + .5))
	}
	s := strconv.FormatFloat(f, 'g', 3, 64)
	if strings.Contains(s, "e") {
		s = strconv.FormatFloat(f, 'f', 5, 64)
	}
	return s
}

func (l launcher) measureGrowth(ctx context.Context, g growth) (all []series, err error) {
	began := time.Now()
	for _, part := range []struct {
		each  string
		sizes []int
		costs []series
		run   func(ctx context.Context, n int, slice time.Duration) ([]float64, error)
	}{
		{"tools", g.tools, []series{{what: "processor time of a list", unit: "µs"}, {what: "p50 of a list, with client and server", unit: "µs"}}, l.growTools},
		{"KB", g.kilobytes, []series{{what: "processor time of a result", unit: "µs"}, {what: "p50 of a result, with client and server", unit: "µs"}, {what: "peak of memory with one result at a time", unit: "MB"}}, l.growBytes},
		{"connections", g.connections, []series{{what: "memory with open sessions", unit: "MB"}, {what: "processor time of a small call, of each connection in turn", unit: "µs"}}, l.growConnections},
		{"adapters", g.adapters, []series{{what: "processor time from the start to the first list", unit: "ms"}, {what: "memory after the first list", unit: "MB"}, {what: "processor time of a list", unit: "µs"}}, l.growAdapters},
	} {
		fmt.Fprintf(os.Stderr, "growth: %3.0f s: %s\n", time.Since(began).Seconds(), part.each)
		for _, n := range part.sizes {
			costs, err := part.run(ctx, n, g.slice)
			if err != nil {
				return nil, fmt.Errorf("growth with %d %s: %w", n, part.each, err)
			}
			for i, cost := range costs {
				part.costs[i].each = part.each
				part.costs[i].points = append(part.costs[i].points, sized{n, cost})
			}
		}
		all = append(all, part.costs...)
	}
	return all, nil
}

// between starts a server of 2025-06-18 with dragoman before it. The way's clients speak
// 2025-03-26, so that something has to be removed.
func (l launcher) between(ctx context.Context, tools int) (*way, error) {
	server, err := l.server(ctx, "http", serverRevision(), tools)
	if err != nil {
		return nil, err
	}
	d, err := l.serve(ctx, "--upstream", server.URL(), "--upstream-transport", "http")
	if err != nil {
		server.Stop()
		return nil, err
	}
	w := through(dragoman, d, dialer(d.URL(), translate.Handshake()[2]))
	w.stop = func() { d.Stop(); server.Stop() }
	return w, nil
}

// repeated measures a call of one client for the length of slice, after one that is not measured.
func (w *way) repeated(ctx context.Context, slice time.Duration, request func(*session) *call) (*cell, error) {
	m := w.cell(small, 1)
	if err := w.connect(ctx, 1); err != nil {
		return m, err
	}
	one := &caller{w.clients[0], request(w.clients[0])}
	if err := one.do(one.call); err != nil {
		return m, err
	}
	w.callers = map[key][]*caller{{small, 1}: {one}}
	return m, w.turn(ctx, small, 1, slice)
}

func theList(s *session) *call { return s.request(list) }

func (l launcher) growTools(ctx context.Context, n int, slice time.Duration) ([]float64, error) {
	w, err := l.between(ctx, n)
	if err != nil {
		return nil, err
	}
	defer w.close()
	m, err := w.repeated(ctx, slice, theList)
	return []float64{m.cpuPerCall(), m.quantile(0.5)}, err
}

func (l launcher) growBytes(ctx context.Context, n int, slice time.Duration) ([]float64, error) {
	w, err := l.between(ctx, 50)
	if err != nil {
		return nil, err
	}
	defer w.close()
	m, err := w.repeated(ctx, slice, func(s *session) *call { return s.tool("sized", fmt.Sprintf(`{"bytes":%d}`, 1000*n)) })
	if err != nil {
		return nil, err
	}
	used, err := process.UsageOf(w.pid)
	return []float64{m.cpuPerCall(), m.quantile(0.5), float64(used.Peak) / 1e6}, err
}

// callers is how many calls are made at the same time by all connections together.
const callers = 8

func (l launcher) growConnections(ctx context.Context, n int, slice time.Duration) ([]float64, error) {
	w, err := l.between(ctx, 50)
	if err != nil {
		return nil, err
	}
	defer w.close()
	resident, cpu, err := w.inTurn(ctx, n, slice)
	return []float64{float64(resident) / 1e6, cpu}, err
}

// inTurn opens n clients, each of which makes a small call when it is its turn.
func (w *way) inTurn(ctx context.Context, n int, slice time.Duration) (resident int64, cpu float64, err error) {
	if err := w.connect(ctx, n); err != nil {
		return 0, 0, err
	}
	before, err := w.cpu()
	if err != nil {
		return 0, 0, err
	}
	var made atomic.Int64
	end := time.Now().Add(slice)
	g, ctx := errgroup.WithContext(ctx)
	for first := range min(callers, n) {
		g.Go(func() error {
			one := w.clients[first].request(small)
			for at := first; ctx.Err() == nil; {
				if err := w.clients[at].do(one); err != nil {
					return err
				}
				if made.Add(1); time.Now().After(end) {
					break
				}
				if at += callers; at >= n {
					at = first
				}
			}
			return ctx.Err()
		})
	}
	if err := g.Wait(); err != nil {
		return 0, 0, err
	}
	after, err := w.cpu()
	if err != nil {
		return 0, 0, err
	}
	resident, err = w.resident()
	return resident, float64((after - before).Nanoseconds()) / 1e3 / float64(made.Load()), err
}

const adapterFile = `---
name: api%[1]d
type: adapter
version: "1.0.0"
description: "An API of items, number %[1]d"
target: {base_url: "https://api%[1]d.example.com/v1", transport: http, protocol: rest, serialization: json}
operations:
  create:
    - name: create_item
      maps_to: "POST /items"
      description: "Create an item"
      params: {title: {type: string, required: true, description: "What it is called"}, tags: {type: array, items: {type: string}}}
  read:
    - name: get_item
      maps_to: "GET /items/{id}"
      description: "Get one item"
      params: {id: {type: string, required: true, description: "Which item"}}
    - name: list_items
      maps_to: "GET /items"
      description: "List items"
      params: {state: {type: string, enum: [open, closed, all], default: open}}
---

# An API
`

func (l launcher) growAdapters(ctx context.Context, n int, slice time.Duration) ([]float64, error) {
	dir, err := os.MkdirTemp(l.dir, "adapters")
	if err != nil {
		return nil, err
	}
	for i := range n {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("api%d-adapter.md", i)), fmt.Appendf(nil, adapterFile, i), 0o600); err != nil {
			return nil, err
		}
	}
	d, err := l.serve(ctx, "--adapters", dir)
	if err != nil {
		return nil, err
	}
	w := through(dragoman, d, dialer(d.URL(), serverRevision()))
	defer w.close()
	if err := w.connect(ctx, 1); err != nil {
		return nil, err
	}
	if err := w.clients[0].do(theList(w.clients[0])); err != nil {
		return nil, err
	}
	used, err := process.UsageOf(w.pid)
	if err != nil {
		return nil, err
	}
	m, err := w.repeated(ctx, slice, theList)
	return []float64{float64(used.CPU.Microseconds()) / 1e3, float64(used.Resident) / 1e6, m.cpuPerCall()}, err
}
