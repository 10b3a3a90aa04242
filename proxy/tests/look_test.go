package tests

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// looked is a server that is looked at: what it was asked, and what serve has logged.
type looked struct {
	mu    sync.Mutex
	asked []string // "POST /mcp server/discover"
	logs  *observer.ObservedLogs
	srv   *proxy.Server
	base  string // of dragoman
	addr  string // of the server
}

func (l *looked) note(r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = append(l.asked, strings.TrimSpace(fmt.Sprint(r.Method, " ", r.URL.Path, " ", gjson.GetBytes(body, "method").String())))
	r.Body = io.NopCloser(strings.NewReader(string(body)))
}

func (l *looked) all() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.asked, ", ")
}

// serveInFrontOf serves in front of h at a path until the test ends.
func serveInFrontOf(t *testing.T, path string, h http.HandlerFunc, change ...func(*config.Config)) *looked {
	t.Helper()
	core, logs := observer.New(zap.DebugLevel)
	l := &looked{logs: logs}
	web := peertest.Web(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.note(r)
		h(w, r)
	}))
	l.addr = web.Listener.Addr().String()
	cfg := config.Default()
	cfg.Upstream.URL = web.URL + path
	for _, c := range change {
		c(&cfg)
	}
	l.srv = newOf(t, cfg, zap.New(core))
	l.serve(t)
	return l
}

func (l *looked) serve(t *testing.T) {
	t.Helper()
	ln := peertest.Listen(t)
	l.base = "http://" + ln.Addr().String()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.srv.Serve(ctx, ln) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// told waits for a line with one of these messages, and returns it as "level message: error → advice".
func (l *looked) told(t *testing.T, messages ...string) (said string) {
	t.Helper()
	peertest.Eventually(t, "the log says "+strings.Join(messages, " or "), func() bool {
		for _, m := range messages {
			for _, e := range l.logs.FilterMessage(m).All() {
				f := e.ContextMap()
				said = fmt.Sprintf("%s %s", e.Level, m)
				if what, ok := f["error"]; ok && f["advice"] != nil {
					said += fmt.Sprintf(": %v: %v → %v", f["cause"], what, f["advice"])
				}
				return true
			}
		}
		return false
	})
	return strings.ReplaceAll(said, l.addr, "HOST")
}

func says(status int, kind, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

// refusesMethods answers as a handshake server that knows no method.
func refusesMethods(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	says(200, "application/json", `{"jsonrpc":"2.0","id":`+gjson.GetBytes(body, "id").Raw+`,"error":{"code":-32601,"message":"Method not found"}}`)(w, r)
}

// at answers with h at a path, and with 404 elsewhere.
func at(path string, h http.HandlerFunc) http.HandlerFunc {
	mux := http.NewServeMux()
	mux.HandleFunc(path, h)
	return mux.ServeHTTP
}

// TestServeLooksAtItsServer: what will keep clients from using the server at a URL is logged when serving begins, and nothing else. The
// server is asked one question, which begins no session, and about other paths only where nothing is.
func TestServeLooksAtItsServer(t *testing.T) {
	const (
		unusable = "warn upstream cannot be used: "
		brings   = "info upstream wants a credential, which clients have to bring: "
		post     = "POST /mcp ping"
		anything = "" // a login looks for its authorization server
	)
	rpc := refusesMethods
	withToken := func(c *config.Config) {
		c.Upstream.Headers = map[string]string{"Authorization": "Bearer canary-canary"}
	}
	for _, c := range []struct {
		name   string
		path   string
		h      http.HandlerFunc
		told   string // "" for no warning
		asked  string
		change func(*config.Config)
	}{
		{name: "a handshake server", path: "/mcp", h: rpc, asked: post},
		{name: "one that refuses what belongs to no session", path: "/mcp", h: says(400, "text/plain", "Invalid or missing session ID"), asked: post},
		{name: "one that does not find the session", path: "/mcp", h: says(404, "text/plain", "Session not found"), asked: post},
		{name: "one that says so in JSON-RPC", path: "/mcp", h: says(404, "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`), asked: post},
		{name: "one that says so with 401", path: "/mcp", h: says(401, "text/plain", "Unauthorized: Session not found"), asked: post},
		{name: "one that fails at unknown methods", path: "/mcp", h: says(500, "text/plain", "oops"), asked: post},
		{name: "one that takes everything", path: "/mcp", h: says(202, "", ""), asked: post},
		{name: "a wrong path", path: "/wrong", h: at("/mcp", rpc), asked: "POST /wrong ping, POST /wrong/ ping, " + post,
			told: unusable + "not_found: 404 Not Found: no MCP endpoint at this path → there is an endpoint at http://HOST/mcp: use it as the URL (upstream.url)"},
		{name: "no endpoint at all", path: "/mcp", h: says(404, "text/plain", ""), asked: post + ", POST /mcp/ ping",
			told: "warn upstream does not answer: not_found: 404 Not Found: no MCP endpoint at this path; nor is there one at /mcp/ → check the path of the URL (upstream.url) in the server's documentation; for a server of HTTP+SSE, --upstream-transport sse (upstream.transport)"},
		{name: "one that may have a stream", path: "/mcp", h: says(405, "text/plain", ""), asked: post},
		{name: "one that seems to have a stream", path: "/sse", h: says(404, "text/plain", "Cannot POST /sse"), asked: "POST /sse ping"},
		{name: "a page", path: "/mcp", h: says(200, "text/html", "<h1>Hello"), asked: post + ", POST /mcp/ ping",
			told: unusable + "not_mcp: the answer is a web page (text/html), not MCP; nor is there one at /mcp/ → is a login page or another gateway in between? check the server's URL (upstream.url)"},
		{name: "a redirect", path: "/mcp", h: says(308, "text/plain", "", "Location", "https://new.example/mcp?key=canary-canary"), asked: post,
			told: unusable + "http_status: redirects (308) to https://new.example/mcp, which dragoman does not follow → use it as the URL (upstream.url)"},
		{name: "a gateway without its server", path: "/mcp", h: says(502, "text/plain", "no upstream"), asked: post,
			told: unusable + "http_status: 502 Bad Gateway: no upstream → the server, or a gateway before it, fails: its own log says more"},
		{name: "silence", path: "/mcp", h: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, asked: post,
			told: "warn upstream does not answer: timeout_first_byte: no answer within 5s → is this an MCP endpoint? the server's own log says more; upstream.handshake_timeout if it needs so long"},
		{name: "a login, which is for clients", path: "/mcp", h: says(401, "text/plain", "", "WWW-Authenticate", `Bearer realm="x"`), asked: post,
			told: brings + "unauthorized: 401 Unauthorized → clients log in, or bring their own credential; dragoman login http://HOST/mcp and upstream.auth: {type: login} for one login for all"},
		{name: "a token that is refused", path: "/mcp", h: says(401, "text/plain", "canary-canary"), asked: post, change: withToken,
			told: unusable + "unauthorized: 401 Unauthorized → the server refuses the credential of upstream.headers.Authorization: is it complete, current, and for this server?"},
		{name: "a login that is missing", path: "/mcp", h: says(401, "text/plain", "", "WWW-Authenticate", "Bearer"), asked: anything,
			change: func(c *config.Config) { c.Upstream.Auth.Type, c.Credentials = config.AuthLogin, t.TempDir() },
			told: unusable + "no_credential: there is no credential for the server: sign-in needed for http://HOST/mcp: run dragoman login http://HOST/mcp → " +
				"dragoman login http://HOST/mcp; docs/authorization.md explains upstream.auth"},
		{name: "names of hosts", path: "/mcp", h: says(421, "text/plain", "Invalid Host header"), asked: post,
			told: unusable + "host_refused: 421 Misdirected Request: Invalid Host header → the server takes requests for certain host names only: use one of them in the URL (upstream.url), or let the server allow this one"},
	} {
		inBubble(t, c.name, func(t *testing.T) {
			change := c.change
			if change == nil {
				change = func(*config.Config) {}
			}
			l := serveInFrontOf(t, c.path, c.h, change)
			if c.told != "" {
				if got := l.told(t, "upstream cannot be used", "upstream does not answer", "upstream wants a credential, which clients have to bring"); got != c.told {
					t.Errorf("told %s\nwant %s", got, c.told)
				}
			} else {
				l.told(t, "looked at the server")
			}
			if got := l.all(); got != c.asked && c.asked != anything {
				t.Errorf("asked %s\nwant  %s", got, c.asked)
			}
			for _, e := range l.logs.All() {
				if text := fmt.Sprint(e.ContextMap()); strings.Contains(text, "canary") {
					t.Errorf("told %s", text)
				}
				if c.told == "" && e.Level > zapcore.InfoLevel {
					t.Errorf("told %s %v", e.Message, e.ContextMap())
				}
			}
		})
	}
}

// post sends a message of a client, and returns the response with its body.
func (l *looked) post(t *testing.T, session, message string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, l.base+"/mcp", strings.NewReader(message))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		req.Header.Set("Mcp-Session-Id", session)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

// TestClientsAreToldWhatTheLookFound: the error of a client on this machine says what the log says, on a pipe too, where the look waits
// for the first error: the path that has an endpoint, or those that have none.
func TestClientsAreToldWhatTheLookFound(t *testing.T) {
	for name, c := range map[string]struct {
		h    http.HandlerFunc
		want string
	}{
		"at another path": {at("/mcp", refusesMethods), "there is an endpoint at http://HOST/mcp: use it as the URL (upstream.url)"},
		"nowhere": {http.NotFound, "there is no endpoint at /wrong/, /mcp, /wrong/mcp either: " +
			"check the path of the URL (upstream.url) in the server's documentation; for a server of HTTP+SSE, --upstream-transport sse (upstream.transport)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := serveInFrontOf(t, "/wrong", c.h)
			l.told(t, "upstream cannot be used", "upstream does not answer")
			_, body := l.post(t, "", initialize("2025-06-18", "{}"))
			want := "upstream endpoint not found (at http://HOST/wrong); " + c.want
			if got := strings.ReplaceAll(gjson.Get(body, "error.message").Str, l.addr, "HOST"); got != want {
				t.Errorf("%s\nwant %s", got, want)
			}
			cfg := config.Default()
			cfg.Upstream.URL = "http://" + l.addr + "/wrong"
			core, logs := observer.New(zap.WarnLevel)
			in := initialize("2025-06-18", "{}") + "\n"
			var out strings.Builder
			if err := newOf(t, cfg, zap.New(core)).ServePipe(t.Context(), strings.NewReader(in), &out); err != nil {
				t.Fatal(err)
			}
			if got := strings.ReplaceAll(gjson.Get(out.String(), "error.message").Str, l.addr, "HOST"); got != want {
				t.Errorf("on a pipe: %s\nwant %s", got, want)
			}
			for _, e := range logs.FilterMessage("request failed").All() {
				if got := strings.ReplaceAll(fmt.Sprint(e.ContextMap()["advice"]), l.addr, "HOST"); got != c.want {
					t.Errorf("told %s", got)
				}
			}
			if logs.FilterMessage("request failed").Len() == 0 {
				t.Error("nothing is told")
			}
		})
	}
}

// TestLookTakesNoSession: a server that has room for one session has it for the first client.
func TestLookTakesNoSession(t *testing.T) {
	taken := false
	l := serveInFrontOf(t, "/mcp", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		m := gjson.ParseBytes(body)
		switch m.Get("method").Str {
		case "initialize":
			if taken {
				says(400, "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Server already initialized"}}`)(w, r)
				return
			}
			taken = true
			says(200, "application/json", `{"jsonrpc":"2.0","id":`+m.Get("id").Raw+`,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}`, "Mcp-Session-Id", "one")(w, r)
		case "notifications/initialized":
			w.WriteHeader(http.StatusAccepted)
		default:
			says(400, "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: Server not initialized"}}`)(w, r)
		}
	})
	l.told(t, "looked at the server")
	resp, body := l.post(t, "", initialize("2025-06-18", "{}"))
	if resp.StatusCode != http.StatusOK || !strings.Contains(body, `"protocolVersion":"2025-06-18"`) {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if got, want := l.all(), "POST /mcp ping, POST /mcp initialize"; !strings.HasPrefix(got, want) {
		t.Errorf("asked %s, want %s", got, want)
	}
}

// TestLookIsNoNewClient: a server that has one connection for all sessions, which each request without a session takes over, still answers
// its client after a look. Published ones are such, and the look of a reload comes while clients are there.
func TestLookIsNoNewClient(t *testing.T) {
	var connected atomic.Int32 // the session that gets answers
	l := serveInFrontOf(t, "/mcp", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		m, session := gjson.ParseBytes(body), r.Header.Get("Mcp-Session-Id")
		if session == "" {
			session = fmt.Sprint(connected.Add(1))
		}
		switch {
		case m.Get("method").Str == "initialize":
			says(200, "application/json", `{"jsonrpc":"2.0","id":`+m.Get("id").Raw+`,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}`, "Mcp-Session-Id", session)(w, r)
		case !m.Get("id").Exists():
			w.WriteHeader(http.StatusAccepted)
		case session == fmt.Sprint(connected.Load()):
			says(200, "application/json", `{"jsonrpc":"2.0","id":`+m.Get("id").Raw+`,"result":{}}`)(w, r)
		case session < fmt.Sprint(connected.Load()): // the published ones never answer
			says(200, "application/json", `{"jsonrpc":"2.0","id":`+m.Get("id").Raw+`,"error":{"code":-32603,"message":"No connection established"}}`)(w, r)
		default:
			says(400, "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}`)(w, r)
		}
	})
	l.told(t, "looked at the server")
	resp, _ := l.post(t, "", initialize("2025-06-18", "{}"))
	session := resp.Header.Get("Mcp-Session-Id")
	l.post(t, session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	l.logs.TakeAll()
	cfg := l.srv.Now().Config
	cfg.Upstream.Headers = map[string]string{"X-Key": "new-new-new"}
	if err := l.srv.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	l.told(t, "looked at the server")
	if resp, body := l.post(t, session, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t"}}`); body != `{"jsonrpc":"2.0","id":2,"result":{}}` {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}

// TestLookOpensNoStream: a server of HTTP+SSE that ends with its only stream is there for the first client. Published ones do so.
func TestLookOpensNoStream(t *testing.T) {
	for _, transport := range []string{"auto", "sse"} {
		l := serveInFrontOf(t, "/sse", says(404, "text/plain", "Cannot POST /sse"), func(c *config.Config) { c.Upstream.Transport = transport })
		l.told(t, "looked at the server")
		if got := l.all(); strings.Contains(got, "GET") {
			t.Errorf("%s: asked %s", transport, got)
		}
		if n := l.logs.FilterMessage("upstream cannot be used").Len() + l.logs.FilterMessage("upstream does not answer").Len(); n != 0 {
			t.Errorf("%s: told %v", transport, l.logs.All())
		}
	}
}

// TestReloadLooksAgain: what a reload changes of the way to the server is tried at once.
func TestReloadLooksAgain(t *testing.T) {
	l := serveInFrontOf(t, "/mcp", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Key") == "new-new-new" {
			says(403, "text/plain", "no")(w, r)
			return
		}
		refusesMethods(w, r)
	}, func(c *config.Config) { c.Upstream.Headers = map[string]string{"X-Key": "old-old-old"} })
	l.told(t, "looked at the server")
	cfg := l.srv.Now().Config
	cfg.Upstream.Headers = map[string]string{"X-Key": "new-new-new"}
	if err := l.srv.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	const want = "warn upstream cannot be used: forbidden: 403 Forbidden: no → the server knows the credential of upstream.headers.X-Key, or does not; check what it is allowed to do (its scopes)"
	if got := l.told(t, "upstream cannot be used"); got != want {
		t.Errorf("told %s\nwant %s", got, want)
	}
}
