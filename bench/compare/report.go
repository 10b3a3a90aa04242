package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// report prints what was measured.
type report struct {
	out      io.Writer
	ways     []*way
	work     []work
	measured map[key]*cell
	notices  map[string]*notice // nil if this was not measured
	still    *idle              // nil if this was not measured
	eras     *eras
	crowd    *crowd // nil if this was not measured
	tracing  *tracing
	watching *watching // nil if this was not measured
	storing  *storing  // nil if this was not measured
}

func (r *report) print() {
	if r.watching != nil { // only that was measured
		r.printWatching()
		r.printGoals(r.watching.goals())
		return
	}
	if r.storing != nil { // only that was measured
		r.printStoring()
		r.printGoals(r.storing.goals())
		return
	}
	if r.tracing == nil && r.still != nil { // only that was measured
		r.printGoals(r.still.goals())
		return
	}
	if r.eras == nil { // only what traces cost was measured
		r.printTracing()
		r.printGoals(r.tracing.goals())
		return
	}
	if r.measured == nil { // only calls between eras were measured
		r.printEras()
		r.printGoals(r.eras.goals())
		return
	}
	for i := range r.work {
		for _, load := range loads() {
			r.printCalls(r.ways, r.measured, i, load)
		}
	}
	r.printEras()
	r.printTracing()
	r.printIdle()
	r.printLeaving()
	r.printRatios()
}

// table prints lines of cells that are separated by tabs.
func (r *report) table(head string, lines []string) {
	t := tabwriter.NewWriter(r.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, head+"\t")
	for _, line := range lines {
		fmt.Fprintln(t, line+"\t")
	}
	t.Flush()
	fmt.Fprintln(r.out)
}

func (r *report) printCalls(ways []*way, measured map[key]*cell, i, load int) {
	var lines []string
	for _, w := range ways {
		c := measured[key{w.name, i, load}]
		line := fmt.Sprintf("%s\t%.0f\t%s\t%s", w.name, c.perSecond(), millis(c.latency.Quantile(0.5)), millis(c.latency.Quantile(0.99)))
		if w.proxy != nil {
			line += fmt.Sprintf("\t%.1f\t%s", c.cpuPerCall(), megabytes(c.resident))
		} else {
			line += "\t\t"
		}
		if c.missed > 0 {
			line = fmt.Sprintf("%d of %d calls missed: ", c.missed, c.missed+c.calls) + line
		}
		lines = append(lines, line)
	}
	r.table(fmt.Sprintf("%s, %d at a time\tcalls/s\tp50 ms\tp99 ms\tCPU µs/call\tRSS MB", r.work[i].name, load), lines)
}

func (r *report) printIdle() {
	var lines []string
	for _, w := range r.ways {
		if w.proxy != nil {
			lines = append(lines, w.name+"\t"+megabytes(w.idle.Resident))
		}
	}
	r.table("before the first call\tRSS MB", lines)
}

func (r *report) printLeaving() {
	if r.notices == nil {
		return
	}
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(r.notices)) {
		n := r.notices[name]
		line := name + "\t-\t-"
		if n.latency.Total() > 0 {
			line = fmt.Sprintf("%s\t%s\t%s", name, millis(n.latency.Quantile(0.5)), millis(n.latency.Max()))
		}
		lines = append(lines, fmt.Sprintf("%s\t%d of %d", line, n.missed, uint64(n.missed)+n.latency.Total()))
	}
	r.table("a client's leaving\tp50 ms\tmax ms\tunknown after "+unseen.String(), lines)
}

// goal is a measured number, with the value that dragoman should reach and the limit that it must not exceed.
type goal struct {
	what         string
	got          float64
	reach, limit float64
}

func (g goal) String() string {
	verdict := "reached"
	switch {
	case g.got > g.limit:
		verdict = "MISSED"
	case g.got > g.reach:
		verdict = "within the limit"
	}
	return fmt.Sprintf("%s\t%.2f\t%.2f\t%.2f\t%s", g.what, g.got, g.reach, g.limit, verdict)
}

// printRatios compares dragoman with the other ways: the processor time under the highest load,
// and the latency with one connection.
func (r *report) printRatios() {
	busy := loads()[len(loads())-1]
	cpu := func(work int, against string) float64 {
		return r.measured[key{dragoman, work, busy}].cpuPerCall() / r.measured[key{against, work, busy}].cpuPerCall()
	}
	added := func(quantile float64) float64 {
		with, without := r.measured[key{dragoman, small, 1}], r.measured[key{direct, small, 1}]
		return float64(with.latency.Quantile(quantile)-without.latency.Quantile(quantile)) / float64(time.Millisecond)
	}
	goals := []goal{
		{"CPU per small call, × fasthttp", cpu(small, bare), 1.05, 1.2},
		{"CPU per small call, × httputil", cpu(small, standard), 0.35, 0.5},
		{"CPU per list of 50 tools, × fasthttp", cpu(toolList, bare), 0.95, 1.1},
		{"CPU per result of 1 MB, × fasthttp", cpu(large, bare), 1.1, 1.2},
		{"CPU per event stream with 3 notifications, × fasthttp", cpu(streamed, bare), 2, 2.6},
		{"added p50, one at a time, ms", added(0.5), 0.06, 0.1},
		{"added p99, one at a time, ms", added(0.99), 0.3, 1},
	}
	for _, name := range []string{dragoman, modernToLegacy, modernToModern} {
		n := r.notices[name]
		if n == nil {
			continue
		}
		late := unseen // a disconnect that was not noticed took longer than that
		if n.missed == 0 {
			late = time.Duration(n.latency.Max())
		}
		goals = append(goals, goal{name + ", leaving known upstream, slowest, ms", float64(late) / float64(time.Millisecond), 20, 100})
	}
	for _, w := range r.ways {
		if w.name == dragoman {
			goals = append(goals, goal{"idle memory, MB", float64(w.idle.Resident) / 1e6, 12, 14})
		}
	}
	if r.still != nil {
		goals = append(goals, r.still.goals()...)
	}
	goals = append(goals, r.eras.goals()...)
	if r.crowd != nil {
		goals = append(goals, r.crowd.goals()...)
	}
	r.printGoals(append(goals, r.tracing.goals()...))
}

func (r *report) printEras() {
	for _, load := range loads() {
		r.printCalls(r.eras.ways, r.eras.measured, small, load)
	}
}

func (r *report) printTracing() {
	for _, load := range loads() {
		r.printCalls(r.tracing.ways, r.tracing.measured, small, load)
	}
}

func (r *report) printWatching() {
	for _, load := range loads() {
		r.printCalls(r.watching.ways, r.watching.small, small, load)
	}
	for i := range large + 1 {
		r.printCalls(r.watching.ways[:mixedWays], r.watching.mixed, i, loads()[len(loads())-1])
	}
}

func (r *report) printGoals(goals []goal) {
	lines := make([]string, len(goals))
	for i, g := range goals {
		lines[i] = g.String()
	}
	r.table("dragoman\tgot\treach\tlimit\t"+strings.Repeat(" ", 8), lines)
}

func millis(nanoseconds int64) string { return fmt.Sprintf("%.3f", float64(nanoseconds)/1e6) }

func megabytes(n int64) string { return fmt.Sprintf("%.1f", float64(n)/1e6) }
