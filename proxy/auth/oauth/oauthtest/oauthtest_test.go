package oauthtest

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

const verifier = "0123456789-0123456789-0123456789-0123456789"

// login is a client that goes one step after the other.
type login struct {
	t        *testing.T
	s        *Server
	id       string
	callback *httptest.Server
	arrived  url.Values // query of the last callback
}

func begin(t *testing.T, o Options) *login {
	l := &login{t: t, s: New(t, o)}
	l.callback = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { l.arrived = r.URL.Query() }))
	t.Cleanup(l.callback.Close)
	return l
}

// do sends a request, checks the status of the answer, and returns its JSON.
func (l *login) do(r *http.Request, status int) (map[string]any, http.Header) {
	l.t.Helper()
	resp, err := http.DefaultTransport.RoundTrip(r) // follows no redirects
	if err != nil {
		l.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != status {
		l.t.Fatalf("%s %s: %d instead of %d: %s", r.Method, r.URL, resp.StatusCode, status, body)
	}
	var doc map[string]any
	_ = json.Unmarshal(body, &doc)
	return doc, resp.Header
}

func (l *login) get(address string, status int) map[string]any {
	l.t.Helper()
	doc, _ := l.do(httptest.NewRequest("GET", address, nil), status)
	return doc
}

func (l *login) post(address, contentType, body string, status int) map[string]any {
	l.t.Helper()
	r := httptest.NewRequest("POST", address, strings.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	doc, _ := l.do(r, status)
	return doc
}

func (l *login) register(status int) map[string]any {
	l.t.Helper()
	doc := l.post(l.s.Issuer+"/register", "application/json",
		`{"redirect_uris":["http://127.0.0.1/back"],"token_endpoint_auth_method":"none","scope":"a"}`, status)
	l.id, _ = doc["client_id"].(string)
	return doc
}

func (l *login) authorizationURL(scope string) string {
	sum := sha256.Sum256([]byte(verifier))
	return l.s.Issuer + "/authorize?" + url.Values{
		"response_type": {"code"}, "client_id": {l.id}, "redirect_uri": {l.callback.URL + "/back"}, "state": {"s"}, "scope": {scope},
		"resource": {l.s.URL}, "code_challenge_method": {"S256"}, "code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])},
	}.Encode()
}

// ask sends a token request with the members of form added to it.
func (l *login) ask(status int, grant string, form url.Values) map[string]any {
	l.t.Helper()
	all := url.Values{"grant_type": {grant}, "client_id": {l.id}, "resource": {l.s.URL}}
	for name, values := range form {
		all[name] = values
	}
	return l.post(l.s.Issuer+"/token", "application/x-www-form-urlencoded", all.Encode(), status)
}

func (l *login) code(status int) map[string]any {
	l.t.Helper()
	return l.ask(status, "authorization_code", url.Values{
		"code": l.arrived["code"], "code_verifier": {verifier}, "redirect_uri": {l.callback.URL + "/back"},
	})
}

func (l *login) refresh(status int, tokens map[string]any) map[string]any {
	l.t.Helper()
	return l.ask(status, "refresh_token", url.Values{"refresh_token": {tokens["refresh_token"].(string)}})
}

// call calls a tool and returns the answer and its challenge.
func (l *login) call(status int, tokens map[string]any, tool string) (map[string]any, string) {
	l.t.Helper()
	message := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","arguments":{"text":"hello"}}}`
	r := httptest.NewRequest("POST", l.s.URL, strings.NewReader(message))
	if tokens != nil {
		r.Header.Set("Authorization", "Bearer "+tokens["access_token"].(string))
	}
	doc, header := l.do(r, status)
	return doc, header.Get("WWW-Authenticate")
}

// open registers, logs in and returns the tokens.
func (l *login) open(scope string) map[string]any {
	l.t.Helper()
	l.register(201)
	if status, err := l.s.Visit(l.authorizationURL(scope)); status != 200 || err != nil {
		l.t.Fatal(status, err)
	}
	return l.code(200)
}

func TestOneLoginFromTheFirst401ToTheRevocation(t *testing.T) {
	l := begin(t, Options{ChallengeScope: "a", Scopes: []string{"a", "b"}, IssuerPath: "/tenant1", StepUpTool: "admin", StepUpScope: "b"})
	s := l.s
	origin := strings.TrimSuffix(s.URL, "/mcp")
	_, challenge := l.call(401, nil, "echo")
	prm := origin + "/.well-known/oauth-protected-resource/mcp"
	if want := `Bearer resource_metadata="` + prm + `", scope="a"`; challenge != want {
		t.Errorf("%s instead of %s", challenge, want)
	}
	if doc := l.get(prm, 200); doc["resource"] != s.URL || doc["authorization_servers"].([]any)[0] != s.Issuer {
		t.Error(doc)
	}
	l.get(origin+"/.well-known/oauth-protected-resource", 404)
	asm := l.get(strings.TrimSuffix(s.Issuer, "/tenant1")+"/.well-known/oauth-authorization-server/tenant1", 200)
	if asm["issuer"] != s.Issuer || asm["token_endpoint"] != s.Issuer+"/token" {
		t.Error(asm)
	}

	tokens := l.open("a")
	if l.arrived.Get("iss") != s.Issuer || l.arrived.Get("state") != "s" || tokens["scope"] != "a" || tokens["expires_in"] != 3600. {
		t.Error(l.arrived, tokens)
	}
	doc, _ := l.call(200, tokens, "echo")
	if text, _ := json.Marshal(doc["result"]); string(text) != `{"content":[{"text":"hello","type":"text"}]}` {
		t.Error(doc)
	}
	_, challenge = l.call(403, tokens, "admin")
	if !strings.Contains(challenge, `error="insufficient_scope"`) || !strings.Contains(challenge, `scope="b"`) {
		t.Error(challenge)
	}
	next := l.refresh(200, tokens)
	s.RevokeAccess()
	if _, challenge := l.call(401, next, "echo"); !strings.Contains(challenge, `error="invalid_token"`) {
		t.Error(challenge)
	}
	last := l.refresh(200, next)
	l.call(200, last, "echo")
	form := url.Values{"client_id": {l.id}, "token": {last["refresh_token"].(string)}}
	l.post(s.Issuer+"/revoke", "application/x-www-form-urlencoded", form.Encode(), 200)
	l.call(401, last, "echo")
	l.refresh(400, last)

	want := Counts{PRM: 2, ASM: 1, Registrations: 1, Authorizations: 1, Codes: 1, Refreshes: 3, Revocations: 1, Unauthorized: 3, Calls: 2}
	if got := s.Counts(); got != want {
		t.Errorf("%+v instead of %+v", got, want)
	}
	if forms := s.TokenForms(); len(forms) != 4 || forms[0].Get("code_verifier") != verifier || forms[3].Get("resource") != s.URL {
		t.Error(forms)
	}
	if all := s.Registrations(); len(all) != 1 || !reflect.DeepEqual(all[0]["redirect_uris"], []any{"http://127.0.0.1/back"}) {
		t.Error(all)
	}
}

func TestCodesAndRefreshTokensAreUsedOnce(t *testing.T) {
	l := begin(t, Options{})
	tokens := l.open("")
	l.code(400) // again
	l.call(401, tokens, "echo")

	tokens = l.open("")
	next := l.refresh(200, tokens)
	l.call(200, next, "echo")
	if doc := l.refresh(400, tokens); doc["error"] != "invalid_grant" {
		t.Error(doc)
	}
	l.call(401, next, "echo")
	l.refresh(400, next)

	tokens = l.open("")
	form := url.Values{
		"grant_type": {"refresh_token"}, "refresh_token": {tokens["refresh_token"].(string)},
		"client_id": {l.id}, "resource": {l.s.URL},
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { // the first succeeds, and the others end its login
			resp, err := http.PostForm(l.s.Issuer+"/token", form)
			if err != nil {
				t.Error(err)
				return
			}
			resp.Body.Close()
		})
	}
	all.Wait()
	l.call(401, tokens, "echo")
}

func TestFaultsOfTheLogin(t *testing.T) {
	clock := time.Now()
	l := begin(t, Options{Now: func() time.Time { return clock }, TokenLife: time.Minute})
	s := l.s
	tokens := l.open("")
	set := func(f func(*Options)) {
		s.Change(func(o *Options) { *o = Options{Now: o.Now, TokenLife: o.TokenLife}; f(o) })
	}
	redirected := func(name, want string) {
		t.Helper()
		callback, err := s.Redirect(l.authorizationURL(""))
		if u, _ := url.Parse(callback); err != nil || u.Query().Get(name) != want {
			t.Error(callback, err)
		}
	}
	clock = clock.Add(time.Minute)
	l.call(401, tokens, "echo")

	set(func(o *Options) { o.RefreshStatus = 503 })
	l.refresh(503, tokens)
	set(func(o *Options) { o.TokenRedirect = true })
	l.refresh(307, tokens)
	set(func(o *Options) { o.NoResource = true })
	l.refresh(400, tokens)
	redirected("error", "invalid_target")
	set(func(o *Options) { o.NoRefresh = true })
	if doc := l.refresh(200, tokens); doc["refresh_token"] != nil {
		t.Error(doc)
	}
	set(func(o *Options) { o.Resource = "https://elsewhere.example/" })
	l.call(401, l.refresh(200, tokens), "echo")
	set(func(o *Options) { o.CutRefresh = true })
	if _, err := http.PostForm(s.Issuer+"/token", s.TokenForms()[1]); err == nil {
		t.Error("the refresh was answered")
	}
	set(func(*Options) {})
	l.refresh(400, tokens) // was used by the request whose answer was lost

	set(func(o *Options) { o.Deny = "access_denied" })
	redirected("error", "access_denied")
	set(func(o *Options) { o.WrongIss = "-" })
	redirected("iss", "")
	set(func(o *Options) { o.WrongIssuer = s.Issuer + "/" })
	redirected("iss", s.Issuer+"/")
	s.ForgetClients()
	if _, err := s.Redirect(l.authorizationURL("")); err == nil {
		t.Error("the client is known")
	}
	for code, f := range map[string]func(*Options){
		"invalid_redirect_uri":    func(o *Options) { o.RefuseLoopbackIP = true },
		"invalid_client_metadata": func(o *Options) { o.RefuseDCRScopes = true },
		"teapot":                  func(o *Options) { o.RefuseDCR = "teapot" },
	} {
		set(f)
		if doc := l.register(400); doc["error"] != code {
			t.Error(doc)
		}
	}
	set(func(o *Options) { o.CIMD, o.OfflineAccess, o.Clients = true, true, map[string]string{"known": ""} })
	for _, l.id = range []string{"known", "https://client.example/metadata.json"} {
		if _, err := s.Visit(l.authorizationURL("offline_access")); err != nil || l.code(200)["refresh_token"] == nil {
			t.Error(err)
		}
		if _, err := s.Visit(l.authorizationURL("")); err != nil || l.code(200)["refresh_token"] != nil {
			t.Error(err)
		}
	}
}

func TestFaultsOfMetadata(t *testing.T) {
	const prm, asm, oidc = "/.well-known/oauth-protected-resource", "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"
	for name, c := range map[string]struct {
		o      Options
		at     string // "mcp" or "as", and the path
		status int
		has    string // a member of the answer
		lacks  string
	}{
		"PRM":                  {Options{}, "mcp" + prm + "/mcp", 200, "resource", "scopes_supported"},
		"PRM at the root":      {Options{PRMAtRoot: true, Resource: "origin"}, "mcp" + prm, 200, "resource", ""},
		"only at the root":     {Options{PRMAtRoot: true}, "mcp" + prm + "/mcp", 404, "", ""},
		"no PRM":               {Options{NoPRM: true}, "mcp" + prm + "/mcp", 404, "", ""},
		"huge PRM":             {Options{HugeMetadata: true}, "mcp" + prm + "/mcp", 200, "resource", ""},
		"ASM":                  {Options{}, "as" + asm, 200, "registration_endpoint", "scopes_supported"},
		"not OpenID":           {Options{}, "as" + oidc, 404, "", ""},
		"OpenID":               {Options{OIDCOnly: true, IssuerPath: "/t"}, "as/t" + oidc, 200, "jwks_uri", ""},
		"not OAuth":            {Options{OIDCOnly: true}, "as" + asm, 404, "", ""},
		"no ASM":               {Options{NoASM: true}, "as" + asm, 404, "", ""},
		"AS at the origin":     {Options{ASAtOrigin: true}, "mcp" + asm, 200, "issuer", ""},
		"AS elsewhere":         {Options{}, "mcp" + asm, 404, "", ""},
		"no PKCE":              {Options{NoPKCE: true}, "as" + asm, 200, "issuer", "code_challenge_methods_supported"},
		"no registration":      {Options{NoDCR: true}, "as" + asm, 200, "issuer", "registration_endpoint"},
		"offline access, CIMD": {Options{OfflineAccess: true, CIMD: true}, "as" + asm, 200, "client_id_metadata_document_supported", ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := begin(t, c.o)
			at, ofMCP := strings.CutPrefix(c.at, "mcp")
			if ofMCP {
				at = strings.TrimSuffix(l.s.URL, "/mcp") + at
			} else {
				at = strings.TrimSuffix(l.s.Issuer, c.o.IssuerPath) + strings.TrimPrefix(at, "as")
			}
			doc := l.get(at, c.status)
			if doc[c.has] == nil && c.has != "" || doc[c.lacks] != nil {
				t.Error(doc)
			}
		})
	}
}
