package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/measure/process"
	"github.com/dragoman-proxy/dragoman/bench/simulate/peers"
	"github.com/dragoman-proxy/dragoman/bench/simulate/script"
	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
	"github.com/dragoman-proxy/dragoman/translate"
)

// ServePipe is a server of the simulator on stdin and stdout.
func ServePipe(in io.Reader, out, err io.WriteCloser) error {
	wait, _ := peers.NewServer(peers.ServerOptions{Transport: "stdio", Revision: translate.Handshake()[1].Name, Trace: trace.New()}).Process("", in, out, err)
	return wait()
}

// server is a server of the simulator on real sockets. It restarts every now and then: otherwise its trace would grow for ever.
type server struct {
	addr, revision string

	mu   sync.Mutex
	now  *peers.Server
	lost time.Time // when it lost its sessions last
}

const restartEvery = 30 * time.Second

func startServer(revision string) (*server, error) {
	addr, err := process.FreeAddress()
	if err != nil {
		return nil, err
	}
	s := &server{addr: addr, revision: revision}
	return s, s.restart()
}

func (s *server) url() string { return "http://" + s.addr + "/mcp" }

func (s *server) restart() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now != nil {
		s.now.Close()
	}
	defer func() { s.lost = time.Now() }()
	s.now = peers.NewServer(peers.ServerOptions{Transport: "http", Revision: s.revision, Trace: trace.New(), Listen: func() (net.Listener, error) { return net.Listen("tcp", s.addr) }})
	return s.now.Run()
}

func (s *server) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.Close()
}

// keepRestarting restarts the server until ctx ends.
func (s *server) keepRestarting(ctx context.Context) error {
	for wait(ctx, restartEvery) {
		if err := s.restart(); err != nil {
			return err
		}
	}
	return nil
}

// do carries out a step, unless the server would serve no client for a while after it: several scripts are played at the same time.
func (s *server) do(step script.Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains([]string{"ping", "log", "announce", "changed", "update", "withdraw", "closestreams"}, step.Verb) {
		s.now.Do(step)
	}
}

// load is what clients do with the dragomans before one server.
type load struct {
	addrs  []string // of the dragomans
	server *server  // nil for a command
	modern bool     // clients have no sessions; otherwise all revisions are there

	number atomic.Int64 // of clients
	calls  atomic.Int64
	good   atomic.Int64 // calls that were answered

	mu     sync.Mutex
	errs   []error
	failed map[string]int // calls that were not answered, by how
}

// maxShown is how many errors are kept.
const maxShown = 10

func (l *load) fail(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.errs) < maxShown {
		l.errs = append(l.errs, fmt.Errorf(format, args...))
	}
}

func (l *load) count(how string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == nil {
		l.failed = map[string]int{}
	}
	l.failed[how[:min(len(how), 60)]]++
}

// String says how calls ended.
func (l *load) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := fmt.Sprintf("%d calls, %d answered", l.calls.Load(), l.good.Load())
	for _, how := range slices.SortedFunc(maps.Keys(l.failed), func(a, b string) int { return l.failed[b] - l.failed[a] })[:min(len(l.failed), maxShown)] {
		lines += fmt.Sprintf("\n  %6d %s", l.failed[how], how)
	}
	return lines
}

// err returns what failed that should not have.
func (l *load) err() error {
	if calls, good := l.calls.Load(), l.good.Load(); good*4 <= calls || good == 0 { // many calls are of servers that do not answer
		l.fail("only %d of %d calls were answered", good, calls)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(l.errs...)
}

// play plays scripts of the simulator, one after the other, until ctx ends.
func (l *load) play(ctx context.Context, seed uint64) {
	for ; ctx.Err() == nil; seed += 1000 {
		l.playOne(ctx, script.Make(seed))
	}
}

// wait waits, and reports whether ctx has not ended before.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// The time of scripts is virtual: here it is shorter.
const (
	faster      = 50
	longestWait = 100 * time.Millisecond
	patience    = 40 * time.Second // until what is open has ended, also calls that the server answers late
)

func (l *load) playOne(ctx context.Context, s *script.Script) {
	t := trace.New()
	clients, names := map[string]*peers.Client{}, map[string]string{}
	for _, c := range s.Clients {
		names[c.Name] = fmt.Sprintf("c%d", l.number.Add(1)) // so that marks are of one call only
		clients[c.Name] = l.client(t, names[c.Name], c)
		defer clients[c.Name].Close()
	}
	do := func(who string, step script.Step) {
		// One step needs the session of another client, one is meant for a dragoman that knows users, and two take real time.
		if step.Who = names[who]; slices.Contains([]string{"steal", "deaf", "ghost"}, step.Verb) || step.Verb == "garbage" && step.Word(0) == "token" {
			return
		}
		clients[who].Do(step)
	}
	for _, step := range s.Steps {
		d, _ := time.ParseDuration(step.Word(0))
		switch {
		case ctx.Err() != nil:
			return
		case step.Who == "":
			wait(ctx, min(d/faster, longestWait))
		case step.Who == "server" && l.server != nil:
			l.server.do(step)
		case clients[step.Who] != nil:
			do(step.Who, step)
		}
	}
	// At the end each client gets an answer. The first call may find that its session is no more.
	settle(ctx, clients)
	began := time.Now()
	for _, last := range []string{"998", "999"} {
		for name := range clients {
			do(name, script.Step{Verb: "call", Words: []string{last}})
		}
		settle(ctx, clients)
	}
	l.judge(ctx, t.All(), began, names)
}

// settle waits until what is open has ended.
func settle(ctx context.Context, clients map[string]*peers.Client) {
	end := time.Now().Add(patience)
	for _, c := range clients {
		for c.Busy() && time.Now().Before(end) && wait(ctx, 10*time.Millisecond) {
		}
	}
}

func (l *load) client(t *trace.Trace, name string, c script.Client) *peers.Client {
	o := peers.ClientOptions{Name: name, Transport: "http", Revision: c.Revision, Lacks: c.Without, Trace: t, Token: script.Token(c.User), User: c.User, Dial: new(net.Dialer).DialContext}
	if l.modern {
		o.Revision = translate.Modern()
	} else if c.Transport == "sse" {
		o.Transport = "sse"
	}
	turn := 0
	o.Address = func() string {
		turn++
		return l.addrs[turn%len(l.addrs)]
	}
	return peers.NewClient(o)
}

// judge counts the calls of a script. An answer to another call is a fault, and a client that gets none at the end. What else may not
// happen is judged where a script is played by the simulator, alone with its server.
func (l *load) judge(ctx context.Context, events []trace.Event, end time.Time, names map[string]string) {
	open := map[string]bool{} // calls without an answer
	for _, e := range events {
		switch {
		case e.Kind == trace.Strange: // it may be so if the server has lost its sessions meanwhile
			l.count("strange: " + e.Text)
		case e.Kind == trace.Calls:
			l.calls.Add(1)
			open[e.Mark] = true
		case (e.Kind == trace.Answered || e.Kind == trace.Refused) && e.Failed != "":
			delete(open, e.Mark)
			l.count(e.Failed)
		case e.Kind == trace.Answered && e.Mark != "" && e.Failed == "":
			if !strings.Contains(string(e.Raw), e.Mark) {
				l.fail("the answer of another call: %s %.300s", e, e.Raw)
			}
			l.good.Add(1)
			delete(open, e.Mark)
		}
	}
	if ctx.Err() != nil || l.server != nil && l.server.lostSince(end) {
		return
	}
	for _, name := range names {
		if open[name+".999"] {
			l.fail("%s gets no answer at the end of its script", name)
		}
	}
}

// lostSince reports whether the server has lost its sessions since then.
func (s *server) lostSince(since time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost.After(since)
}
