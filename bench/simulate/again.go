package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/dragoman-proxy/dragoman/bench/simulate/script"
)

// replays is what came of playing one world several times.
type replays struct {
	failed int
	laws   map[string]int // the first that was broken
	traces map[string]int
}

func (r *replays) add(of result) {
	r.traces[of.Trace]++
	if len(of.Violations) > 0 {
		r.failed++
		r.laws[of.Violations[0].Law]++
	}
}

// most returns the traces, the most frequent first.
func (r *replays) most() []string {
	return slices.SortedFunc(maps.Keys(r.traces), func(a, b string) int { return r.traces[b] - r.traces[a] })
}

// difference is the first one between the two most frequent traces; "" if all are equal.
func (r *replays) difference() string {
	most := r.most()
	if len(most) < 2 {
		return ""
	}
	a, b := strings.Split(most[0], "\n"), strings.Split(most[1], "\n")
	i := 0
	for i < len(a)-1 && i < len(b)-1 && a[i] == b[i] {
		i++
	}
	return fmt.Sprintf("the first difference:\n  %s\n  %s\n", a[i], b[i])
}

// playAgain plays each of jobs n times.
func playAgain(jobs []job, n, lanes int) []replays {
	all := make([]replays, len(jobs))
	for i := range all {
		all[i] = replays{laws: map[string]int{}, traces: map[string]int{}}
		jobs[i].Trace, jobs[i].Compare, jobs[i].Log = true, true, false
	}
	var mu sync.Mutex
	next := 0
	inLanes(min(lanes, n*len(jobs)), func(l *lane) {
		for {
			mu.Lock()
			i := next / n
			next++
			mu.Unlock()
			if i >= len(jobs) {
				return
			}
			r := l.play(jobs[i])
			mu.Lock()
			all[i].add(r)
			mu.Unlock()
		}
	})
	return all
}

// again plays one world several times and says how often it fails, and whether the same happens, by virtual instant.
func again(j job, o options, out io.Writer) int {
	r := playAgain([]job{j}, o.again, o.lanes)[0]
	fmt.Fprintf(out, "fails in %d of %d%s; the same happens, by virtual instant, in %d of %d\n", r.failed, o.again, causes(r.laws), r.traces[r.most()[0]], o.again)
	fmt.Fprint(out, r.difference())
	if r.failed > 0 {
		return 1
	}
	return 0
}

// againMany does so with the worlds of many seeds, and lists those in which not always the same happens.
func againMany(j job, o options, out io.Writer) int {
	var jobs []job
	for i := range o.worlds {
		j.Script = script.Make(o.from + uint64(i)).String()
		jobs = append(jobs, j)
	}
	enough := (o.again*99 + 99) / 100
	fails, failsAgain, same := 0, 0, 0
	for i, r := range playAgain(jobs, o.again, o.lanes) {
		often := r.traces[r.most()[0]]
		if often >= enough {
			same++
		}
		if r.failed > 0 {
			fails++
		}
		if r.failed >= enough {
			failsAgain++
		}
		if often < o.again || r.failed > 0 && r.failed < o.again {
			fmt.Fprintf(out, "seed %d: fails in %d%s, the same happens in %d; %s", o.from+uint64(i), r.failed, causes(r.laws), often, r.difference())
		}
	}
	fmt.Fprintf(out, "from seed %d, %d plays each: in %d of %d worlds the same happens in 99 of 100 plays; %d of %d that fail do so in 99 of 100\n",
		o.from, o.again, same, o.worlds, failsAgain, fails)
	if same < o.worlds || failsAgain < fails {
		return 1
	}
	return 0
}
