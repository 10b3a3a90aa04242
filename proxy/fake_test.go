package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/proxy/server"
	"github.com/dragoman-proxy/dragoman/proxy/sse"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
)

// patience is how long a test waits for what must come, also on a machine with many other things to do.
const patience = time.Minute

// fakeServer is an MCP server in this process. answer returns the events of the stream for a
// message; an error ends the stream. On a pipe the events go to the standing stream.
type fakeServer struct {
	piped  bool
	asked  bool // it was asked for its era
	answer func(message string) ([]string, error)
	// refuse makes Send itself fail.
	refuse func(message string) error
	id     string // the id of the session

	mu       sync.Mutex
	got      []string
	headers  [][]upstream.Header
	changed  chan struct{}
	standing chan string // the standing stream on a pipe, or of a GET
	noGet    bool
	gate     chan struct{}
	gates    func(name string) chan struct{} // channels for wait:name
	closed   int
	listened []upstream.ListenOptions
	lost     error
}

func newFake(answer func(string) ([]string, error)) *fakeServer {
	return &fakeServer{answer: answer, changed: make(chan struct{}, 1), standing: make(chan string, 100)}
}

func (f *fakeServer) origin() origin.Origin {
	o := origin.Opened(f.piped, func(context.Context) (upstream.Conn, error) { return f, nil })
	if f.asked {
		o.Open = func(ctx context.Context) (b *upstream.Begun, err error) {
			b = &upstream.Begun{Conn: f}
			if f.piped {
				b.Standing, err = f.Listen(context.WithoutCancel(ctx), upstream.ListenOptions{})
			}
			return b, err
		}
	}
	return o
}

func (f *fakeServer) Send(ctx context.Context, m *upstream.Outgoing) (upstream.Stream, error) {
	text := string(m.Body)
	if f.refuse != nil {
		if err := f.refuse(text); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	f.got = append(f.got, text)
	f.headers = append(f.headers, append([]upstream.Header(nil), m.Header...))
	f.mu.Unlock()
	select {
	case f.changed <- struct{}{}:
	default:
	}
	events, err := f.answer(text)
	if f.piped {
		for _, e := range events {
			f.standing <- e
		}
		return nil, nil
	}
	if !m.Request {
		return nil, nil
	}
	return &fakeStream{ctx: ctx, events: events, err: err, id: f.id, gate: f.gate, gates: f.gates, closed: make(chan struct{}), halt: make(chan struct{}, 1)}, nil
}

func (f *fakeServer) Listen(ctx context.Context, o upstream.ListenOptions) (upstream.Stream, error) {
	f.mu.Lock()
	f.listened = append(f.listened, o)
	f.mu.Unlock()
	if f.noGet {
		return nil, upstream.ErrNoStream
	}
	return &fakeStream{ctx: ctx, more: f.standing, of: f, closed: make(chan struct{})}, nil
}

func (f *fakeServer) Close(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed++
	if f.closed == 1 {
		close(f.standing)
	}
	return nil
}

// lose ends the server by itself.
func (f *fakeServer) lose(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lost = err
	f.closed++
	close(f.standing)
}

// lastID returns the id of the last request that the server got. On a pipe the proxy has made it,
// and also the progress token.
func (f *fakeServer) lastID() string {
	id := ""
	for _, m := range f.sent() {
		if gjson.Get(m, "method").Exists() && gjson.Get(m, "id").Exists() {
			id = gjson.Get(m, "id").Raw
		}
	}
	return id
}

// withoutIDs removes the ids of requests from messages, since the proxy makes them on a pipe.
func withoutIDs(messages []string) (out []string) {
	for _, m := range messages {
		if gjson.Get(m, "method").Exists() {
			m, _ = sjson.Delete(m, "id")
		}
		out = append(out, m)
	}
	return out
}

// sent returns the messages that the server got.
func (f *fakeServer) sent() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.got...)
}

// fakeStream returns events; "id:7 {...}" is an event with an id. hang blocks.
type fakeStream struct {
	upstream.Plain
	ctx    context.Context
	events []string
	err    error
	more   <-chan string
	of     *fakeServer
	id     string
	gate   <-chan struct{}
	gates  func(name string) chan struct{}
	once   sync.Once
	closed chan struct{}
	halt   chan struct{} // nil if Events cannot be interrupted
}

// These strings make a stream do something instead of sending an event: block until it is closed,
// wait for the server's gate, or panic.
const (
	hang = "hang"
	wait = "wait"
	boom = "boom"
)

func (s *fakeStream) Events(yield func(sse.Event, error) bool) {
	for {
		if e, err := s.next(); !yield(e, err) || err != nil && server.Skipped(err) == nil && !server.Restarts(err) {
			return
		}
	}
}

func (s *fakeStream) next() (sse.Event, error) {
	if s.more != nil {
		select {
		case e, ok := <-s.more:
			if !ok {
				s.of.mu.Lock()
				defer s.of.mu.Unlock()
				if s.of.lost != nil {
					return sse.Event{}, s.of.lost
				}
				return sse.Event{}, io.EOF
			}
			if e == boom {
				panic(boom)
			}
			return fakeEvent(e), nil
		case <-s.ctx.Done():
			return sse.Event{}, s.ctx.Err()
		case <-s.closed:
			return sse.Event{}, upstream.ErrClosed
		}
	}
	if len(s.events) == 0 {
		if s.err != nil {
			return sse.Event{}, s.err
		}
		return sse.Event{}, io.EOF
	}
	e := s.events[0]
	if e == boom {
		panic(boom)
	}
	name, named := strings.CutPrefix(e, wait+":")
	if e == wait || named {
		gate := s.gate
		if named {
			gate = s.gates(name)
		}
		select {
		case <-gate:
		case <-s.halt:
			return sse.Event{}, sse.ErrInterrupted
		case <-s.ctx.Done():
			return sse.Event{}, s.ctx.Err()
		}
		s.events, e = s.events[1:], s.events[1]
	}
	if e == hang {
		select {
		case <-s.halt:
			return sse.Event{}, sse.ErrInterrupted
		case <-s.ctx.Done():
			return sse.Event{}, s.ctx.Err()
		case <-s.closed:
			return sse.Event{}, upstream.ErrClosed
		}
	}
	s.events = s.events[1:]
	return fakeEvent(e), nil
}

func fakeEvent(text string) sse.Event {
	var e sse.Event
	if rest, ok := strings.CutPrefix(text, "id:"); ok {
		id, data, _ := strings.Cut(rest, " ")
		e.ID, e.HasID, text = []byte(id), true, data
		e.Retry = time.Millisecond
	}
	e.Data = []byte(text)
	return e
}

func (s *fakeStream) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

func (s *fakeStream) CanInterrupt() bool { return s.halt != nil }

func (s *fakeStream) Interrupt() {
	select {
	case s.halt <- struct{}{}:
	default:
	}
}

func (s *fakeStream) SessionID() string { return s.id }

// initializing answers initialize with the version; rest answers everything else.
func initializing(version string, rest func(message string) ([]string, error)) func(string) ([]string, error) {
	return func(m string) ([]string, error) {
		switch method := gjson.Get(m, "method").String(); {
		case method == "initialize":
			return []string{fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"2"}}}`,
				gjson.Get(m, "id").Raw, version)}, nil
		case rest != nil:
			return rest(m)
		}
		return nil, nil
	}
}

// one returns a stream of these events that ends without an error.
func one(events ...string) ([]string, error) { return events, nil }

type testServer struct {
	*Server
	t    *testing.T
	logs *observer.ObservedLogs
}

// front starts a proxy in front of f.
func front(t *testing.T, f *fakeServer, change ...func(*config.Config)) testServer {
	t.Helper()
	return frontOf(t, f.origin(), change...)
}

func frontOf(t *testing.T, o origin.Origin, change ...func(*config.Config)) testServer {
	t.Helper()
	leavesNothing(t)
	cfg := config.Default()
	cfg.Upstream.HandshakeTimeout = patience
	for _, c := range change {
		c(&cfg)
	}
	core, logs := observer.New(zap.DebugLevel)
	srv, err := newServer(cfg, zap.New(core), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		srv.close()
	})
	return testServer{srv, t, logs}
}

// goroutinesCounted holds the tests that leavesNothing watches.
var goroutinesCounted sync.Map

// leavesNothing waits, when t and its other clean-ups have ended, until there are no more
// goroutines than now. A second call for the same test does nothing: the goroutines before its
// first proxy count.
func leavesNothing(t *testing.T) {
	if _, watched := goroutinesCounted.LoadOrStore(t, true); watched {
		return
	}
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		goroutinesCounted.Delete(t)
		for end := time.Now().Add(patience); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				stacks := make([]byte, 1<<20)
				t.Fatalf("goroutines left behind: %d, were %d\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
			}
		}
	})
}

// reply is an HTTP response, read to its end.
type reply struct {
	status int
	header map[string]string
	body   string   // an application/json body
	events []string // the data of each event
	ids    []string // the id of each event; "" for none
}

// exchange sends a request to f's HTTP face. ctx ends when the response was read.
func (srv testServer) exchange(ctx context.Context, method, session, body string, header ...string) reply {
	srv.t.Helper()
	req, resp := srv.begin(ctx, method, session, body, header...)
	return srv.read(req, resp)
}

func (srv testServer) begin(ctx context.Context, method, session, body string, header ...string) (*downstream.Request, *response) {
	h := map[string]string{}
	for i := 0; i+1 < len(header); i += 2 {
		h[header[i]] = header[i+1]
	}
	req := &downstream.Request{
		Ctx: ctx, Body: []byte(body), Session: session, Peer: h["peer"], Guest: h["guest"], Version: h["MCP-Protocol-Version"], LastEventID: h["Last-Event-ID"],
		Header: func(name string) string { return h[name] },
		Headers: func(prefix string, do func(name, value string)) {
			for _, name := range slices.Sorted(maps.Keys(h)) {
				if strings.HasPrefix(name, prefix) {
					do(name, h[name])
				}
			}
		},
	}
	f := srv.Server.web
	handle := map[string]func(*downstream.Request, *downstream.Response){"POST": f.Post, "GET": f.Get, "DELETE": f.Delete}[method]
	return req, respond(req, handle)
}

func (srv testServer) read(req *downstream.Request, resp *response) reply {
	srv.t.Helper()
	r := reply{status: max(resp.Status, 0), header: map[string]string{}, body: string(resp.Body)}
	if r.status == 0 {
		r.status = 200
	}
	for _, h := range resp.Header {
		r.header[h.Name] = h.Value
	}
	if resp.Stream == nil {
		for i := range req.Body {
			req.Body[i] = 'X' // the body is invalid after the handler has returned
		}
	} else {
		for {
			e, err := resp.Stream.Next()
			if err != nil {
				if !errors.Is(err, io.EOF) {
					srv.t.Errorf("stream ended with %v", err)
				}
				break
			}
			r.events = append(r.events, string(e.Data))
			r.ids = append(r.ids, string(e.ID))
		}
	}
	resp.Done()
	return r
}

// post sends one message on a session.
func (srv testServer) post(session, body string, header ...string) reply {
	srv.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return srv.exchange(ctx, "POST", session, body, header...)
}

// initialize begins the session of a client of this version.
func (srv testServer) initialize(version string) string {
	srv.t.Helper()
	return srv.initializeWith(version, `{}`)
}

func (srv testServer) initializeWith(version, capabilities string) string {
	srv.t.Helper()
	r := srv.post("", initialize(version, capabilities))
	if gjson.Get(r.body, "result.protocolVersion").String() != version {
		srv.t.Fatalf("initialize: %+v", r)
	}
	return r.header["Mcp-Session-Id"]
}

func initialize(version, capabilities string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":%q,"capabilities":%s,"clientInfo":{"name":"c","version":"1"}}}`, version, capabilities)
}

// sameJSON compares JSON values.
func sameJSON(t *testing.T, got, want string) {
	t.Helper()
	var g, w any
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatalf("want %s: %v", want, err)
	}
	if err := json.Unmarshal([]byte(got), &g); err != nil || !reflect.DeepEqual(g, w) {
		t.Errorf("\n got  %s\n want %s", got, want)
	}
}

func sameList(t *testing.T, what string, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s:\n got  %q\n want %q", what, got, want)
		return
	}
	for i := range got {
		sameJSON(t, got[i], want[i])
	}
}

// outcomes returns how many requests of a method had this outcome.
func (srv testServer) outcomes(how metrics.Outcome, method string) int {
	srv.t.Helper()
	return counted(srv.t, srv.Metrics, "dragoman_requests_total", "method="+method, "outcome="+string(how))
}

// counted returns the sum of a family's counters that have all these labels.
func counted(t *testing.T, from *metrics.Metrics, family string, labels ...string) (n int) {
	t.Helper()
	families, err := from.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != family {
			continue
		}
		for _, m := range f.GetMetric() {
			has := map[string]bool{}
			for _, l := range m.GetLabel() {
				has[l.GetName()+"="+l.GetValue()] = true
			}
			all := true
			for _, l := range labels {
				all = all && has[l]
			}
			if all {
				n += int(m.GetCounter().GetValue())
			}
		}
	}
	return n
}

// eventually waits until another goroutine has made the condition true.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// configured returns the origin that cfg names.
func configured(t *testing.T, cfg config.Config) origin.Origin {
	t.Helper()
	o, err := origin.Of(cfg, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	return o
}
