package tests

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/proxy/origin/era"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// concluded returns a description of an era.
func concluded(e *era.Era) string {
	var words []string
	if e.Modern() {
		words = append(words, e.Revision.Name)
	}
	if e.Handshake == era.Accepted {
		words = append(words, "handshake")
	}
	if e.Newest != nil {
		words = append(words, e.Newest.Name)
	}
	if e.Unsure {
		words = append(words, "unsure")
	}
	return strings.Join(words, " ")
}

// TestResponsesToDiscoverDecideTheEra: no single error code decides the era.
func TestResponsesToDiscoverDecideTheEra(t *testing.T) {
	const meta = `"data":{"field":"io.modelcontextprotocol/clientInfo"}`
	discovered := func(versions string) string {
		return result(`"dragoman:era"`, `"resultType":"complete","supportedVersions":`+versions+`,"capabilities":{}`)
	}
	refused := func(members string) string { return rpcError(`"dragoman:era"`, members) }
	for _, c := range []struct {
		name   string
		answer string // the server's response if status is 0
		status int
		body   string
		err    error
		http   string // the concluded era; "" for an error
		pipe   string // the era if it differs on a pipe, where only answer and err exist
	}{
		{name: "modern", answer: discovered(`["2026-07-28"]`), http: "2026-07-28"},
		{name: "both", answer: discovered(`["2025-06-18","2026-07-28","2025-11-25"]`), http: "2026-07-28 handshake 2025-11-25"},
		{name: "only legacy versions", answer: discovered(`["2024-11-05","2025-06-18"]`), http: "handshake 2025-06-18"},
		{name: "a result that says nothing", answer: result(`"dragoman:era"`, ""), http: "handshake"},
		{name: "-32022 with legacy versions", answer: refused(`"code":-32022,"message":"m","data":{"supported":["2025-11-25","2025-03-26"]}`), http: "handshake 2025-11-25"},
		{name: "-32022 with legacy versions, 400", status: 400, body: refused(`"code":-32022,"message":"m","data":{"supported":["2025-06-18"]}`), http: "handshake 2025-06-18"},
		{name: "-32022 with a modern one", answer: refused(`"code":-32022,"message":"m","data":{"supported":["2026-07-28"]}`), http: "2026-07-28"},
		{name: "-32022 with an unknown revision", answer: refused(`"code":-32022,"message":"m","data":{"supported":["2031-01-01"]}`)},
		{name: "-32022 without a list", answer: refused(`"code":-32022,"message":"m"`), http: "handshake"},
		{name: "-32020", status: 400, body: refused(`"code":-32020,"message":"m"`), http: "2026-07-28"},
		{name: "-32021", status: 400, body: refused(`"code":-32021,"message":"m"`), http: "2026-07-28"},
		{name: "-32602 about _meta, 400", status: 400, body: refused(`"code":-32602,"message":"m",` + meta), http: "2026-07-28"},
		{name: "-32601 about _meta, 404", status: 404, body: refused(`"code":-32601,"message":"m",` + meta), http: "2026-07-28"},
		{name: "-32602 about _meta, 200", answer: refused(`"code":-32602,"message":"m",` + meta), http: "handshake"},
		{name: "-32602, 400", status: 400, body: refused(`"code":-32602,"message":"m"`), http: "handshake"},
		{name: "-32601", answer: refused(`"code":-32601,"message":"m"`), http: "handshake"},
		{name: "an error without an id", answer: rpcError("null", `"code":-32700,"message":"m"`), http: "handshake"},
		{name: "-32000, 400", status: 400, body: rpcError("null", `"code":-32000,"message":"Server not initialized"`), http: "handshake"},
		{name: "405", status: 405, http: "handshake"},
		{name: "404 in words", status: 404, body: "not here", http: "handshake"},
		{name: "500", status: 500, http: "handshake unsure"},
		{name: "500 in JSON", status: 500, body: refused(`"code":-32603,"message":"m"`), http: "handshake unsure"},
		{name: "401", status: 401, body: refused(`"code":-32602,"message":"m",` + meta)},
		{name: "429", status: 429},
		{name: "503", status: 503},
		{name: "another type", err: &upstream.ContentTypeError{Type: "text/html"}, http: "handshake unsure", pipe: "handshake"},
		{name: "no connection", err: &upstream.Error{Op: "connect", Addr: "a", Err: errors.New("refused")}},
	} {
		bothInBubbles(t, func(t *testing.T, piped bool) {
			if piped && c.status != 0 {
				t.Skip("pipes have no statuses")
			}
			f := newFake(replies(func(string) ([]string, error) {
				if c.status != 0 {
					return nil, &upstream.StatusError{Code: c.status, Body: []byte(c.body)}
				}
				return one(c.answer)
			}))
			if c.err != nil {
				f.First = failing(func(string) error { return c.err })
			}
			f.piped, f.asked = piped, true
			srv := front(t, f)
			want := c.http
			if piped && c.pipe != "" {
				want = c.pipe
			}
			got := ""
			e, err := srv.Eras.Of(t.Context(), nil)
			if err == nil {
				got = concluded(e)
			}
			if got != want {
				t.Errorf("%s: concluded %q (%v), want %q", c.name, got, err, want)
			}
			again := srv.Eras.Peek(nil)
			if known := err == nil && !e.Unsure; known != (again != nil) {
				t.Errorf("%s: remembered %v", c.name, again)
			}
		})
	}
}

// TestServerIsAskedOnceForAllCallers, for each credential.
func TestServerIsAskedOnceForAllCallers(t *testing.T) {
	f := modernServer(false, `"capabilities":{"tools":{}}`, nil)
	f.asked = true
	srv := front(t, f)
	as := func(token string) []mcp.Header {
		return []mcp.Header{{Name: "authorization", Value: token}}
	}
	var wg sync.WaitGroup
	for range 20 {
		for _, token := range []string{"a", "b"} {
			wg.Go(func() {
				e, err := srv.Eras.Of(t.Context(), as(token))
				if err != nil || !e.Modern() || gjson.GetBytes(e.Discovered, "capabilities").Raw != `{"tools":{}}` {
					t.Errorf("%+v %v", e, err)
				}
			})
		}
	}
	wg.Wait()
	if n := len(f.said("server/discover")); n != 2 {
		t.Errorf("asked %d times", n)
	}
	e := srv.Eras.Peek(as("a"))
	srv.Eras.Drop(as("b"), e) // not the entry of b
	srv.Eras.Drop(as("a"), e)
	if srv.Eras.Peek(as("a")) != nil || srv.Eras.Peek(as("b")) == nil {
		t.Error("another credential's was dropped")
	}
}

// TestFirstCallerMayLeave: if the client that asked first leaves, the others still get the
// era.
func TestFirstCallerMayLeave(t *testing.T) {
	answered := make(chan struct{})
	f := newFake(func(u *peertest.Turn) {
		if u.Until(answered) {
			u.Say(result(u.ID, `"supportedVersions":["2026-07-28"]`))
		}
	})
	f.asked = true
	srv := front(t, f)
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if _, err := srv.Eras.Of(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	close(answered)
	if e, err := srv.Eras.Of(t.Context(), nil); err != nil || !e.Modern() {
		t.Errorf("%+v %v", e, err)
	}
	if n := len(f.sent()); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

// TestProcessOfAnOlderConfigurationServesNoSession that begins after a reload, even if dragoman
// was asking the process for its era during the reload.
func TestProcessOfAnOlderConfigurationServesNoSession(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	f := newFake(replies(func(string) ([]string, error) {
		close(asked)
		<-answer
		return one(result(`"dragoman:era"`, `"supportedVersions":["2026-07-28"]`))
	}))
	f.piped, f.asked = true, true
	srv := front(t, f)
	done := make(chan struct{})
	go func() {
		defer close(done)
		srv.Eras.Of(t.Context(), nil)
	}()
	<-asked
	srv.Eras.Forget()
	close(answer)
	<-done
	if b, _ := srv.Eras.TakeSpare(t.Context(), nil); b != nil {
		t.Error("it is kept")
	}
	eventually(t, "its end", f.ended)
}

func TestConfiguredVersionIsNotAskedFor(t *testing.T) {
	for version, want := range map[string]string{"2026-07-28": "2026-07-28", "2025-03-26": "handshake 2025-03-26"} {
		f := modernServer(false, `"capabilities":{}`, nil)
		f.asked = true
		srv := front(t, f, func(cfg *config.Config) { cfg.Upstream.Version = version })
		e, err := srv.Eras.Of(t.Context(), nil)
		if err != nil || concluded(e) != want || len(f.sent()) > 0 {
			t.Errorf("%+v %v, sent %q", e, err, f.sent())
		}
	}
}

// childProcesses is an origin that starts one fake server after another.
func childProcesses(t *testing.T, list ...*fakeServer) (o origin.Origin, started *int) {
	started = new(int)
	var mu sync.Mutex
	next := func() *fakeServer {
		mu.Lock()
		defer mu.Unlock()
		if *started >= len(list) {
			t.Error("one process too many")
			return list[len(list)-1]
		}
		*started++
		return list[*started-1]
	}
	return origin.Origin{
		Restarts: true,
		Connect: func(ctx context.Context, m *upstream.Outgoing) (*upstream.Begun, error) {
			return next().origin().Connect(ctx, m)
		},
		Open: func(ctx context.Context) (*upstream.Begun, error) { return next().origin().Open(ctx) },
	}, started
}

// TestModernClientOfAProcess: the process that was asked for its era serves the session, unless it
// fails at such requests.
func TestModernClientOfAProcess(t *testing.T) {
	legacy := func(discover func(f *fakeServer, id string) ([]string, error)) *fakeServer {
		var f *fakeServer
		f = legacyServer(`{"tools":{}}`, func(id, method, _ string) ([]string, error) {
			if method == "server/discover" {
				return discover(f, id)
			}
			return one(result(id, `"tools":[]`))
		})
		f.piped, f.asked = true, true
		return f
	}
	never := func(*fakeServer, string) ([]string, error) { t.Error("asked twice"); return nil, nil }
	for _, c := range []struct {
		name  string
		says  func(f *fakeServer, id string) ([]string, error)
		start int
	}{
		{"refuses", func(_ *fakeServer, id string) ([]string, error) {
			return one(rpcError(id, `"code":-32601,"message":"m"`))
		}, 1},
		{"is silent", func(*fakeServer, string) ([]string, error) { return nil, nil }, 1},
		{"exits", func(f *fakeServer, _ string) ([]string, error) {
			f.lose(&upstream.ExitError{Command: "s", Status: "exit status 1"})
			return nil, nil
		}, 2},
	} {
		inBubble(t, c.name, func(t *testing.T) {
			o, started := childProcesses(t, legacy(c.says), legacy(never))
			srv := frontOf(t, o)
			srv.Eras.Silence = 50 * time.Millisecond
			for range 2 {
				r := srv.modernly(modernRequestOf("7", "tools/list", meta(`{}`)))
				sameJSON(t, r.body, result("7", `"resultType":"complete","tools":[],"ttlMs":0,"cacheScope":"private",`+identity))
			}
			if *started != c.start {
				t.Errorf("%d processes", *started)
			}
		})
	}
}

// TestKnownModernServerIsNotSentInitialize: a server that is known to be modern is not sent
// initialize.
func TestKnownModernServerIsNotSentInitialize(t *testing.T) {
	bothInBubbles(t, func(t *testing.T, piped bool) {
		f := modernServer(piped, `"capabilities":{"tools":{}}`, nil)
		f.asked = true
		srv := front(t, f)
		srv.initialize("2025-11-25")
		srv.initialize("2024-11-05")
		if n := len(f.said("initialize")); n != 1 {
			t.Errorf("initialize came %d times", n)
		}
	})
}

// TestServerThatRefusesWhatFollowsItsHandshake: the server answers initialize but has begun no
// session.
func TestServerThatRefusesWhatFollowsItsHandshake(t *testing.T) {
	f := modernServer(false, `"capabilities":{"tools":{}}`, func(id, _, m string) ([]string, error) {
		if !strings.Contains(m, mcp.MetaVersion) {
			return nil, &upstream.StatusError{Code: 400, Body: []byte("Unsupported protocol version")}
		}
		return one(result(id, `"resultType":"complete","tools":[]`))
	})
	f.asked = true
	f.on("initialize", func(u *peertest.Turn) {
		u.Say(result(u.ID, `"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"2"}`))
	})
	srv := front(t, f)
	for _, version := range []string{"2025-06-18", "2025-11-25"} {
		session := srv.initialize(version)
		sameJSON(t, srv.post(session, `{"jsonrpc":"2.0","id":5,"method":"tools/list"}`).body, result("5", `"tools":[]`))
	}
	if n := len(f.said("initialize")); n != 1 {
		t.Errorf("initialize came %d times", n)
	}
}
