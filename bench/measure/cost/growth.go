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
	slice                               time.Duration
	tools, bytes, connections, adapters []int
}

func growthPlan(quick bool, slice time.Duration) growth {
	if quick {
		return growth{min(slice, 10*time.Millisecond), []int{1, 50}, []int{1000, 64_000}, []int{1, 20}, []int{1, 10}}
	}
	return growth{slice, []int{1, 50, 500, 5000}, []int{1000, 10_000, 100_000, 1_000_000, 10_000_000, largest}, []int{1, 10, 100, 1000, 10_000}, []int{1, 10, 100, 1000}}
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

func (s *series) put(n int, cost float64) { s.points = append(s.points, sized{n, cost}) }

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
		name string
		run  func(context.Context, growth) ([]series, error)
	}{{"tools", l.growTools}, {"bytes", l.growBytes}, {"connections", l.growConnections}, {"adapters", l.growAdapters}} {
		fmt.Fprintf(os.Stderr, "latency: %3.0f s: %s\n", time.Since(began).Seconds(), part.name)
		some, err := part.run(ctx, g)
		if err != nil {
			return nil, fmt.Errorf("growth with %s: %w", part.name, err)
		}
		all = append(all, some...)
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
	if err := w.connect(ctx, 1); err != nil {
		return nil, err
	}
	m, one := w.cell(small, 1), &caller{w.clients[0], request(w.clients[0])}
	if err := one.do(one.call); err != nil {
		return nil, err
	}
	w.callers = map[key][]*caller{{small, 1}: {one}}
	return m, w.turn(ctx, small, 1, slice)
}

func theList(s *session) *call { return s.request(list) }

func (l launcher) growTools(ctx context.Context, g growth) ([]series, error) {
	cpu := series{what: "processor time of a list", unit: "µs", each: "tools"}
	p50 := series{what: "p50 of a list, with client and server", unit: "µs", each: "tools"}
	for _, n := range g.tools {
		w, err := l.between(ctx, n)
		if err != nil {
			return nil, err
		}
		m, err := w.repeated(ctx, g.slice, theList)
		w.close()
		if err != nil {
			return nil, err
		}
		cpu.put(n, m.cpuPerCall())
		p50.put(n, m.quantile(0.5))
	}
	return []series{cpu, p50}, nil
}

func (l launcher) growBytes(ctx context.Context, g growth) ([]series, error) {
	cpu := series{what: "processor time of a result", unit: "µs", each: "KB"}
	p50 := series{what: "p50 of a result, with client and server", unit: "µs", each: "KB"}
	peak := series{what: "peak of memory with one result at a time", unit: "MB", each: "KB"}
	for _, n := range g.bytes {
		w, err := l.between(ctx, 50)
		if err != nil {
			return nil, err
		}
		m, err := w.repeated(ctx, g.slice, func(s *session) *call { return s.tool("sized", fmt.Sprintf(`{"bytes":%d}`, n)) })
		var used process.Usage
		if err == nil {
			used, err = process.UsageOf(w.pid)
		}
		w.close()
		if err != nil {
			return nil, err
		}
		cpu.put(n/1000, m.cpuPerCall())
		p50.put(n/1000, m.quantile(0.5))
		peak.put(n/1000, float64(used.Peak)/1e6)
	}
	return []series{cpu, p50, peak}, nil
}

// callers is how many calls are made at the same time by all connections together.
const callers = 8

func (l launcher) growConnections(ctx context.Context, g growth) ([]series, error) {
	memory := series{what: "memory with open sessions", unit: "MB", each: "connections"}
	cpu := series{what: "processor time of a small call, of each connection in turn", unit: "µs", each: "connections"}
	for _, n := range g.connections {
		w, err := l.between(ctx, 50)
		if err != nil {
			return nil, err
		}
		resident, used, err := w.inTurn(ctx, n, g.slice)
		w.close()
		if err != nil {
			return nil, fmt.Errorf("%d: %w", n, err)
		}
		memory.put(n, float64(resident)/1e6)
		cpu.put(n, used)
	}
	return []series{memory, cpu}, nil
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

func (l launcher) growAdapters(ctx context.Context, g growth) ([]series, error) {
	start := series{what: "processor time from the start to the first list", unit: "ms", each: "adapters"}
	memory := series{what: "memory after the first list", unit: "MB", each: "adapters"}
	cpu := series{what: "processor time of a list", unit: "µs", each: "adapters"}
	for _, n := range g.adapters {
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
		err = w.growAdapters(ctx, n, g.slice, &start, &memory, &cpu)
		w.close()
		if err != nil {
			return nil, err
		}
	}
	return []series{start, memory, cpu}, nil
}

func (w *way) growAdapters(ctx context.Context, n int, slice time.Duration, start, memory, cpu *series) error {
	if err := w.connect(ctx, 1); err != nil {
		return err
	}
	if err := w.clients[0].do(theList(w.clients[0])); err != nil {
		return err
	}
	used, err := process.UsageOf(w.pid)
	if err != nil {
		return err
	}
	m, err := w.repeated(ctx, slice, theList)
	if err != nil {
		return err
	}
	start.put(n, float64(used.CPU.Microseconds())/1e3)
	memory.put(n, float64(used.Resident)/1e6)
	cpu.put(n, m.cpuPerCall())
	return nil
}
