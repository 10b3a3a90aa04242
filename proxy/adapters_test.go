package proxy

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

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/adapterrt"
	"github.com/dragoman-proxy/dragoman/proxy/adapters"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/proxy/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/setup"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/transform"
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
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		h := r.Header.Clone()
		last.Store(&h)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"asked":%q}`, r.Method+" "+r.URL.Path)
	}))
	t.Cleanup(api.Close)
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
	plain, err := New(cfg, zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(plain.close)
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
	if err := srv.ready(); err != nil {
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
		srv, err := New(cfg, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(srv.close)
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
	f.refuse = func(string) error { return &upstream.Error{Op: "connect", Err: io.EOF} }
	srv := front(t, f, change)
	session := srv.initialize("2025-03-26")
	if got := names(srv.post(session, listTools).body); !strings.HasPrefix(got, "mcp_aql_create") {
		t.Errorf("lists %s", got)
	}
	if srv.logs.FilterMessageSnippet("the session has only tools of adapters").Len() != 1 {
		t.Error("not logged")
	}
	f.refuse = nil
	if got := names(srv.post(srv.initialize("2025-03-26"), listTools).body); got != "a" {
		t.Errorf("when it is back: %s", got)
	}
	f.refuse = func(string) error { return &upstream.StatusError{Code: 401} }
	if r := srv.post("", initialize("2025-03-26", `{}`)); r.status != 401 {
		t.Errorf("a server that requires a token: %+v", r)
	}
}

func TestAdaptersRemainWhenTheCommandCannotBeStarted(t *testing.T) {
	_, change := withAdapters(t)
	cfg := config.Default()
	change(&cfg)
	cfg.Upstream.Command = []string{filepath.Join(t.TempDir(), "nothing")}
	srv, err := New(cfg, zap.NewNop())
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
func serveAdapters(t *testing.T, cfg config.Config, o *origin.Origin) (*Server, string) {
	t.Helper()
	leavesNothing(t)
	var srv *Server
	var err error
	if o == nil {
		srv, err = New(cfg, zap.NewNop())
	} else {
		srv, err = newServer(cfg, zap.NewNop(), *o)
	}
	if err != nil {
		t.Fatal(err)
	}
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
	srv, err := New(cfg, zap.NewNop())
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

func TestReloadOfAdaptersIsAnnouncedOnEveryTransport(t *testing.T) {
	for _, over := range []string{"http", "sse", "stdio"} {
		for _, behind := range []string{"nothing", "stream", "no stream", "pipe"} {
			t.Run(over+" in front of "+behind, func(t *testing.T) {
				base, _, _ := items(t)
				dir := adapterDir(t, map[string]string{"items-adapter.md": adapterFile("items-api", base, adapterOps)})
				cfg := config.Default()
				cfg.Adapters.Sources = []string{dir}
				var o *origin.Origin
				if behind != "nothing" {
					f := listing("2025-06-18", nil, nil)
					f.piped, f.noGet = behind == "pipe", behind == "no stream"
					theirs := f.origin()
					o = &theirs
				}
				reloadIsTold(t, cfg, o, over, dir, base)
			})
		}
	}
}

func reloadIsTold(t *testing.T, cfg config.Config, o *origin.Origin, over, dir, base string) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	var srv *Server
	var transport mcp.Transport
	switch over {
	case "stdio":
		var err error
		if o == nil {
			srv, err = New(cfg, zap.NewNop())
		} else {
			srv, err = newServer(cfg, zap.NewNop(), *o)
		}
		if err != nil {
			t.Fatal(err)
		}
		in, toServer := io.Pipe()
		fromServer, out := io.Pipe()
		ended := make(chan error, 1)
		go func() {
			ended <- srv.ServePipe(ctx, in, out)
			out.Close()
		}()
		defer func() {
			toServer.Close()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}()
		transport = &mcp.IOTransport{Reader: fromServer, Writer: toServer}
	case "http", "sse":
		var url string
		srv, url = serveAdapters(t, cfg, o)
		web := &http.Client{Transport: &http.Transport{}}
		defer web.CloseIdleConnections()
		transport = &mcp.StreamableClientTransport{Endpoint: url + "/mcp", HTTPClient: web}
		if over == "sse" {
			transport = &mcp.SSEClientTransport{Endpoint: url + "/sse", HTTPClient: web}
		}
	}
	h := &heard{seen: map[string]int{}, told: make(chan struct{}, 1)}
	client, err := sdkClient(h).Connect(ctx, transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()

	file := filepath.Join(dir, "items-adapter.md")
	put(t, file, "---\nnonsense")
	srv.ReloadAdapters("test")
	res, err := client.CallTool(ctx, &mcp.CallToolParams{Name: "mcp_aql_read", Arguments: map[string]any{"operation": "get_item", "params": map[string]any{"id": "1"}}})
	if err != nil || res.IsError {
		t.Fatalf("with a file that is wrong: %v %+v", err, res)
	}
	if h.count("list_changed") != 0 {
		t.Error("told of what did not change")
	}
	put(t, file, adapterFile("items-api", base, strings.ReplaceAll(adapterOps, "get_item", "fetch_item")))
	srv.ReloadAdapters("test")
	eventually(t, "told", func() bool { return h.count("list_changed") == 1 })
	found := false
	for tool, err := range client.Tools(ctx, nil) {
		if err != nil {
			t.Fatal(err)
		}
		found = found || strings.Contains(tool.Description, "fetch_item")
	}
	if !found {
		t.Error("the list does not have the new operation")
	}
	res, err = client.CallTool(ctx, &mcp.CallToolParams{Name: "mcp_aql_read", Arguments: map[string]any{"operation": "fetch_item", "params": map[string]any{"id": "1"}}})
	if err != nil || res.IsError {
		t.Errorf("the new operation: %v %+v", err, res)
	}
}

func TestConfirmationBelongsToTheSession(t *testing.T) {
	_, change := withAdapters(t)
	srv := front(t, listing("2025-06-18", nil, nil), change)
	mine, other := srv.initialize("2025-06-18"), srv.initialize("2025-06-18")
	asked := text(srv.post(mine, callOurs(1, "mcp_aql_delete", `{"operation":"drop_item","params":{"id":"7"}}`)).body)
	token := gjson.Get(asked, "confirmation.token").String()
	if token == "" {
		t.Fatalf("asked: %s", asked)
	}
	again := callOurs(2, "mcp_aql_delete", `{"operation":"drop_item","params":{"id":"7","_confirmation":"`+token+`"}}`)
	if got := text(srv.post(other, again).body); !strings.Contains(got, "TOKEN_SCOPE_MISMATCH") {
		t.Errorf("another session: %s", got)
	}
	if got := text(srv.post(mine, again).body); !strings.Contains(got, "DELETE /items/7") {
		t.Errorf("the session: %s", got)
	}
}

// TestConfirmationIsBoundToTheCredentials: without a session, a confirmation is valid only for the
// listener token and the Authorization header with which it was asked for.
func TestConfirmationIsBoundToTheCredentials(t *testing.T) {
	_, change := withAdapters(t)
	cfg := config.Default()
	change(&cfg)
	cfg.Auth.Tokens = []string{"ann", "bob"}
	_, base := serveAdapters(t, cfg, nil)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	drop := func(token string, header ...string) (int, string) {
		status, _, body := visit(t, client, "POST", base+"/adapters/items-api/delete",
			`{"operation":"drop_item","params":{"id":"7"`+token+`}}`, header...)
		return status, body
	}
	ann, bob := []string{"Authorization", "Bearer ann"}, []string{"Authorization", "Bearer bob"}
	status, body := drop("", ann...)
	token := gjson.Get(body, "confirmation.token").String()
	if status != 428 || token == "" || strings.Contains(body, "ann") {
		t.Fatalf("asked: %d %s", status, body)
	}
	again := `,"_confirmation":"` + token + `"`
	for name, header := range map[string][]string{
		"another's token":      bob,
		"her token, for a man": {"X-Dragoman-Token", "ann", "Authorization", "Bearer man"},
	} {
		if status, body := drop(again, header...); status != 403 || !strings.Contains(body, "TOKEN_SCOPE_MISMATCH") {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	if status, body := drop(again, "X-Dragoman-Token", "ann"); status != 200 { // the same token in the other header
		t.Errorf("her own: %d %s", status, body)
	}
}

// TestOnlyTheUserConfirms: if adapters.confirm.via is elicitation, no client gets a confirmation
// token that the model could use itself, neither on the plain endpoints nor in a batch.
func TestOnlyTheUserConfirms(t *testing.T) {
	_, change := withAdapters(t)
	cfg := config.Default()
	change(&cfg)
	cfg.Adapters.Confirm.Via = "elicitation"
	_, base := serveAdapters(t, cfg, nil)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	const drop = `{"operation":"drop_item","params":{"id":"7"}}`
	for _, c := range []struct {
		path, body string
		status     int
	}{{"items-api/delete", drop, 403}, {"items-api", drop, 403}, {"items-api", `{"operations":[` + drop + `]}`, 200}} {
		status, _, body := visit(t, client, "POST", base+"/adapters/"+c.path, c.body)
		if status != c.status || !strings.Contains(body, `"code":"PERMISSION_DENIED"`) || strings.Contains(body, "conf_") {
			t.Errorf("%s: %d %s", c.path, status, body)
		}
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

func TestAdapterFileThatIsWrong(t *testing.T) {
	dir := adapterDir(t, map[string]string{"bad-adapter.md": "---\nnope", "good-adapter.md": adapterFile("good-api", "http://localhost:1", adapterOps)})
	cfg := config.Default()
	cfg.Adapters.Sources = []string{dir}
	if _, err := New(cfg, zap.NewNop()); err == nil || !strings.HasPrefix(err.Error(), "adapters: "+dir) || !strings.Contains(err.Error(), "bad-adapter.md") {
		t.Errorf("error %v", err)
	}
	cfg.Adapters.SkipInvalid = true
	srv, err := New(cfg, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	srv.close()
	cfg.Adapters.Sources = []string{filepath.Join(dir, "nowhere")}
	cfg.Adapters.SkipInvalid = false
	if _, err := New(cfg, zap.NewNop()); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("a directory that is not there: %v", err)
	}
}

func TestTheEnvironmentWinsOverTheAdaptersSection(t *testing.T) {
	cfg := config.Default().Adapters
	cfg.Prefix = "file_"
	env := map[string]string{"MCP_AQL_ENDPOINT_MODE": "single", "MCP_AQL_TOOL_PREFIX": "env_"}
	getenv := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	if o, err := adapters.Options(&cfg, getenv); err != nil || o.Mode != adapterrt.Single || o.ToolPrefix != "env_" {
		t.Errorf("%v %q %v", o.Mode, o.ToolPrefix, err)
	}
	env["MCP_AQL_ENDPOINT_MODE"] = "both"
	if _, err := adapters.Options(&cfg, getenv); err == nil || !strings.HasPrefix(err.Error(), "MCP_AQL_ENDPOINT_MODE: ") {
		t.Error(err)
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

// TestOwnToolsFollowTheConfiguration: a reload can remove adapters and add them again.
func TestOwnToolsFollowTheConfiguration(t *testing.T) {
	shaped := func(c *config.Config) {
		how := transform.DefaultConfig()
		how.MoreTool.Enabled = "on"
		c.Transform = &how
	}
	srv := front(t, listing("2025-06-18", nil, []string{"a"}), shaped)
	session := srv.initialize("2025-06-18")
	for _, on := range []bool{true, false, true} {
		cfg := srv.Now().Config
		cfg.Transform = nil
		want := "a"
		if on {
			shaped(&cfg)
			want = "a fetch_more"
		}
		if err := srv.Reload(cfg); err != nil {
			t.Fatal(err)
		}
		if got := names(srv.answer(session, listSecond)); got != want {
			t.Errorf("with it %v: %s", on, got)
		}
	}
	s, err := srv.Table.Find(session, sealed.Owner{}, &downstream.Sender{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Leave()
	if !srv.ToolsChanged(s) {
		t.Error("the client is not told")
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
