package tests

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// family is a command that is restarted: each start is a new fake server.
type family struct {
	mu       sync.Mutex
	starts   int
	children []*fakeServer
	refuse   func(nth int) error
	wrap     func(nth int, conn upstream.Conn) upstream.Conn // nil for none
	born     func(nth int) *fakeServer
}

func newFamily(born func(nth int) *fakeServer) *family { return &family{born: born} }

func (f *family) origin() origin.Origin {
	o := origin.Opened(true, func(context.Context) (upstream.Conn, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.starts++
		if f.refuse != nil {
			if err := f.refuse(f.starts); err != nil {
				return nil, err
			}
		}
		c := f.born(f.starts)
		f.children = append(f.children, c)
		if f.wrap != nil {
			return f.wrap(f.starts, c.conn()), nil
		}
		return c.conn(), nil
	})
	o.Restarts = true
	return o
}

// child waits for the nth started server, from 0.
func (f *family) child(t *testing.T, nth int) (c *fakeServer) {
	t.Helper()
	eventually(t, "child started", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(f.children) > nth {
			c = f.children[nth]
		}
		return c != nil
	})
	return c
}

func (f *family) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.starts
}

// quickly makes restarts follow at once.
func quickly(cfg *config.Config) {
	cfg.Upstream.Restart.Wait, cfg.Upstream.Restart.MaxWait = time.Millisecond, time.Millisecond
}

var exited = &upstream.ExitError{Command: "child", Status: "exit status 3"}

// got waits until a server has got a message that contains this text, and returns it.
func got(t *testing.T, f *fakeServer, part string) (message string) {
	t.Helper()
	eventually(t, "got "+part, func() bool {
		for _, m := range f.sent() {
			if strings.Contains(m, part) {
				message = m
			}
		}
		return message != ""
	})
	return message
}

func silentChild(int) *fakeServer { return silentPipe() }

const (
	initializedNotice = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	callSecond        = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t"}}`
)

// TestSubscriptionsThatARestartLoses: the log says how many there are.
func TestSubscriptionsThatARestartLoses(t *testing.T) {
	kids := newFamily(silentChild)
	srv := frontOf(t, kids.origin(), quickly)
	s := srv.initializeWith("2025-06-18", `{}`)
	first := kids.child(t, 0)
	srv.post(s, initializedNotice)
	const kept, lost = 149, 2
	for n := 1; n <= kept+lost; n++ { // each takes 7,000 bytes of the 1 MiB for a session
		c := srv.call(first, s, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"resources/subscribe","params":{"uri":"a:%d:%s"}}`, n, n, strings.Repeat("x", 3379)))
		got(t, first, fmt.Sprintf(`"a:%d:`, n))
		first.Unasked(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, n))
		<-c.reply
	}
	for nth := range 2 {
		kids.child(t, nth).lose(exited)
		next := kids.child(t, nth+1)
		again := srv.call(next, s, callOne) // waits until the process is ready
		next.Unasked(answer(gjson.Get(got(t, next, `"tools/call"`), "id").Raw))
		<-again.reply
		if sent := strings.Count(strings.Join(next.sent(), "\n"), "resources/subscribe"); sent != kept {
			t.Errorf("process %d was sent %d subscriptions", nth+1, sent)
		}
	}
	said := srv.logs.FilterMessage("subscriptions are not restored: clients must subscribe again").All()
	if len(said) != 1 || said[0].ContextMap()["requests"] != int64(lost) {
		t.Errorf("the log says %v", said)
	}
}

// TestRestartedProcessThatSpeaksFirst: a process may not read the subscriptions of the old one before its own messages are read,
// as when pipes are full. What the client sends meanwhile follows them, in the order of the client.
func TestRestartedProcessThatSpeaksFirst(t *testing.T) {
	const many = 300
	kids := newFamily(silentChild)
	kids.wrap = func(nth int, conn upstream.Conn) upstream.Conn {
		if nth == 1 {
			return conn
		}
		return &narrowConn{Conn: conn, read: make(chan struct{})}
	}
	srv := frontOf(t, kids.origin(), quickly)
	s := srv.initializeWith("2025-06-18", `{}`)
	first := kids.child(t, 0)
	srv.post(s, initializedNotice)
	for n := range many {
		c := srv.call(first, s, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"resources/subscribe","params":{"uri":"a:%d"}}`, n, n))
		first.Unasked(`{"jsonrpc":"2.0","id":` + gjson.Get(got(t, first, fmt.Sprintf(`"a:%d"`, n)), "id").Raw + `,"result":{}}`)
		<-c.reply
	}
	first.lose(exited)
	next := kids.child(t, 1)
	again := srv.call(next, s, callOne)
	next.Unasked(answer(gjson.Get(got(t, next, `"tools/call"`), "id").Raw))
	// The updates may come on the call's stream, or later on the standing one.
	if r := <-again.reply; !strings.Contains(strings.Join(append(r.events, r.body), ""), `"result"`) {
		t.Errorf("the call got %s, after %d events", r.body, len(r.events))
	}
	var uris []string
	for _, m := range next.sent() {
		if uri := gjson.Get(m, "params.uri"); uri.Exists() {
			uris = append(uris, uri.String())
		}
	}
	for n, uri := range uris {
		if uri != fmt.Sprintf("a:%d", n) {
			t.Fatalf("subscription %d is to %s", n, uri)
		}
	}
	if sent := next.sent(); len(uris) != many || gjson.Get(sent[len(sent)-1], "method").String() != "tools/call" {
		t.Errorf("%d subscriptions, and last %s", len(uris), sent[len(sent)-1])
	}
	if kids.count() != 2 {
		t.Errorf("%d processes", kids.count())
	}
}

// A narrowConn takes no subscription before its stream is read on behind the first response.
type narrowConn struct {
	upstream.Conn
	read chan struct{}
}

func (c *narrowConn) Send(ctx context.Context, m *upstream.Outgoing) (upstream.Stream, error) {
	if strings.Contains(string(m.Body), "resources/subscribe") {
		select {
		case <-c.read:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return c.Conn.Send(ctx, m)
}

func (c *narrowConn) Listen(ctx context.Context, o upstream.ListenOptions) (upstream.Stream, error) {
	st, err := c.Conn.Listen(ctx, o)
	return &narrowStream{Stream: st, of: c}, err
}

type narrowStream struct {
	upstream.Stream
	of    *narrowConn
	times int // that it was read
}

func (s *narrowStream) Events(yield func(sse.Event, error) bool) {
	if s.times++; s.times == 2 {
		close(s.of.read)
	}
	s.Stream.Events(yield)
}

func TestRestartedProcessGetsTheSessionsState(t *testing.T) {
	kids := newFamily(silentChild)
	srv := frontOf(t, kids.origin(), quickly)
	s := srv.initializeWith("2025-06-18", `{"roots":{}}`)
	first := kids.child(t, 0)
	srv.post(s, initializedNotice)
	level := srv.call(first, s, `{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"error"}}`)
	sub := srv.call(first, s, `{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"a:b"}}`)
	not := srv.call(first, s, `{"jsonrpc":"2.0","id":3,"method":"resources/subscribe","params":{"uri":"a:c"}}`)
	un := srv.call(first, s, `{"jsonrpc":"2.0","id":4,"method":"resources/unsubscribe","params":{"uri":"a:c"}}`)
	for i, c := range []calling{level, sub, not, un} {
		first.Unasked(answer(string(rune('1' + i))))
		<-c.reply
	}
	refused := srv.call(first, s, `{"jsonrpc":"2.0","id":5,"method":"resources/subscribe","params":{"uri":"a:d"}}`)
	first.Unasked(`{"jsonrpc":"2.0","id":5,"error":{"code":-32002,"message":"Resource not found"}}`)
	<-refused.reply
	lost := srv.call(first, s, callOne)
	first.lose(exited)
	r := <-lost.reply
	if r.status != 200 || gjson.Get(r.body, "id").Raw != "1" || gjson.Get(r.body, "error.code").Int() != -32603 ||
		!strings.Contains(r.body, "being restarted") || !strings.Contains(r.body, "exit status 3") {
		t.Errorf("%+v", r)
	}
	second := kids.child(t, 1)
	if hello := got(t, second, `"initialize"`); hello != first.sent()[0] {
		t.Errorf("initialize differs:\n%s\n%s", hello, first.sent()[0])
	}
	again := srv.call(second, s, callOne) // waits until the process is ready
	got(t, second, `"tools/call"`)
	told := second.sent()[1:]
	sameList(t, "told", withoutIDs(told), withoutIDs([]string{
		initializedNotice,
		`{"jsonrpc":"2.0","id":0,"method":"logging/setLevel","params":{"level":"error"}}`,
		`{"jsonrpc":"2.0","id":0,"method":"resources/subscribe","params":{"uri":"a:b"}}`,
		callOne,
	}))
	second.Unasked(answer(gjson.Get(told[1], "id").Raw)) // for no client
	second.Unasked(answer(gjson.Get(told[2], "id").Raw))
	second.Unasked(answer(gjson.Get(second.said("tools/call")[0], "id").Raw))
	r = <-again.reply
	if len(r.events) > 0 { // the update of a:b may have come first, as the session has no other stream
		r.body = r.events[len(r.events)-1]
	}
	if r.body != answer(`1`) {
		t.Errorf("%+v", r)
	}
	if n := counted(t, srv.Metrics, "dragoman_messages_dropped_total"); n != 0 {
		t.Errorf("%d answers of ours went further", n)
	}
	if n := counted(t, srv.Metrics, "dragoman_upstream_restarts_total"); n != 1 {
		t.Errorf("%d restarts counted", n)
	}
}

func TestOnlyInitializeIsReplayedBeforeTheClientIsReady(t *testing.T) {
	kids := newFamily(silentChild)
	srv := frontOf(t, kids.origin(), quickly)
	s := srv.initialize("2025-06-18")
	kids.child(t, 0).lose(exited)
	second := kids.child(t, 1)
	srv.post(s, initializedNotice)
	got(t, second, "initialized")
	if all := second.sent(); len(all) != 2 {
		t.Errorf("%q", all)
	}
}

func TestStreamOfALostCallEndsWithAnError(t *testing.T) {
	kids := newFamily(silentChild)
	srv := frontOf(t, kids.origin(), quickly)
	s := srv.initialize("2025-06-18")
	first := kids.child(t, 0)
	c := srv.call(first, s, callTool(`1`, `1`))
	first.Unasked(progress(`1`))
	first.lose(exited)
	r := <-c.reply
	if len(r.events) != 2 || !strings.Contains(r.events[1], "being restarted") {
		t.Errorf("%q", r.events)
	}
	if srv.Table.Len() != 1 {
		t.Error("the session is gone")
	}
}

func TestRestartsAreBoundedThenTheSessionEnds(t *testing.T) {
	kids := newFamily(silentChild)
	kids.refuse = func(nth int) error {
		if nth == 1 {
			return nil
		}
		return exited
	}
	srv := frontOf(t, kids.origin(), quickly, func(cfg *config.Config) { cfg.Upstream.Restart.Max = 3 })
	s := srv.initialize("2025-06-18")
	kids.child(t, 0).lose(exited)
	eventually(t, "session ended", func() bool { return srv.Table.Len() == 0 })
	if n := kids.count(); n != 4 {
		t.Errorf("started %d times, want once and three times again", n)
	}
	if r := srv.post(s, callOne); r.status != 404 {
		t.Errorf("%+v", r)
	}
}

func TestProcessThatDiesSoonIsStartedLaterEachTime(t *testing.T) {
	b := pipes.Backoff{First: time.Second, Last: 30 * time.Second, Max: 7}
	var waits []time.Duration
	for b.Another(time.Second) {
		waits = append(waits, b.Wait()/time.Second)
	}
	want := []time.Duration{1, 2, 4, 8, 16, 30, 30}
	if len(waits) != len(want) {
		t.Fatalf("%d", waits)
	}
	for i := range want {
		if waits[i] != want[i] {
			t.Errorf("%d, want %d", waits, want)
		}
	}
	if !b.Another(time.Minute) || b.Wait() != time.Second {
		t.Error("a minute of health is not remembered")
	}
}

func TestProcessOfAnotherRevisionEndsTheSession(t *testing.T) {
	kids := newFamily(func(nth int) *fakeServer {
		f := silentPipe()
		if nth > 1 {
			f.Script = initializing("2025-03-26", nil)
		}
		return f
	})
	srv := frontOf(t, kids.origin(), quickly)
	srv.initialize("2025-06-18")
	kids.child(t, 0).lose(exited)
	eventually(t, "session ended", func() bool { return srv.Table.Len() == 0 })
	if n := kids.count(); n != 2 {
		t.Errorf("started %d times", n)
	}
}

func TestWithoutRestartsTheSessionEndsWithTheProcess(t *testing.T) {
	kids := newFamily(silentChild)
	srv := frontOf(t, kids.origin(), func(cfg *config.Config) { cfg.Upstream.Restart.Max = 0 })
	srv.initialize("2025-06-18")
	kids.child(t, 0).lose(exited)
	eventually(t, "session ended", func() bool { return srv.Table.Len() == 0 })
	if kids.count() != 1 {
		t.Error("it was started again")
	}
}

func TestCallsWaitForTheNewProcessWithinTheHandshakeTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		kids := newFamily(silentChild)
		srv := frontOf(t, kids.origin(), func(cfg *config.Config) {
			cfg.Upstream.Restart = config.Restart{Max: 1, Wait: time.Hour, MaxWait: time.Hour}
			cfg.Upstream.HandshakeTimeout = 50 * time.Millisecond
		})
		s := srv.initialize("2025-06-18")
		first := kids.child(t, 0)
		lost := srv.call(first, s, callOne)
		first.lose(exited)
		<-lost.reply
		eventually(t, "a call that waited in vain", func() bool {
			r := srv.post(s, callSecond)
			return r.status == 200 && strings.Contains(r.body, "not ready yet")
		})
	})
}

func TestQuestionsOfALostProcessAreCancelled(t *testing.T) {
	kids := newFamily(silentChild)
	srv := frontOf(t, kids.origin(), quickly)
	s := srv.initializeWith("2025-06-18", `{"sampling":{}}`)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	_, resp := srv.begin(ctx, "GET", s, "")
	next := func() string {
		t.Helper()
		e, err := resp.Stream.Next()
		if err != nil {
			t.Fatal(err)
		}
		return string(e.Data)
	}
	first := kids.child(t, 0)
	first.Unasked(sampling)
	id := gjson.Get(next(), "id").Raw
	first.lose(exited)
	sameJSON(t, next(), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+id+`,"reason":"the server was started again"}}`)
	second := kids.child(t, 1)
	if r := srv.post(s, `{"jsonrpc":"2.0","id":`+id+`,"result":{"role":"assistant","model":"m","content":{"type":"text","text":"x"}}}`); r.status != 202 {
		t.Errorf("%+v", r)
	}
	srv.post(s, initializedNotice)
	got(t, second, "initialized")
	for _, m := range second.sent() {
		if strings.Contains(m, "assistant") {
			t.Errorf("the new process got an answer that it did not ask for: %s", m)
		}
	}
	second.Unasked(sampling)
	again := gjson.Get(next(), "id").Raw
	if again == id {
		t.Errorf("the client knows the question of the new process by the id %s, too, which that of the old one had", id)
	}
	for _, of := range []string{id, again} { // the client answers late, although the question is over, and then the one of the new process
		if r := srv.post(s, `{"jsonrpc":"2.0","id":`+of+`,"result":{"role":"assistant","model":"m","content":{"type":"text","text":`+of+`}}}`); r.status != 202 {
			t.Errorf("%+v", r)
		}
	}
	if m := gjson.Parse(got(t, second, "assistant")); m.Get("id").Raw != id || m.Get("result.content.text").Raw != again {
		t.Errorf("the new process, whose question has the id %s, got %s", id, m.Raw)
	}
	resp.Stream.Close()
	resp.Done()
}

func TestClientOnAPipeOutlivesTheProcess(t *testing.T) {
	kids := newFamily(silentChild)
	srv := frontOf(t, kids.origin(), quickly)
	c := srv.pipe()
	c.initialize("2025-06-18", `{}`)
	c.say(initializedNotice)
	c.say(callOne)
	first := kids.child(t, 0)
	got(t, first, "tools/call")
	first.lose(exited)
	if m := c.hear(); gjson.Get(m, "id").Raw != "1" || !strings.Contains(m, "being restarted") {
		t.Errorf("%s", m)
	}
	c.say(callSecond)
	second := kids.child(t, 1)
	got(t, second, "tools/call")
	second.Unasked(answer(`2`))
	if m := c.hear(); m != answer(`2`) {
		t.Errorf("%s", m)
	}
	if err := c.end(); err != nil {
		t.Error(err)
	}
}

func TestSessionEndsWhileItsProcessIsStartedAgain(t *testing.T) {
	kids := newFamily(silentChild)
	srv := frontOf(t, kids.origin(), func(cfg *config.Config) {
		cfg.Upstream.Restart = config.Restart{Max: 1, Wait: time.Hour, MaxWait: time.Hour}
	})
	s := srv.initialize("2025-06-18")
	first := kids.child(t, 0)
	lost := srv.call(first, s, callOne)
	first.lose(exited)
	<-lost.reply
	if r := srv.exchange(context.Background(), "DELETE", s, ""); r.status >= 300 {
		t.Errorf("%+v", r)
	}
	// and nothing is left behind, as front finds out
}

func TestHowARestartLooksToClients(t *testing.T) {
	f := report.FailureOf(&pipes.RestartError{Err: exited})
	if f.Cause != mcp.UpstreamRestarted || !errors.Is(f, exited) {
		t.Errorf("%+v", f)
	}
}

func TestRealProcessIsStartedAgain(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no sh here")
	}
	const script = `while read -r line; do id=${line#*'"id":'}; id=${id%%,*}; case "$line" in
		*'"initialize"'*) echo '{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"s","version":"2"}}}';;
		*tools/call*) exit 3;;
		*tools/list*) echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"tools":[]}}';;
	esac; done`
	cfg := config.Default()
	cfg.Upstream.Command = []string{sh, "-c", script}
	srv := frontOf(t, configured(t, cfg), quickly)
	s := srv.initialize("2025-06-18")
	for range 3 {
		if r := srv.post(s, callOne); r.status != 200 || !strings.Contains(r.body, "exit status 3") {
			t.Errorf("%+v", r)
		}
		if r := srv.post(s, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`); gjson.Get(r.body, "result.tools").Raw != "[]" {
			t.Errorf("%+v", r)
		}
	}
}
