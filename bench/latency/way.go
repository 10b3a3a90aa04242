package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/compare/process"
	"github.com/dragoman-proxy/dragoman/bench/histogram"
	"github.com/dragoman-proxy/dragoman/translate"
)

const (
	overPipe = "stdio"
	remote   = "network" // HTTP+SSE for the revision that has nothing else, Streamable HTTP for all others
)

// startTime is how long a proxy may take until it answers its first call: those that run in Node.js take seconds.
const startTime = 30 * time.Second

// rounds is how many turns a slice is divided into. The ways take turns, so that what else the machine does falls on all
// of them.
const rounds = 4

// cell is the measurement of one way with one kind of call.
type cell struct {
	latency histogram.Histogram
	calls   int
	cpu     time.Duration // of the proxy
}

func (c *cell) quantile(q float64) float64 { return float64(c.latency.Quantile(q)) / 1e3 }

func (c *cell) cpuPerCall() float64 {
	if c.calls == 0 {
		return 0
	}
	return float64(c.cpu.Nanoseconds()) / 1e3 / float64(c.calls)
}

// way is one way from a client to a server.
type way struct {
	name   string
	dial   func() (*session, error)
	pid    int // of the proxy; 0 for none
	stop   func()
	client *session
	cells  [kinds]cell
}

func (w *way) close() {
	if w.client != nil {
		w.client.close()
	}
	if w.stop != nil {
		w.stop()
	}
}

func (w *way) cpu() (time.Duration, error) {
	if w.pid == 0 {
		return 0, nil
	}
	return process.ProcessorTimeOf(w.pid)
}

// connect opens the way's only client. It tries again while the proxy starts.
func (w *way) connect(ctx context.Context) (err error) {
	for end := time.Now().Add(startTime); ; {
		if w.client, err = w.dial(); err == nil || time.Now().After(end) || ctx.Err() != nil {
			break
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", w.name, err)
	}
	return err
}

// measure measures the ways in turns, with one client each, for both kinds of calls.
func measure(ctx context.Context, ways []*way, slice time.Duration) error {
	for kind := range kinds {
		calls := make([]*call, len(ways))
		for i, w := range ways {
			calls[i] = w.client.request(kind, 0)
			for range 30 - 20*kind { // warm up
				if err := w.client.do(calls[i]); err != nil {
					return fmt.Errorf("%s, %s: %w", w.name, kindNames()[kind], err)
				}
			}
		}
		for round := range rounds {
			for n := range ways {
				i := (n + round) % len(ways)
				if err := ways[i].turn(ctx, kind, calls[i], slice/rounds); err != nil {
					return fmt.Errorf("%s, %s: %w", ways[i].name, kindNames()[kind], err)
				}
			}
		}
	}
	return nil
}

// turn makes one call after the other for the length of slice, at least one.
func (w *way) turn(ctx context.Context, kind int, c *call, slice time.Duration) error {
	m := &w.cells[kind]
	before, err := w.cpu()
	if err != nil {
		return err
	}
	end := time.Now().Add(slice)
	for began := time.Now(); ; {
		if err := w.client.do(c); err != nil {
			return err
		}
		now := time.Now()
		m.latency.Record(now.Sub(began).Nanoseconds())
		m.calls++
		if began = now; now.After(end) || ctx.Err() != nil {
			break
		}
	}
	after, err := w.cpu()
	m.cpu += after - before
	if err == nil {
		err = ctx.Err()
	}
	return err
}

// launcher starts the processes of a measurement.
type launcher struct {
	dir      string
	self     string
	dragoman string
}

func (l launcher) env() []string { return append(os.Environ(), "DRAGOMAN_ADMIN_LISTEN=") } // several run at the same time

// serverCommand is the command of a server on stdio.
func (l launcher) serverCommand(speaks *translate.Revision) []string {
	return []string{l.self, "-serve", "stdio", "-revision", speaks.Name}
}

// server starts a server on the network.
func (l launcher) server(ctx context.Context, role string, speaks *translate.Revision, tools int) (*process.Process, error) {
	return process.Start(ctx, exec.Command(l.self, "-serve", role, "-revision", speaks.Name, "-tools", fmt.Sprint(tools)))
}

func roleOf(speaks *translate.Revision) string {
	if speaks == translate.Oldest() {
		return "sse"
	}
	return "http"
}

// serve starts dragoman in front of args: a URL with flags, or a command behind "--".
func (l launcher) serve(ctx context.Context, args ...string) (*process.Process, error) {
	cmd := exec.Command(l.dragoman, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
	cmd.Env = l.env()
	return process.Start(ctx, cmd)
}

// dialer returns how clients of a revision connect to a URL.
func dialer(url string, speaks *translate.Revision) func() (*session, error) {
	return func() (*session, error) {
		var (
			c   carrier
			err error
		)
		if roleOf(speaks) == "sse" {
			c, err = dialSSE(url)
		} else {
			c, err = dialHTTP(url, speaks)
		}
		if err != nil {
			return nil, err
		}
		return open(c, speaks)
	}
}

// pipe returns a way on stdio through a command, which is the proxy if proxy is set.
func (l launcher) pipe(ctx context.Context, name string, speaks *translate.Revision, args []string) (*way, error) {
	w := &way{name: name}
	c, err := startStdio(ctx, args, l.env())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	timer := time.AfterFunc(startTime, func() { c.cmd.Process.Kill() })
	defer timer.Stop()
	if w.client, err = open(c, speaks); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	w.pid = c.cmd.Process.Pid
	return w, nil
}

// streamBody reads the head of a response whose body is a stream.
func streamBody(conn net.Conn) (io.Reader, error) {
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("stream: %s", resp.Status)
	}
	return resp.Body, nil
}
