package share

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/ops/host"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/origin/era"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/processes"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
)

// program is a process that answers initialize, and says what the test says.
type program struct {
	upstream.Plain
	says  chan string
	fails chan error // to read one message, after which others follow
	over  chan struct{}
	busy  chan struct{} // while it is open, the process reads nothing; nil for a process that reads on
	gone  error         // of what is sent to it; nil while it runs

	mu   sync.Mutex
	got  []string
	once sync.Once
}

func (p *program) Send(_ context.Context, m *upstream.Outgoing) (upstream.Stream, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	body := string(m.Body)
	if gjson.Get(body, "method").String() == "initialize" {
		p.says <- `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"` + translate.Latest().Name + `","capabilities":{"tools":{},"logging":{},"tasks":{}},"serverInfo":{"name":"s","version":"1"}}}`
		return nil, nil
	}
	if p.busy != nil {
		p.mu.Unlock()
		<-p.busy
		p.mu.Lock()
	}
	if p.gone != nil {
		return nil, p.gone
	}
	p.got = append(p.got, body)
	return nil, nil
}

// takes returns what the process got since the last call.
func (p *program) takes() []string {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	got := p.got
	p.got = nil
	return got
}

func (p *program) Listen(context.Context, upstream.ListenOptions) (upstream.Stream, error) {
	return nil, upstream.ErrNoStream
}

func (p *program) Close(context.Context) error {
	p.once.Do(func() { close(p.over) })
	return nil
}

// output is the standing stream of a process.
type output struct{ *program }

func (o output) Close() error { return o.program.Close(context.Background()) }

func (o output) Events(yield func(sse.Event, error) bool) {
	for {
		select {
		case m := <-o.says:
			if !yield(sse.Event{Data: []byte(m)}, nil) {
				return
			}
		case err := <-o.fails:
			if !yield(sse.Event{}, &upstream.Error{Op: "read", Addr: "s", Err: err}) {
				return
			}
		case <-o.over:
			yield(sse.Event{}, upstream.ErrLost)
			return
		}
	}
}

// user is a session with the shared process.
type user struct {
	t  *testing.T
	at *upstream.Begun
}

// shared returns a process, and a function that begins sessions with it. change changes the configuration.
func shared(t *testing.T, change func(*config.Config)) (*program, func() *user) {
	t.Helper()
	cfg, none := config.Default(), func() float64 { return 0 }
	cfg.Upstream.Restart.Max = 0
	change(&cfg)
	h := host.New(zap.NewNop(), metrics.New("v0", none, none), large.NewMemory(16<<20), "v0", func() report.Setup { return report.Setup{Config: &cfg} })
	p := &program{says: make(chan string, 100), fails: make(chan error), over: make(chan struct{})}
	proxy := &Proxy{Host: h, Eras: era.New(h, func() func(context.Context) (*upstream.Begun, error) { return nil }), Connect: func(ctx context.Context, initialize *upstream.Outgoing) (*upstream.Begun, error) {
		if _, err := p.Send(ctx, initialize); err != nil {
			return nil, err
		}
		return &upstream.Begun{Conn: p, Standing: output{p}}, nil
	}}
	sh, clients := New(), 0
	t.Cleanup(func() {
		sh.Close()
		h.Wait()
	})
	return p, func() *user {
		t.Helper()
		clients++
		b, err := sh.Join(processes.For(t.Context(), fmt.Sprint(clients)), proxy, &upstream.Outgoing{Body: []byte(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"capabilities":{"sampling":{}}}}`), Request: true})
		if err != nil {
			t.Fatal(err)
		}
		u := &user{t, b}
		if got := u.next(); gjson.Get(got, "id").Raw != `"i"` || gjson.Get(got, "result.capabilities").Raw != `{"tools":{}}` {
			t.Errorf("initialized with %s", got)
		}
		if got := p.takes(); len(got) > 1 || len(got) == 1 && !strings.Contains(got[0], "notifications/initialized") {
			t.Errorf("the process got %q", got)
		}
		return u
	}
}

func (u *user) say(body string) {
	u.t.Helper()
	if _, err := u.at.Conn.Send(u.t.Context(), &upstream.Outgoing{Body: []byte(body), Request: gjson.Get(body, "id").Exists()}); err != nil {
		u.t.Error(err)
	}
}

func (u *user) next() string {
	u.t.Helper()
	e, err := upstream.First(u.at.Standing)
	if err != nil {
		u.t.Fatal(err)
	}
	return string(e.Data)
}

// nothing checks that no message waits.
func (u *user) nothing() {
	u.t.Helper()
	synctest.Wait()
	m := u.at.Conn.(*Conn)
	m.mu.Lock()
	defer m.mu.Unlock()
	if waiting, ok := m.queue.Pop(); ok {
		u.t.Errorf("unexpected: %s", waiting)
	}
}

func same(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("\n got %q\nwant %q", got, want)
	}
}

// TestShareOfWhatWaits: while the process is busy, a client of which too many messages wait gets an error. Others do not notice.
func TestShareOfWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, begin := shared(t, func(cfg *config.Config) { cfg.Limits.OpenRequests = 8 })
		a, b := begin(), begin()
		p.busy = make(chan struct{})
		var calls sync.WaitGroup
		send := func(u *user, id int) (err error) {
			calls.Go(func() {
				_, e := u.at.Conn.Send(t.Context(), &upstream.Outgoing{Body: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`, id), Request: true})
				err = e
			})
			synctest.Wait()
			return err
		}
		full := 0
		for id := range 8 {
			if err := send(a, id); err != nil {
				if f, ok := errors.AsType[*mcp.Failure](err); !ok || f.Cause != mcp.TooManyOpen {
					t.Error(err)
				}
				full++
			}
		}
		if full == 0 || full == 8 {
			t.Errorf("%d of 8 messages of one client found no room", full)
		}
		if err := send(b, 1); err != nil {
			t.Errorf("another client: %v", err)
		}
		close(p.busy)
		calls.Wait()
		p.busy = nil
		if err := send(a, 9); err != nil {
			t.Errorf("after the process has read all: %v", err)
		}
	})
}

// TestEndedWhileARequestIsSent: when a session ends, a request that is on its way to the process is cancelled behind it, and one that
// does not get there is not.
func TestEndedWhileARequestIsSent(t *testing.T) {
	const list = `{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`
	for _, gone := range []error{nil, errors.New("the process has ended")} {
		synctest.Test(t, func(t *testing.T) {
			p, begin := shared(t, func(*config.Config) {})
			a, b := begin(), begin()
			p.busy = make(chan struct{})
			sent := make(chan error, 1)
			go func() {
				_, err := a.at.Conn.Send(t.Context(), &upstream.Outgoing{Body: fmt.Appendf(nil, list, 20), Request: true})
				sent <- err
			}()
			synctest.Wait()
			a.at.Conn.Close(t.Context())
			p.gone = gone
			close(p.busy)
			if err := <-sent; err != gone {
				t.Errorf("the request ended with %v, want %v", err, gone)
			}
			got := p.takes()
			if gone == nil {
				same(t, got, fmt.Sprintf(list, 1), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
			} else {
				same(t, got)
			}
			p.gone = nil
			b.say(fmt.Sprintf(list, 21))
			same(t, p.takes(), fmt.Sprintf(list, 2))
		})
	}
}

// TestSessionsOfOneProcess: each session gets the answers to its own requests, under its own ids, and no message that may be about
// another's.
func TestSessionsOfOneProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, begin := shared(t, func(*config.Config) {})
		a, b := begin(), begin()
		call := func(id, token string) string {
			return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"n","_meta":{"progressToken":` + token + `}}}`
		}
		a.say(call("7", `"t"`))
		b.say(call("7", `"t"`))
		sent := p.takes()
		same(t, sent, call("1", "1"), call("2", "2"))

		progress := func(token string) string {
			return `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + token + `,"progress":1}}`
		}
		response := func(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"result":{}}` }
		p.says <- progress("2")
		p.says <- "[" + response("2") + "," + progress("9") + "," + response("5") + "," + response("1") + `,{"x":1}]`
		same(t, []string{b.next(), b.next(), a.next()}, progress(`"t"`), response("7"), response("7"))
		a.say(call("8", `"u"`))
		same(t, p.takes(), call("3", "3"))
		for _, m := range []string{
			response("1"), "no message", "[" + strings.Repeat("1,", 100_000) + response("3") + "]", `{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"of a call"}}`,
		} {
			p.says <- m
		}
		a.nothing()
		b.nothing()

		p.says <- `{"jsonrpc":"2.0","id":"q","method":"ping"}`
		p.says <- `{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage"}`
		same(t, p.takes(), `{"jsonrpc":"2.0","id":"q","result":{}}`, `{"jsonrpc":"2.0","id":"q","error":{"code":-32601,"message":"Method not found: sampling/createMessage"}}`)

		const changed = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
		p.says <- changed
		same(t, []string{a.next(), b.next()}, changed, changed)
	})
}

// TestWhatSessionsMayNotDo to each other: what concerns the whole process, and requests of others.
func TestWhatSessionsMayNotDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, begin := shared(t, func(c *config.Config) { c.Limits.OpenRequests = 2 })
		a, b := begin(), begin()
		for _, method := range []string{"logging/setLevel", "tasks/get", "tasks/result", "tasks/list", "tasks/cancel"} {
			a.say(`{"jsonrpc":"2.0","id":1,"method":"` + method + `"}`)
			same(t, []string{a.next()}, `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found: `+method+`"}}`)
		}
		for _, m := range []string{
			`{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`,
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`, `{"jsonrpc":"2.0","id":"q","result":{}}`,
		} {
			a.say(m)
		}
		if _, err := a.at.Conn.Send(t.Context(), &upstream.Outgoing{Body: []byte(`{"id":`), Request: true}); err == nil {
			t.Error("what is no message is sent")
		}
		same(t, p.takes())

		list := func(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/list"}` }
		cancelled := func(id string) string {
			return `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`
		}
		b.say(list("5"))
		a.say(cancelled("5")) // of the other one
		same(t, p.takes(), list("1"))
		b.say(cancelled("5"))
		b.say(cancelled("5"))
		same(t, p.takes(), cancelled("1"))

		for _, id := range []string{"10", "11", "12"} { // the oldest is one too many
			a.say(list(id))
		}
		same(t, p.takes(), list("2"), list("3"), list("4"))
		for _, id := range []string{"2", "3", "4"} {
			p.says <- `{"jsonrpc":"2.0","id":` + id + `,"result":{}}`
		}
		same(t, []string{a.next(), a.next()}, `{"jsonrpc":"2.0","id":11,"result":{}}`, `{"jsonrpc":"2.0","id":12,"result":{}}`)
		a.nothing()

		a.say(list("20"))
		a.at.Conn.Close(t.Context())
		same(t, p.takes(), list("5"), cancelled("5"))
		b.say(list("21"))
		same(t, p.takes(), list("6"))
	})
}

// TestSubscriptionsOfSessions: the process is subscribed as long as a session is, and a session gets the changes that it wants.
func TestSubscriptionsOfSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, begin := shared(t, func(*config.Config) {})
		a, b := begin(), begin()
		ask := func(id, method, uri string) string {
			return `{"jsonrpc":"2.0","id":` + id + `,"method":"resources/` + method + `","params":{"uri":"` + uri + `"}}`
		}
		updated := func(uri string) string {
			return `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"` + uri + `"}}`
		}
		a.say(ask("1", "subscribe", "a:x"))
		b.say(ask("1", "subscribe", "a:x"))
		b.say(ask("2", "subscribe", "a:y"))
		same(t, p.takes(), ask("1", "subscribe", "a:x"), ask("2", "subscribe", "a:x"), ask("3", "subscribe", "a:y"))
		p.says <- updated("a:y")
		p.says <- updated("a:x")
		same(t, []string{b.next(), b.next(), a.next()}, updated("a:y"), updated("a:x"), updated("a:x"))

		for _, id := range []string{"1", "2", "3"} {
			p.says <- `{"jsonrpc":"2.0","id":` + id + `,"result":{}}`
		}
		const done = `{"jsonrpc":"2.0","id":%d,"result":{}}`
		same(t, []string{a.next(), b.next(), b.next()}, fmt.Sprintf(done, 1), fmt.Sprintf(done, 1), fmt.Sprintf(done, 2))

		a.say(ask("3", "unsubscribe", "a:x")) // the other one still is
		same(t, []string{a.next()}, fmt.Sprintf(done, 3))
		same(t, p.takes())
		b.say(ask("4", "unsubscribe", "a:x"))
		same(t, p.takes(), ask("4", "unsubscribe", "a:x"))
		p.says <- fmt.Sprintf(done, 4)
		same(t, []string{b.next()}, fmt.Sprintf(done, 4))
		a.at.Conn.Close(t.Context()) // it is subscribed to nothing
		same(t, p.takes())
		b.at.Conn.Close(t.Context())
		same(t, p.takes(), ask("5", "unsubscribe", "a:y"))
	})
}

// TestSubscriptionsAreBounded: a session cannot take memory for ever, and its subscriptions end with it.
func TestSubscriptionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, begin := shared(t, func(c *config.Config) { c.Limits.OpenRequests = 1 })
		a, b := begin(), begin()
		ask := func(u *user, method string, n int) {
			u.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"resources/%s","params":{"uri":"a:%d"}}`, n, method, n))
		}
		for n := range maxSubscribed {
			ask(a, "subscribe", n)
		}
		ask(a, "subscribe", 7) // once more
		a.nothing()
		ask(a, "subscribe", maxSubscribed)
		same(t, []string{a.next()}, `{"jsonrpc":"2.0","id":1000,"error":{"code":-32603,"message":"too many subscriptions: end others with resources/unsubscribe first"}}`)
		ask(b, "subscribe", maxSubscribed)
		ask(a, "unsubscribe", 7)
		ask(a, "subscribe", maxSubscribed)
		a.nothing()
		if n := len(p.takes()); n != maxSubscribed+4 {
			t.Errorf("the process got %d requests", n)
		}
		a.at.Conn.Close(t.Context())
		if n := len(p.takes()); n != maxSubscribed { // one cancellation, and the others but that of b
			t.Errorf("the process got %d messages at the end", n)
		}
	})
}

// TestRefusedSubscriptions: those that the process refuses do not count, and the process is not asked to end them. One that it has
// accepted lasts when another request for it is refused.
func TestRefusedSubscriptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, begin := shared(t, func(*config.Config) {})
		a, b := begin(), begin()
		id := 0
		say := func(u *user, method, uri string) (given int) {
			id++
			u.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"resources/%s","params":{"uri":"%s"}}`, id, method, uri))
			return id
		}
		answer := func(u *user, given int, result string) {
			t.Helper()
			m := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,%s}`, given, result)
			p.says <- m
			same(t, []string{u.next()}, m)
		}
		const accepted, refused = `"result":{}`, `"error":{"code":-32002,"message":"Resource not found"}`
		for n := range maxSubscribed + 1 {
			answer(a, say(a, "subscribe", fmt.Sprintf("a:%d", n)), refused)
		}
		a.nothing()

		answer(a, say(a, "subscribe", "a:kept"), accepted)
		answer(a, say(a, "subscribe", "a:kept"), refused)
		first, second := say(a, "subscribe", "a:both"), say(a, "subscribe", "a:both")
		answer(a, first, refused)
		answer(a, second, accepted)
		answer(b, say(b, "subscribe", "a:shared"), accepted)
		answer(a, say(a, "subscribe", "a:shared"), refused)
		old := say(a, "subscribe", "a:again") // answered when it is another subscription
		say(a, "unsubscribe", "a:again")
		answer(a, say(a, "subscribe", "a:again"), accepted)
		answer(a, old, refused)
		for _, uri := range []string{"a:kept", "a:both", "a:again", "a:shared", "a:1"} {
			p.says <- `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"` + uri + `"}}`
		}
		for _, uri := range []string{"a:kept", "a:both", "a:again"} {
			if got := a.next(); gjson.Get(got, "params.uri").String() != uri {
				t.Errorf("%s: %s", uri, got)
			}
		}
		a.nothing()
		if got := b.next(); gjson.Get(got, "params.uri").String() != "a:shared" {
			t.Error(got)
		}
		p.takes()
		a.at.Conn.Close(t.Context())
		ended := p.takes()
		for i, m := range ended {
			ended[i] = gjson.Get(m, "method").String() + " " + gjson.Get(m, "params").Raw
		}
		slices.Sort(ended)
		same(t, ended[1:], `resources/unsubscribe {"uri":"a:again"}`, `resources/unsubscribe {"uri":"a:both"}`, `resources/unsubscribe {"uri":"a:kept"}`)
		if !strings.HasPrefix(ended[0], "notifications/cancelled") { // of the unsubscribe without an answer
			t.Error(ended[0])
		}
	})
}

// TestMessageThatCannotBeRead: it fails the call that it answers, or all if that is not known. The sessions go on.
func TestMessageThatCannotBeRead(t *testing.T) {
	for name, c := range map[string]struct {
		fails  error
		failed []bool // of two calls
	}{
		"over several lines":                {&upstream.SpreadError{From: 3, To: 5, Begins: "{", Answers: []byte("1")}, []bool{true, false}},
		"a notification over several lines": {&upstream.SpreadError{Asks: true}, []bool{false, false}},
		"too large":                         {&upstream.TooLargeError{Limit: 9, Skipped: true, Answers: []byte("2")}, []bool{false, true}},
		"a large notification":              {&upstream.TooLargeError{Limit: 9, Skipped: true, Asks: true}, []bool{false, false}},
		"any, and too large":                {&upstream.TooLargeError{Limit: 9, Skipped: true}, []bool{true, true}},
	} {
		synctest.Test(t, func(t *testing.T) {
			p, begin := shared(t, func(*config.Config) {})
			users := []*user{begin(), begin()}
			p.takes()
			for _, u := range users {
				u.say(`{"jsonrpc":"2.0","id":"x","method":"tools/call"}`)
			}
			asked := p.takes()
			p.fails <- c.fails
			for i, u := range users {
				if !c.failed[i] {
					u.nothing()
					p.says <- `{"jsonrpc":"2.0","id":` + gjson.Get(asked[i], "id").Raw + `,"result":{}}`
				}
				if got := u.next(); gjson.Get(got, "id").Raw != `"x"` || gjson.Get(got, "error.code").Exists() != c.failed[i] {
					t.Errorf("%s: session %d got %s", name, i, got)
				}
			}
		})
	}
}

// TestProcessThatEnds: all sessions end, and the next one starts another process.
func TestProcessThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, begin := shared(t, func(*config.Config) {})
		users := []*user{begin(), begin()}
		p.Close(t.Context())
		for i, u := range users {
			if _, err := upstream.First(u.at.Standing); !errors.Is(err, upstream.ErrLost) {
				t.Errorf("%d ended with %v", i, err)
			}
			if _, err := u.at.Conn.Send(t.Context(), &upstream.Outgoing{Body: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"ping"}`, i), Request: true}); !errors.Is(err, upstream.ErrLost) {
				t.Errorf("%d: sent with %v", i, err)
			}
			if err := u.at.Conn.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
		same(t, p.takes())
	})
}

// TestSubscriptionsAreBoundedInBytes: of one session, and together with all else that outlives its message. What is given back when
// they end, when the process refuses them, and when the session ends, has room again.
func TestSubscriptionsAreBoundedInBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, begin := shared(t, func(*config.Config) {})
		ask := func(u *user, method string, n int) {
			u.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"resources/%s","params":{"uri":"a:%d:%s"}}`, n, method, n, strings.Repeat("x", 100<<10)))
		}
		tooMany := func(n int) string {
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"error":{"code":-32603,"message":"too many subscriptions: end others with resources/unsubscribe first"}}`, n)
		}
		const most = 5                                                      // of 200 KiB each in 1 MiB
		users, late := []*user{begin(), begin(), begin(), begin()}, begin() // 16 MiB have room for 4 MiB of subscriptions
		for _, u := range users {
			for n := range most {
				ask(u, "subscribe", n)
			}
			u.nothing()
			ask(u, "subscribe", most)
			same(t, []string{u.next()}, tooMany(most))
		}
		ask(late, "subscribe", 1)
		if got := late.next(); !strings.Contains(got, "limits.in_hand") || gjson.Get(got, "id").Int() != 1 {
			t.Errorf("got %s", got)
		}
		ask(users[0], "unsubscribe", 0)
		p.takes()
		ask(late, "subscribe", 2)
		late.nothing()
		ask(late, "subscribe", 3)
		if got := late.next(); !strings.Contains(got, "limits.in_hand") {
			t.Errorf("got %s", got)
		}
		users[1].at.Conn.Close(t.Context())
		ask(late, "subscribe", 4)
		late.nothing()
	})
}
