package replicas

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/dragoman-proxy/dragoman/translate"
)

// Proof says how replicas are tried.
type Proof struct {
	Binary    string
	Dir       string        // an empty folder
	Time      time.Duration // of the load
	KillEvery time.Duration // a replica dies so often, of each service in turn
	Clients   int           // of each revision, at each service
	Nginx     bool          // the second service is behind nginx, where it is installed
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
	results := new(Results)
	if err := os.MkdirAll(p.Dir, 0o700); err != nil {
		return results, err
	}
	engine, err := StartEngine(ctx, p.Dir)
	if err != nil {
		return results, err
	}
	defer engine.Stop()
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
	r := &proving{Proof: p, engine: engine, services: services, results: results, began: time.Now()}
	return results, errors.Join(r.play(ctx), r.judge())
}

// proving is a Proof that is under way.
type proving struct {
	Proof
	engine   *Engine
	services []*Service
	results  *Results
	began    time.Time
	before   int // keys in the engine
	after    []string
}

func (r *proving) say(format string, args ...any) {
	fmt.Fprintf(r.Out, "%6.1fs  %s\n", time.Since(r.began).Seconds(), fmt.Sprintf(format, args...))
}

// play runs the load and the faults.
func (r *proving) play(ctx context.Context) error {
	keys, err := r.engine.keys(ctx)
	if err != nil {
		return err
	}
	r.before = len(keys)
	load, stop := context.WithTimeout(ctx, r.Time)
	defer stop()
	var wg sync.WaitGroup
	for _, s := range r.services {
		wg.Go(func() { run(load, s, r.Clients, r.results) })
	}
	err = r.faults(load)
	stop()
	wg.Wait()
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-time.After(settle):
	}
	r.after, err = r.engine.keys(ctx)
	return err
}

// faults kills replicas, and restarts the engine in the middle.
func (r *proving) faults(ctx context.Context) error {
	kill := time.NewTicker(r.KillEvery)
	defer kill.Stop()
	engine := time.NewTimer(r.Time/2 + r.KillEvery/2)
	defer engine.Stop()
	for round := 0; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-kill.C:
			s := r.services[round%len(r.services)]
			i := rand.IntN(replicasEach)
			round++
			r.say("replica %d at a server of %s is killed", i, s.plan.Server)
			if err := s.Kill(ctx, i, downTime); err != nil {
				return fmt.Errorf("replica %d does not start again: %w", i, err)
			}
		case <-engine.C:
			keys, _ := r.engine.keys(ctx) // only to be printed
			r.say("the engine is restarted; it had %d keys", len(keys))
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

// judge returns an error for each promise that was not kept.
func (r *proving) judge() error {
	errs := []error{r.results.err()}
	if late, all := r.results.done(lateDelete), r.results.done("delete of"); late*2 > all {
		errs = append(errs, fmt.Errorf("%d of %d deleted sessions were known for longer than %v", late, all, markTime))
	}
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
		for _, i := range s.ended() {
			errs = append(errs, fmt.Errorf("at %s: replica %d ended", s.plan.Server, i))
		}
	}
	for _, s := range r.services {
		errs = append(errs, s.panics())
	}
	for _, what := range []string{"call", "list", "elicitation", "fetch_more", "confirmation", "limited call", "delete"} {
		if r.results.done(what+" of") == 0 {
			errs = append(errs, fmt.Errorf("no %s succeeded", what))
		}
	}
	return errors.Join(append(errs, r.keys())...)
}

// keys checks that each key in the engine has an expiry.
func (r *proving) keys() error {
	r.say("keys in the engine: %d before, %d after", r.before, len(r.after))
	var endless []string
	for _, key := range r.after {
		said, err := r.engine.do(context.Background(), "PTTL", key)
		if err != nil {
			return err
		}
		if ttl, err := said.AsInt64(); ttl == -1 || err != nil {
			endless = append(endless, key)
		}
	}
	if len(endless) > 0 {
		return fmt.Errorf("%d keys in the engine have no expiry, as %q", len(endless), endless[0])
	}
	return nil
}
