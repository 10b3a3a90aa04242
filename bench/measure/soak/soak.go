// Package soak keeps dragomans under full load with the peers of the simulator, which abandon calls, hang, misbehave and leave, on real
// sockets and pipes, and watches what the processes hold: memory, goroutines, file descriptors and child processes. It fails if they
// hold more after the load than before it, and if a client gets an answer to another call.
package soak

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/measure/process"
	"github.com/dragoman-proxy/dragoman/bench/measure/replicas"
	"github.com/dragoman-proxy/dragoman/translate"
)

// Soak says how long dragoman is under load.
type Soak struct {
	Time    time.Duration
	Every   time.Duration // between two looks
	Scripts int           // that are played at the same time with each dragoman
	Only    string        // only what has this in its name
	Binary  string        // the command to test; "" to build it
	Pipe    []string      // the command that calls ServePipe
}

// stage holds the processes and loads of a run.
type stage struct {
	Soak
	dir     string
	servers []*server
	watched []*subject
	engine  *replicas.Engine // of the store that the replicas share
}

// Run loads dragomans and samples them.
func (s Soak) Run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "soak")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if s.Binary == "" {
		if s.Binary, err = process.Build(ctx, dir, "./cmd/dragoman"); err != nil {
			return err
		}
	}
	g := &stage{Soak: s, dir: dir}
	defer g.close()
	if err := g.start(ctx); err != nil {
		return err
	}
	return g.run(ctx)
}

func (g *stage) close() {
	for _, w := range g.watched {
		w.proxy.Stop()
	}
	for _, s := range g.servers {
		s.close()
	}
	if g.engine != nil {
		g.engine.Stop()
	}
}

// serve starts a server.
func (g *stage) serve(revision *translate.Revision) (*server, error) {
	s, err := startServer(revision.Name)
	if err == nil {
		g.servers = append(g.servers, s)
	}
	return s, err
}

// start starts the servers and the dragomans: before a server with sessions and one without, before a command for each session, two
// replicas between clients without sessions and a server that asks, and one whose own log is a full pipe that no process reads.
func (g *stage) start(ctx context.Context) error {
	legacy, err := g.serve(translate.Handshake()[1])
	if err != nil {
		return err
	}
	modern, err := g.serve(translate.Lookup(translate.Modern()))
	if err != nil {
		return err
	}
	key := filepath.Join(g.dir, "key")
	if err := os.WriteFile(key, []byte(replicas.SessionKey), 0o600); err != nil {
		return err
	}
	var at [2]string
	for i := range at {
		if at[i], err = process.FreeAddress(); err != nil {
			return err
		}
	}
	engine, err := replicas.StartEngine(ctx, g.dir)
	if err != nil {
		return err
	}
	g.engine = engine
	shared := []string{"DRAGOMAN_SESSION_KEY_FILE=" + key, "DRAGOMAN_STORE_URL=" + engine.URL()}
	both := &load{addrs: at[:], server: legacy, modern: true}
	command := append([]string{"--"}, g.Pipe...)
	for _, one := range []struct {
		name, listen string
		env, server  []string
		load         *load
		rest         func(io.Reader) // takes its log
	}{
		{"http", "", nil, []string{legacy.url()}, &load{server: legacy}, readAll},
		{"stdio", "", nil, command, &load{}, readAll},
		{"to-modern", "", nil, []string{modern.url()}, &load{server: modern}, readAll},
		{"replica a", at[0], shared, []string{legacy.url()}, both, readAll},
		{"replica b", at[1], shared, []string{legacy.url()}, both, readAll},
		{"unread log", "", []string{"DRAGOMAN_LOG_LEVEL=debug"}, command, &load{}, func(io.Reader) {}},
	} {
		if !strings.Contains(one.name, g.Only) {
			continue
		}
		cmd := exec.Command(g.Binary, append([]string{"serve", "--listen", cmp.Or(one.listen, "127.0.0.1:0")}, one.server...)...)
		// Short timeouts, so that abandoned sessions and servers that hang are given up often.
		cmd.Env = slices.Concat(os.Environ(), []string{
			"DRAGOMAN_ADMIN_LISTEN=", "DRAGOMAN_SESSION_IDLE_TIMEOUT=3s", "DRAGOMAN_UPSTREAM_SILENCE_TIMEOUT=3s",
			"DRAGOMAN_BRIDGE_IDLE_TIMEOUT=3s", "DRAGOMAN_BRIDGE_PARK_TIMEOUT=2s",
		}, one.env)
		p, err := process.StartWith(ctx, cmd, one.rest)
		if err != nil {
			return err
		}
		if one.load.addrs == nil {
			one.load.addrs = []string{strings.TrimSuffix(strings.TrimPrefix(p.URL(), "http://"), "/mcp")}
		}
		g.watched = append(g.watched, &subject{name: one.name, proxy: p, load: one.load})
	}
	return nil
}

func readAll(out io.Reader) { io.Copy(io.Discard, out) }

// run loads all subjects and samples them.
func (g *stage) run(ctx context.Context) error {
	if err := look(ctx, g.watched); err != nil {
		return err
	}
	for _, w := range g.watched {
		w.before = w.last
	}
	loaded, cancel := context.WithTimeout(ctx, g.Time)
	defer cancel()
	var wg sync.WaitGroup
	failed := make([]error, len(g.servers))
	for i, s := range g.servers {
		wg.Go(func() { failed[i] = s.keepRestarting(loaded) })
	}
	for n, w := range g.watched {
		for i := range g.Scripts {
			wg.Go(func() { w.load.play(loaded, uint64(n*g.Scripts+i)) })
		}
	}
	err := watch(loaded, g.watched, g.Every)
	cancel()
	wg.Wait()
	if err != nil {
		return err
	}
	errs := append(failed, leftovers(ctx, g.watched))
	for i, w := range g.watched {
		if i == 0 || w.load != g.watched[i-1].load {
			fmt.Printf("%s: %s\n", w.name, w.load)
			if err := w.load.err(); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", w.name, err))
			}
		}
		errs = append(errs, w.end())
	}
	return errors.Join(errs...)
}
