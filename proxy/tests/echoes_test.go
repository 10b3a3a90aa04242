package tests

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"
	"github.com/zalando/go-keyring"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/adapterrt/secret/secrettest"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/ops/telemetry/collectortest"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// An echo is a server, its authorization server, and an API for adapters, all of which repeat every credential that any of them has got,
// wherever a peer can say something.
type echo struct {
	*httptest.Server
	t *testing.T

	mu    sync.Mutex
	got   []string // the credentials
	api   []string // those that the API has got
	spell func(string) string
	how   string // how the MCP endpoint answers calls
	issue int    // number of the last token
	// refuse makes the authorization server refuse requests.
	refuse bool
}

// asSecrets are the parameters of forms and the headers that carry credentials.
var asSecrets = []string{"client_secret", "refresh_token", "assertion", "client_assertion", "code", "code_verifier"}

func newEcho(t *testing.T) *echo {
	e := &echo{t: t, spell: func(s string) string { return s }}
	e.Server = httptest.NewServer(e)
	t.Cleanup(e.Close)
	return e
}

// hear notes the credentials of a request.
func (e *echo) hear(r *http.Request) {
	add := func(s string) {
		if s != "" && !slices.Contains(e.got, s) {
			e.got = append(e.got, s)
			if r.URL.Path == "/api" {
				e.api = append(e.api, s)
			}
		}
	}
	for _, name := range []string{"Authorization", "X-Api-Key"} {
		value := r.Header.Get(name)
		if scheme, rest, ok := strings.Cut(value, " "); ok {
			if pair, err := base64.StdEncoding.DecodeString(rest); err == nil && scheme == "Basic" {
				_, password, _ := strings.Cut(string(pair), ":")
				if plain, err := url.QueryUnescape(password); err == nil && r.URL.Path == "/token" {
					password = plain
				}
				add(password)
			}
			value = rest
		}
		add(value)
	}
	if r.ParseForm() == nil {
		for _, name := range asSecrets {
			add(r.PostForm.Get(name))
		}
	}
}

// said returns credentials, spelled.
func (e *echo) said(got []string) string {
	var all []string
	for _, s := range got {
		all = append(all, e.spell(s))
	}
	return strings.Join(all, " and ")
}

func (e *echo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	e.mu.Lock()
	defer e.mu.Unlock()
	e.hear(r)
	said := e.said(e.got)
	if r.URL.Path == "/api" {
		said = e.said(e.api)
	}
	inside := string(wire.AppendQuotedInner(nil, said))
	inHeader := strings.NewReplacer("\r", "", "\n", "").Replace(said)
	reply := func(status int, kind, text string) {
		w.Header().Set("Content-Type", kind)
		w.Header().Set("X-Echo", inHeader)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
	const asJSON = "application/json"
	switch r.URL.Path {
	case "/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource":
		reply(200, asJSON, fmt.Sprintf(`{"resource":%q,"authorization_servers":[%q]}`, e.URL+"/mcp", e.URL))
		return
	case "/.well-known/oauth-authorization-server":
		reply(200, asJSON, fmt.Sprintf(`{"issuer":%q,"authorization_endpoint":%q,"token_endpoint":%q,"response_types_supported":["code"],"code_challenge_methods_supported":["S256"]}`, e.URL, e.URL+"/authorize", e.URL+"/token"))
		return
	case "/token":
		if e.refuse {
			reply(400, asJSON, `{"error":"invalid_request","error_description":"you sent `+inside+`"}`)
			return
		}
		e.issue++
		token := fmt.Sprintf("issued/token+%04d==", e.issue)
		e.got = append(e.got, token)
		reply(200, asJSON, `{"token_type":"bearer","expires_in":3600,"access_token":"`+token+`"}`)
		return
	case "/api":
		switch e.how {
		case "json":
			reply(200, asJSON, `{"saw":"`+inside+`","list":["`+inside+`"]}`)
		default:
			reply(403, asJSON, `{"error":{"message":"not with `+inside+`","details":["`+inside+`"],"`+inside+`":1}}`)
		}
		return
	}
	method, id := gjson.GetBytes(body, "method").Str, gjson.GetBytes(body, "id").Raw
	w.Header().Add("WWW-Authenticate", `Bearer error="invalid_token", error_description="`+strings.ReplaceAll(inHeader, `"`, `\"`)+`", resource_metadata="`+e.URL+`/.well-known/oauth-protected-resource/mcp"`)
	switch {
	case r.Method != http.MethodPost:
		reply(405, "text/plain", "not "+said)
	case r.Header.Get("Authorization") == "" && r.Header.Get("X-Api-Key") == "":
		reply(401, "text/plain", "log in, "+said)
	case method == "initialize":
		reply(200, asJSON, `{"jsonrpc":"2.0","id":`+id+`,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"`+inside+`","version":"1"},"instructions":"`+inside+`"}}`)
	case id == "":
		w.WriteHeader(202)
	case e.how == "json":
		reply(200, asJSON, `{"jsonrpc":"2.0","id":`+id+`,"result":{}}`)
	default:
		switch e.how {
		case "text":
			reply(403, "text/plain", "you sent "+said)
		case "page":
			reply(500, "text/html", "<html><body><p>You sent "+strings.ReplaceAll(said, "<", "&lt;")+"</p></body></html>")
		case "unauthorized":
			reply(401, "text/plain", "that is "+said)
		case "error":
			reply(400, asJSON, `{"jsonrpc":"2.0","id":`+id+`,"error":{"code":-32000,"message":"you sent `+inside+`","data":{"headers":["`+inside+`"],"`+inside+`":true}}}`)
		case "an error without the id":
			reply(500, asJSON, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"you sent `+inside+`","data":"`+inside+`"}}`)
		case "garbage":
			reply(200, asJSON, "you sent "+said)
		case "another type":
			reply(200, "x/"+strings.NewReplacer("/", "", " ", "", ";", "", ",", "").Replace(inHeader), said)
		case "result":
			reply(200, asJSON, `{"jsonrpc":"2.0","id":`+id+`,"result":{"content":[{"type":"text","text":"`+inside+`"},{"type":"text","text":"{\"a\":\"`+string(wire.AppendQuotedInner(nil, inside))+`\"}"}],"structuredContent":{"`+inside+`":"`+inside+`"}}}`)
		case "stream":
			w.Header().Set("Content-Type", "text/event-stream")
			w.WriteHeader(200)
			_, _ = io.WriteString(w, `data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"`+inside+"\"}}\n\n"+`data: {"jsonrpc":"2.0","id":`+id+`,"error":{"code":-1,"message":"`+inside+"\"}}\n\n")
		}
	}
}

// echoes are how the server answers calls. In those that begin with a plus, it sends whole messages, which pass as they are.
var echoes = []string{"text", "page", "unauthorized", "error", "an error without the id", "garbage", "another type", "+result", "+stream"}

// TestNothingSentIsShown: no credential that was sent or issued, or read from a file, is in the log, in an error, in a recording, on the
// page or in a span, however a server, an authorization server or an API that repeats it spells it.
func TestNothingSentIsShown(t *testing.T) {
	keyring.MockInitWithError(fmt.Errorf("no keyring in tests"))
	inFile := func(c *config.Config, name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	cases := map[string]struct {
		change func(*config.Config)
		token  string // that the client sends
		later  func(*testing.T, *config.Config)
		sent   []string // must be among what the peers have got
	}{
		"a header": {change: func(c *config.Config) {
			c.Upstream.Headers = map[string]string{"Authorization": "Bearer hea/der+token=1"}
		}, sent: []string{"hea/der+token=1"}},
		"a key": {change: func(c *config.Config) { c.Upstream.Headers = map[string]string{"X-Api-Key": "api/key+\"1\\2"} }, sent: []string{"api/key+\"1\\2"}},
		"a password": {change: func(c *config.Config) {
			c.Upstream.Headers = map[string]string{"Authorization": "Basic " + base64.StdEncoding.EncodeToString([]byte("me:pass/word+1"))}
		}, sent: []string{"pass/word+1"}},
		"token_file": {change: func(c *config.Config) {
			c.Upstream.Auth.Type, c.Upstream.Auth.TokenFile = config.AuthTokenFile, inFile(c, "token", "fi/le+token=1")
		}, later: func(t *testing.T, c *config.Config) { // another program renews it
			if err := os.WriteFile(c.Upstream.Auth.TokenFile, []byte("renewed/token+2=="), 0o600); err != nil {
				t.Fatal(err)
			}
		}, sent: []string{"fi/le+token=1", "renewed/token+2=="}},
		"client_credentials": {change: func(c *config.Config) {
			c.Upstream.Auth.Type, c.Upstream.Auth.ClientID, c.Upstream.Auth.ClientSecretFile = config.AuthClientCredentials, "service", inFile(c, "secret", "client/secret+in?a&file")
		}, sent: []string{"client/secret+in?a&file", "issued/token+0001=="}},
		"private_key_jwt": {change: func(c *config.Config) {
			_, file := newKeyFile(t)
			c.Upstream.Auth.Type, c.Upstream.Auth.ClientID, c.Upstream.Auth.KeyFile = config.AuthClientCredentials, "service", file
		}, sent: []string{"eyJ", "issued/token+0001=="}},
		"jwt_bearer": {change: func(c *config.Config) {
			c.Upstream.Auth.Type, c.Upstream.Auth.AssertionFile = config.AuthJWTBearer, inFile(c, "assertion", "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJ4In0.c2lnbmF0dXJl")
		}, sent: []string{"eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJ4In0.c2lnbmF0dXJl", "issued/token+0001=="}},
		"the client's token": {change: func(*config.Config) {}, token: "client/token+of=1", sent: []string{"client/token+of=1"}},
		"an adapter's key": {change: func(c *config.Config) {
			c.Upstream.Headers = map[string]string{"X-Api-Key": "another/key+1"}
		}, sent: []string{"adapter/key+in=file", "second/key+in=file", "another/key+1"}},
	}
	for n, name := range slices.Sorted(maps.Keys(cases)) {
		c := cases[name]
		t.Run(name, func(t *testing.T) {
			for i, spelling := range []string{"as it is", "a query in lower case", "every second byte as %", "escaped twice for a URL", `every second as \u`, "JSON in JSON", "HTML", "base64 without =", "base64, one byte before", "base64, two bytes before", "base64 for URLs", "base64 of a form"} {
				if (i+n)%4 != 0 { // each is played with some: package secret tests that all are found
					continue
				}
				t.Run(spelling, func(t *testing.T) {
					testEcho(t, c.change, c.later, c.token, spelling, name == "an adapter's key", c.sent)
				})
			}
		})
	}
}

func testEcho(t *testing.T, change func(*config.Config), later func(*testing.T, *config.Config), token, spelling string, adapter bool, sent []string) {
	e := newEcho(t)
	e.spell = secrettest.Spell[spelling]
	to := collectortest.New(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", to.URL)
	leavesNothing(t)
	cfg := config.Default()
	cfg.Upstream.URL, cfg.Upstream.Transport = e.URL+"/mcp", "http"
	cfg.Upstream.Auth.AllowHTTP = true
	cfg.Record.File = filepath.Join(t.TempDir(), "r.jsonl")
	cfg.Inspect.Enabled = true
	change(&cfg)
	if adapter {
		file := filepath.Join(t.TempDir(), "echo-api-adapter.md")
		text := adapterFile("echo-api", e.URL, `
  read:
    - name: look
      maps_to: "GET /api"
      description: Looks
`)
		key := filepath.Join(filepath.Dir(file), "key")
		text = strings.Replace(text, "token_env: DRAGOMAN_TEST_API_TOKEN", "token_file: \""+key+"\"", 1)
		text = strings.Replace(text, "serialization: json", "serialization: json, headers_file: {X-Api-Key: \""+key+"2\"}", 1)
		if os.WriteFile(file, []byte(text), 0o600) != nil || os.WriteFile(key, []byte("adapter/key+in=file"), 0o600) != nil || os.WriteFile(key+"2", []byte("second/key+in=file"), 0o600) != nil {
			t.Fatal("cannot write the adapter")
		}
		cfg.Adapters.Sources = []string{file}
	}
	core, logs := observer.New(zap.DebugLevel)
	srv := newOf(t, cfg, zap.New(core))
	if err := srv.Record(); err != nil {
		t.Fatal(err)
	}
	ring := observe.NewRing(srv.Now().Redactor)
	detach := srv.Observer.Attach("page", ring)
	base, ended := startServing(t, srv)
	stop := sync.OnceFunc(func() { _ = ended() })
	defer stop()
	client := &webClient{t: t, srv: srv, logs: logs, base: base, http: &http.Client{Transport: new(http.Transport), Timeout: 2 * patience}}
	shown := map[string]string{}
	var header []string
	if token != "" {
		header = []string{"Authorization", "Bearer " + token}
	}
	ask := func(body string) (session string) {
		h := client.ask("POST", body, header...)
		head, _ := json.Marshal(h.header)
		answer := strings.Join(h.messages, "\n")
		e.mu.Lock()
		passes := strings.HasPrefix(e.how, "+") || strings.Contains(body, "initialize") && h.status == 200
		e.mu.Unlock()
		if !passes {
			shown["the client's error"] += string(head) + answer + "\n"
		}
		return h.header.Get("Mcp-Session-Id")
	}
	set := func(how string) {
		e.mu.Lock()
		e.how = strings.TrimPrefix(how, "+")
		e.mu.Unlock()
	}
	set("json")
	if client.session = ask(initialize("2025-06-18", "{}")); client.session == "" {
		t.Fatal("there is no session")
	}
	if later != nil {
		later(t, &cfg)
	}
	call := func(id int) {
		ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"t","arguments":{},"_meta":{%s}}}`, id, sampledParent))
	}
	set("unauthorized")
	e.mu.Lock()
	e.refuse = true
	e.mu.Unlock()
	call(9)
	for n, how := range echoes {
		set(how)
		passed := shown["the client's error"]
		call(n + 10)
		if strings.HasPrefix(how, "+") {
			shown["the client's error"] = passed
		}
	}
	if adapter {
		for _, how := range []string{"json", "fail"} {
			set(how)
			passed := shown["the client's error"]
			ask(`{"jsonrpc":"2.0","id":90,"method":"tools/call","params":{"name":"mcp_aql_read","arguments":{"operation":"look","params":{}},"_meta":{` + sampledParent + `}}}`)
			if how == "json" {
				shown["the client's error"] = passed
			}
		}
	}
	client.http.CloseIdleConnections()
	detach()
	stop()
	text, err := os.ReadFile(cfg.Record.File)
	if err != nil {
		t.Fatal(err)
	}
	shown["the recording"] = string(text)
	ring.Each(0, func(row observe.Row, _ []*observe.Message) bool {
		d, _ := ring.Detail(row.N)
		call, _ := json.Marshal([]any{d, row})
		shown["the page"] += string(call) + "\n"
		for i := range d.Messages {
			beside, _ := ring.Compare(row.N, d.Messages[i].Seq)
			lines, _ := json.Marshal(beside)
			shown["the page"] += string(lines) + "\n"
		}
		return true
	})
	for _, line := range logs.All() {
		fields, _ := json.Marshal(line.ContextMap())
		shown["the log"] += line.Message + string(fields) + "\n"
	}
	shown["the spans"] = fmt.Sprintf("%+v", to.Spans(t, 1))
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range sent {
		if !slices.ContainsFunc(e.got, func(got string) bool { return strings.HasPrefix(got, s) }) {
			t.Errorf("%q was not sent: %q", s, e.got)
		}
	}
	for where, text := range shown {
		if len(text) < 100 {
			t.Errorf("%s is %q", where, text)
		}
		for _, s := range e.got {
			spelled := e.spell(s)
			for _, as := range []string{s, spelled, string(wire.AppendQuotedInner(nil, spelled)), string(wire.AppendQuotedInner(nil, string(wire.AppendQuotedInner(nil, spelled))))} {
				if strings.HasPrefix(spelling, "base64") && as != s { // but for what its neighbours have a part in
					as = as[len(as)/3 : len(as)*2/3]
				}
				if at := strings.Index(text, as); at >= 0 {
					t.Fatalf("%q is in %s as %q: …%s…", s, where, as, text[max(0, at-300):min(len(text), at+200)])
				}
			}
		}
	}
}

// TestNothingOfTheEnvironmentIsShown has a server that writes what it got in its environment to its outputs, and then ends.
func TestNothingOfTheEnvironmentIsShown(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("there is no shell")
	}
	secrets := []string{"child/key+1==of=env", "passed/token+2==of=env", "un-named/value+3==of=env"}
	t.Setenv("CHILD_TOKEN", secrets[1])
	for _, spelling := range []string{"as it is", "a query in lower case", "every second byte as %", `every second as \u`, "JSON in JSON", "base64", "base64, one byte before", "base64, two bytes before"} {
		t.Run(spelling, func(t *testing.T) {
			said, spell := "", secrettest.Spell[spelling]
			for _, s := range secrets {
				said += "it has " + spell(s) + "; "
			}
			inside := string(wire.AppendQuotedInner(nil, said))
			leavesNothing(t)
			cfg := config.Default()
			cfg.Upstream.Command = []string{shell, "-c", `printf '%s\n' "$1" >&2; printf '%s\n' "$1"; read line; printf '%s\n' "$2"; printf '%s\n' "$1" >&2; exit 3`, "sh", said,
				`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"` + inside + `"}}`}
			cfg.Upstream.Env = map[string]string{"API_KEY": secrets[0], "OTHER": secrets[2], "MODE": "production", "HOME": "/nowhere"}
			cfg.Upstream.PassEnv = append(cfg.Upstream.PassEnv, "CHILD_TOKEN")
			shown := shownOf(t, cfg)
			if !strings.Contains(shown["the log"], "it has [redacted]") || !strings.Contains(shown["the client's error"], "it has [redacted]") || !strings.Contains(shown["the recording"], "it has [redacted]") {
				t.Errorf("not all is said: %q", shown)
			}
			for where, text := range shown {
				for _, s := range secrets {
					for _, as := range []string{s, spell(s)} {
						if strings.HasPrefix(spelling, "base64") && as != s {
							as = as[len(as)/3 : len(as)*2/3]
						}
						if strings.Contains(text, as) || strings.Contains(text, string(wire.AppendQuotedInner(nil, as))) {
							t.Errorf("%q is in %s: %s", s, where, text)
						}
					}
				}
			}
		})
	}
}

// shownOf serves a server whose process fails, and returns what is shown of it: in the client's error, the recording and the log.
func shownOf(t *testing.T, cfg config.Config) map[string]string {
	t.Helper()
	cfg.Record.File = filepath.Join(t.TempDir(), "r.jsonl")
	core, logs := observer.New(zap.DebugLevel)
	srv := newOf(t, cfg, zap.New(core))
	if err := srv.Record(); err != nil {
		t.Fatal(err)
	}
	base, ended := startServing(t, srv)
	client := &webClient{t: t, srv: srv, logs: logs, base: base, http: &http.Client{Transport: new(http.Transport), Timeout: 2 * patience}}
	h := client.initialize()
	client.http.CloseIdleConnections()
	_ = ended()
	text, err := os.ReadFile(cfg.Record.File)
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]string{"the client's error": strings.Join(h.messages, "\n"), "the recording": string(text)}
	for _, line := range logs.All() {
		fields, _ := json.Marshal(line.ContextMap())
		shown["the log"] += line.Message + string(fields) + "\n"
	}
	return shown
}

// TestAPrivateKeyOfAProcessIsShownNowhere: a process prints a key on several lines, of which only the first and the last say what they are.
func TestAPrivateKeyOfAProcessIsShownNowhere(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("there is no shell")
	}
	body := []string{"MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj", "MzEfYyjiWA4R4/M2bS1GB4t7NXp98C3SC6dVMvDuictGeurT8jNbvJZHtCSuYEvu", "Zq9w8v7u=="}
	said := "it has\n-----BEGIN RSA PRIVATE KEY-----\n" + strings.Join(body, "\n") + "\n-----END RSA PRIVATE KEY-----\nand goes on"
	leavesNothing(t)
	cfg := config.Default()
	cfg.Upstream.Command = []string{shell, "-c", `printf '%s\n' "$1" >&2; printf '%s\n' "$1"; read line; printf '%s\n' "$1" >&2; exit 3`, "sh", said}
	shown := shownOf(t, cfg)
	for where, text := range shown {
		if !strings.Contains(text, "and goes on") {
			t.Errorf("what follows is not in %s: %s", where, text)
		}
		for _, line := range body {
			if strings.Contains(text, line) {
				t.Errorf("%q is in %s: %s", line, where, text)
			}
		}
	}
}
