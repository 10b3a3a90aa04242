// Package soak keeps dragoman under full load with clients and servers that abandon calls, hang
// and send invalid messages, and watches what it holds: memory, goroutines, file descriptors and
// child processes. It fails if these grow, or if a call that should succeed fails
// or gets the answer of another call. What else may come of such peers is played by bench/simulate.
package soak

import (
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

	"github.com/dragoman-proxy/dragoman/bench/measure/load"
	"github.com/dragoman-proxy/dragoman/bench/measure/process"
	"github.com/dragoman-proxy/dragoman/bench/measure/replicas"
)

// Soak says how long dragoman is under load.
type Soak struct {
	Time    time.Duration
	Every   time.Duration // between two looks
	Clients int           // of each dragoman
	Only    string        // only what has this in its name
	Binary  string        // the command to test; "" to build it
	Pipe    []string      // the command that calls ServePipe
}

const (
	// shortest is long enough for a sweep of idle sessions, one a minute, in each third.
	shortest   = 4 * time.Minute
	minSamples = 30

	parkTime = 2 * time.Second // how long a call may wait for its client to answer
	silence  = 2 * time.Second // how long a server may send nothing for a call
)

// Check returns an error if the time is too short to judge.
func (s Soak) Check() error {
	if s.Time < shortest || s.Every <= 0 || s.Time/s.Every <= minSamples || s.Clients < 1 {
		return fmt.Errorf("--time must be at least %v and more than %d times --every", shortest, minSamples)
	}
	return nil
}

// stage holds the processes and loads of a run.
type stage struct {
	Soak
	dir     string
	stops   []func() // of the servers
	watched []*subject
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
	for _, stop := range g.stops {
		stop()
	}
}

// serve starts a server on HTTP.
func (g *stage) serve(modern bool) (url string, err error) {
	url, stop, err := (&server{modern: modern}).start()
	if err == nil {
		g.stops = append(g.stops, stop)
	}
	return url, err
}

// start starts the servers and the dragomans: with clients and servers with sessions, over HTTP and with a command for each session;
// two replicas between clients without sessions and a server that asks; between clients with sessions and a server without;
// and one whose own log is a full pipe that no process reads.
func (g *stage) start(ctx context.Context) error {
	legacy, err := g.serve(false)
	if err != nil {
		return err
	}
	modern, err := g.serve(true)
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
	shared := []string{"DRAGOMAN_SESSION_KEY_FILE=" + key, "DRAGOMAN_BRIDGE_PEERS=[" + strings.Join(at[:], ",") + "]"}
	both := &visitor{Tally: &load.Tally{}, modern: true, asked: true, urls: []string{"http://" + at[0] + "/mcp", "http://" + at[1] + "/mcp"}}
	const anywhere = "127.0.0.1:0"
	command := append([]string{"--"}, g.Pipe...)
	for _, one := range []struct {
		name, listen string
		env, server  []string
		visitor      *visitor
	}{
		{"http", anywhere, nil, []string{"--upstream", legacy}, &visitor{}},
		{"stdio", anywhere, nil, command, &visitor{}},
		{"replica a", at[0], shared, []string{"--upstream", legacy}, both},
		{"replica b", at[1], shared, []string{"--upstream", legacy}, both},
		{"to-modern", anywhere, nil, []string{"--upstream", modern}, &visitor{asked: true}},
		{"unread log", anywhere, []string{"DRAGOMAN_LOG_LEVEL=debug"}, command, &visitor{mutter: true}},
	} {
		if !strings.Contains(one.name, g.Only) {
			continue
		}
		cmd := exec.Command(g.Binary, append([]string{"serve", "--listen", one.listen}, one.server...)...)
		// Short timeouts, so that abandoned sessions and servers that hang are given up often.
		cmd.Env = slices.Concat(os.Environ(), []string{
			"DRAGOMAN_ADMIN_LISTEN=", "DRAGOMAN_SESSION_IDLE_TIMEOUT=3s", "DRAGOMAN_UPSTREAM_SILENCE_TIMEOUT=" + silence.String(),
			"DRAGOMAN_BRIDGE_IDLE_TIMEOUT=3s", "DRAGOMAN_BRIDGE_PARK_TIMEOUT=" + parkTime.String(),
		}, one.env)
		start := process.Start
		if one.visitor.mutter {
			start = func(ctx context.Context, cmd *exec.Cmd) (*process.Process, error) {
				return process.StartWith(ctx, cmd, func(io.Reader) {})
			}
		}
		p, err := start(ctx, cmd)
		if err != nil {
			return err
		}
		if one.visitor.Tally == nil {
			one.visitor.Tally, one.visitor.urls = &load.Tally{}, []string{p.URL()}
		}
		g.watched = append(g.watched, &subject{name: one.name, proxy: p, visitor: one.visitor})
	}
	return nil
}

// run loads all subjects and samples them.
func (g *stage) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, g.Time)
	defer cancel()
	var wg sync.WaitGroup
	for n, w := range g.watched {
		for i := range g.Clients {
			v := *w.visitor
			wg.Go(func() { v.visit(ctx, uint64(n*g.Clients+i)) })
		}
	}
	err := sample(ctx, g.watched, g.Every)
	cancel()
	wg.Wait()
	if err != nil {
		return err
	}
	var errs []error
	for i, w := range g.watched {
		if i == 0 || w.visitor != g.watched[i-1].visitor {
			fmt.Printf("%s:\n%s\n", w.name, w.visitor.Tally)
			if err := w.visitor.Err(); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", w.name, err))
			}
		}
		errs = append(errs, w.judge(), w.end())
	}
	return errors.Join(errs...)
}
