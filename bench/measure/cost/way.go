package cost

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dragoman-proxy/dragoman/bench/histogram"
	"github.com/dragoman-proxy/dragoman/bench/measure/process"
	"github.com/dragoman-proxy/dragoman/translate"
)

// startTime is how long a proxy may take until it answers its first call: those that run in Node.js take seconds.
const startTime = 30 * time.Second

// key identifies a cell of a way: a kind of call, and how many clients make it at the same time.
type key struct{ kind, load int }

// cell is the measurement of one way with one kind of call under one load, over all turns.
type cell struct {
	latency  histogram.Histogram
	calls    int
	wall     time.Duration
	cpu      time.Duration // of the proxy
	resident int64         // of the proxy, the greatest of all turns
}

func (c *cell) quantile(q float64) float64 { return float64(c.latency.Quantile(q)) / 1e3 }

func (c *cell) cpuPerCall() float64 {
	return float64(c.cpu.Nanoseconds()) / 1e3 / float64(max(c.calls, 1))
}

// way is one way from clients to a server.
type way struct {
	name    string
	url     string // of the proxy, if it is on the network
	dial    func() (*session, error)
	pid     int // of the proxy; 0 for none
	stop    func()
	clients []*session
	callers map[key][]*caller
	cells   map[key]*cell
	idle    int64 // bytes that the proxy had in memory before the first call
}

// caller is one client with the call that it repeats.
type caller struct {
	*session
	call *call
}

func (w *way) close() {
	for _, c := range w.clients {
		c.close()
	}
	if w.stop != nil {
		w.stop()
	}
}

func closeAll(ways []*way) {
	for _, w := range ways {
		w.close()
	}
}

func (w *way) cpu() (time.Duration, error) {
	if w.pid == 0 {
		return 0, nil
	}
	return process.ProcessorTimeOf(w.pid)
}

func (w *way) resident() (int64, error) {
	if w.pid == 0 {
		return 0, nil
	}
	u, err := process.UsageOf(w.pid)
	return u.Resident, err
}

// cell returns what was measured; a way with nothing has an empty one.
func (w *way) cell(kind, load int) *cell {
	k := key{kind, load}
	if w.cells == nil {
		w.cells = map[key]*cell{}
	}
	if w.cells[k] == nil {
		w.cells[k] = &cell{}
	}
	return w.cells[k]
}

// connect opens clients until there are n. It tries to open the first again while the proxy starts.
func (w *way) connect(ctx context.Context, n int) error {
	for end := time.Now().Add(startTime); len(w.clients) < n; {
		c, err := w.dial()
		switch {
		case err == nil:
			w.clients = append(w.clients, c)
		case len(w.clients) > 0 || time.Now().After(end) || ctx.Err() != nil:
			return fmt.Errorf("%s: %w", w.name, err)
		default:
			wait(ctx, 100*time.Millisecond)
		}
	}
	return nil
}

// wait waits, unless ctx ends before.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// warm is how many calls of each client are not measured.
func warm() [kinds]int { return [kinds]int{50, 10, 3, 50} }

// ready returns the clients that make a kind of call under a load. When they are used first, they make calls that are not measured.
func (w *way) ready(ctx context.Context, kind, load int) ([]*caller, error) {
	if err := w.connect(ctx, load); err != nil {
		return nil, err
	}
	k := key{kind, load}
	if w.callers == nil {
		w.callers = map[key][]*caller{}
	}
	for i := len(w.callers[k]); i < load; i++ {
		c := &caller{w.clients[i], w.clients[i].request(kind)}
		for range warm()[kind] {
			if err := c.do(c.call); err != nil {
				return nil, err
			}
		}
		w.callers[k] = append(w.callers[k], c)
	}
	return w.callers[k], nil
}

// measure measures the ways in turns: each kind of call, under each load. What else the machine does falls on all ways. Each round
// starts with another way, so that the order does not favor one of them.
func measure(ctx context.Context, ways []*way, callKinds, loads []int, rounds int, turn time.Duration) error {
	for round := range rounds {
		for _, kind := range callKinds {
			for _, load := range loads {
				for n := range ways {
					w := ways[(n+round)%len(ways)]
					if err := w.turn(ctx, kind, load, turn); err != nil {
						return fmt.Errorf("%s, %s, %d connections: %w", w.name, kindNames()[kind], load, err)
					}
				}
			}
		}
	}
	return nil
}

// turn runs clients for the length of a turn. Each makes calls, one after the other, at least one.
func (w *way) turn(ctx context.Context, kind, load int, length time.Duration) error {
	m := w.cell(kind, load)
	callers, err := w.ready(ctx, kind, load)
	if err != nil {
		return err
	}
	before, err := w.cpu()
	if err != nil {
		return err
	}
	took := make([]histogram.Histogram, load)
	began := time.Now()
	g, ctx := errgroup.WithContext(ctx)
	for i, c := range callers {
		g.Go(func() error { return c.repeat(ctx, began.Add(length), &took[i]) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	m.wall += time.Since(began)
	after, err := w.cpu()
	if err != nil {
		return err
	}
	m.cpu += after - before
	for i := range took {
		m.latency.Add(&took[i])
		m.calls += int(took[i].Total())
	}
	now, err := w.resident()
	m.resident = max(m.resident, now)
	return err
}

func (c *caller) repeat(ctx context.Context, end time.Time, took *histogram.Histogram) error {
	for began := time.Now(); ; {
		if err := c.do(c.call); err != nil {
			return err
		}
		now := time.Now()
		took.Record(now.Sub(began).Nanoseconds())
		if began = now; now.After(end) || ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// launcher starts the processes of a measurement.
type launcher struct {
	dir      string
	self     string // the command that can be the other processes
	dragoman string
}

// newLauncher builds dragoman, unless binary names it. The caller must remove the folder of the launcher.
func newLauncher(ctx context.Context, binary string) (l launcher, err error) {
	if l.dir, err = os.MkdirTemp("", "measure"); err != nil {
		return l, err
	}
	if l.dragoman, err = filepath.Abs(binary); binary == "" {
		l.dragoman, err = process.Build(ctx, l.dir, "./cmd/dragoman")
	}
	if err == nil {
		l.self, err = os.Executable()
	}
	return l, err
}

func (l launcher) env() []string { return append(os.Environ(), "DRAGOMAN_ADMIN_LISTEN=") } // several run at the same time

// serverCommand is the command of a server on stdio.
func (l launcher) serverCommand(speaks *translate.Revision) []string {
	return []string{l.self, "serve", "stdio", "--revision", speaks.Name}
}

// server starts a server on the network.
func (l launcher) server(ctx context.Context, role string, speaks *translate.Revision, tools int) (*process.Process, error) {
	return process.Start(ctx, exec.Command(l.self, "serve", role, "--revision", speaks.Name, "--tools", strconv.Itoa(tools)))
}

// role starts a process that is no server of MCP.
func (l launcher) role(ctx context.Context, role, argument string) (*process.Process, error) {
	return process.Start(ctx, exec.Command(l.self, "serve", role, argument))
}

func roleOf(speaks *translate.Revision) string {
	if speaks == translate.Oldest() {
		return "sse"
	}
	return "http"
}

// serve starts dragoman in front of args: a URL with flags, or a command behind "--".
func (l launcher) serve(ctx context.Context, args ...string) (*process.Process, error) {
	return l.serveWith(ctx, nil, args...)
}

// serveWith is serve with more variables in the environment.
func (l launcher) serveWith(ctx context.Context, env []string, args ...string) (*process.Process, error) {
	cmd := exec.Command(l.dragoman, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
	cmd.Env = append(l.env(), env...)
	return process.Start(ctx, cmd)
}

// nginx starts nginx; its process is nil if it is not installed.
func (l launcher) nginx(ctx context.Context, url string) (*process.Process, error) {
	host, _, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
	return process.NGINX(ctx, l.dir, "", host)
}

// through is the way through a proxy.
func through(name string, p *process.Process, dial func() (*session, error)) *way {
	return &way{name: name, url: p.URL(), dial: dial, pid: p.PID(), stop: p.Stop}
}

// streamable returns how clients connect over Streamable HTTP, also those of a revision that has only HTTP+SSE.
func streamable(url string, speaks *translate.Revision) func() (*session, error) {
	return func() (*session, error) {
		c, err := dialHTTP(url, speaks, nil)
		if err != nil {
			return nil, err
		}
		return open(c, speaks)
	}
}

// dialer returns how clients of a revision connect to a URL.
func dialer(url string, speaks *translate.Revision) func() (*session, error) {
	if roleOf(speaks) == "http" {
		return streamable(url, speaks)
	}
	return func() (*session, error) {
		c, err := dialSSE(url)
		if err != nil {
			return nil, err
		}
		return open(c, speaks)
	}
}

// pipe returns a way on stdio through a command, which has one client.
func (l launcher) pipe(ctx context.Context, name string, speaks *translate.Revision, args []string) (*way, error) {
	c, err := startStdio(ctx, args, l.env())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	timer := time.AfterFunc(startTime, func() { c.cmd.Process.Kill() })
	defer timer.Stop()
	client, err := open(c, speaks)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &way{name: name, pid: c.cmd.Process.Pid, clients: []*session{client}, dial: func() (*session, error) { return nil, errors.New("a command has one client") }}, nil
}
