package tests

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

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// patience is how long a test waits for what must come, also on a machine with many other things to do.
const patience = time.Minute

func (f *fakeServer) origin() origin.Origin {
	conn := func(context.Context) (upstream.Conn, error) { return f.conn(), nil }
	o := origin.Opened(f.piped, conn)
	if f.asked {
		o.Open = func(ctx context.Context) (b *upstream.Begun, err error) {
			b = &upstream.Begun{Conn: f.conn()}
			if f.piped {
				b.Standing, err = b.Conn.Listen(context.WithoutCancel(ctx), upstream.ListenOptions{})
			}
			return b, err
		}
	}
	return o
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
func (f *fakeServer) sent() []string { return textsOf(f.Heard()) }

// said returns the messages of a method that the server got.
func (f *fakeServer) said(method string) []string { return textsOf(f.Of(method)) }

func textsOf(list []peertest.Message) (out []string) {
	for _, m := range list {
		out = append(out, m.Text)
	}
	return out
}

const (
	hang = "hang" // in a list of messages: a response over HTTP does not end by itself
	boom = "boom" // the value of panics
)

// replies makes a script of a function that returns the messages about each message. An error ends them.
func replies(answer func(message string) ([]string, error)) func(*peertest.Turn) {
	return func(u *peertest.Turn) {
		messages, err := answer(u.Text)
		for _, m := range messages {
			if m == hang {
				u.Until(nil)
			} else {
				u.Say(m)
			}
		}
		if err != nil {
			u.Fail(err)
		}
	}
}

// failing makes a First whose errors are those of the connection.
func failing(fails func(message string) error) func(*peertest.Turn) {
	return func(u *peertest.Turn) { u.Fail(fails(u.Text)) }
}

// on makes do answer the messages of a method; the method of a response is "".
func (f *fakeServer) on(method string, do func(u *peertest.Turn)) {
	others := f.Script
	f.Script = func(u *peertest.Turn) {
		if u.Method == method {
			do(u)
		} else {
			others(u)
		}
	}
}

// initializing answers initialize with the version; rest answers everything else.
func initializing(version string, rest func(message string) ([]string, error)) func(*peertest.Turn) {
	return func(u *peertest.Turn) {
		switch {
		case u.Method == "initialize":
			u.Say(result(u.ID, fmt.Sprintf(`"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"2"}`, version)))
		case rest != nil:
			replies(rest)(u)
		}
	}
}

// one returns messages, and no error.
func one(events ...string) ([]string, error) { return events, nil }

type testServer struct {
	*proxy.Server
	t    *testing.T
	logs *observer.ObservedLogs
}

// front starts a proxy in front of f.
func front(t *testing.T, f *fakeServer, change ...func(*config.Config)) testServer {
	t.Helper()
	f.Use(t)
	return frontOf(t, f.origin(), change...)
}

func frontOf(t *testing.T, o origin.Origin, change ...func(*config.Config)) testServer {
	t.Helper()
	leavesNothing(t)
	cfg := config.Default()
	cfg.Upstream.HandshakeTimeout, cfg.Upstream.ConnectTimeout = patience, patience
	for _, c := range change {
		c(&cfg)
	}
	core, logs := observer.New(zap.DebugLevel)
	srv, err := proxy.NewWith(cfg, zap.New(core), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		srv.Close()
	})
	return testServer{srv, t, logs}
}

// goroutinesCounted holds the tests that leavesNothing watches.
var goroutinesCounted sync.Map

// leavesNothing waits, when t and its other clean-ups have ended, until there are no more
// goroutines than now. A second call for the same test does nothing: the goroutines before its
// first proxy count. Beside a test that was marked by waits, others run: TestMain counts for these.
func leavesNothing(t *testing.T) {
	top, _, _ := strings.Cut(t.Name(), "/")
	if _, beside := waiting.Load(top); beside {
		return
	}
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
	f := srv.Server.Handler()
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
	if err := json.Unmarshal([]byte(withoutAdvice(got)), &g); err != nil || !reflect.DeepEqual(g, w) {
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

// counted returns the sum of a family's counters or gauges that have all these labels.
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
				n += int(m.GetCounter().GetValue() + m.GetGauge().GetValue())
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
