package tests

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/session/setup"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
)

const adapterOps = `
  read:
    - name: get_item
      maps_to: "GET /items/{id}"
      params: {id: {type: string, required: true}}
      description: Get an item
  delete:
    - name: drop_item
      maps_to: "DELETE /items/{id}"
      params: {id: {type: string, required: true}}
      description: Delete an item
      danger: {level: destructive, requires_confirmation: true}
`

// adapterFile returns the text of an adapter file for an API at base.
func adapterFile(name, base, ops string) string {
	return "---\nname: " + name + "\ntype: adapter\nversion: \"1.0.0\"\ndescription: An API for tests\n" +
		"target: {base_url: \"" + base + "\", transport: http, protocol: rest, serialization: json}\n" +
		"auth: {type: bearer, token_env: DRAGOMAN_TEST_API_TOKEN}\noperations:" + ops + "---\n# Docs\n"
}

// items is an API that answers with the request it has received.
func items(t *testing.T) (base string, calls *atomic.Int64, last *atomic.Pointer[http.Header]) {
	t.Helper()
	calls, last = new(atomic.Int64), new(atomic.Pointer[http.Header])
	api := peertest.Web(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		h := r.Header.Clone()
		last.Store(&h)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"asked":%q}`, r.Method+" "+r.URL.Path)
	}))
	t.Setenv("DRAGOMAN_TEST_API_TOKEN", "ghp_0123456789abcdefghijklmnopqrstuvwxyz")
	return api.URL, calls, last
}

// adapterDir writes the files to a new directory.
func adapterDir(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		put(t, filepath.Join(dir, name), text)
	}
	return dir
}

func put(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// withAdapters configures a directory with one adapter for the API items.
func withAdapters(t *testing.T) (dir string, change func(*config.Config)) {
	t.Helper()
	base, _, _ := items(t)
	dir = adapterDir(t, map[string]string{"items-adapter.md": adapterFile("items-api", base, adapterOps)})
	return dir, func(c *config.Config) { c.Adapters.Sources = []string{dir} }
}

const readItem = `{"operation":"get_item","params":{"id":"7"}}`

func text(answer string) string { return gjson.Get(answer, "result.content.0.text").String() }

func TestAdaptersWithoutAServer(t *testing.T) {
	_, change := withAdapters(t)
	cfg := config.Default()
	change(&cfg)
	core, logs := observer.New(zap.DebugLevel)
	plain, err := proxy.New(cfg, zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(plain.Close)
	srv := testServer{plain, t, logs}
	for _, r := range translate.Handshake() {
		session := srv.initialize(r.Name)
		if got := names(srv.post(session, listTools).body); got != "mcp_aql_create mcp_aql_read mcp_aql_update mcp_aql_delete mcp_aql_execute" {
			t.Errorf("%s lists %s", r, got)
		}
		if got := text(srv.post(session, callOurs(2, "mcp_aql_read", readItem)).body); got != `{"success":true,"data":{"asked":"GET /items/7"}}` {
			t.Errorf("%s reads %s", r, got)
		}
		sameJSON(t, srv.post(session, `{"jsonrpc":"2.0","id":3,"method":"ping"}`).body, `{"jsonrpc":"2.0","id":3,"result":{}}`)
		sameJSON(t, srv.post(session, `{"jsonrpc":"2.0","id":4,"method":"prompts/list"}`).body,
			`{"jsonrpc":"2.0","id":4,"error":{"code":-32601,"message":"Method not found"}}`)
	}
	if err := srv.Ready(); err != nil {
		t.Errorf("not ready: %v", err)
	}
	if n := counted(t, srv.Metrics, "dragoman_adapter_requests_total", "adapter=items-api", "operation=get_item", "outcome=success"); n != 4 {
		t.Errorf("counted %d", n)
	}
	for _, line := range logs.All() {
		if text := fmt.Sprint(line.Message, line.ContextMap()); strings.Contains(text, "ghp_") {
			t.Errorf("a credential is in the log: %s", text)
		}
	}
}

func TestSessionWithOnlyAdaptersIsResumedByAnotherReplica(t *testing.T) {
	_, change := withAdapters(t)
	key := filepath.Join(t.TempDir(), "key")
	put(t, key, strings.Repeat("ab", sealed.KeyBytes))
	var replicas [2]testServer
	for i := range replicas {
		cfg := config.Default()
		change(&cfg)
		cfg.Session.KeyFile = key
		srv, err := proxy.New(cfg, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(srv.Close)
		replicas[i] = testServer{srv, t, nil}
	}
	session := replicas[0].initialize("2025-06-18")
	if got := text(replicas[1].post(session, callOurs(2, "mcp_aql_read", readItem)).body); !strings.Contains(got, "GET /items/7") {
		t.Errorf("got %s", got)
	}
}

// TestAdaptersRemainWhenTheServerCannotBeReached: a client can initialize without the server, and
// gets the adapters' tools.
func TestAdaptersRemainWhenTheServerCannotBeReached(t *testing.T) {
	_, change := withAdapters(t)
	f := listing("2025-06-18", []string{"a"}, nil)
	f.First = failing(func(string) error { return &upstream.Error{Op: "connect", Err: io.EOF} })
	srv := front(t, f, change)
	session := srv.initialize("2025-03-26")
	if got := names(srv.post(session, listTools).body); !strings.HasPrefix(got, "mcp_aql_create") {
		t.Errorf("lists %s", got)
	}
	if srv.logs.FilterMessageSnippet("the session has only tools of adapters").Len() != 1 {
		t.Error("not logged")
	}
	f.First = nil
	if got := names(srv.post(srv.initialize("2025-03-26"), listTools).body); got != "a" {
		t.Errorf("when it is back: %s", got)
	}
	f.First = failing(func(string) error { return &upstream.StatusError{Code: 401} })
	if r := srv.post("", initialize("2025-03-26", `{}`)); r.status != 401 {
		t.Errorf("a server that requires a token: %+v", r)
	}
}

func TestAdaptersRemainWhenTheCommandCannotBeStarted(t *testing.T) {
	_, change := withAdapters(t)
	cfg := config.Default()
	change(&cfg)
	cfg.Upstream.Command = []string{filepath.Join(t.TempDir(), "nothing")}
	srv, err := proxy.New(cfg, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	c := testServer{srv, t, nil}.pipe()
	c.say(initialize("2025-11-25", `{}`))
	if got := c.hear(); !gjson.Get(got, "result.capabilities.tools.listChanged").Bool() {
		t.Fatalf("got %s", got)
	}
	c.say(callOurs(2, "mcp_aql_read", readItem))
	if got := text(c.hear()); !strings.Contains(got, "GET /items/7") {
		t.Errorf("got %s", got)
	}
	if err := c.end(); err != nil {
		t.Error(err)
	}
}

// serveAdapters serves cfg on a port until the test ends.
func serveAdapters(t *testing.T, cfg config.Config, o *origin.Origin) (*proxy.Server, string) {
	t.Helper()
	leavesNothing(t)
	srv := reaching(t, cfg, o)
	base, _ := startServing(t, srv)
	return srv, base
}

func TestPlainEndpointsOfAdapters(t *testing.T) {
	_, change := withAdapters(t)
	cfg := config.Default()
	change(&cfg)
	_, base := serveAdapters(t, cfg, nil)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for _, c := range []struct {
		method, path, body string
		header             []string
		status             int
		want               string
	}{
		{method: "POST", path: "/adapters/items-api/read", body: readItem, status: 200, want: `"asked":"GET /items/7"`},
		{method: "POST", path: "/adapters/items-api", body: readItem, status: 200, want: `"asked":"GET /items/7"`},
		{method: "POST", path: "/adapters/items-api/mcp_aql_read", body: readItem, status: 200, want: `"asked":"GET /items/7"`},
		{method: "POST", path: "/adapters/items-api/delete", body: readItem, status: 405, want: `VALIDATION_ENDPOINT_MISMATCH`},
		{method: "POST", path: "/adapters/items-api/read", body: readItem, header: []string{"Content-Type", "text/plain"}, status: 415, want: `Content-Type`},
		{method: "POST", path: "/adapters/items-api/read", body: `{"operation":"get_item","params":{"id":"` + strings.Repeat("x", 2<<20) + `"}}`, status: 413, want: `VALIDATION`},
		{method: "GET", path: "/adapters", status: 200, want: `"operation_count":2`},
		{method: "GET", path: "/adapters/items-api/operations/get_item", status: 200, want: `"name":"get_item"`},
		{method: "GET", path: "/adapters/nobody", status: 404, want: `NOT_FOUND_RESOURCE`},
		{method: "PUT", path: "/adapters/items-api", body: readItem, status: 405, want: `Use GET, POST`},
		{method: "GET", path: "/adaptersx", status: 404, want: "no such path"},
		{method: "GET", path: "/adapters", header: []string{"Origin", "http://evil.example"}, status: 403, want: `{"success":false,"error":{"code":"PERMISSION_DENIED","message":"the Origin header`},
		{method: "POST", path: "/adapters/items-api", body: readItem, header: []string{"Content-Encoding", "gzip"}, status: 415, want: `{"success":false,"error":{"code":"VALIDATION_`},
	} {
		status, _, body := visit(t, client, c.method, base+c.path, c.body, c.header...)
		if status != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%s %s: %d %.300s, want %d with %s", c.method, c.path, status, body, c.status, c.want)
		}
	}
}

func TestAdaptersRequireTheToken(t *testing.T) {
	_, change := withAdapters(t)
	cfg := config.Default()
	change(&cfg)
	cfg.Auth.Tokens = []string{"sesame"}
	srv, base := serveAdapters(t, cfg, nil)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	asks := [][3]string{
		{"GET", "/adapters", ""}, {"GET", "/adapters/items-api", ""}, {"GET", "/adapters/items-api/operations", ""},
		{"GET", "/adapters/items-api/operations/get_item", ""}, {"GET", "/adapters/items-api/types", ""}, {"POST", "/adapters/items-api", readItem},
	}
	for _, category := range []string{"create", "read", "update", "delete", "execute"} {
		asks = append(asks, [3]string{"POST", "/adapters/items-api/" + category, readItem})
	}
	for _, tool := range srv.Adapters.Tools("") {
		asks = append(asks, [3]string{"POST", "/mcp", callOurs(1, tool.Name, readItem)})
	}
	for _, a := range asks {
		want := `{"success":false,"error":{"code":"PERMISSION_DENIED",`
		if a[1] == "/mcp" {
			want = `{"jsonrpc":"2.0","id":null,"error":`
		}
		if status, _, body := visit(t, client, a[0], base+a[1], a[2]); status != 401 || !strings.HasPrefix(body, want) {
			t.Errorf("%s %s without the token: %d %s", a[0], a[1], status, body)
		}
	}
	if status, _, body := visit(t, client, "POST", base+"/adapters/items-api/read", readItem, "Authorization", "Bearer sesame"); status != 200 {
		t.Errorf("with the token: %d %s", status, body)
	}
}

func TestAdaptersAreNotLentToStrangers(t *testing.T) {
	_, change := withAdapters(t)
	cfg := config.Default()
	change(&cfg)
	srv, err := proxy.New(cfg, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Skip(err)
	}
	if err := srv.Serve(t.Context(), ln); err != setup.ErrLends {
		t.Errorf("served: %v", err)
	}
}

// TestAdapterCallsAreLogged: each call has a log line with its adapter, operation and outcome, also
// each call of a batch.
func TestAdapterCallsAreLogged(t *testing.T) {
	_, change := withAdapters(t)
	srv := front(t, listing("2025-06-18", nil, nil), change)
	batch := []byte(`{"operations":[` + readItem + `,` + readItem + `]}`)
	headers := map[string]string{"Content-Type": "application/json", "X-Request-Id": "r-1", "traceparent": "00-1-2-03"}
	var resp downstream.Response
	srv.Adapters.ServeHTTP(&downstream.Request{
		Ctx: t.Context(), Method: "POST", Path: "/adapters/items-api/read", Body: batch,
		Header: func(name string) string { return headers[name] },
	}, "", &resp)
	if !strings.Contains(string(resp.Body), `"succeeded":2`) {
		t.Fatalf("%d %s", resp.Status, resp.Body)
	}
	lines := srv.logs.FilterMessage("adapter call").FilterField(zap.String("operation", "get_item")).
		FilterField(zap.String("request_id", "r-1")).FilterField(zap.String("traceparent", "00-1-2-03"))
	if lines.Len() != 2 {
		t.Errorf("logged %v", srv.logs.FilterMessage("adapter call").All())
	}
}

// TestCallsOfADeadAPIAreLoggedWithAdvice, and at warn.
func TestCallsOfADeadAPIAreLoggedWithAdvice(t *testing.T) {
	t.Setenv("DRAGOMAN_TEST_API_TOKEN", "ghp_0123456789abcdefghijklmnopqrstuvwxyz")
	api := httptest.NewServer(nil)
	api.Close()
	dir := adapterDir(t, map[string]string{"items-adapter.md": adapterFile("items-api", api.URL, adapterOps)})
	srv := front(t, listing("2025-06-18", nil, nil), func(c *config.Config) { c.Adapters.Sources = []string{dir} })
	var resp downstream.Response
	srv.Adapters.ServeHTTP(&downstream.Request{
		Ctx: t.Context(), Method: "POST", Path: "/adapters/items-api/read", Body: []byte(readItem),
		Header: func(name string) string { return map[string]string{"Content-Type": "application/json"}[name] },
	}, "", &resp)
	said := srv.logs.FilterMessage("adapter call").FilterField(zap.String("advice", "is the API running, and target.base_url right?")).All()
	if len(said) != 1 || said[0].Level != zap.WarnLevel {
		t.Errorf("%s\n%v", resp.Body, srv.logs.FilterMessage("adapter call").All())
	}
}

func TestTraceGoesOnToTheAPIAndNothingElse(t *testing.T) {
	base, _, last := items(t)
	dir := adapterDir(t, map[string]string{"items-adapter.md": adapterFile("items-api", base, adapterOps)})
	srv := front(t, listing("2025-06-18", nil, nil), func(c *config.Config) { c.Adapters.Sources = []string{dir} })
	session := srv.initialize("2025-06-18")
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	srv.post(session, callOurs(1, "mcp_aql_read", readItem), "traceparent", trace, "baggage", "user=ann", "Authorization", "Bearer of-the-client")
	h := last.Load()
	if h == nil || !strings.HasPrefix(h.Get("User-Agent"), "dragoman/") || strings.Contains(h.Get("User-Agent"), "(") || h.Get("Traceparent") != trace || h.Get("Baggage") != "" || h.Get("Authorization") != "Bearer ghp_0123456789abcdefghijklmnopqrstuvwxyz" {
		t.Errorf("the API got %v", h)
	}
}

// TestPlainCallEndsWhenItsClientLeaves: a call on the plain endpoints is cancelled when its client
// disconnects.
func TestPlainCallEndsWhenItsClientLeaves(t *testing.T) {
	begun, over := make(chan struct{}), make(chan struct{})
	api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(begun)
		<-r.Context().Done()
		close(over)
	}))
	defer api.Close()
	t.Setenv("DRAGOMAN_TEST_API_TOKEN", "ghp_0123456789abcdefghijklmnopqrstuvwxyz")
	cfg := config.Default()
	cfg.Adapters.Sources = []string{adapterDir(t, map[string]string{"items-adapter.md": adapterFile("items-api", api.URL, adapterOps)})}
	_, base := serveAdapters(t, cfg, nil)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "POST", base+"/adapters/items-api/read", strings.NewReader(readItem))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	left := make(chan error, 1)
	go func() {
		_, err := client.Do(req)
		left <- err
	}()
	<-begun
	leave()
	<-over
	if err := <-left; err == nil {
		t.Error("answered")
	}
}

// reaching returns a server that has not begun to serve, with the way o to its own server; nil for the configured one.
func reaching(t *testing.T, cfg config.Config, o *origin.Origin) (srv *proxy.Server) {
	t.Helper()
	var err error
	if o == nil {
		srv, err = proxy.New(cfg, zap.NewNop())
	} else {
		srv, err = proxy.NewWith(cfg, zap.NewNop(), *o)
	}
	if err != nil {
		t.Fatal(err)
	}
	return srv
}

// TestFirstCharactersOfInstructions: whatever the server says, what all clients show says how to use the adapters' tools, in
// each mode and to the clients of each era.
func TestFirstCharactersOfInstructions(t *testing.T) {
	_, change := withAdapters(t)
	long := strings.Repeat("Read the manual of this server. ", 200)
	for _, mode := range []string{"semantic", "single", "all", "discrete", "search", "auto"} {
		legacy := newFake(replies(func(m string) ([]string, error) {
			id := gjson.Get(m, "id").Raw
			if gjson.Get(m, "method").Str == "tools/list" {
				return one(result(id, `"tools":[]`))
			}
			return one(result(id, `"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"2"},"instructions":"`+long+`"`))
		}))
		modern := modernServer(false, `"capabilities":{"tools":{}},"instructions":"`+long+`",`+identity, nil)
		modern.asked = true
		for name, o := range map[string]origin.Origin{"legacy server": legacy.origin(), "modern server": modern.origin()} {
			srv := frontWith(t, o, nil, change, func(cfg *config.Config) {
				cfg.Adapters.Mode, cfg.Adapters.InstructionsText = mode, "Write titles\nin French."
			})
			for client, answer := range map[string]string{
				"2024-11-05": srv.post("", initialize("2024-11-05", `{}`)).body,
				"2025-11-25": srv.post("", initialize("2025-11-25", `{}`)).body,
				"2026-07-28": srv.modernly(modernRequestOf("1", "server/discover", meta(`{}`))).body,
			} {
				text := gjson.Get(answer, "result.instructions").Str
				first := text[:min(len(text), 512)]
				for _, word := range []string{"Schema first", "connection_id", "typed", "page with first and after", "narrow with fields"} {
					if !strings.Contains(first, word) {
						t.Errorf("%s, %s, client of %s: no %q in %q of %s", mode, name, client, word, first, answer)
					}
				}
				for _, word := range []string{long, "Write titles in French.", "what this client may use", "subscribe to events"} {
					if !strings.Contains(text, word) {
						t.Errorf("%s, %s, client of %s: no %q in %q", mode, name, client, word, text)
					}
				}
			}
		}
	}
}
