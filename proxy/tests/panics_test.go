package tests

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// tripwire is a log that panics when a loss between these revisions is logged, in the middle of a
// translation.
type tripwire struct {
	zapcore.Core
	from *atomic.Pointer[string]
}

func (w tripwire) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	return ce.AddCore(e, w)
}

func (w tripwire) With(fields []zapcore.Field) zapcore.Core {
	return tripwire{w.Core.With(fields), w.from}
}

func (w tripwire) Write(e zapcore.Entry, fields []zapcore.Field) error {
	if from := w.from.Load(); from != nil && e.Message == "lost in translation" {
		for _, f := range fields {
			if f.Key == "from" && f.String == *from {
				panic(boom)
			}
		}
	}
	return w.Core.Write(e, fields)
}

// faulty is a server whose tools panic or answer, as their names say.
func faulty(version string, piped bool) *fakeServer {
	f := newFake(initializing(version, nil))
	if version == modernVersion {
		f = modernServer(piped, `"capabilities":{"tools":{}}`, func(id, _, _ string) ([]string, error) {
			return one(result(id, `"resultType":"complete","tools":[]`))
		})
		f.asked = true
	}
	f.piped = piped
	f.First = func(u *peertest.Turn) {
		if gjson.Get(u.Text, "params.name").String() == "send" {
			panic(boom)
		}
	}
	f.on("tools/call", func(u *peertest.Turn) {
		fault := gjson.Get(u.Text, "params.name").String()
		if strings.HasSuffix(fault, " on") {
			u.Say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`)
		}
		if strings.HasPrefix(fault, "read") {
			u.Reads(func() { panic(boom) })
		}
		u.Say(result(u.ID, `"content":[{"type":"text","text":"ok"}],"structuredContent":{"a":1}`))
	})
	return f
}

const modernVersion = "2026-07-28"

// TestPanicAnswersItsCall: wherever a panic happens, its call gets an error with its id. Other
// calls continue, unless the connection itself cannot be read any more.
func TestPanicAnswersItsCall(t *testing.T) {
	for _, client := range []string{"2024-11-05", "2025-11-25", modernVersion} {
		for _, server := range []string{"2024-11-05", "2025-11-25", modernVersion} {
			for shapes := range 4 {
				overPipe, piped := shapes&1 != 0, shapes&2 != 0
				t.Run(fmt.Sprintf("%s %s to %s %s", client, transportName(overPipe), server, transportName(piped)), func(t *testing.T) {
					panicBetween(t, client, server, overPipe, piped)
				})
			}
		}
	}
}

func panicBetween(t *testing.T, client, server string, overPipe, piped bool) {
	for _, fault := range []string{"send", "read", "read on", "request", "response", "translate on"} {
		if piped && (fault == "read" || fault == "read on") && client == modernVersion && server == modernVersion {
			continue // all calls have one stream: see TestPanicOfAReaderEndsItsSession
		}
		t.Run(fault, func(t *testing.T) {
			var from atomic.Pointer[string]
			core, logs := observer.New(zap.DebugLevel)
			cfg := config.Default()
			cfg.Upstream.HandshakeTimeout, cfg.Upstream.ConnectTimeout = patience, patience
			srv, err := proxy.NewWith(cfg, zap.New(tripwire{core, &from}), faulty(server, piped).origin())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(srv.Close)
			ask := callingAs(testServer{srv, t, logs}, client, overPipe)
			switch fault {
			case "request":
				from.Store(&client)
			case "response", "translate on":
				from.Store(&server)
			}
			answer := ask(`"\u0021"`, fault)
			from.Store(nil)
			panicked := logs.FilterMessage("panic").Len() > 0
			if got := gjson.Get(answer, "id").Raw; got != `"\u0021"` || panicked && gjson.Get(answer, "error.code").Int() != -32603 {
				t.Errorf("panicked: %v, got %s", panicked, answer)
			}
			if !panicked && (fault == "send" || fault == "read" || fault == "read on") {
				t.Error("no panic")
			}
			if piped && (fault == "read" || fault == "read on") {
				return // the connection is lost
			}
			if answer := ask("2", "fine"); gjson.Get(answer, "id").Raw != "2" || !gjson.Get(answer, "result").Exists() {
				t.Errorf("the next call gets %s", answer)
			}
		})
	}
}

// callingAs calls a tool as a client of the revision does, and returns the response.
func callingAs(srv testServer, version string, overPipe bool) func(id, tool string) string {
	ask := askingAs(srv, version, overPipe)
	return func(id, tool string) string {
		if version == modernVersion {
			return ask(modernRequestOf(id, "tools/call", `"name":"`+tool+`","arguments":{},`+meta(`{"elicitation":{}}`)))
		}
		return ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"task":{"ttl":1}}}`, id, tool))
	}
}

// askingAs begins a session as a client of the revision does, and returns a function that sends a request and returns the
// response.
func askingAs(srv testServer, version string, overPipe bool) func(request string) string {
	answers := func(m string) bool { return !gjson.Get(m, "method").Exists() }
	if overPipe {
		c := srv.pipe()
		if version != modernVersion {
			c.initialize(version, `{}`)
		}
		return func(request string) string {
			c.say(request)
			for {
				if m := c.hear(); answers(m) {
					return m
				}
			}
		}
	}
	session := ""
	if version != modernVersion {
		session = srv.initialize(version)
	}
	return func(request string) string {
		r := reply{}
		if version == modernVersion {
			r = srv.modernly(request)
		} else {
			r = srv.post(session, request)
		}
		for _, m := range append(r.events, r.body) {
			if m != "" && answers(m) {
				return m
			}
		}
		return ""
	}
}

// TestErrorForAListThatDragomanReads: for a call of a client that has not listed the tools,
// dragoman lists them, and the server answers with an error.
func TestErrorForAListThatDragomanReads(t *testing.T) {
	for _, broken := range []string{`"error":{"code":-32603,"message":"no"}`, `"result":[]`, `"result":{"tools":{}}`, `"result":{"tools":[1,null,{}]}`, `"result":null`} {
		bothInBubbles(t, func(t *testing.T, piped bool) {
			server := func() *fakeServer {
				f := newFake(initializing("2025-11-25", func(m string) ([]string, error) {
					id := gjson.Get(m, "id").Raw
					if gjson.Get(m, "method").String() == "tools/list" {
						return one(`{"jsonrpc":"2.0","id":` + id + `,` + broken + `}`)
					}
					return one(string(mcp.AppendResult(nil, []byte(id), texts(issues(2000)))))
				}))
				f.piped = piped
				return f
			}
			cut := shaped(t, "default_max_tokens: 300")
			srv := front(t, server(), cut)
			session := srv.initialize("2025-11-25")
			pipe, _ := pipeClient(t, server(), cut)
			pipe.initialize("2025-11-25", "{}")
			for road, ask := range map[string]func(string) string{
				"http": func(m string) string { return srv.post(session, m).body },
				"pipe": func(m string) string { pipe.say(m); return pipe.hear() },
			} {
				if answer := ask(callOf(7, "t", "")); gjson.Get(answer, "id").Raw != "7" || !gjson.Get(answer, "result").Exists() {
					t.Errorf("%s %s: %.200s", broken, road, answer)
				}
				if answer := ask(listTools); gjson.Get(answer, "id").Raw != "1" {
					t.Errorf("%s %s: %.200s", broken, road, answer)
				}
			}
		})
	}
}

// TestPanicOfAReaderEndsItsSession: if the goroutine that reads a server on a pipe panics, every
// call of the session gets an error, and a new session works.
func TestPanicOfAReaderEndsItsSession(t *testing.T) {
	for _, version := range []string{"2025-11-25", modernVersion} {
		t.Run(version, func(t *testing.T) {
			servers := make(chan *fakeServer, 8)
			srv := frontOf(t, origin.Opened(true, func(context.Context) (upstream.Conn, error) {
				f := faulty("2025-11-25", true)
				servers <- f
				return f.conn(), nil
			}))
			ask := callingAs(srv, version, false)
			if answer := ask("1", "fine"); !gjson.Get(answer, "result").Exists() {
				t.Fatal(answer)
			}
			if answer := ask(`"b"`, "read"); gjson.Get(answer, "id").Raw != `"b"` || gjson.Get(answer, "error.code").Int() != -32603 {
				t.Error(answer)
			}
			if answer := callingAs(srv, version, false)("2", "fine"); gjson.Get(answer, "id").Raw != "2" || !gjson.Get(answer, "result").Exists() {
				t.Error(answer)
			}
			for len(servers) > 0 {
				f := <-servers
				eventually(t, "the processes end", func() bool { return f.ended() || len(servers) == 0 })
			}
		})
	}
}

// TestPanicWithinABatch: only the request at which it happens gets an error.
func TestPanicWithinABatch(t *testing.T) {
	bothInBubbles(t, func(t *testing.T, piped bool) {
		const list = `[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"fine"}},{"jsonrpc":"2.0","id":"b","method":"tools/call","params":{"name":"send"}},{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"fine"}}]`
		hold := func(array string) {
			t.Helper()
			answers := gjson.Parse(array).Array()
			if len(answers) != 3 || answers[1].Get("id").Raw != `"b"` || answers[1].Get("error.code").Int() != -32603 ||
				!answers[0].Get("result").Exists() || !answers[2].Get("result").Exists() {
				t.Errorf("%s", array)
			}
		}
		srv := front(t, faulty("2025-03-26", piped))
		hold(srv.post(srv.initialize("2025-03-26"), list).body)
		c, _ := pipeClient(t, faulty("2025-03-26", piped))
		c.initialize("2025-03-26", `{}`)
		c.say(list)
		hold(c.hear())
	})
}

// TestPanicAsASessionBegins: initialize gets an error.
func TestPanicAsASessionBegins(t *testing.T) {
	bothInBubbles(t, func(t *testing.T, piped bool) {
		f := newFake(func(*peertest.Turn) {})
		f.First = func(u *peertest.Turn) {
			if u.Method == "initialize" {
				panic(boom)
			}
		}
		f.piped = piped
		begin := `{"jsonrpc":"2.0","id":"\u0062","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
		c, srv := pipeClient(t, f)
		c.say(begin)
		for _, answer := range []string{srv.post("", begin).body, c.hear()} {
			if gjson.Get(answer, "id").Raw != `"\u0062"` || gjson.Get(answer, "error.code").Int() != -32603 {
				t.Error(answer)
			}
		}
		r := srv.modernly(modernRequestOf(`"\u0063"`, "tools/list", meta(`{}`)))
		if gjson.Get(r.body, "id").Raw != `"\u0063"` || gjson.Get(r.body, "error.code").Int() != -32603 {
			t.Error(r.body)
		}
	})
}

// TestPanicOnTheStandingStream: the subscriptions end, and their clients subscribe again. No call
// ends.
func TestPanicOnTheStandingStream(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := legacyServer(`{"tools":{"listChanged":true}}`, func(id, method, _ string) ([]string, error) {
			return one(result(id, `"content":[]`))
		})
		srv := front(t, f)
		f.panics()
		f.Unasked(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		body := modernRequestOf("1", "subscriptions/listen", `"notifications":{"toolsListChanged":true},`+meta(`{}`))
		_, resp := srv.begin(ctx, "POST", "", body, modernHeader(body)...)
		defer resp.Done()
		for _, want := range []string{"notifications/subscriptions/acknowledged", "notifications/tools/list_changed"} {
			e, err := resp.Stream.Next()
			if err != nil || gjson.GetBytes(e.Data, "method").String() != want {
				t.Fatalf("%s %v, want %s", e.Data, err, want)
			}
		}
		if r := srv.modernly(modernRequestOf("2", "tools/call", `"name":"t",`+meta(`{}`))); !gjson.Get(r.body, "result").Exists() {
			t.Error(r.body)
		}
		if srv.logs.FilterMessage("panic").Len() != 1 {
			t.Error("no panic")
		}
	})
}

func TestPanicEndsItsTaskAndNothingElse(t *testing.T) {
	srv := front(t, newFake(nil))
	srv.Host.Spawn(func() { panic("oh") })
	srv.Host.Wait()
	if srv.logs.FilterMessage("panic").Len() != 1 {
		t.Error("not told")
	}
}

// TestPanicWhileAnswersArrive: the client that brings them gets an error, and the call that they were for ends, also at the
// server: no client comes for its result.
func TestPanicWhileAnswersArrive(t *testing.T) {
	bothInBubbles(t, func(t *testing.T, piped bool) {
		f := legacyServer(`{"tools":{}}`, func(string, string, string) ([]string, error) { return one(nameQuestion, hang) })
		f.piped, f.NoGet = piped, !piped
		f.First = func(u *peertest.Turn) {
			if u.Method == "" {
				panic(boom)
			}
		}
		srv := front(t, f)
		asked := srv.modernly(modernCall("7", ""))
		r := srv.modernly(retryOf("8", ada, asked))
		if got := gjson.Parse(r.body); got.Get("id").Raw != "8" || got.Get("error.code").Int() != -32603 || r.status != 500 {
			t.Errorf("%+v", r)
		}
		synctest.Wait()
		if c := srv.Modern.Counts(); c.Parked != 0 || c.Uses != 0 {
			t.Errorf("it waits on: %+v", c)
		}
		if got := f.said("notifications/cancelled"); len(got) != 1 {
			t.Errorf("cancellations %q", got)
		}
	})
}
