package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
)

type transport string

const (
	stdio      transport = "stdio"
	streamable transport = "http"
	withSSE    transport = "sse"
)

var all = []transport{stdio, streamable, withSSE}

// endpoint is where a client finds a server, and over which transport: a URL, or a command to start.
type endpoint struct {
	over    transport
	url     string
	command []string
	stderr  *output // of the client and of all that is started
}

type client struct {
	name       string
	revision   string // the revision that it requests
	transports []transport
	reads      bool // its transcript has what its SDK decoded, not the messages: members that the SDK does not know are missing
	run        func(context.Context, endpoint) (transcript, error)
}

type server struct {
	name       string
	revision   string // the newest that it speaks
	only       bool   // it speaks no other
	refuses    string // a step that it answers with status 400 over HTTP+SSE; its own client then gives up the session
	once       bool   // over HTTP+SSE it ends with its first client
	deaf       bool   // over HTTP it does not notice that a client without a session has closed the stream of its call
	declares   bool   // without a session it refuses a call if the client has not declared the capability for the question
	transports []transport
	command    func(revision, mark string) []string // on stdio; mark is an argument by which the process is found
	serve      func(revision string, over transport) (url string, stop func(), err error)
}

// cell is one combination of a client, a server, and the transports on the two sides of the proxy.
type cell struct {
	client *client
	server *server
	down   transport
	up     transport
}

// upstream returns the revision that the proxy speaks to the server: the server's newest one, with a handshake if both
// sides have one.
func (c cell) upstream() string {
	if c.server.revision == newest && !c.server.only && c.client.revision != newest {
		return newestHandshake
	}
	return c.server.revision
}

func (c cell) String() string {
	s := fmt.Sprintf("%s (%s) %s to %s %s (%s)", c.client.name, c.client.revision, c.down, c.up, c.server.name, c.upstream())
	return strings.ReplaceAll(s, " ", "_")
}

// outcome is the result of one run.
type outcome struct {
	steps transcript
	log   string
	err   error
}

// TestPublishedPeers runs every published client with every server, each over one of the nine pairs of transports.
func TestPublishedPeers(t *testing.T) {
	testset.Need(t, testset.Peers)
	t.Parallel()
	m := nodePeers(t)
	meet(t, everyOneMeetsEveryOther(publishedClients(m), publishedServers(m)))
}

func publishedClients(m modules) []*client {
	return []*client{
		m.typescript("1.0.4", "2024-11-05", withSSE, stdio),
		m.typescript("1.10.2", "2024-11-05", all...),
		m.typescript("1.12.3", "2025-03-26", all...),
		m.typescript("1.22.0", "2025-06-18", all...),
		m.typescript("1.32.2", "2025-11-25", all...),
		goSDK("2025-11-25"),
	}
}

func publishedServers(m modules) []*server {
	return []*server{
		m.everything("2025.4.8", "2024-11-05", withSSE, stdio),
		m.everything("2025.4.28", "2024-11-05", all...),
		m.everything("2025.7.1", "2025-03-26", all...),
		m.everything("2025.9.25", "2025-06-18", all...),
		m.everything("2026.8.31", "2025-11-25", all...),
		goServer("2025-11-25"),
	}
}

// TestGoPeers does the same with the Go SDK alone, as client and server of each revision, over all nine pairs of transports.
func TestGoPeers(t *testing.T) {
	testset.Need(t, testset.Peers)
	t.Parallel()
	var clients []*client
	var servers []*server
	for _, revision := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"} {
		clients = append(clients, goSDK(revision))
		servers = append(servers, goServer(revision))
	}
	var cells []cell
	for _, c := range clients {
		for _, s := range servers {
			for _, down := range all {
				for _, up := range all {
					cells = append(cells, cell{client: c, server: s, down: down, up: up})
				}
			}
		}
	}
	meet(t, cells)
}

// everyOneMeetsEveryOther returns cells that combine every client with every server once. The transports are those of two
// orthogonal Latin squares: any three neighbours among the clients are combined with any three among the servers over
// all nine pairs. A server is combined once more with the older client next to it in the lists.
func everyOneMeetsEveryOther(clients []*client, servers []*server) (cells []cell) {
	for i, c := range clients {
		for j, s := range servers {
			down, up := inTurn(c.transports, i+j), inTurn(s.transports, i+2*j)
			cells = append(cells, cell{client: c, server: s, down: down, up: up})
			if c.revision < s.revision && !s.only && i+1 == j {
				cells = append(cells, cell{client: c, server: s, down: down, up: inTurn(s.transports, i+2*j+2)})
			}
		}
	}
	return cells
}

// inTurn returns the transport whose turn it is, or the next one that a peer has.
func inTurn(has []transport, n int) transport {
	for !slices.Contains(has, all[n%len(all)]) {
		n++
	}
	return all[n%len(all)]
}

// several runs several things at a time, whatever -parallel sets for subtests, because peers mostly wait for each other.
type several struct {
	t     *testing.T
	group sync.WaitGroup
}

func newSeveral(t *testing.T) *several { return &several{t: t} }

// turns limits the runs at a time in all tests.
var turns = make(chan struct{}, 8)

// start begins a run, and returns a function that waits for its outcome.
func (s *several) start(run func(context.Context) outcome) func() outcome {
	var o outcome
	done := make(chan struct{})
	s.group.Go(func() {
		defer close(done)
		turns <- struct{}{}
		defer func() { <-turns }()
		ctx, cancel := context.WithTimeout(s.t.Context(), patience)
		defer cancel()
		o = run(ctx)
	})
	return func() outcome { <-done; return o }
}

// wait waits for all runs to end.
func (s *several) wait() { s.group.Wait() }

// meet runs all cells, through the proxy and without, and compares.
func meet(t *testing.T, cells []cell) {
	proxy := build(t)

	several := newSeveral(t)
	defer several.wait()
	start := several.start
	type key struct {
		client *client
		server *server
		over   transport
	}
	reference := func(c cell) key {
		over := c.up
		if c.client.revision == newest { // a pipe has no HTTP status
			over = c.down
		}
		if !slices.Contains(c.client.transports, over) || over == withSSE && c.server.refuses != "" {
			over = stdio // all servers have stdio
		}
		return key{c.client, c.server, over}
	}
	alone := map[key]func() outcome{}
	through := make([]func() outcome, len(cells))
	for i, c := range cells {
		k := reference(c)
		if alone[k] == nil {
			alone[k] = start(func(ctx context.Context) (o outcome) {
				for range 3 { // a failed run cannot be the reference
					if o = direct(ctx, c.client, c.server, k.over); o.err != nil || o.steps.arrived() && o.steps.era(c.client) {
						break
					}
				}
				return o
			})
		}
		through[i] = start(func(ctx context.Context) outcome { return proxied(ctx, proxy, c, markOf(fmt.Sprintf("%d-%p", i, t))) })
	}
	passed := make([]bool, len(cells))
	for i, c := range cells {
		passed[i] = t.Run(c.String(), func(t *testing.T) { check(t, c, alone[reference(c)](), through[i]()) })
	}
	t.Log("through the proxy:\n" + table(cells, passed))
}

// direct is the reference run, without the proxy.
func direct(ctx context.Context, c *client, s *server, over transport) (o outcome) {
	to, stop, err := s.open(min(c.revision, s.revision), over, "direct")
	if err != nil {
		return outcome{err: err}
	}
	defer stop()
	o.steps, o.err = c.run(ctx, to)
	o.log = to.stderr.String()
	return o
}

// proxied is the same run through the proxy.
func proxied(ctx context.Context, proxy dragoman, c cell, mark string) (o outcome) {
	to, stop, err := c.server.open(c.server.revision, c.up, mark)
	if err != nil {
		return outcome{err: err}
	}
	defer stop()
	var flags []string
	if c.down == stdio { // else it finds out
		flags = append(flags, "--upstream-transport", string(c.up))
	}
	run := func(to endpoint) (err error) {
		o.steps, err = c.client.run(ctx, to)
		return err
	}
	if c.down == stdio {
		o.err = run(endpoint{over: stdio, command: proxy.args("stdio", to, flags...), stderr: to.stderr})
		if exit := o.steps.step("exit"); o.err == nil && fmt.Sprint(at(exit.Result, "code")) != "0" {
			o.err = fmt.Errorf("the proxy, its client gone: exit %s", compact(exit.Result))
		}
	} else {
		o.err = proxy.serve(ctx, c.down, to, flags, run)
	}
	if c.up == stdio && o.err == nil {
		if pids := leftovers(mark); len(pids) > 0 {
			o.err = fmt.Errorf("the proxy left its child: %s", pids)
		}
	}
	o.log = to.stderr.String()
	return o
}

// open prepares a server for one client.
func (s *server) open(revision string, over transport, mark string) (to endpoint, stop func(), err error) {
	to = endpoint{over: over, stderr: &output{}}
	if over == stdio {
		to.command = s.command(revision, mark)
		return to, func() {}, nil
	}
	to.url, stop, err = s.serve(revision, over)
	return to, stop, err
}

// check compares the run through the proxy with the reference.
func check(t *testing.T, c cell, alone, through outcome) {
	if alone.err != nil {
		t.Fatalf("without the proxy: %v\n%s", alone.err, tail(alone.log))
	}
	if through.err != nil {
		t.Fatalf("%v\n%s", through.err, tail(through.log))
	}
	vc, vu := c.client.revision, c.upstream()
	steps := expected(alone.steps, vc, vu)
	if vu == newest && vc != vu {
		c.withSession(steps)
		if c.client.reads {
			withoutHints(through.steps) // the Go SDK has members for them in every revision
		}
	}
	if vu == newest && c.server.deaf && steps.step("cancellations seen").Result != nil {
		c.cancelled(steps)
	}
	if c.client.reads {
		for _, e := range steps {
			if methodOf()[e.Step] == "resources/read" {
				remove(e.Result, "contents.*.name") // the proxy may add it, and no schema has it
			}
		}
	}
	if c.up == withSSE { // over which a refused request is answered with an error, and the session goes on
		for i := range steps {
			if steps[i].Step == c.server.refuses {
				steps[i].Error = map[string]any{"code": json.Number("-32601"), "message": `Method not found: JSON RPC not handled: "x/no-such-method" unsupported`}
			}
		}
	}
	want, got := steps.comparable(), through.steps.comparable()
	for _, e := range slices.Concat(alone.steps, through.steps) {
		w, g := want[e.Step], got[e.Step]
		if diff := cmp.Diff(w, g); diff != "" {
			t.Errorf("%s (-want +got):\n%s", e.Step, diff)
			got[e.Step] = w // each once
		}
	}
	if vc != vu {
		for _, fault := range newerThan(vc, vu, through.steps) {
			t.Error(fault)
		}
	}
	for _, line := range errorLines(through.log) {
		t.Errorf("logged: %s", line)
	}
	if t.Failed() {
		t.Log(tail(through.log))
	}
}

// tail returns the end of a log.
func tail(log string) string {
	if len(log) > 8<<10 {
		return "…" + log[len(log)-8<<10:]
	}
	return log
}

// table returns the cells as a table with a row for each client and a column for each server.
func table(cells []cell, passed []bool) string {
	var rows, columns []string
	shown := map[[2]string][]string{}
	add := func(names []string, name string) []string {
		if slices.Contains(names, name) {
			return names
		}
		return append(names, name)
	}
	for i, c := range cells {
		row, column := c.client.name+", "+c.client.revision, c.server.name+", "+c.server.revision
		rows, columns = add(rows, row), add(columns, column)
		text := fmt.Sprintf("%s→%s", c.down, c.up)
		if c.upstream() != c.client.revision {
			text += " translated"
		}
		if !passed[i] {
			text += " FAILED"
		}
		shown[[2]string{row, column}] = append(shown[[2]string{row, column}], text)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| | %s |\n|---|%s\n", strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
	for _, row := range rows {
		fmt.Fprintf(&b, "| %s |", row)
		for _, column := range columns {
			fmt.Fprintf(&b, " %s |", strings.Join(shown[[2]string{row, column}], "; "))
		}
		b.WriteString("\n")
	}
	return b.String()
}
