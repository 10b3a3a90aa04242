package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/compare/process"
	"github.com/dragoman-proxy/dragoman/translate"
)

// Proof says how a fleet is tried.
type Proof struct {
	Binary    string
	Dir       string        // an empty folder
	Time      time.Duration // of the load
	KillEvery time.Duration // a replica dies so often, of each service in turn
	Clients   int           // of each revision, at each service
	NoStore   bool          // the replicas share nothing but a key
	Nginx     bool          // the second service is behind nginx
	Out       io.Writer     // for the course of events; io.Discard for none
}

const (
	replicasEach = 3
	downTime     = 500 * time.Millisecond
	settle       = 3 * time.Second // after the load, until what is short-lived is gone
)

// Run runs two services that share an engine, one in front of a server with a handshake and one in front of a server
// without. Published clients of every revision use both, while replicas are killed and the engine is restarted, once. The error says
// what failed that should not have.
func (p Proof) Run(ctx context.Context) (*Results, error) {
	results := NewResults()
	var engine *Engine
	if !p.NoStore {
		var err error
		if engine, err = StartEngine(ctx, p.Dir); err != nil {
			return results, err
		}
		defer engine.Stop()
	}
	handshake := translate.Handshake()
	var services []*Service
	for i, revision := range []string{handshake[0].Name, translate.Modern()} {
		dir := filepath.Join(p.Dir, revision)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return results, err
		}
		s, err := Start(ctx, Plan{Binary: p.Binary, Dir: dir, Replicas: replicasEach, Server: revision, Engine: engine, Nginx: p.Nginx && i == 1})
		if err != nil {
			return results, fmt.Errorf("a service at a server of %s: %w", revision, err)
		}
		defer s.Close()
		services = append(services, s)
	}
	r := &run{Proof: p, engine: engine, services: services, results: results, began: time.Now()}
	return results, errors.Join(r.play(ctx), r.judge())
}

// run is a Proof that is under way.
type run struct {
	Proof
	engine   *Engine
	services []*Service
	results  *Results
	began    time.Time
	before   int // keys in the engine
	after    []string
	samples  map[string][]sample // of each process that is never restarted while it is sampled, and of all replicas together
}

// sample is a look at a process.
type sample struct {
	at       time.Duration
	resident float64 // MB
}

func (r *run) say(format string, args ...any) {
	fmt.Fprintf(r.Out, "%6.1fs  %s\n", time.Since(r.began).Seconds(), fmt.Sprintf(format, args...))
}

// play runs the load and the faults.
func (r *run) play(ctx context.Context) error {
	r.samples = map[string][]sample{}
	if r.engine != nil {
		keys, err := r.engine.Keys(ctx)
		if err != nil {
			return err
		}
		r.before = len(keys)
	}
	load, stop := context.WithTimeout(ctx, r.Time)
	defer stop()
	var wg sync.WaitGroup
	for _, s := range r.services {
		wg.Go(func() { Run(load, s, r.Clients, r.results) })
	}
	err := r.faults(load)
	stop()
	wg.Wait()
	if err != nil || r.engine == nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-time.After(settle):
	}
	r.after, err = r.engine.Keys(ctx)
	return err
}

// faults kills replicas, restarts the engine in the middle, and takes samples.
func (r *run) faults(ctx context.Context) error {
	kill := time.NewTicker(r.KillEvery)
	defer kill.Stop()
	look := time.NewTicker(time.Second)
	defer look.Stop()
	engine := time.NewTimer(r.Time/2 + r.KillEvery/2)
	defer engine.Stop()
	for round := 0; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
			r.look()
		case <-kill.C:
			s := r.services[round%len(r.services)]
			i := rand.IntN(replicasEach)
			round++
			r.say("replica %d at a server of %s is killed", i, s.plan.Server)
			if err := s.Kill(ctx, i, downTime); err != nil {
				return fmt.Errorf("replica %d does not start again: %w", i, err)
			}
		case <-engine.C:
			if r.engine == nil {
				continue
			}
			keys, _ := r.engine.Keys(ctx) // only to be printed
			used, _ := r.engine.Used(ctx)
			r.say("the engine is restarted; it had %d keys and %d bytes", len(keys), used)
			r.engine.Stop()
			for _, s := range r.services {
				s.api.forgive(downTime + recovery)
			}
			time.Sleep(downTime)
			if err := r.engine.Start(context.WithoutCancel(ctx)); err != nil {
				return fmt.Errorf("the engine: %w", err)
			}
		}
	}
}

func (r *run) look() {
	at := time.Since(r.began)
	add := func(name string, u process.Usage) {
		r.samples[name] = append(r.samples[name], sample{at, float64(u.Resident) / 1e6})
	}
	for _, s := range r.services {
		for i, u := range s.Usages() {
			add(fmt.Sprintf("replica %d at %s", i, s.plan.Server), u)
		}
	}
	if r.engine == nil {
		return
	}
	if u, err := r.engine.Usage(); err == nil {
		add("engine", u)
	}
}

// judge returns an error for each promise that was not kept.
func (r *run) judge() error {
	errs := []error{r.results.Err()}
	for _, s := range r.services {
		s.api.mu.Lock()
		twice, over, most, limited := s.api.twice, s.api.over, s.api.most, s.api.limited
		s.api.mu.Unlock()
		r.say("at %s: %d calls within the limit of %d a minute, at most %.0f of %d at once", s.plan.Server, limited, limitPerMinute, most, limitBurst)
		if len(twice) > 0 {
			errs = append(errs, fmt.Errorf("at %s: %d tokens worked twice, as for %s", s.plan.Server, len(twice), twice[0]))
		}
		if over > 0 {
			errs = append(errs, fmt.Errorf("at %s: %d calls exceeded the limit", s.plan.Server, over))
		}
		for _, i := range s.Ended() {
			errs = append(errs, fmt.Errorf("at %s: replica %d ended", s.plan.Server, i))
		}
	}
	for _, s := range r.services {
		errs = append(errs, s.panics())
	}
	for _, what := range []string{"call", "list", "elicitation", "task", "fetch_more", "confirmation", "limited call", "update", "log", "delete"} {
		if r.results.Done(what+" of") == 0 {
			errs = append(errs, fmt.Errorf("no %s succeeded", what))
		}
	}
	return errors.Join(append(errs, r.flat(), r.keys())...)
}

// shortestFlat is how long a run must be for its memory to be judged.
const shortestFlat = 4 * time.Minute

// flat compares the memory of the last third of a run with that of the third before. A replica that was restarted is small:
// so the greatest values count.
func (r *run) flat() error {
	if r.Time < shortestFlat {
		return nil
	}
	var errs []error
	for name, all := range r.samples {
		var middle, last float64
		for _, one := range all {
			switch third := r.Time / 3; {
			case one.at > 2*third:
				last = max(last, one.resident)
			case one.at > third:
				middle = max(middle, one.resident)
			}
		}
		r.say("%s: at most %.1f MB in the second third, %.1f MB in the last", name, middle, last)
		if last > middle*1.2+8 {
			errs = append(errs, fmt.Errorf("%s grew from %.1f to %.1f MB", name, middle, last))
		}
	}
	return errors.Join(errs...)
}

// keys reports the keys in the engine by their kind. Each must have an expiry.
func (r *run) keys() error {
	if r.engine == nil {
		return nil
	}
	var endless []string
	kinds, bytes := map[string]int{}, map[string]int64{}
	for _, key := range r.after {
		ttl, err := r.engine.say(context.Background(), "PTTL "+key)
		if err != nil {
			return err
		}
		if ttl == int64(-1) {
			endless = append(endless, key)
		}
		if ttl == int64(-2) { // it has expired meanwhile
			continue
		}
		used, _ := r.engine.say(context.Background(), "MEMORY USAGE "+key)
		n, _ := used.(int64)
		kinds[kindOf(key)]++
		bytes[kindOf(key)] += n
	}
	var list []string
	for kind, n := range kinds {
		list = append(list, fmt.Sprintf("%d %s of %d bytes", n, kind, bytes[kind]/int64(n)))
	}
	slices.Sort(list)
	r.say("keys in the engine: %d before, %d after: %s", r.before, len(r.after), strings.Join(list, ", "))
	if len(endless) > 0 {
		return fmt.Errorf("%d keys in the engine have no expiry, as %q", len(endless), endless[0])
	}
	return nil
}

// kindOf returns the kind of what is kept under a key: what is between the prefix and the name.
func kindOf(key string) string {
	_, rest, _ := strings.Cut(key, ":")
	kind, _, _ := strings.Cut(strings.TrimLeft(rest, ":{"), ":")
	return kind
}
