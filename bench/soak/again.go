package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/compare/process"
	"github.com/dragoman-proxy/dragoman/bench/proxies"
)

// clientsAgain is the number of clients of the process that is restarted.
const clientsAgain = 4

// again is a dragoman that is restarted again and again, at the same address and
// with the same key, while calls that wait for an answer are parked there.
type again struct {
	counts counts
	start  func(context.Context) (*process.Process, error)
	url    string

	mu   sync.Mutex
	proc *process.Process
}

func (s *stage) startAgain(upstream string) error {
	key, err := s.key("again")
	if err != nil {
		return err
	}
	addr, err := proxies.FreeAddress()
	if err != nil {
		return err
	}
	a := &again{url: "http://" + addr + "/mcp", start: func(ctx context.Context) (*process.Process, error) {
		return s.start(ctx, []string{key}, "--listen", addr, "--upstream", upstream)
	}}
	a.proc, err = a.start(s.ctx)
	s.beside = append(s.beside, beside{"started again", &a.counts, a.run, a.stop})
	return err
}

// key writes a session key to a file and returns the environment variable that names it.
func (s *stage) key(name string) (env string, err error) {
	file := filepath.Join(s.dir, name+".key")
	return "DRAGOMAN_SESSION_KEY_FILE=" + file, os.WriteFile(file, []byte("c29hay1zb2FrLXNvYWstc29hay1zb2FrLXNvYWstMzI=\n"), 0o600)
}

func (a *again) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.proc != nil {
		a.proc.Stop()
	}
}

// run makes clients call while the process is stopped and started. It counts a failure if the process does
// not start again.
func (a *again) run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for i := range clientsAgain {
		wg.Go(func() {
			g, done := a.counts.modernClient(func() []string { return []string{a.url} }, uint64(1000+i), true)
			defer done()
			g.stayOn(ctx)
		})
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(3 * time.Second):
		}
		a.mu.Lock()
		a.proc.Stop()
		p, err := a.start(context.WithoutCancel(ctx))
		a.proc = p
		a.mu.Unlock()
		if err != nil {
			a.counts.failed.Add(1)
			a.counts.show("start again", fmt.Sprint(err))
			return
		}
		a.counts.note("processes")
	}
}
