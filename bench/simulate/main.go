// Command simulate plays worlds: the real proxy between peers written by hand, on a network in memory and on virtual time. A seed makes a
// world and its schedule; what a judge finds wrong is a fault, and the seed is its report:
//
//	go run ./bench/simulate -time 60s    plays fresh seeds for a minute
//	go run ./bench/simulate -seed 11     plays one, prints what happened, and shrinks it if it fails
//	go run ./bench/simulate -file F      plays a script
//
// The worlds are played in processes of their own, so that one that hangs or dies is a fault like any other.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/simulate/script"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == childFlag {
		child()
	}
	os.Exit(run(os.Args[1:], os.Stdout))
}

// options are the flags.
type options struct {
	seed, from uint64
	file       string
	worlds     int
	time       time.Duration
	lanes      int
	failFast   bool
	mayFail    allowance
	shrink     bool
	raw, log   bool
	again      int
	only       string
	inside     bool
}

func run(args []string, out io.Writer) int {
	o := options{mayFail: func(int) int { return 0 }}
	flags := flag.NewFlagSet("simulate", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.Uint64Var(&o.seed, "seed", 0, "play the world of this seed and print what happened")
	flags.StringVar(&o.file, "file", "", "play the script in this file and print what happened")
	flags.IntVar(&o.worlds, "worlds", 0, "play this many worlds")
	flags.DurationVar(&o.time, "time", 0, "play worlds for this long (without -worlds: 60s)")
	flags.Uint64Var(&o.from, "from", 0, "the first seed of -worlds and -time; fresh ones without it")
	flags.IntVar(&o.lanes, "lanes", runtime.NumCPU(), "how many processes play")
	flags.Func("may-fail", "how many worlds may fail, or which `share` (1%), as long as faults are known that are not mended yet (default 0)", func(text string) (err error) {
		o.mayFail, err = parseAllowance(text)
		return err
	})
	flags.BoolVar(&o.failFast, "fail-fast", false, "stop at the first violation")
	flags.BoolVar(&o.shrink, "shrink", false, "look for a shorter script that fails in the same way (with -seed and -file unless false)")
	flags.BoolVar(&o.raw, "raw", false, "print the bytes of the messages, too")
	flags.BoolVar(&o.log, "log", false, "print what dragoman logs, too")
	flags.IntVar(&o.again, "again", 0, "play a world this many times and compare: with -seed or -file that one, with -worlds each")
	flags.StringVar(&o.only, "only", "", "count only violations that begin so, such as \"ping:\"")
	flags.BoolVar(&o.inside, "inside", false, "do not wait between steps: plays what happens inside one")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if !given["from"] {
		o.from = rand.Uint64N(1e12)
	}

	one := job{Inside: o.inside, Only: o.only, Trace: true, Raw: o.raw, Log: o.log}
	switch {
	case given["file"]:
		text, err := os.ReadFile(o.file)
		if err != nil {
			fmt.Fprintln(out, err)
			return 2
		}
		s, err := script.Parse(string(text))
		if err != nil {
			fmt.Fprintf(out, "%s: %v\n", o.file, err)
			return 2
		}
		one.Script = s.String()
	case given["seed"]:
		one.Script = script.Make(o.seed).String()
	case o.again > 0 && o.worlds > 0:
		return againMany(one, o, out)
	default:
		return many(o, out)
	}
	if o.again > 0 {
		return again(one, o, out)
	}
	return replay(one, o.shrink || !given["shrink"], out)
}

// allowance is how many of some worlds may fail.
type allowance func(worlds int) int

// parseAllowance reads a number of worlds, or a share of them, such as 1%, which is rounded up.
func parseAllowance(text string) (allowance, error) {
	if percent, is := strings.CutSuffix(text, "%"); is {
		share, err := strconv.ParseFloat(percent, 64)
		if err != nil || !(share >= 0 && share <= 100) {
			return nil, errors.New("a share is from 0% to 100%")
		}
		return func(worlds int) int { return int(math.Ceil(share * float64(worlds) / 100)) }, nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return nil, errors.New("neither a number nor a share")
	}
	return func(int) int { return int(n) }, nil
}

// replay plays one world, prints what happened, and shrinks it if it fails.
func replay(j job, small bool, out io.Writer) int {
	lane := &lane{}
	defer lane.close()
	r := lane.play(j)
	fmt.Fprint(out, j.Script, "\n", r.Trace)
	fmt.Fprintf(out, "\n%d calls, %d excused%s, %.1f ms\n", r.Calls, r.Excused, causes(r.ByCause), r.Ran.Seconds()*1000)
	if len(r.Violations) == 0 {
		return 0
	}
	for _, v := range r.Violations {
		fmt.Fprintln(out, v)
	}
	if small {
		printSmallest(lane, j, kindOf(r.Violations[0]), out)
	}
	return 1
}

func printSmallest(l *lane, j job, kind string, out io.Writer) {
	s, err := script.Parse(j.Script)
	if err != nil {
		fmt.Fprintln(out, err)
		return
	}
	fmt.Fprintf(out, "\n# %s\n# The smallest script that fails so, for testdata/worlds:\n%s", kind, shrink(s, l.fails(j, kind)))
}

// many plays worlds of many seeds.
func many(o options, out io.Writer) int {
	begun := time.Now()
	if o.worlds == 0 && o.time == 0 {
		o.time = time.Minute
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	if o.time > 0 {
		time.AfterFunc(o.time, stop)
	}
	fmt.Fprintf(out, "from seed %d\n", o.from)
	var mu sync.Mutex
	sum := summary{kinds: map[string][]uint64{}, causes: map[string]int{}}
	next, first := o.from, ""
	sum.cpu = inLanes(o.lanes, func(l *lane) {
		for {
			mu.Lock()
			seed := next
			next++
			mu.Unlock()
			if ctx.Err() != nil || o.worlds > 0 && seed-o.from >= uint64(o.worlds) {
				return
			}
			r := l.play(job{Seed: seed, Inside: o.inside, Only: o.only})
			mu.Lock()
			sum.add(seed, r, out)
			if len(r.Violations) > 0 && o.failFast && first == "" {
				first = fmt.Sprintf("found: %s seed=%d after=%.1fs", r.Violations[0].Law, seed, time.Since(begun).Seconds())
				stop()
			}
			mu.Unlock()
		}
	})
	stop()
	failed := sum.write(out, time.Since(begun), o.mayFail)
	if o.shrink && !o.failFast {
		for kind, seeds := range sum.kinds {
			l := &lane{}
			printSmallest(l, job{Script: script.Make(seeds[0]).String(), Inside: o.inside}, kind, out)
			l.close()
		}
	}
	if first != "" {
		fmt.Fprintln(out, first)
	}
	if failed {
		return 1
	}
	return 0
}

// inLanes runs do in n lanes at a time, and returns the time of CPU that their processes took.
func inLanes(n int, do func(*lane)) (cpu time.Duration) {
	var all sync.WaitGroup
	lanes := make([]lane, max(n, 1))
	for i := range lanes {
		all.Go(func() { do(&lanes[i]); lanes[i].close() })
	}
	all.Wait()
	for i := range lanes {
		cpu += lanes[i].cpu
	}
	return cpu
}

// summary adds up what worlds showed.
type summary struct {
	worlds, failed, calls, excused int
	cpu                            time.Duration
	kinds                          map[string][]uint64 // of violations, and their seeds
	causes                         map[string]int
}

func (s *summary) add(seed uint64, r result, out io.Writer) {
	s.worlds++
	s.calls += r.Calls
	s.excused += r.Excused
	for cause, n := range r.ByCause {
		s.causes[cause] += n
	}
	if len(r.Violations) > 0 {
		s.failed++
	}
	for _, v := range r.Violations {
		kind := kindOf(v)
		seeds := s.kinds[kind]
		if seeds == nil {
			fmt.Fprintf(out, "%.300v\n", v)
		}
		if len(seeds) == 0 || seeds[len(seeds)-1] != seed {
			s.kinds[kind] = append(seeds, seed)
			fmt.Fprintf(out, "    go run ./bench/simulate -seed %d   # %s\n", seed, kind)
		}
	}
}

// write prints the sum and says whether more worlds failed than may.
func (s *summary) write(out io.Writer, took time.Duration, mayFail allowance) bool {
	n := max(s.worlds, 1)
	fmt.Fprintf(out, "%d worlds, %.0f a minute, %.1f ms of CPU each; %d failed\n", s.worlds, float64(s.worlds)/took.Minutes(),
		s.cpu.Seconds()*1000/float64(n), s.failed)
	for _, kind := range slices.SortedFunc(maps.Keys(s.kinds), func(a, b string) int { return cmp.Or(len(s.kinds[b])-len(s.kinds[a]), strings.Compare(a, b)) }) {
		seeds := s.kinds[kind]
		slices.Sort(seeds)
		fmt.Fprintf(out, "%6d  %s  seeds %v\n", len(seeds), kind, seeds[:min(len(seeds), 5)])
	}
	fmt.Fprintf(out, "%d calls, %d excused%s\n", s.calls, s.excused, causes(s.causes))
	tooMany := s.calls > 100 && s.excused*5 > s.calls
	if tooMany {
		fmt.Fprintln(out, "more than a fifth of all calls is excused: the judge sees too little")
	}
	return tooMany || s.failed > mayFail(s.worlds)
}

// causes lists counts, the largest first.
func causes(of map[string]int) string {
	if len(of) == 0 {
		return ""
	}
	var all []string
	for _, c := range slices.SortedFunc(maps.Keys(of), func(a, b string) int { return cmp.Or(of[b]-of[a], strings.Compare(a, b)) }) {
		all = append(all, fmt.Sprintf("%s %d", c, of[c]))
	}
	return " (" + strings.Join(all, ", ") + ")"
}
