// Package cost measures what calls through dragoman cost, beside other proxies and with what may be added to dragoman.
package cost

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/measure/process"
	"github.com/dragoman-proxy/dragoman/translate"
)

// Compare measures dragoman end to end and compares it with other ways to the same server, on loopback and in turns.
type Compare struct {
	Rounds int           // how often each way has its turn
	Turn   time.Duration // length of a turn, for each kind of call and number of connections
	Leaves int           // how many clients leave a quiet call, for each way
	Idle   int           // how many clients of each transport stay connected and say nothing
	Users  int           // how many clients without a session have something kept for them
	Binary string        // the command to measure; "" to build it
	Out    io.Writer

	hasty bool // does not wait until memory is at rest: the numbers mean nothing
}

// comparison is a Compare that is under way.
type comparison struct {
	Compare
	launcher
	goals []goal
}

// part is one measurement of a comparison.
type part struct {
	name  string
	run   func(*comparison, context.Context) error
	asked bool // only measured if it is asked for
}

func parts() []part {
	return []part{
		{"ways", (*comparison).ways, false},
		{"leaving", (*comparison).leaving, false},
		{"idle", (*comparison).sleeping, false},
		{"eras", (*comparison).eras, false},
		{"tracing", (*comparison).tracing, false},
		{"crowd", (*comparison).crowd, false},
		{"watching", (*comparison).watching, true},
		{"store", (*comparison).storing, true},
	}
}

// Parts returns the names of what can be measured alone.
func Parts() (names []string) {
	for _, p := range parts() {
		names = append(names, p.name)
	}
	return names
}

// Run measures the parts with these names, or those that need nothing, and prints what it measured.
func (c Compare) Run(ctx context.Context, names []string) error {
	l, err := newLauncher(ctx, c.Binary)
	defer os.RemoveAll(l.dir)
	if err != nil {
		return err
	}
	m := &comparison{Compare: c, launcher: l}
	for _, p := range parts() {
		if len(names) == 0 && p.asked || len(names) > 0 && !slices.Contains(names, p.name) {
			continue
		}
		if err := p.run(m, ctx); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	lines := make([]string, len(m.goals))
	for i, g := range m.goals {
		lines[i] = g.String()
	}
	m.table("dragoman\tgot\treach\tlimit\t"+strings.Repeat(" ", 8), lines)
	return nil
}

// goal is a measured number, with the value that dragoman should reach and the limit that it must not exceed.
type goal struct {
	what         string
	got          float64
	reach, limit float64
}

func (g goal) String() string {
	verdict := "reached"
	switch {
	case g.got > g.limit:
		verdict = "MISSED"
	case g.got > g.reach:
		verdict = "within the limit"
	}
	return fmt.Sprintf("%s\t%.2f\t%.2f\t%.2f\t%s", g.what, g.got, g.reach, g.limit, verdict)
}

func (c *comparison) goal(what string, got, reach, limit float64) {
	c.goals = append(c.goals, goal{what, got, reach, limit})
}

// table prints lines of cells that are separated by tabs.
func (c *comparison) table(head string, lines []string) {
	t := tabwriter.NewWriter(c.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, line := range append([]string{head}, lines...) {
		fmt.Fprintln(t, line+"\t")
	}
	t.Flush()
	fmt.Fprintln(c.Out)
}

// busy is the number of connections under the higher load, from which processor time is taken.
const busy = 8

// compared measures ways with one connection and with many, and prints a table for each kind of call and load.
func (c *comparison) compared(ctx context.Context, ways []*way, kinds ...int) error {
	loads := []int{1, busy}
	if err := measure(ctx, ways, kinds, loads, c.Rounds, c.Turn); err != nil {
		return err
	}
	for _, kind := range kinds {
		for _, load := range loads {
			var lines []string
			for _, w := range ways {
				m := w.cell(kind, load)
				line := fmt.Sprintf("%s\t%.0f\t%.3f\t%.3f", w.name, float64(m.calls)/m.wall.Seconds(), m.quantile(0.5)/1e3, m.quantile(0.99)/1e3)
				if w.pid != 0 {
					line += fmt.Sprintf("\t%.1f\t%.1f", m.cpuPerCall(), float64(m.resident)/1e6)
				} else {
					line += "\t\t"
				}
				lines = append(lines, line)
			}
			c.table(fmt.Sprintf("%s, %d at a time\tcalls/s\tp50 ms\tp99 ms\tCPU µs/call\tRSS MB", kindNames()[kind], load), lines)
		}
	}
	return nil
}

// ratio is the processor time of a call under the higher load, as a multiple of that of another way.
func ratio(w, of *way, kind int) float64 {
	return w.cell(kind, busy).cpuPerCall() / of.cell(kind, busy).cpuPerCall()
}

// more is how much longer a small call takes than on another way, in ms, with one connection.
func more(w, than *way, q float64) float64 {
	return (w.cell(small, 1).quantile(q) - than.cell(small, 1).quantile(q)) / 1e3
}

// serverRevision returns the revision of the server: another one than that of the clients, and not the
// latest, which few servers speak.
func serverRevision() *translate.Revision { return translate.Handshake()[1] }

func newest() *translate.Revision { return translate.Lookup(translate.Modern()) }

// The names of the ways.
const (
	direct         = "direct"
	bare           = "bare"
	standard       = "httputil"
	nginx          = "nginx"
	dragoman       = "dragoman"
	modernToLegacy = "modern client, legacy server"
	legacyToModern = "legacy client, modern server"
	modernToModern = "modern client, modern server"
)

// all starts every way to the server at url. Clients of dragoman speak the oldest revision; the others, which nothing translates for,
// that of the server. After an error, the result has the ways that were started before.
func (c *comparison) all(ctx context.Context, url string) ([]*way, error) {
	ways := []*way{{name: direct, dial: streamable(url, serverRevision())}}
	for _, one := range []struct {
		name   string
		client *translate.Revision
		start  func() (*process.Process, error)
	}{
		{bare, serverRevision(), func() (*process.Process, error) { return c.role(ctx, bare, url) }},
		{standard, serverRevision(), func() (*process.Process, error) { return c.role(ctx, standard, url) }},
		{nginx, serverRevision(), func() (*process.Process, error) { return c.nginx(ctx, url) }},
		{dragoman, translate.Oldest(), func() (*process.Process, error) { return c.serve(ctx, "--upstream", url) }},
	} {
		p, err := one.start()
		if err != nil {
			return ways, err
		}
		if p != nil {
			ways = append(ways, through(one.name, p, streamable(p.URL(), one.client)))
		}
	}
	return ways, nil
}

// ours starts dragoman for clients of a revision.
func (c *comparison) ours(ctx context.Context, name string, client *translate.Revision, url string, env ...string) (*way, error) {
	p, err := c.serveWith(ctx, env, "--upstream", url)
	if err != nil {
		return nil, err
	}
	dial := streamable(p.URL(), client)
	return through(name, p, func() (*session, error) {
		s, err := dial()
		if err == nil {
			s.capabilities = `{"elicitation":{}}`
		}
		return s, err
	}), nil
}

// rest is how long a process is left alone before its idle memory is measured: dragoman gives back what its start took when
// nothing has passed for two seconds.
const rest = 6 * time.Second

// calm waits until processes are at rest.
func (c *comparison) calm(ctx context.Context, d time.Duration) error {
	if c.hasty {
		d = 0
	}
	return wait(ctx, d)
}

func (c *comparison) readIdle(ctx context.Context, ways ...*way) error {
	err := c.calm(ctx, rest)
	for _, w := range ways {
		if err == nil {
			w.idle, err = w.resident()
		}
	}
	return err
}

// ways compares dragoman with other ways.
func (c *comparison) ways(ctx context.Context) error {
	server, err := c.server(ctx, "http", serverRevision(), 50)
	if err != nil {
		return err
	}
	defer server.Stop()
	ways, err := c.all(ctx, server.URL())
	defer closeAll(ways)
	if err != nil {
		return err
	}
	if err := c.readIdle(ctx, ways...); err != nil {
		return err
	}
	if err := c.compared(ctx, ways, small, list, large, streamed); err != nil {
		return err
	}
	var lines []string
	for _, w := range ways[1:] {
		lines = append(lines, fmt.Sprintf("%s\t%.1f", w.name, float64(w.idle)/1e6))
	}
	c.table("before the first call\tRSS MB", lines)
	d := ways[len(ways)-1]
	for _, g := range []struct {
		what         string
		kind         int
		than         *way
		reach, limit float64
	}{
		{"CPU per small call, × fasthttp", small, ways[1], 1.05, 1.2},
		{"CPU per small call, × httputil", small, ways[2], 0.35, 0.5},
		{"CPU per list of 50 tools, × fasthttp", list, ways[1], 0.95, 1.1},
		{"CPU per result of 1 MB, × fasthttp", large, ways[1], 1.1, 1.2},
		{"CPU per event stream with 3 notifications, × fasthttp", streamed, ways[1], 2, 2.6},
	} {
		c.goal(g.what, ratio(d, g.than, g.kind), g.reach, g.limit)
	}
	c.goal("added p50, one at a time, ms", more(d, ways[0], 0.5), 0.06, 0.1)
	c.goal("added p99, one at a time, ms", more(d, ways[0], 0.99), 0.3, 1)
	c.goal("idle memory, MB", float64(d.idle)/1e6, 12, 14)
	return nil
}

// eras compares calls between revisions with and without a handshake with calls between two revisions with one.
func (c *comparison) eras(ctx context.Context) error {
	legacy, err := c.server(ctx, "http", serverRevision(), 50)
	if err != nil {
		return err
	}
	defer legacy.Stop()
	modern, err := c.server(ctx, "http", newest(), 50)
	if err != nil {
		return err
	}
	defer modern.Stop()
	ways := []*way{{name: direct, dial: streamable(legacy.URL(), serverRevision())}}
	defer func() { closeAll(ways) }()
	for _, one := range []struct {
		name   string
		client *translate.Revision
		server string
	}{
		{dragoman, translate.Oldest(), legacy.URL()},
		{modernToLegacy, newest(), legacy.URL()},
		{legacyToModern, translate.Oldest(), modern.URL()},
		{modernToModern, newest(), modern.URL()},
	} {
		w, err := c.ours(ctx, one.name, one.client, one.server)
		if err != nil {
			return err
		}
		ways = append(ways, w)
	}
	if err := c.compared(ctx, ways, small); err != nil {
		return err
	}
	c.goal(modernToLegacy+", added p50, ms", more(ways[2], ways[0], 0.5), 0.05, 0.08)
	c.goal(modernToLegacy+", added p99, ms", more(ways[2], ways[0], 0.99), 0.5, 1)
	for _, w := range ways[2:] {
		c.goal(w.name+", CPU per small call, × within the legacy era", ratio(w, ways[1], small), 1.25, 1.4)
	}
	return nil
}

// tracing compares small calls through dragoman without and with traces. The collector takes whatever it is sent.
func (c *comparison) tracing(ctx context.Context) error {
	collector, err := c.role(ctx, "collector", "")
	if err != nil {
		return err
	}
	defer collector.Stop()
	to := "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=" + collector.URL()
	ways, err := c.variants(ctx, []variant{
		{dragoman, nil},
		{"5 % of traces", []string{to, "OTEL_TRACES_SAMPLER=traceidratio", "OTEL_TRACES_SAMPLER_ARG=0.05"}},
		{"all traces", []string{to, "OTEL_TRACES_SAMPLER=always_on"}},
	}, small)
	if err != nil {
		return err
	}
	c.goal("CPU per small call, 5 % of traces, × without", ratio(ways[1], ways[0], small), 1.03, 1.05)
	c.goal("CPU per small call, all traces, × without", ratio(ways[2], ways[0], small), 1.3, 1.5)
	return nil
}

// variant is a dragoman with variables in its environment.
type variant struct {
	name string
	env  []string
}

// variants compares dragomans, and returns their ways, which are closed.
func (c *comparison) variants(ctx context.Context, all []variant, kinds ...int) ([]*way, error) {
	server, err := c.server(ctx, "http", serverRevision(), 50)
	if err != nil {
		return nil, err
	}
	defer server.Stop()
	var ways []*way
	defer func() { closeAll(ways) }()
	for _, v := range all {
		w, err := c.ours(ctx, v.name, translate.Oldest(), server.URL(), v.env...)
		if err != nil {
			return nil, err
		}
		ways = append(ways, w)
	}
	return ways, c.compared(ctx, ways, kinds...)
}
