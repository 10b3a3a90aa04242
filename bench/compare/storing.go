package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"
	"github.com/valyala/fasthttp"

	"github.com/dragoman-proxy/dragoman/bench/compare/process"
	"github.com/dragoman-proxy/dragoman/bench/fleet"
	"github.com/dragoman-proxy/dragoman/bench/histogram"
	"github.com/dragoman-proxy/dragoman/bench/proxies"
	"github.com/dragoman-proxy/dragoman/translate"
)

// stored is the way through a dragoman with a store, whose engine is at a loopback address.
const stored = dragoman + ", with a store"

// The calls that need the store, with one and without.
const (
	moreHere  = "fetch_more at the replica that made the call"
	moreThere = "fetch_more at another replica"
	free      = "call of an API"
	limited   = "call of an API with a limit"
)

// storing is what a store costs.
type storing struct {
	ways     []*way
	measured map[key]*cell
	uses     []*use
	scaled   []*scaled
}

// use is one kind of call that may need the store.
type use struct {
	name    string
	store   bool
	latency histogram.Histogram
	calls   int
	reads   int64         // commands that the engine processed meanwhile
	engine  time.Duration // processor time of the engine
	cpu     time.Duration // of the replicas
}

// scaled is the throughput of several replicas behind a balancer.
type scaled struct {
	replicas int
	cell     cell
}

// measureStoring measures small calls with and without a store, the calls that need one, and replicas behind a balancer.
func (l launcher) measureStoring(ctx context.Context, p plan, server string, list []work) (*storing, error) {
	engine, err := fleet.StartEngine(ctx, l.dir)
	if err != nil {
		return nil, err
	}
	defer engine.Stop()
	m := new(storing)
	key := filepath.Join(l.dir, "store.key")
	if err := os.WriteFile(key, []byte("c29hay1zb2FrLXNvYWstc29hay1zb2FrLXNvYWstMzI=\n"), 0o600); err != nil {
		return nil, err
	}
	with := []string{"DRAGOMAN_SESSION_KEY_FILE=" + key, "DRAGOMAN_STORE_URL=" + engine.URL()}
	defer func() { stopAll(m.ways) }()
	for _, name := range []string{dragoman, stored, again} {
		env := with
		if name != stored {
			env = with[:1]
		}
		started, err := l.with(ctx, env, server)
		w, err := newWay(name, started, err)
		if err != nil {
			return nil, err
		}
		m.ways = append(m.ways, w)
	}
	if m.measured, err = measure(ctx, p, m.ways, list[:small+1]); err != nil {
		return nil, err
	}
	if m.uses, err = l.measureUses(ctx, p, engine); err != nil {
		return nil, err
	}
	m.scaled, err = l.measureScaled(ctx, p, with, &list[small])
	return m, err
}

// with starts a dragoman with more variables in its environment.
func (l launcher) with(ctx context.Context, env []string, server string) (*process.Process, error) {
	cmd := exec.Command(l.dragoman, "serve", "--upstream", server, "--listen", "127.0.0.1:0")
	cmd.Env = append(append(os.Environ(), "DRAGOMAN_ADMIN_LISTEN="), env...)
	return process.Start(ctx, cmd)
}

// measureUses measures calls that need the store, in turns with the same calls without a store.
func (l launcher) measureUses(ctx context.Context, p plan, engine *fleet.Engine) ([]*use, error) {
	uses := []*use{{name: free}, {name: limited}, {name: moreHere}, {name: free, store: true}, {name: limited, store: true}, {name: moreHere, store: true}, {name: moreThere, store: true}}
	services := map[bool]*fleet.Service{}
	for _, shared := range []bool{false, true} {
		dir, err := os.MkdirTemp(l.dir, "uses")
		if err != nil {
			return nil, err
		}
		plan := fleet.Plan{Binary: l.dragoman, Dir: dir, Replicas: 2, Server: translate.Handshake()[0].Name}
		if shared {
			plan.Engine = engine
		}
		if services[shared], err = fleet.Start(ctx, plan); err != nil {
			return nil, err
		}
		defer services[shared].Close()
	}
	for range p.rounds {
		for _, u := range uses {
			if err := u.turn(ctx, services[u.store], engine, p.slice); err != nil {
				return nil, fmt.Errorf("%s: %w", u.name, err)
			}
		}
	}
	return uses, nil
}

// turn makes calls for the length of a slice, and reads what they cost.
func (u *use) turn(ctx context.Context, s *fleet.Service, engine *fleet.Engine, slice time.Duration) error {
	look := func() (reads int64, busy, cpu time.Duration, err error) {
		if reads, err = engine.Calls(ctx); err != nil {
			return 0, 0, 0, err
		}
		used, err := engine.Usage()
		for _, r := range s.Usages() {
			cpu += r.CPU
		}
		return reads, used.CPU, cpu, err
	}
	reads, busy, cpu, err := look()
	if err != nil {
		return err
	}
	n, err := u.repeat(ctx, s, slice)
	if err != nil {
		return err
	}
	readsAfter, busyAfter, cpuAfter, err := look()
	u.calls += n
	u.reads += readsAfter - reads - 1 // without the look itself
	u.engine += busyAfter - busy
	u.cpu += cpuAfter - cpu
	return err
}

// repeat makes calls, one after the other, for the length of a slice.
func (u *use) repeat(ctx context.Context, s *fleet.Service, slice time.Duration) (n int, err error) {
	at := s.Replica(0)
	c, err := dial(&way{url: at, speaks: translate.Oldest()})
	if err != nil {
		return 0, err
	}
	defer c.conn.Close()
	message := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_free","arguments":{}}}`
	switch u.name {
	case limited:
		message = strings.Replace(message, "get_free", "get_generous", 1)
	case moreHere, moreThere:
		if message, err = c.cut(); err != nil {
			return 0, err
		}
	}
	there := c
	if u.name == moreThere {
		if there, err = connect(&way{url: s.Replica(1), speaks: translate.Oldest()}, nil); err != nil {
			return 0, err
		}
		defer there.conn.Close()
		there.session = c.session
	}
	request := there.wrap([]byte(message))
	const warm = 20
	for i, began := 0, time.Now(); ; i++ {
		if there != c { // a replica keeps what it has fetched: so each original is another one
			if message, err = c.cut(); err != nil {
				return n, err
			}
			request = there.wrap([]byte(message))
			time.Sleep(written)
		}
		from := time.Now()
		if err := there.do(request); err != nil {
			return n, err
		}
		took := time.Since(from)
		if body := there.resp.Body(); !worked(body) {
			return n, fmt.Errorf("not the answer: %.300q", body)
		}
		if i >= warm {
			n++
			u.latency.Record(took.Nanoseconds())
		}
		if n > 0 && time.Since(began) > slice || ctx.Err() != nil {
			return n, ctx.Err()
		}
	}
}

// written is when an original is in the store: it is written beside the answer.
const written = 2 * time.Millisecond

// worked reports whether a call has a result that is not an error, nor one of an API or of fetch_more.
func worked(body []byte) bool {
	text := gjson.GetBytes(body, "result.content.0.text").Str
	return text != "" && !gjson.GetBytes(body, "result.isError").Bool() && !strings.HasPrefix(text, `{"success":false`) && !strings.HasPrefix(text, "CURSOR_")
}

// cut makes a call whose result is cut, and returns the call of fetch_more that continues it.
func (c *client) cut() (more string, err error) {
	if err := c.do(c.wrap([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"long","arguments":{"text":"compare"}}}`))); err != nil {
		return "", err
	}
	for _, one := range gjson.GetBytes(c.resp.Body(), "result.content.#.text").Array() {
		if _, after, ok := strings.Cut(one.Str, "Next: fetch_more "); ok {
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"fetch_more","arguments":%s}}`, strings.TrimSuffix(after, "]")), nil
		}
	}
	return "", fmt.Errorf("the result was not cut: %.300q", c.resp.Body())
}

// measureScaled measures one, two and three replicas behind a balancer without affinity, with clients without
// sessions. Balancer, server and clients are on the same processors.
func (l launcher) measureScaled(ctx context.Context, p plan, env []string, call *work) ([]*scaled, error) {
	server, err := l.role(ctx, "modern", "")
	if err != nil {
		return nil, err
	}
	defer server.Stop()
	var list []*scaled
	for n := range 3 {
		s := &scaled{replicas: n + 1}
		if err := s.measure(ctx, l, p, env, server.URL(), call); err != nil {
			return nil, fmt.Errorf("%d replicas: %w", s.replicas, err)
		}
		list = append(list, s)
	}
	return list, nil
}

func (s *scaled) measure(ctx context.Context, l launcher, p plan, env []string, server string, call *work) error {
	var replicas []*process.Process
	defer func() {
		for _, r := range replicas {
			r.Stop()
		}
	}()
	var urls []string
	for range s.replicas {
		r, err := l.with(ctx, env, server)
		if err != nil {
			return err
		}
		replicas, urls = append(replicas, r), append(urls, r.URL())
	}
	balancer, err := l.role(ctx, "balancer", strings.Join(urls, ","))
	if err != nil {
		return err
	}
	defer balancer.Stop()
	used := func() (d time.Duration, err error) {
		for _, r := range replicas {
			u, err := r.Usage()
			if err != nil {
				return 0, err
			}
			d += u.CPU
		}
		return d, nil
	}
	w := &way{name: "balancer", url: balancer.URL(), speaks: translate.Lookup(translate.Modern())}
	for range p.rounds {
		before, err := used()
		if err != nil {
			return err
		}
		if err := s.cell.turn(ctx, w, call, 16, p.slice); err != nil {
			return err
		}
		after, err := used()
		if err != nil {
			return err
		}
		s.cell.cpu += after - before
	}
	return nil
}

// serveBalancer sends each request to the next of several URLs, separated by commas.
func serveBalancer(ctx context.Context, ln net.Listener, upstream string) error {
	var backends []*fasthttp.HostClient
	for one := range strings.SplitSeq(upstream, ",") {
		to, err := url.Parse(one)
		if err != nil {
			return err
		}
		backends = append(backends, &fasthttp.HostClient{Addr: to.Host, MaxConns: maxConns})
	}
	if len(backends) == 0 {
		return errors.New("no backends")
	}
	var turn atomic.Uint64
	return proxies.ServeHTTP(ctx, ln, func(c *fasthttp.RequestCtx) {
		c.Request.Header.Del(fasthttp.HeaderConnection)
		if err := backends[turn.Add(1)%uint64(len(backends))].Do(&c.Request, &c.Response); err != nil {
			c.Error(err.Error(), fasthttp.StatusBadGateway)
			return
		}
		c.Response.Header.Del(fasthttp.HeaderConnection)
	})
}

// goals returns what a store may cost an ordinary call.
func (m *storing) goals() []goal {
	busy := loads()[len(loads())-1]
	added := func(quantile float64) float64 {
		with, without := m.measured[key{stored, small, 1}], m.measured[key{dragoman, small, 1}]
		return float64(with.latency.Quantile(quantile)-without.latency.Quantile(quantile)) / float64(time.Millisecond)
	}
	cpu := func(name string) float64 {
		return m.measured[key{name, small, busy}].cpuPerCall() / m.measured[key{dragoman, small, busy}].cpuPerCall()
	}
	return []goal{
		{"with a store: p50 of a small call, ms more", added(0.5), 0.005, 0.02},
		{"with a store: p99 of a small call, ms more", added(0.99), 0.05, 0.1},
		{"with a store: CPU per small call, × without", cpu(stored), 1.03, 1.1},
		{"without a store once more: CPU per small call, × without", cpu(again), 1.03, 1.1},
	}
}

// perCall returns microseconds.
func perCall(d time.Duration, calls int) float64 { return float64(d.Microseconds()) / float64(calls) }

func (r *report) printStoring() {
	for _, load := range loads() {
		r.printCalls(r.storing.ways, r.storing.measured, small, load)
	}
	var lines []string
	for _, u := range r.storing.uses {
		line := fmt.Sprintf("%s\tmemory\t%s\t%s\t%.1f\t\t", u.name, millis(u.latency.Quantile(0.5)), millis(u.latency.Quantile(0.99)), perCall(u.cpu, u.calls))
		if u.name == moreThere { // its time includes the calls that were cut
			line = strings.Replace(line, fmt.Sprintf("%.1f", perCall(u.cpu, u.calls)), "", 1)
		}
		if u.store {
			line = strings.Replace(line, "memory", "Redis", 1)
			line = strings.TrimSuffix(line, "\t") + fmt.Sprintf("%.2f\t%.1f", float64(u.reads)/float64(u.calls), perCall(u.engine, u.calls))
		}
		lines = append(lines, line)
	}
	r.table("one at a time\tstate in\tp50 ms\tp99 ms\tCPU µs/call\tcommands/call, those of scripts too\tengine µs/call", lines)
	lines = nil
	for _, s := range r.storing.scaled {
		lines = append(lines, fmt.Sprintf("%d\t%.0f\t%s\t%s\t%.1f", s.replicas, s.cell.perSecond(), millis(s.cell.latency.Quantile(0.5)), millis(s.cell.latency.Quantile(0.99)), s.cell.cpuPerCall()))
	}
	r.table("replicas behind a balancer, 16 at a time\tcalls/s\tp50 ms\tp99 ms\tCPU µs/call", lines)
}
