//go:build unix

package replicas

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
	"github.com/dragoman-proxy/dragoman/translate"
)

// noticeTime is how long nine of ten ordinary calls may take while the engine fails: no call waits for it, but the machine may be busy, and
// then gives none of the processes a processor for some seconds.
const noticeTime = 3 * time.Second

// TestEngineFails plays each fault of an engine under three replicas. Ordinary calls of published clients must not
// notice; what needs the store must say so, and must not take effect twice; afterwards all must work again without a restart.
func TestEngineFails(t *testing.T) {
	testset.Need(t, testset.Measurements, engineCommand)
	bin, err := binary(t)
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range []struct {
		name  string
		begin func(*Engine) (end func() error, err error)
	}{
		{"stopped", func(e *Engine) (func() error, error) {
			e.Stop()
			return func() error { return e.Start(context.Background()) }, nil
		}},
		{"paused", func(e *Engine) (func() error, error) { // its connections stay, and nothing answers
			return func() error { return syscall.Kill(e.process.PID(), syscall.SIGCONT) }, syscall.Kill(e.process.PID(), syscall.SIGSTOP)
		}},
		{"full", func(e *Engine) (func() error, error) {
			return func() error { return e.fill("0") }, e.fill("1mb")
		}},
		{"slow", (*Engine).slow},
	} {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			engine, err := StartEngine(t.Context(), t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer engine.Stop()
			s, err := Start(t.Context(), Plan{Binary: bin, Dir: t.TempDir(), Replicas: replicasEach, Server: translate.Handshake()[0].Name, Engine: engine})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			defer func() { t.Log(s.panics()) }()
			clients := connected(t, s)
			everythingWorks(t, clients, "before")
			for i := range 4 * replicasEach { // so that each replica gets the answer to a question of another one, and asks the store for the others
				for _, c := range clients {
					for _, flow := range [][]func(context.Context) error{{c.elicit}, {c.elicit, c.echo}}[i%2] {
						if err := flow(t.Context()); err != nil {
							t.Fatal(err)
						}
					}
				}
			}

			end, err := fault.begin(engine)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range clients {
				c.goesOn(t)
				c.does(t)
			}
			for i := range replicasEach {
				ready(t, s.Replica(i))
			}
			if err := end(); err != nil {
				t.Fatal(err)
			}
			everythingWorks(t, clients, "afterwards")
		})
	}
}

// slow makes the engine answer up to three seconds late: it carries out commands only in the moment between two pauses.
func (e *Engine) slow() (end func() error, err error) {
	var over atomic.Bool
	go func() {
		for !over.Load() {
			if _, err := e.do(context.Background(), "CLIENT", "PAUSE", "3000", "ALL"); err != nil {
				return
			}
		}
	}()
	return func() error { over.Store(true); return nil }, nil
}

// fill sets how much memory the engine may use.
func (e *Engine) fill(most string) error {
	_, err := e.do(context.Background(), "CONFIG", "SET", "maxmemory", most)
	return err
}

func connected(t *testing.T, s *Service) (list []*client) {
	for _, revision := range []string{"2025-06-18", translate.Modern()} {
		c := &client{s: s, revision: revision, name: revision, results: new(Results), rand: rand.New(rand.NewPCG(1, uint64(len(list))))}
		if err := c.connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.close() })
		list = append(list, c)
	}
	return list
}

// flows returns what clients do that needs the store.
func (c *client) flows() map[string]func(context.Context) error {
	return map[string]func(context.Context) error{"fetch_more": c.fetchMore, "confirmation": c.confirm, "limited call": c.limited}
}

// ordinary returns what clients do that needs no store.
func (c *client) ordinary() map[string]func(context.Context) error {
	return map[string]func(context.Context) error{"call": c.echo, "list": c.list, "elicitation": c.elicit}
}

// all does everything once.
func all(ctx context.Context, clients []*client) error {
	for _, c := range clients {
		for _, flows := range []map[string]func(context.Context) error{c.ordinary(), c.flows()} {
			for what, flow := range flows {
				if err := flow(ctx); err != nil {
					return fmt.Errorf("%s of %s: %w", what, c.revision, err)
				}
			}
		}
	}
	return nil
}

// everythingWorks waits until nothing fails at any replica. That takes a while where the machine is busy, and after the engine was away:
// replicas that have not found each other look again after some seconds.
func everythingWorks(t *testing.T, clients []*client, when string) {
	t.Helper()
	began, good := time.Now(), time.Now()
	for rounds := 0; rounds < replicasEach; rounds++ {
		err := all(t.Context(), clients)
		if err == nil {
			continue
		}
		if time.Since(began) > peertest.Patience {
			t.Fatalf("%s: %v", when, err)
		}
		time.Sleep(100 * time.Millisecond)
		rounds, good = -1, time.Now()
	}
	t.Logf("%s, everything worked after %v", when, good.Sub(began).Round(10*time.Millisecond))
}

// goesOn checks that ordinary calls do not notice.
func (c *client) goesOn(t *testing.T) {
	t.Helper()
	var all []time.Duration
	for range 30 {
		for what, flow := range c.ordinary() {
			began := time.Now()
			if err := flow(t.Context()); err != nil {
				t.Errorf("%s of %s: %v", what, c.revision, err)
			}
			all = append(all, time.Since(began))
		}
	}
	slices.Sort(all)
	often := all[len(all)*9/10]
	if often > noticeTime {
		t.Errorf("one of ten ordinary calls of %s took %v or longer", c.revision, often)
	}
	t.Logf("nine of ten ordinary calls of %s took at most %v, all at most %v", c.revision, often.Round(time.Millisecond), all[len(all)-1].Round(time.Millisecond))
}

// does says what becomes of uses of the store, and checks that none takes effect that must not.
func (c *client) does(t *testing.T) {
	t.Helper()
	for range 3 {
		for what, flow := range c.flows() {
			err := flow(t.Context())
			t.Logf("%s of %s: %.300v", what, c.revision, err)
			if err != nil && what == "limited call" {
				t.Errorf("%s of %s: %v", what, c.revision, err)
			}
		}
	}
	c.s.api.mu.Lock()
	defer c.s.api.mu.Unlock()
	if len(c.s.api.twice) > 0 {
		t.Errorf("tokens worked twice: %v", c.s.api.twice)
	}
}

// ready checks that a replica is ready, and that its metrics say how the store is.
func ready(t *testing.T, url string) {
	t.Helper()
	for path, want := range map[string]string{"/readyz": "", "/metrics": "dragoman_store_up"} {
		resp, err := http.Get(strings.TrimSuffix(url, "/mcp") + path)
		if err != nil {
			t.Error(err)
			return
		}
		text, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(text), want) {
			t.Errorf("%s: %s, %v, no %q", path, resp.Status, err, want)
		}
	}
}
