// Soak keeps dragoman under full load with clients and servers that abandon calls, hang
// and send invalid messages, and watches what it holds: memory, goroutines, file descriptors and
// child processes. It fails if these grow, or if a call that should succeed fails
// or gets the answer of another call.
//
//	go run ./bench/soak -time 10m
//
// One dragoman is in front of an HTTP server, another starts a command for every
// session. Two are replicas between clients without sessions and a server with sessions
// that sends elicitation/create; the clients abandon calls, and retry them twice, late, as another
// user, or at the other replica. One is between clients with sessions and a server without. One
// receives more than it may hold in memory (large.go), and one writes a log that is not read. Six are two services of three
// replicas each, which share a store and are killed in turn (fleet.go).
// Run it from the root of the module; it needs Linux.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/compare/process"
	"github.com/dragoman-proxy/dragoman/bench/proxies"
)

const (
	// shortest is long enough for a sweep of idle sessions, one a minute, in each third.
	shortest   = 4 * time.Minute
	minSamples = 30
)

func main() {
	length := flag.Duration("time", 10*time.Minute, "how long")
	every := flag.Duration("every", 5*time.Second, "time between two looks")
	clients := flag.Int("clients", 16, "clients of each dragoman")
	only := flag.String("only", "", "only what has this in its name")
	binary := flag.String("dragoman", "", "the command to test (default: build it)")
	child := flag.Bool("child", false, "be the server on stdin and stdout")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	switch {
	case *child:
		err = servePipe(os.Stdin, os.Stdout)
	case *length < shortest || *every <= 0 || *length/(*every) <= minSamples || *clients < 1 || flag.NArg() > 0:
		fmt.Fprintf(os.Stderr, "soak: -time must be at least %v and more than %d times -every\n", shortest, minSamples)
		flag.Usage()
		os.Exit(2)
	case runtime.GOOS != "linux":
		err = fmt.Errorf("needs /proc, which %s does not have", runtime.GOOS)
	default:
		err = soak(ctx, *length, *every, *clients, *binary, *only)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

const (
	parkTime = 2 * time.Second // how long a call may wait for its client to answer
	silence  = 2 * time.Second // how long a server may send nothing for a call
)

// quick returns settings with short timeouts, so that abandoned sessions and servers that
// hang are given up often.
func quick() []string {
	return []string{
		"DRAGOMAN_ADMIN_LISTEN=",
		"DRAGOMAN_SESSION_IDLE_TIMEOUT=3s", "DRAGOMAN_UPSTREAM_SILENCE_TIMEOUT=" + silence.String(),
		"DRAGOMAN_BRIDGE_IDLE_TIMEOUT=3s", "DRAGOMAN_BRIDGE_PARK_TIMEOUT=" + parkTime.String(),
	}
}

// stage holds the processes and loads of a run.
type stage struct {
	ctx     context.Context
	binary  string
	dir     string
	servers []*httpServer
	watched []*subject
	beside  []beside
}

// beside is a load on processes that are not sampled, because they do not run all the time.
type beside struct {
	name   string
	counts *counts
	run    func(context.Context)
	stop   func()
}

func (s *stage) close() {
	for _, w := range s.watched {
		w.proxy.Stop()
	}
	for _, b := range s.beside {
		b.stop()
	}
	for _, server := range s.servers {
		server.close()
	}
}

// server starts a server on HTTP.
func (s *stage) server(h http.Handler) (url string, err error) {
	server, err := startServer(h)
	if err != nil {
		return "", err
	}
	s.servers = append(s.servers, server)
	return server.url, nil
}

// dragoman starts a dragoman that is sampled.
func (s *stage) dragoman(name string, env []string, arg ...string) (*subject, error) {
	p, err := s.start(s.ctx, env, arg...)
	if err != nil {
		return nil, err
	}
	w := &subject{name: name, proxy: p, counts: &counts{}}
	s.watched = append(s.watched, w)
	return w, nil
}

func (s *stage) start(ctx context.Context, env []string, arg ...string) (*process.Process, error) {
	return process.Start(ctx, s.command(env, arg...))
}

func (s *stage) command(env []string, arg ...string) *exec.Cmd {
	cmd := exec.Command(s.binary, append([]string{"serve"}, arg...)...)
	cmd.Env = slices.Concat(os.Environ(), quick(), env)
	return cmd
}

// key writes a session key to a file and returns the environment variable that names it.
func (s *stage) key(name string) (env string, err error) {
	file := filepath.Join(s.dir, name+".key")
	return "DRAGOMAN_SESSION_KEY_FILE=" + file, os.WriteFile(file, []byte("c29hay1zb2FrLXNvYWstc29hay1zb2FrLXNvYWstMzI=\n"), 0o600)
}

func soak(ctx context.Context, length, every time.Duration, clients int, binary, only string) error {
	dir, err := os.MkdirTemp("", "soak")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if binary == "" {
		if binary, err = process.Build(ctx, dir, "./cmd/dragoman"); err != nil {
			return err
		}
	}
	s := &stage{ctx: ctx, binary: binary, dir: dir}
	defer s.close()
	for _, set := range []func() error{s.sessions, s.eras, s.day, s.memory, s.fleet(length)} {
		if err := set(); err != nil {
			return err
		}
	}
	s.keep(only)
	return s.run(ctx, length, every, clients)
}

// keep stops and removes all loads whose name does not contain name.
func (s *stage) keep(name string) {
	s.watched = slices.DeleteFunc(s.watched, func(w *subject) bool {
		drop := !strings.Contains(w.name, name)
		if drop {
			w.proxy.Stop()
		}
		return drop
	})
	s.beside = slices.DeleteFunc(s.beside, func(b beside) bool {
		drop := !strings.Contains(b.name, name)
		if drop {
			b.stop()
		}
		return drop
	})
}

// sessions adds clients and servers with sessions, which misbehave: over HTTP, and with a command for each
// session.
func (s *stage) sessions() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	url, err := s.server(http.HandlerFunc(serveHTTP))
	if err != nil {
		return err
	}
	for _, arg := range [][]string{
		{"http", "--listen", "127.0.0.1:0", "--upstream", url},
		{"stdio", "--listen", "127.0.0.1:0", "--", self, "-child"},
	} {
		w, err := s.dragoman(arg[0], nil, arg[1:]...)
		if err != nil {
			return err
		}
		w.load = func(ctx context.Context, seed uint64) {
			v, done := w.counts.visitor(w.proxy.URL(), seed)
			defer done()
			w.counts.visit(ctx, v.stay)
		}
	}
	return nil
}

// eras adds clients without sessions in front of a server with sessions that sends
// elicitation/create, through two replicas; and clients with sessions in front of a server without.
func (s *stage) eras() error {
	url, err := s.server(newCurious())
	if err != nil {
		return err
	}
	modern := &counts{}
	key, err := s.key("replicas")
	if err != nil {
		return err
	}
	var at, replicas []string
	for range 2 {
		addr, err := proxies.FreeAddress()
		if err != nil {
			return err
		}
		at, replicas = append(at, addr), append(replicas, "http://"+addr+"/mcp")
	}
	peers := "DRAGOMAN_BRIDGE_PEERS=[" + strings.Join(at, ",") + "]"
	for n, name := range []string{"replica a", "replica b"} {
		w, err := s.dragoman(name, []string{key, peers}, "--upstream", url, "--listen", at[n])
		if err != nil {
			return err
		}
		w.counts = modern
		w.load = func(ctx context.Context, seed uint64) {
			g, done := modern.modernClient(func() []string { return replicas }, seed)
			defer done()
			g.stayOn(ctx)
		}
	}
	if url, err = s.server(http.HandlerFunc(modernServer)); err != nil {
		return err
	}
	w, err := s.dragoman("to-modern", nil, "--listen", "127.0.0.1:0", "--upstream", url)
	if err != nil {
		return err
	}
	w.load = func(ctx context.Context, seed uint64) {
		v, done := w.counts.visitor(w.proxy.URL(), seed)
		defer done()
		w.counts.visit(ctx, (&host{v}).stay)
	}
	return nil
}

// run loads all subjects and samples them.
func (s *stage) run(ctx context.Context, length, every time.Duration, clients int) error {
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	var wg sync.WaitGroup
	for n, w := range s.watched {
		for i := range clients {
			wg.Go(func() { w.load(ctx, uint64(n*clients+i)) })
		}
	}
	for _, b := range s.beside {
		wg.Go(func() { b.run(ctx) })
	}
	err := sample(ctx, s.watched, every)
	cancel()
	wg.Wait()
	if err != nil {
		return err
	}
	var errs []error
	var told []*counts
	for _, w := range s.watched {
		if !slices.Contains(told, w.counts) {
			told = append(told, w.counts)
			fmt.Println(w.name+":", w.counts.String())
			errs = append(errs, w.counts.judge(w.name))
		}
		errs = append(errs, w.judge(), w.end())
	}
	for _, b := range s.beside {
		fmt.Println(b.name+":", b.counts.String())
		errs = append(errs, b.counts.judge(b.name))
	}
	return errors.Join(errs...)
}
