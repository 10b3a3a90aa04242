package modernclient

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/bridge/stateless"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/quota"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/ops/host"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/results"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/crossing"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/toolindex"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// fakeServer is the proxy, and a handshake server behind it with one session for each client. answer returns its
// messages about a request; nil for none.
type fakeServer struct {
	answer func(id, method string, params gjson.Result) []string
	stream upstream.Stream // of each request, instead of answer; nil for none
	sealer *sealed.Sealer
	silent config.TimeLimit // how long it may be silent

	mu   sync.Mutex
	sent []string
}

// bridgeTo returns a Bridge to f.
func bridgeTo(t *testing.T, f *fakeServer, change ...func(*config.Config)) *Bridge {
	t.Helper()
	cfg := config.Default()
	for _, c := range change {
		c(&cfg)
	}
	var err error
	if f.sealer, err = sealed.New([][]byte{bytes.Repeat([]byte{1}, sealed.KeyBytes)}, config.Upstream{URL: "u"}, time.Hour); err != nil {
		t.Fatal(err)
	}
	none := func() float64 { return 0 }
	h := host.New(zap.NewNop(), metrics.New("v0", none, none), large.NewMemory(64<<20), "v0", func() report.Setup { return report.Setup{Config: &cfg} })
	br := New(Options{
		Host: h, Proxy: f, Streams: new(atomic.Int64), Instance: sealed.ID{1},
		Results: results.New(func() results.Bounds { return results.Bounds{} }),
	})
	t.Cleanup(func() {
		br.Close()
		h.Wait()
	})
	return br
}

func (f *fakeServer) Open(context.Context, Opening) (Session, []byte, error) {
	modern, old := translate.Lookup(translate.Modern()), translate.Latest()
	s := &fakeSession{f: f, about: sealed.Session{ClientRevision: modern, ServerRevision: old, Facts: wire.ServerTools}}
	return s, []byte(`{"jsonrpc":"2.0","id":1,"result":{"capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}`), nil
}

func (f *fakeServer) IsDirect(context.Context, []mcp.Header, *stateless.Request) (bool, error) {
	return false, nil
}
func (f *fakeServer) IsOurs(*stateless.Request) bool                            { return false }
func (f *fakeServer) HasReplicas() bool                                         { return false }
func (f *fakeServer) Reopen(string, *stateless.Request, string) (Session, bool) { return nil, false }
func (f *fakeServer) Sealer() *sealed.Sealer                                    { return f.sealer }
func (f *fakeServer) Silence(wire.Method) config.TimeLimit                      { return f.silent }
func (f *fakeServer) Login() string                                             { return "" }

func (f *fakeServer) Forward(sealed.ID, *downstream.Request, *downstream.Response) (bool, error) {
	return false, nil
}

// said returns the messages of this method that the server got.
func (f *fakeServer) said(method string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(f.sent), func(m string) bool { return gjson.Get(m, "method").String() != method })
}

// fakeSession is a session that translates nothing.
type fakeSession struct {
	f          *fakeServer
	about      sealed.Session
	tools      toolindex.Index
	serverless bool
}

func (s *fakeSession) About() *sealed.Session                                          { return &s.about }
func (s *fakeSession) ForReplicas() sealed.Session                                     { return s.about }
func (s *fakeSession) Tools() *toolindex.Index                                         { return &s.tools }
func (s *fakeSession) Down() *translate.Translator                                     { return nil }
func (s *fakeSession) Serverless() bool                                                { return s.serverless }
func (s *fakeSession) Piped() bool                                                     { return false }
func (s *fakeSession) CheckCall(context.Context, ToolLister, *stateless.Request) error { return nil }

func (s *fakeSession) Pass(*downstream.Request, *stateless.Request, []mcp.Header, *downstream.Response, func()) error {
	return nil
}

func (s *fakeSession) RunsFor() string { return "" }
func (s *fakeSession) End(error)       {}
func (s *fakeSession) Leave()          {}
func (s *fakeSession) Retire()         {}

func (s *fakeSession) Observe(*stateless.Request, []mcp.Header) *observe.Call { return nil }

func (s *fakeSession) Cancel(id string, _ []mcp.Header, reason string) {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	s.f.sent = append(s.f.sent, string(mcp.Cancelled(id, reason)))
}

func (s *fakeSession) Listen(context.Context, upstream.ListenOptions) (upstream.Stream, error) {
	return nil, upstream.ErrNoStream
}

func (s *fakeSession) Send(_ context.Context, m *upstream.Outgoing) (upstream.Stream, error) {
	body := string(m.Body)
	s.f.mu.Lock()
	s.f.sent = append(s.f.sent, body)
	s.f.mu.Unlock()
	if s.f.stream != nil {
		return s.f.stream, nil
	}
	return &script{messages: s.f.answer(gjson.Get(body, "id").Raw, gjson.Get(body, "method").String(), gjson.Get(body, "params"))}, nil
}

func (s *fakeSession) Begin(ctx context.Context, _ context.CancelCauseFunc, _ []mcp.Header, _ *crossing.Crossing, asked *stateless.Request) Exchange {
	return &fakeExchange{s: s, ctx: ctx}
}

// script is a stream of these messages.
type script struct {
	upstream.Plain
	messages []string
}

func (s *script) Events(yield func(sse.Event, error) bool) {
	for len(s.messages) > 0 {
		m := s.messages[0]
		if s.messages = s.messages[1:]; m == "panic" {
			panic("in a reader")
		}
		if !yield(sse.Event{Data: []byte(m)}, nil) {
			return
		}
	}
	yield(sse.Event{}, io.EOF)
}

func (s *script) Close() error { return nil }

// fakeExchange returns the messages of its stream as they are.
type fakeExchange struct {
	s   *fakeSession
	ctx context.Context
	st  upstream.Stream
	m   wire.Message
}

func (x *fakeExchange) Translate(m Message) ([]byte, wire.Verdict, error) {
	return m.Text, wire.Forward, nil
}

func (x *fakeExchange) Forward(out []byte) (upstream.Stream, error) {
	return x.s.Send(x.ctx, &upstream.Outgoing{Body: out})
}
func (x *fakeExchange) Read(st upstream.Stream) { x.st = st }

func (x *fakeExchange) Answer(client crossing.Client) ([]byte, error) {
	for e, err := range x.st.Events {
		if err == nil {
			err = x.m.Scan(e.Data, nil)
		}
		if err != nil || x.m.Kind.Response() {
			return e.Data, err
		}
		if err := client.Send(e); err != nil {
			return nil, err
		}
	}
	return nil, io.EOF
}

func (x *fakeExchange) Message() *wire.Message                        { return &x.m }
func (x *fakeExchange) LastEvent() string                             { return "" }
func (x *fakeExchange) Own() bool                                     { return false }
func (x *fakeExchange) Limits() config.TimeLimit                      { return config.TimeLimit{} }
func (x *fakeExchange) Left() bool                                    { return false }
func (x *fakeExchange) Unbegun(error) bool                            { return false }
func (x *fakeExchange) Fail(err error) *mcp.Failure                   { return report.FailureOf(err) }
func (x *fakeExchange) Settle(metrics.Outcome)                        {}
func (x *fakeExchange) CountLater()                                   {}
func (x *fakeExchange) Unsent()                                       {}
func (x *fakeExchange) CancelAtServer(string)                         {}
func (x *fakeExchange) At() report.At                                 { return report.At{} }
func (*fakeExchange) Seen() *observe.Call                             { return nil }
func (x *fakeExchange) AppendTiming(header []mcp.Header) []mcp.Header { return header }
func (x *fakeExchange) Done()                                         {}

// request returns the request of a modern client with these capabilities. params are without the braces.
func request(t *testing.T, id, method, params, capabilities string) *stateless.Request {
	t.Helper()
	if params != "" {
		params += ","
	}
	body := `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + params + `"_meta":{"` + mcp.MetaVersion + `":"` + translate.Modern() + `","` + mcp.MetaCapabilities + `":` + capabilities + `}}}`
	var m wire.Message
	if err := m.Scan([]byte(body), nil); err != nil {
		t.Fatal(err)
	}
	q, err := stateless.Read(&m, "")
	if err == nil {
		err = q.Own(t.Context(), large.NewMemory(1<<20))
	}
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// session returns the pooled session of a principal, in use until the test ends.
func session(t *testing.T, br *Bridge, who string) *pooledSession {
	t.Helper()
	b, err := br.pool.get(caller{ctx: t.Context(), q: request(t, "1", "tools/list", "", `{}`), who: who})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { br.pool.release(b) })
	return b
}

func answers(string, string, gjson.Result) []string { return nil }

// TestPanicOfAReaderIsTheCallsAnswer: if the goroutine that reads for a call panics, the client gets an error and does
// not wait.
func TestPanicOfAReaderIsTheCallsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		br := bridgeTo(t, &fakeServer{answer: func(string, string, gjson.Result) []string { return []string{"panic"} }})
		r, err := br.Begin(t.Context(), request(t, "4", "tools/call", `"name":"t","arguments":{}`, `{"elicitation":{}}`), "", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer r.End()
		if r.(*relay).box == nil {
			t.Fatal("no goroutine reads for the call")
		}
		answer, err := r.Answer(nil)
		if err != nil || !strings.Contains(string(answer), `"id":4,"error":{"code":-32603,"message":"internal error"}`) {
			t.Errorf("%s, %v", answer, err)
		}
	})
}

// interruptible is a script whose reading can be interrupted. It notes who reads it.
type interruptible struct {
	script
	by          []string
	interrupted bool
	before      func() // called before each event; nil for nothing
}

func (s *interruptible) Events(yield func(sse.Event, error) bool) {
	s.script.Events(func(e sse.Event, err error) bool {
		s.by = append(s.by, string(debug.Stack()))
		if s.before != nil {
			s.before()
		}
		return yield(e, err)
	})
}

func (s *interruptible) CanInterrupt() bool { return true }
func (s *interruptible) Interrupt()         { s.interrupted = true }

// sentTo is a client that remembers what it receives.
type sentTo []string

func (c *sentTo) Send(e sse.Event) error {
	*c = append(*c, string(e.Data))
	return nil
}

// TestGoroutineOfTheRequestReads: a call whose client may be asked needs no goroutine of its own until it is, and no
// outbox for what comes before the response.
func TestGoroutineOfTheRequestReads(t *testing.T) {
	st := &interruptible{script: script{messages: []string{`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"x","progress":1}}`, `{"jsonrpc":"2.0","id":4,"result":{}}`}}}
	br := bridgeTo(t, &fakeServer{stream: st})
	q := request(t, "4", "tools/call", `"name":"t","arguments":{}`, `{"elicitation":{}}`)
	q.ProgressToken = []byte(`"x"`)
	r, err := br.Begin(t.Context(), q, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.End()
	var client sentTo
	if answer, err := r.Answer(&client); err != nil || !strings.Contains(string(answer), `"id":4,"result"`) {
		t.Errorf("%s, %v", answer, err)
	}
	if len(client) != 1 || !strings.Contains(client[0], "progress") || st.interrupted {
		t.Errorf("the client has %q, interrupted: %v", client, st.interrupted)
	}
	for _, stack := range st.by {
		if !strings.Contains(stack, "(*relay).Answer") {
			t.Errorf("read by\n%s", stack)
		}
	}
	if len(st.by) != 2 {
		t.Errorf("read %d times", len(st.by))
	}
}

// TestMemoryIsUsedAgainOnlyIfNothingElseKnowsIt: what another goroutine has of a call must not become another call.
func TestMemoryIsUsedAgainOnlyIfNothingElseKnowsIt(t *testing.T) {
	for name, c := range map[string]struct {
		reading  func(d *parkedCall) // while the response is read
		answered func(d *parkedCall, leave context.CancelFunc)
		again    bool
	}{
		"alone": {again: true},
		"a question looks for a call": {reading: func(d *parkedCall) {
			if talks, _ := d.b.calls.lend(); len(talks) != 1 || talks[0] != openCall(d) {
				t.Errorf("calls that may ask: %v", talks)
			}
		}},
		"a question has found none": {again: true, reading: func(d *parkedCall) { d.b.calls.lend(); d.b.calls.giveBack() }},
		"a notification looks for its call": {reading: func(d *parkedCall) {
			if got := d.b.calls.about(&wire.Message{}, false); got != openCall(d) {
				t.Errorf("it is about %v", got)
			}
		}},
		"the timer has fired": {reading: func(d *parkedCall) {
			if !d.timer.Stop() { // as if it had
				t.Error("no timer runs")
			}
		}},
		"the client has left": {answered: func(_ *parkedCall, leave context.CancelFunc) { leave() }},
	} {
		t.Run(name, func(t *testing.T) {
			st := &interruptible{script: script{messages: []string{`{"jsonrpc":"2.0","id":4,"result":{}}`}}}
			br := bridgeTo(t, &fakeServer{stream: st, silent: config.TimeLimit{FirstByte: time.Hour, Silence: time.Hour}})
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			begun, err := br.Begin(ctx, request(t, "4", "tools/call", `"name":"t","arguments":{}`, `{"elicitation":{}}`), "", nil)
			if err != nil {
				t.Fatal(err)
			}
			r := begun.(*relay)
			d := r.reads
			if d == nil {
				t.Fatal("another goroutine reads")
			}
			if c.reading != nil {
				st.before = func() { c.reading(d) }
			}
			if answer, err := r.Answer(new(sentTo)); err != nil || !strings.Contains(string(answer), `"result"`) {
				t.Fatalf("%s, %v", answer, err)
			}
			if c.answered != nil {
				c.answered(d, leave)
			}
			r.End()
			if again := d.of == nil; again != c.again {
				t.Errorf("its memory is given back: %v, want %v", again, c.again)
			}
		})
	}
}

// TestURLsOfACallAreBounded: the server names the others when the call is repeated.
func TestURLsOfACallAreBounded(t *testing.T) {
	br := bridgeTo(t, &fakeServer{answer: answers})
	d := &parkedCall{of: br.parked, first: &stateless.Request{Facts: wire.ClientElicitationURL}, b: br.pool.addLocked(poolKey{}, quota.Holder{})}
	d.askURLs([]byte(`{"jsonrpc":"2.0","id":1,"error":{"code":-32042,"message":"m","data":{"elicitations":[` + strings.Repeat(`{"mode":"url","url":"https://a.example/c"},`, crossing.MaxQuestions) + `{"mode":"url"}]}}}`))
	if n := len(d.asked.open); n != crossing.MaxQuestions {
		t.Errorf("%d questions", n)
	}
}

// TestCancelledCallDoesNotWaitForItsURLs: a call that is cancelled before the server has
// named its URLs leaves nothing behind.
func TestCancelledCallDoesNotWaitForItsURLs(t *testing.T) {
	br := bridgeTo(t, &fakeServer{answer: answers})
	d := &parkedCall{of: br.parked, first: &stateless.Request{Facts: wire.ClientElicitationURL}, b: br.pool.addLocked(poolKey{}, quota.Holder{}), over: true}
	d.askURLs([]byte(`{"jsonrpc":"2.0","id":1,"error":{"code":-32042,"message":"m","data":{"elicitations":[{"mode":"url","elicitationId":"e1","url":"https://a.example/c","message":"Sign in"}]}}}`))
	if n := d.b.urls.calls(); n > 0 {
		t.Errorf("%d calls are waited for", n)
	}
}

// greedy opens new sessions again and again, with this many clients, and keeps them in use.
func (p *sessionPool) greedy(who string, times int) (got int) {
	for n := range times {
		if b, _, _ := p.acquire(poolKey{principal: who, client: fmt.Sprint(n), capabilities: "{}"}, quota.Holder{Principal: who}); b != nil {
			got++
		}
	}
	return got
}

// TestOnePrincipalDoesNotTakeAllSessions: other principals still get sessions.
func TestOnePrincipalDoesNotTakeAllSessions(t *testing.T) {
	for _, times := range []int{10, 100} {
		const most = 64
		p := bridgeTo(t, &fakeServer{answer: answers}, func(c *config.Config) { c.Bridge.MaxSessions = most }).pool
		left := most
		for n := range 4 {
			got := p.greedy(fmt.Sprint("greedy ", n), times*most)
			if left -= got; got == 0 || left <= 0 || got > left+2 {
				t.Errorf("%d times, %d: %d sessions, and %d are left", times, n, got, left)
			}
		}
		for n := range left {
			if got := p.greedy(fmt.Sprint("modest ", n), 1); got != 1 {
				t.Errorf("%d times: a client finds none, though %d were left", times, left-n)
			}
		}
		if p.greedy("late", 1) != 0 || p.servers.size != most {
			t.Errorf("%d sessions", p.servers.size)
		}
	}
}

var lasting = gjson.Parse("60000")

// TestTooManyTasks: one principal has at most half of the room, others still find some, and all is given back.
func TestTooManyTasks(t *testing.T) {
	br := bridgeTo(t, &fakeServer{answer: answers}, func(c *config.Config) { c.Contract.Tasks = "bridge" })
	one, other := session(t, br, "one"), session(t, br, "other")
	n := 0
	for br.tasks.enter(one, fmt.Sprint(n), lasting) {
		n++
	}
	if n < maxBackedTasks/2 || n == maxBackedTasks {
		t.Errorf("room for %d", n)
	}
	if br.tasks.room(br.pool.holderOf(one), time.Now()) {
		t.Error("another task may be begun")
	}
	if !br.tasks.enter(other, "0", lasting) {
		t.Error("no room for another principal")
	}
	if br.tasks.enter(other, "0", lasting) {
		t.Error("two tasks have one id")
	}
	br.tasks.expire(time.Now().Add(time.Hour))
	if c := br.Counts(); c.Tasks != 0 || c.Uses != 2 {
		t.Errorf("%+v", c)
	}
}

// TestTaskThatIsOneTooManyEndsAtItsServer: the task is cancelled, although the server has already created it.
func TestTaskThatIsOneTooManyEndsAtItsServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeServer{answer: func(id, method string, _ gjson.Result) []string {
			return []string{`{"jsonrpc":"2.0","id":` + id + `,"result":{}}`}
		}}
		br := bridgeTo(t, f, func(c *config.Config) { c.Contract.Tasks = "bridge" })
		b := session(t, br, "")
		for n := 0; br.tasks.enter(b, fmt.Sprint(n), lasting); n++ {
		}
		st := br.tasks.created(&script{messages: []string{`{"jsonrpc":"2.0","id":7,"result":{"task":{"taskId":"t1","ttl":60000}}}`}}, b, []byte("7"), nil)
		if e, err := upstream.First(st); err != nil || gjson.GetBytes(e.Data, "error.code").Int() != -32603 {
			t.Errorf("%s, %v", e.Data, err)
		}
		synctest.Wait()
		cancels := f.said("tasks/cancel")
		if len(cancels) != 1 || gjson.Get(cancels[0], "params").Raw != `{"taskId":"t1"}` {
			t.Errorf("the task is cancelled by %q", cancels)
		}
	})
}

// TestTaskOfALostSessionIsNotHeld, also if the session was lost while the task was created.
func TestTaskOfALostSessionIsNotHeld(t *testing.T) {
	br := bridgeTo(t, &fakeServer{answer: answers})
	b := session(t, br, "who")
	br.tasks.enter(b, "t1", lasting)
	b.discard()
	br.tasks.enter(b, "t2", lasting)
	for _, id := range []string{"t1", "t2"} {
		if br.tasks.find("who", id) != nil {
			t.Errorf("%s is held", id)
		}
	}
	if n := br.Counts().Uses; n != 1 {
		t.Errorf("the session is in use %d times", n)
	}
}

// TestStatusNotificationsContinueAfterAPanic of the goroutine that sent the earlier ones.
func TestStatusNotificationsContinueAfterAPanic(t *testing.T) {
	br := bridgeTo(t, &fakeServer{answer: answers})
	broken := &pooledTask{telling: true} // the session is missing, which causes the panic
	if br.host.Report.Contained(broken.notifyAll) {
		t.Fatal("no panic")
	}
	if broken.telling {
		t.Error("no client is told, now or later")
	}
}

// TestNoKeptResultsWithoutAServer: a session that began while the server could not be reached lists only dragoman's own tools.
func TestNoKeptResultsWithoutAServer(t *testing.T) {
	f := &fakeServer{}
	br := bridgeTo(t, f, func(c *config.Config) { c.Bridge.TTL = time.Minute })
	br.results = results.New(func() results.Bounds { return results.Bounds{Bytes: 1 << 20, Entries: 10} })
	for _, serverless := range []bool{false, true} {
		b := &pooledSession{s: &fakeSession{f: f, serverless: serverless}, settled: make(chan struct{})}
		b.hearing.Do(func() { close(b.settled) }) // it listens already
		r := &relay{br: br, b: b, caller: caller{ctx: t.Context(), q: &stateless.Request{Method: wire.ToolsList}}}
		if e := r.enquire(); (e == nil) != serverless {
			t.Errorf("without a server: %v, and the results kept are used: %v", serverless, e != nil)
		}
	}
}
