package tests

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/config"
)

const clientOps = `
  read:
    - {name: who_am_i, maps_to: "GET /who", description: Say who calls, cache: {ttl: 60s, coalesce: true}}
  delete:
    - {name: drop_all, maps_to: "DELETE /all", description: Drop everything}
`

// clientsAPI is an API that says whose credential it has received.
func clientsAPI(t *testing.T) (base string) {
	t.Helper()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"who":%q}`, r.Header.Get("Authorization"))
	}))
	t.Cleanup(api.Close)
	t.Setenv("DRAGOMAN_TEST_API_TOKEN", "operators-own-token")
	return api.URL
}

// clientsConfig serves the API with credentials of clients: ci may only read, dev may do everything,
// and all others nothing.
func clientsConfig(t *testing.T) config.Config {
	cfg := config.Default()
	cfg.Adapters.Sources = []string{adapterDir(t, map[string]string{"who-adapter.md": adapterFile("who-api", clientsAPI(t), clientOps)})}
	cfg.Adapters.Mode = "auto"
	cfg.Adapters.Callers = map[string]config.AdapterCallers{"who-api": {Headers: map[string]string{"Authorization": "X-Api-Token"}}}
	cfg.Adapters.Tokens = map[string]config.AdapterGrant{"ci": {Allow: []string{"who-api.*:read"}}, config.OtherClients: {Deny: []string{"*"}}, "dev": {}}
	cfg.Auth.NamedTokens = map[string]string{"ci": "token-of-ci", "dev": "token-of-dev", "idle": "token-of-idle"}
	return cfg
}

// withHeaders adds headers to each request.
type withHeaders struct {
	headers []string
	of      http.RoundTripper
}

func (w withHeaders) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for i := 0; i+1 < len(w.headers); i += 2 {
		r.Header.Set(w.headers[i], w.headers[i+1])
	}
	return w.of.RoundTrip(r)
}

// clientOf returns a client of the SDK on a transport, with these headers in each of its requests.
func clientOf(t *testing.T, ctx context.Context, base, over string, h *heard, headers ...string) *mcp.ClientSession {
	t.Helper()
	plain := &http.Transport{}
	t.Cleanup(plain.CloseIdleConnections)
	web := &http.Client{Transport: withHeaders{headers, plain}}
	var transport mcp.Transport = &mcp.StreamableClientTransport{Endpoint: base + "/mcp", HTTPClient: web}
	if over == "sse" {
		transport = &mcp.SSEClientTransport{Endpoint: base + "/sse", HTTPClient: web}
	}
	client, err := sdkClient(h).Connect(ctx, transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func silent() *heard { return &heard{seen: map[string]int{}, told: make(chan struct{}, 1)} }

func toolNames(t *testing.T, ctx context.Context, client *mcp.ClientSession) (names []string) {
	t.Helper()
	for tool, err := range client.Tools(ctx, nil) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
	}
	return names
}

func calledTool(ctx context.Context, client *mcp.ClientSession, tool string) (text string, err error) {
	res, err := client.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: map[string]any{}})
	if err != nil {
		return "", err
	}
	if len(res.Content) == 0 {
		return "", errors.New("no content")
	}
	return res.Content[0].(*mcp.TextContent).Text, nil
}

// TestACredentialForAnAPIIsSentOnce: of two, in any order and on any endpoint, neither is used.
func TestACredentialForAnAPIIsSentOnce(t *testing.T) {
	cfg := clientsConfig(t)
	cfg.Adapters.HTTPPrefix = "/api"
	_, base := serveAdapters(t, cfg, nil)
	plain := &http.Client{Transport: &http.Transport{}}
	defer plain.CloseIdleConnections()
	body := modernRequestOf("1", "tools/call", `"name":"who_am_i","arguments":{},`+meta(`{}`))
	for _, path := range []string{"/mcp", "/messages?session=x", "/api/who-api/who_am_i"} {
		for _, keys := range [][]string{{"a", "b"}, {"b", "a"}, {"", "a"}} {
			header := append(modernHeader(body, "X-Dragoman-Token", "token-of-dev"), "X-Api-Token", keys[0], "X-API-TOKEN", keys[1])
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			for i := 0; i+1 < len(header); i += 2 {
				r.Header.Add(header[i], header[i+1])
			}
			resp, err := plain.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			said, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(said), "the X-Api-Token header occurs more than once") {
				t.Errorf("%s with %q: %d %s", path, keys, resp.StatusCode, said)
			}
		}
	}
}

// TestClientsSeeAndCallWhatTheyMay goes through every transport with each client's token.
func TestClientsSeeAndCallWhatTheyMay(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	_, base := serveAdapters(t, clientsConfig(t), nil)
	plain := &http.Client{Transport: &http.Transport{}}
	defer plain.CloseIdleConnections()
	for _, c := range []struct {
		token string
		tools []string
	}{{"token-of-ci", []string{"who_am_i"}}, {"token-of-dev", []string{"who_am_i", "drop_all"}}, {"token-of-idle", nil}} {
		headers := []string{"Authorization", "Bearer " + c.token, "X-Api-Token", "key-of-" + c.token}
		sees := func(tool string) bool { return slices.Contains(c.tools, tool) }
		for _, over := range []string{"http", "sse"} {
			client := clientOf(t, ctx, base, over, silent(), headers...)
			if got := toolNames(t, ctx, client); !slices.Equal(got, c.tools) {
				t.Errorf("%s over %s: %v", c.token, over, got)
			}
			for _, tool := range []string{"who_am_i", "drop_all"} {
				text, err := calledTool(ctx, client, tool)
				if sees(tool) != (err == nil) || err == nil && !strings.Contains(text, "key-of-"+c.token) {
					t.Errorf("%s over %s: %s: %s %v", c.token, over, tool, text, err)
				}
			}
			if instructions := client.InitializeResult().Instructions; strings.Contains(instructions, "who-api") != (c.tools != nil) {
				t.Errorf("%s over %s: %s", c.token, over, instructions)
			}
		}
		modern := func(method, params string, more ...string) string {
			if params != "" {
				params += ","
			}
			body := modernRequestOf("1", method, params+meta(`{}`))
			_, _, answer := visit(t, plain, "POST", base+"/mcp", body, modernHeader(body, append(slices.Clone(headers), more...)...)...)
			return answer
		}
		if got := names(modern("tools/list", "")); got != strings.Join(c.tools, " ") {
			t.Errorf("%s in 2026-07-28: %s", c.token, got)
		}
		for _, tool := range []string{"who_am_i", "drop_all"} {
			answer := modern("tools/call", `"name":"`+tool+`","arguments":{}`)
			if sees(tool) != (gjson.Get(answer, "result.content.0.text").Exists()) || sees(tool) && !strings.Contains(answer, "key-of-"+c.token) {
				t.Errorf("%s in 2026-07-28: %s: %s", c.token, tool, answer)
			}
		}
		status, _, body := visit(t, plain, "POST", base+"/adapters/who-api/read", `{"operation":"who_am_i"}`, headers...)
		if sees("who_am_i") && !strings.Contains(body, `"who":"Bearer key-of-`+c.token+`"`) || !sees("who_am_i") && status != 404 {
			t.Errorf("%s over plain HTTP: %d %s", c.token, status, body)
		}
		status, _, body = visit(t, plain, "POST", base+"/adapters/who-api/delete", `{"operation":"drop_all"}`, headers...)
		if sees("drop_all") != (status == 200) || !sees("drop_all") && status != 404 {
			t.Errorf("%s over plain HTTP: %d %s", c.token, status, body)
		}
		if _, _, body = visit(t, plain, "GET", base+"/adapters", "", headers...); strings.Contains(body, "who-api") != (c.tools != nil) {
			t.Errorf("%s: %s", c.token, body)
		}
	}
}

// TestClientsWithoutACredential shows that each transport names the header, and never uses the
// operator's credential.
func TestClientsWithoutACredential(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	_, base := serveAdapters(t, clientsConfig(t), nil)
	plain := &http.Client{Transport: &http.Transport{}}
	defer plain.CloseIdleConnections()
	headers := []string{"Authorization", "Bearer token-of-dev"}
	var answers []string
	for _, over := range []string{"http", "sse"} {
		text, err := calledTool(ctx, clientOf(t, ctx, base, over, silent(), headers...), "who_am_i")
		answers = append(answers, fmt.Sprint(text, err))
	}
	body := modernRequestOf("1", "tools/call", `"name":"who_am_i","arguments":{},`+meta(`{}`))
	_, _, modern := visit(t, plain, "POST", base+"/mcp", body, modernHeader(body, headers...)...)
	_, _, direct := visit(t, plain, "POST", base+"/adapters/who-api/read", `{"operation":"who_am_i"}`, headers...)
	for _, answer := range append(answers, modern, direct) {
		if !strings.Contains(answer, "AUTH_CREDENTIAL_MISSING") || !strings.Contains(answer, "X-Api-Token") || strings.Contains(answer, "operators") {
			t.Error(answer)
		}
	}
}

// TestTheOperatorsCredentialIsTheStdioClients shows that a client on stdin, which has started dragoman,
// may do everything with the credential of the environment.
func TestTheOperatorsCredentialIsTheStdioClients(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	srv, err := proxy.New(clientsConfig(t), zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	client := testServer{srv, t, logs}.pipe()
	client.say(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	client.hear()
	client.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	if got := names(client.hear()); got != "who_am_i drop_all" {
		t.Error(got)
	}
	client.say(callOurs(3, "who_am_i", `{}`))
	if got := text(client.hear()); !strings.Contains(got, "Bearer operators-own-token") {
		t.Error(got)
	}
	body := modernRequestOf("4", "tools/call", `"name":"who_am_i","arguments":{},`+meta(`{}`))
	client.say(body)
	if got := client.hear(); !strings.Contains(got, "Bearer operators-own-token") {
		t.Error(got)
	}
}

// TestClientsCredentialsGoNowhereElse shows that the server does not get a client's header for an
// API, and that no log line has it.
func TestClientsCredentialsGoNowhereElse(t *testing.T) {
	cfg := clientsConfig(t)
	f := listing("2025-06-18", nil, nil)
	srv := front(t, f, func(c *config.Config) { c.Adapters, c.Auth = cfg.Adapters, cfg.Auth; c.Adapters.Tokens = nil })
	const secret = "the-clients-secret-0123456789"
	session := srv.initialize("2025-06-18")
	srv.post(session, listTools, "X-Api-Token", secret)
	if got := text(srv.post(session, callOurs(2, "who_am_i", `{}`), "X-Api-Token", secret).body); !strings.Contains(got, secret) {
		t.Fatalf("the API did not get it: %s", got)
	}
	srv.post(session, callOurs(3, "theirs", `{}`), "X-Api-Token", secret)
	srv.post(session, callOurs(4, "who_am_i", `{}`), "X-Api-Token", secret+"\x01")
	if got := fmt.Sprint(f.Heard()); strings.Contains(got, secret) || !strings.Contains(got, "theirs") {
		t.Errorf("the server got it, or nothing: %s", got)
	}
	for _, line := range srv.logs.All() {
		if text := fmt.Sprint(line.Message, line.ContextMap()); strings.Contains(text, secret) || strings.Contains(text, "operators-own") {
			t.Errorf("it is in the log: %s", text)
		}
	}
}

// TestManyClientsAtOnce shows that clients which call at the same time, also within one session, get
// what the API gives to them.
func TestManyClientsAtOnce(t *testing.T) {
	cfg := clientsConfig(t)
	cfg.Adapters.Tokens, cfg.Auth.NamedTokens = nil, nil
	_, base := serveAdapters(t, cfg, nil)
	plain := &http.Client{Transport: &http.Transport{}}
	defer plain.CloseIdleConnections()
	var wg sync.WaitGroup
	for i := range 24 {
		wg.Go(func() {
			who := fmt.Sprintf("client-%d-key", i%4)
			for range 5 {
				body := modernRequestOf("1", "tools/call", `"name":"who_am_i","arguments":{},`+meta(`{}`))
				_, _, modern := visit(t, plain, "POST", base+"/mcp", body, modernHeader(body, "X-Api-Token", who)...)
				_, _, direct := visit(t, plain, "POST", base+"/adapters/who-api/read", `{"operation":"who_am_i"}`, "X-Api-Token", who)
				for _, answer := range []string{modern, direct} {
					if !strings.Contains(answer, "Bearer "+who) {
						t.Errorf("%s got %s", who, answer)
					}
				}
			}
		})
	}
	wg.Wait()
}

// TestReloadChangesWhatClientsSee shows that a changed mode and a changed grant reach the clients
// that they concern, and only these.
func TestReloadChangesWhatClientsSee(t *testing.T) {
	for _, over := range []string{"http", "sse"} {
		t.Run(over, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
			defer cancel()
			cfg := clientsConfig(t)
			srv, base := serveAdapters(t, cfg, nil)
			ofCI, ofDev := silent(), silent()
			ci := clientOf(t, ctx, base, over, ofCI, "Authorization", "Bearer token-of-ci")
			dev := clientOf(t, ctx, base, over, ofDev, "Authorization", "Bearer token-of-dev")

			cfg.Adapters.Tokens = map[string]config.AdapterGrant{"ci": {Allow: []string{"who-api.*"}}, "dev": {}, config.OtherClients: {Deny: []string{"*"}}}
			if err := srv.Reload(cfg); err != nil {
				t.Fatal(err)
			}
			eventually(t, "told", func() bool { return ofCI.count("list_changed") == 1 })
			if got := toolNames(t, ctx, ci); len(got) != 2 {
				t.Error(got)
			}
			if ofDev.count("list_changed") != 0 {
				t.Error("told of what did not change for it")
			}

			cfg.Adapters.Mode = "search"
			if err := srv.Reload(cfg); err != nil {
				t.Fatal(err)
			}
			eventually(t, "told", func() bool { return ofCI.count("list_changed") == 2 && ofDev.count("list_changed") == 1 })
			if got := toolNames(t, ctx, dev); !slices.Equal(got, []string{"search_operations", "describe_operations", "call_read", "call_write"}) {
				t.Error(got)
			}
			cfg.Adapters.Pin = []string{"drop_all"}
			cfg.Adapters.Tokens = map[string]config.AdapterGrant{"ci": {Allow: []string{"*:read"}}, "dev": {}, config.OtherClients: {Deny: []string{"*"}}}
			if err := srv.Reload(cfg); err != nil {
				t.Fatal(err)
			}
			eventually(t, "told", func() bool { return ofDev.count("list_changed") == 2 })
			if got := toolNames(t, ctx, dev); !slices.Contains(got, "drop_all") {
				t.Error(got)
			}
			if got := toolNames(t, ctx, ci); slices.Contains(got, "drop_all") {
				t.Error(got)
			}

			count := ofCI.count("list_changed")
			cfg.Auth.NamedTokens = map[string]string{"dev": "token-of-ci", "ci": "token-of-dev"}
			if err := srv.Reload(cfg); err != nil {
				t.Fatal(err)
			}
			eventually(t, "told", func() bool { return ofCI.count("list_changed") > count })
			if got := toolNames(t, ctx, ci); !slices.Contains(got, "drop_all") {
				t.Error("the token has another name, and the old grant: ", got)
			}
			if got := toolNames(t, ctx, dev); slices.Contains(got, "drop_all") {
				t.Error("the token has another name, and the old grant: ", got)
			}

			bad := cfg
			bad.Adapters.Tokens = map[string]config.AdapterGrant{"ci": {Allow: []string{"?"}}}
			if err := srv.Reload(bad); err == nil {
				t.Error("an invalid pattern is accepted")
			}
		})
	}
}

// TestWhoseAuthorizationGoesToAPIs shows when the configuration may send the clients' Authorization to an
// API: never a token that is meant for the server or for dragoman.
func TestWhoseAuthorizationGoesToAPIs(t *testing.T) {
	cfg := clientsConfig(t)
	cfg.Adapters.Callers["who-api"] = config.AdapterCallers{Headers: map[string]string{"Authorization": "Authorization"}}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zap.InfoLevel)
	srv, err := proxy.New(cfg, zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	srv.Close()
	if logs.FilterMessageSnippet("Authorization header of clients is sent to an API").Len() != 1 {
		t.Error("start-up does not say so")
	}
	_, base := serveAdapters(t, cfg, nil)
	plain := &http.Client{Transport: &http.Transport{}}
	defer plain.CloseIdleConnections()
	const ask = `{"operation":"who_am_i"}`
	if _, _, body := visit(t, plain, "POST", base+"/adapters/who-api/read", ask, "Authorization", "Bearer token-of-dev"); !strings.Contains(body, "AUTH_CREDENTIAL_MISSING") || strings.Contains(body, "token-of-dev") {
		t.Errorf("dragoman's own token: %s", body)
	}
	if _, _, body := visit(t, plain, "POST", base+"/adapters/who-api/read", ask, "X-Dragoman-Token", "token-of-dev", "Authorization", "Bearer for-the-api"); !strings.Contains(body, `"who":"Bearer for-the-api"`) {
		t.Error(body)
	}
	cfg.Upstream.URL = "https://mcp.example.com/mcp"
	if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "adapters.callers.who-api: the clients' Authorization is for the server") {
		t.Error(err)
	}
	cfg.Upstream.Headers = map[string]string{"authorization": "Bearer of-dragoman"}
	if err := cfg.Validate(); err != nil {
		t.Errorf("the server has another credential, and still: %v", err)
	}
}

// TestDiscreteToolsOfOldRevisions shows what clients of each revision get of a tool that has everything.
func TestDiscreteToolsOfOldRevisions(t *testing.T) {
	const ops = `
  read:
    - name: get_item
      maps_to: "GET /items/{id}"
      description: Get an item
      params: {id: {type: string, required: true}}
      response: {schema: {type: object, properties: {asked: {type: string}}}}
`
	base, _, _ := items(t)
	cfg := config.Default()
	cfg.Adapters.Sources = []string{adapterDir(t, map[string]string{"items-adapter.md": adapterFile("items-api", base, ops)})}
	cfg.Adapters.Mode = "discrete"
	core, logs := observer.New(zap.InfoLevel)
	srv, err := proxy.New(cfg, zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	for version, has := range map[string]struct{ annotations, title, structured bool }{
		"2024-11-05": {}, "2025-03-26": {annotations: true}, "2025-06-18": {true, true, true}, "2025-11-25": {true, true, true},
	} {
		client := testServer{srv, t, logs}
		session := client.initialize(version)
		tool := gjson.Get(client.post(session, listTools).body, "result.tools.0")
		if tool.Get("annotations").Exists() != has.annotations || tool.Get("title").Exists() != has.title || tool.Get("outputSchema").Exists() != has.structured ||
			tool.Get("name").Str != "get_item" || !tool.Get("inputSchema.properties.id").Exists() {
			t.Errorf("%s: %s", version, tool)
		}
		answer := client.post(session, callOurs(2, "get_item", `{"id":"7"}`)).body
		if gjson.Get(answer, "result.structuredContent").Exists() != has.structured || text(answer) != `{"success":true,"data":{"asked":"GET /items/7"}}` {
			t.Errorf("%s: %s", version, answer)
		}
	}
}
