package oauthrelay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
)

// A page is the server's answer at a path.
type page struct {
	status int
	header http.Header
	body   string
}

// web is a server with pages that counts the requests.
type web struct {
	*httptest.Server
	pages map[string]page
	asked map[string]*atomic.Int32
	last  atomic.Pointer[http.Request]
	body  atomic.Pointer[string]
}

func newWeb(t *testing.T, pages map[string]page) *web {
	w := &web{pages: pages, asked: map[string]*atomic.Int32{}}
	for p := range pages {
		w.asked[p] = new(atomic.Int32)
	}
	w.Server = httptest.NewServer(http.HandlerFunc(func(res http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		text := string(body)
		w.last.Store(req)
		w.body.Store(&text)
		at, ok := w.pages[req.URL.EscapedPath()]
		if !ok {
			http.NotFound(res, req)
			return
		}
		w.asked[req.URL.EscapedPath()].Add(1)
		for name, values := range at.header {
			res.Header()[name] = values
		}
		res.WriteHeader(at.status)
		io.WriteString(res, at.body)
	}))
	t.Cleanup(w.Close)
	return w
}

// relay returns a Relay for the server's endpoint /server/mcp, which clients reach at /mcp.
func (w *web) relay(t *testing.T, change ...func(*Config)) *Relay {
	at, err := url.Parse(w.URL + "/server/mcp")
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Server: at, Path: "/mcp"}
	for _, f := range change {
		f(&c)
	}
	r := New(c)
	t.Cleanup(r.Close)
	return r
}

// base is the address by which clients know the proxy.
const base = "http://us.example"

func ask(t *testing.T, r *Relay, method, path string, header map[string]string, body string) (*downstream.Response, error) {
	resp := new(downstream.Response)
	err := r.Serve(&downstream.Request{
		Ctx: t.Context(), Method: method, Path: path, Body: []byte(body), Base: base, Peer: "192.0.2.7",
		Header: func(name string) string { return header[name] },
	}, resp)
	if resp.Done != nil {
		resp.Done()
	}
	return resp, err
}

func valuesOf(list []mcp.Header, name string) (values []string) {
	for _, h := range list {
		if strings.EqualFold(h.Name, name) {
			values = append(values, h.Value)
		}
	}
	return values
}

func TestMetadataPassesByteForByte(t *testing.T) {
	const document = "{ \"resource\":\"http:\\/\\/us.example/mcp\",\n\t\"b\":1.0, \"signed_metadata\":\"x.y.z\" }\r\n"
	w := newWeb(t, map[string]page{"/.well-known/oauth-protected-resource/mcp": {200, http.Header{
		"Content-Type": {"application/json; charset=utf-8"}, "Cache-Control": {"max-age=3600"}, "Etag": {`"1"`}, "X-Twice": {"a", "b"},
	}, document}})
	r := w.relay(t)
	const path = "/.well-known/oauth-protected-resource/mcp"
	if !r.Serves(t.Context(), base, path) {
		t.Fatal("not served")
	}
	resp, err := ask(t, r, "GET", path+"?a=%2F", map[string]string{"MCP-Protocol-Version": "2025-06-18", "User-Agent": "client/1", "X-Other": "x", "Cookie": "c=1"}, "")
	if err != nil || resp.Status != 200 || string(resp.Body) != document {
		t.Errorf("%v %d %q", err, resp.Status, resp.Body)
	}
	for name, want := range map[string][]string{"Content-Type": {"application/json; charset=utf-8"}, "Cache-Control": {"max-age=3600"}, "ETag": {`"1"`}, "X-Twice": {"a", "b"},
		"Content-Length": nil, "Date": nil, allowOrigin: nil} {
		if got := valuesOf(resp.Header, name); !slices.Equal(got, want) {
			t.Errorf("%s: %q", name, got)
		}
	}
	got := w.last.Load()
	if got.Host != strings.TrimPrefix(w.URL, "http://") || got.URL.RawQuery != "a=%2F" {
		t.Errorf("asked %s %s", got.Host, got.URL)
	}
	for name, want := range map[string]string{"Mcp-Protocol-Version": "2025-06-18", "User-Agent": "client/1", "X-Other": "", "Cookie": "c=1", "X-Forwarded-For": "", "Accept-Encoding": ""} {
		if v := got.Header.Get(name); v != want {
			t.Errorf("the server got %s: %q", name, v)
		}
	}
}

// TestCompressedMetadataIsRead: what the server compresses unasked goes on as clients can read it, and is looked at as all else.
func TestCompressedMetadataIsRead(t *testing.T) {
	const path = "/.well-known/oauth-protected-resource/mcp"
	for _, p := range peertest.Packings {
		for document, want := range map[string]string{
			`{"resource":"` + base + `/mcp"}`:      "<nil>",
			`{"resource":"http://other.example/"}`: "the server's metadata is for http://other.example/",
		} {
			w := newWeb(t, map[string]page{path: {200, http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {p.Encoding}}, string(p.Pack(document))}})
			resp, err := ask(t, w.relay(t), "GET", path, nil, "")
			if !strings.HasPrefix(fmt.Sprint(err), want) || string(resp.Body) != document || valuesOf(resp.Header, "Content-Encoding") != nil {
				t.Errorf("%s: %v %q %v", p.Name, err, resp.Body, resp.Header)
			}
		}
	}
}

// TestMetadataOfTheServersOwnPath has a server whose own path of the endpoint differs from the
// one that clients use.
func TestMetadataOfTheServersOwnPath(t *testing.T) {
	w := newWeb(t, map[string]page{
		"/.well-known/oauth-protected-resource/server/mcp": {200, nil, "prm"},
		"/server/mcp/.well-known/openid-configuration":     {200, nil, "oidc"},
		"/.well-known/oauth-authorization-server":          {200, nil, "asm"},
	})
	r := w.relay(t)
	for path, want := range map[string]string{
		"/.well-known/oauth-protected-resource/mcp":            "200 prm",
		"/.well-known/oauth-protected-resource/server/mcp":     "200 prm",
		"/mcp/.well-known/openid-configuration":                "200 oidc",
		"/.well-known/oauth-authorization-server":              "200 asm",
		"/.well-known/oauth-authorization-server/mcp":          "404 404 page not found\n",
		"/.well-known/oauth-protected-resource/something/else": "404 404 page not found\n",
	} {
		resp, err := ask(t, r, "GET", path, nil, "")
		if got := fmt.Sprintf("%d %s", resp.Status, resp.Body); err != nil || got != want {
			t.Errorf("%s: %v %q", path, err, got)
		}
	}
}

func TestOnlyWhatOAuthClientsNeedIsServed(t *testing.T) {
	asm := func(w *web) page {
		return page{200, nil, `{"issuer":"http://us.example","authorization_endpoint":"http://us.example/oauth/authorize","token_endpoint":"https://US.example:443/oauth/token",
			"registration_endpoint":"http://elsewhere.example/register","revocation_endpoint":"http://us.example/a/../b","jwks_uri":7}`}
	}
	w := newWeb(t, nil)
	w.pages = map[string]page{"/.well-known/oauth-authorization-server": asm(w)}
	w.asked["/.well-known/oauth-authorization-server"] = new(atomic.Int32)
	r := w.relay(t, func(c *Config) { c.Paths = []string{"/consent", "/auth/*"} })
	only := w.relay(t, func(c *Config) { c.Metadata = true })
	for path, want := range map[string]bool{
		"/oauth/authorize": true, "/oauth/token": true,
		"/register": false, "/authorize": false, "/a/../b": false, "/b": false,
		"/consent": true, "/consent/x": false, "/auth/": true, "/auth/login/2": true, "/auth": false,
		"/auth/../admin": false, "/auth/%2e%2e/admin": false, "/auth//x": false, "/auth/a%2Fb": false, `/auth/a\b`: false, "/auth/a;b": false, "/auth/..": false,
		"/": false, "": false, "/server/mcp": false, "/.well-known/other": false, "/.well-known/oauth-protected-resourceful": false,
		"/.well-known/openid-configuration/a": true, "/a/.well-known/openid-configuration": true, "/.well-known/oauth-authorization-server": true,
	} {
		if got := r.Serves(t.Context(), base, path); got != want {
			t.Errorf("%q: %v", path, got)
		}
		if got := only.Serves(t.Context(), base, path); got != (want && IsMetadata(path)) {
			t.Errorf("%q with metadata only: %v", path, got)
		}
	}
	if r.Serves(t.Context(), "http://other.example", "/oauth/authorize") {
		t.Error("an endpoint of another host is served")
	}
	if n := w.asked["/.well-known/oauth-authorization-server"].Load(); n != 1 {
		t.Errorf("the server was asked %d times", n)
	}
}

func TestEndpointsOfServersWithoutMetadata(t *testing.T) {
	for name, c := range map[string]struct {
		pages map[string]page
		want  bool
	}{
		"none":                       {nil, true},
		"a protected resource":       {map[string]page{"/.well-known/oauth-protected-resource/server/mcp": {200, nil, `{"authorization_servers":["https://elsewhere.example"]}`}}, false},
		"at the root":                {map[string]page{"/.well-known/oauth-protected-resource": {200, nil, `{}`}}, false},
		"an authorization server":    {map[string]page{"/.well-known/openid-configuration": {200, nil, `{}`}}, false},
		"pages that are no metadata": {map[string]page{"/.well-known/oauth-authorization-server": {200, nil, "<html>"}}, true},
	} {
		w := newWeb(t, c.pages)
		for p := range c.pages {
			w.asked[p] = new(atomic.Int32)
		}
		r := w.relay(t)
		for _, path := range []string{"/authorize", "/token", "/register"} {
			if got := r.Serves(t.Context(), base, path); got != c.want {
				t.Errorf("%s: %s %v", name, path, got)
			}
		}
		if r.Serves(t.Context(), base, "/revoke") {
			t.Errorf("%s: /revoke is served", name)
		}
	}
}

// TestIssuersWithAPath checks the three places at which such an issuer may have its metadata.
func TestIssuersWithAPath(t *testing.T) {
	for _, at := range []string{"/.well-known/oauth-authorization-server/tenant", "/.well-known/openid-configuration/tenant", "/tenant/.well-known/openid-configuration"} {
		w := newWeb(t, map[string]page{
			"/.well-known/oauth-protected-resource/server/mcp": {200, nil, `{"authorization_servers":["http://us.example/tenant"]}`},
			at: {200, nil, `{"token_endpoint":"http://us.example/tenant/token"}`},
		})
		if r := w.relay(t); !r.Serves(t.Context(), base, "/tenant/token") {
			t.Errorf("%s was not found", at)
		}
	}
}

// TestTokensPassWithTheirHeaders checks also that dragoman adds no credential of its own.
func TestTokensPassWithTheirHeaders(t *testing.T) {
	w := newWeb(t, map[string]page{"/token": {401, http.Header{"Www-Authenticate": {`Basic realm="a"`, `DPoP error="use_dpop_nonce"`}, "Dpop-Nonce": {"n"}, "Set-Cookie": {"a=1; Path=/", "b=2"}}, `{"error":"invalid_client"}`},
		"/authorize": {302, http.Header{"Location": {"http://us.example/login?x=1"}}, ""}})
	r := w.relay(t, func(c *Config) { c.Forwarded = true })
	form := "grant_type=authorization_code&code=a%2Bb"
	resp, err := ask(t, r, "POST", "/token", map[string]string{"Authorization": "Basic YTpi", "Content-Type": "application/x-www-form-urlencoded", "DPoP": "p", "Origin": "https://page.example"}, form)
	if err != nil || resp.Status != 401 || string(resp.Body) != `{"error":"invalid_client"}` || len(valuesOf(resp.Header, "WWW-Authenticate")) != 2 ||
		len(valuesOf(resp.Header, "Set-Cookie")) != 2 || valuesOf(resp.Header, "DPoP-Nonce")[0] != "n" || valuesOf(resp.Header, allowOrigin) != nil {
		t.Errorf("%v %+v", err, resp)
	}
	got := w.last.Load()
	if *w.body.Load() != form || got.Header.Get("Authorization") != "Basic YTpi" || got.Header.Get("Dpop") != "p" || got.Header.Get("Origin") != "https://page.example" ||
		got.Header.Get("X-Forwarded-Host") != "us.example" || got.Header.Get("X-Forwarded-Proto") != "http" || got.Header.Get("X-Forwarded-For") != "192.0.2.7" {
		t.Errorf("the server got %q with %v", *w.body.Load(), got.Header)
	}
	atSocket := &downstream.Request{Ctx: t.Context(), Method: "POST", Path: "/token", Base: base, Peer: "uid 1000", Header: func(string) string { return "" }}
	if err := r.Serve(atSocket, new(downstream.Response)); err != nil || w.last.Load().Header.Get("X-Forwarded-For") != "" {
		t.Errorf("%v: of a client at a unix socket the server got %v", err, w.last.Load().Header)
	}
	if resp, err = ask(t, r, "GET", "/authorize?client_id=1", nil, ""); err != nil || resp.Status != 302 || valuesOf(resp.Header, "Location")[0] != "http://us.example/login?x=1" {
		t.Errorf("%v %+v", err, resp)
	}
}

func TestPagesMayReadMetadata(t *testing.T) {
	const silent, says = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"
	w := newWeb(t, map[string]page{silent: {200, nil, "{}"}, says: {200, http.Header{allowOrigin: {"https://one.example"}}, "{}"}})
	r := w.relay(t)
	origin := map[string]string{"Origin": "https://page.example"}
	for _, c := range []struct {
		method, path string
		header       map[string]string
		status       int
		allowed      []string
	}{
		{"GET", silent, nil, 200, nil},
		{"GET", silent, origin, 200, []string{"*"}},
		{"GET", says, origin, 200, []string{"https://one.example"}},
		{"GET", "/.well-known/oauth-protected-resource", origin, 404, []string{"*"}},
		{"OPTIONS", silent, origin, 204, []string{"*"}},
		{"OPTIONS", says, origin, 200, []string{"https://one.example"}},
	} {
		resp, err := ask(t, r, c.method, c.path, c.header, "")
		if got := valuesOf(resp.Header, allowOrigin); err != nil || resp.Status != c.status || !slices.Equal(got, c.allowed) {
			t.Errorf("%s %s: %v %d %q", c.method, c.path, err, resp.Status, got)
		}
	}
}

func TestRequestsThatAreNotRelayed(t *testing.T) {
	w := newWeb(t, map[string]page{"/.well-known/openid-configuration": {200, nil, strings.Repeat("x", maxMetadata+1)}, "/page": {200, nil, strings.Repeat("x", maxMetadata+1)}})
	r := w.relay(t)
	closed := w.relay(t, func(c *Config) { c.Server = &url.URL{Scheme: "http", Host: "127.0.0.1:1", Path: "/mcp"} })
	for _, c := range []struct {
		r                  *Relay
		method, path, body string
		status             int
		allow              string
		fails              bool
	}{
		{r, "POST", "/.well-known/openid-configuration", "", 405, "GET, HEAD, OPTIONS", false},
		{r, "DELETE", "/token", "", 405, "GET, POST, OPTIONS", false},
		{r, "POST", "/token", strings.Repeat("x", maxRequest+1), 413, "", false},
		{r, "GET", "/.well-known/openid-configuration", "", 502, "", true},
		{r, "GET", "/page", "", 200, "", false},
		{closed, "GET", "/.well-known/openid-configuration", "", 502, "", true},
	} {
		resp, err := ask(t, c.r, c.method, c.path, nil, c.body)
		if resp.Status != c.status || strings.Join(valuesOf(resp.Header, "Allow"), "") != c.allow || (err != nil) != c.fails {
			t.Errorf("%s %s: %v %d %v", c.method, c.path, err, resp.Status, resp.Header)
		}
		if c.status != 200 && (!slices.Equal(valuesOf(resp.Header, "Content-Type"), []string{"text/plain; charset=utf-8"}) || strings.Contains(string(resp.Body), "127.0.0.1")) {
			t.Errorf("%s %s: %q", c.method, c.path, resp.Body)
		}
	}
	for _, left := range []int64{1, 0} { // one: not for a large answer
		if !r.room.TryAcquire(maxInHand - left) {
			t.Fatal("requests that are over take room")
		}
		if resp, _ := ask(t, r, "GET", "/page", nil, ""); resp.Status != 503 || valuesOf(resp.Header, "Retry-After") == nil {
			t.Errorf("%+v", resp)
		}
		r.room.Release(maxInHand - left)
	}
}

// transport answers without a socket.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestEndpointsAreReadAgain checks that this happens after a while, with one request for all
// that wait, and that the known endpoints stay while the server is away.
func TestEndpointsAreReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at, _ := url.Parse("http://server.example/mcp")
		r := New(Config{Server: at, Path: "/mcp"})
		asked, away, endpoint := 0, false, "/one"
		r.client.Transport = transport(func(req *http.Request) (*http.Response, error) {
			if away {
				return nil, io.ErrUnexpectedEOF
			}
			time.Sleep(time.Second)
			res := &http.Response{StatusCode: 404, Body: io.NopCloser(strings.NewReader(""))}
			if req.URL.Path == "/.well-known/oauth-authorization-server" {
				asked++
				res.StatusCode, res.Body = 200, io.NopCloser(strings.NewReader(`{"token_endpoint":"`+base+endpoint+`"}`))
			}
			return res, nil
		})
		for range 5 {
			go r.Serves(t.Context(), base, "/one")
		}
		if !r.Serves(t.Context(), base, "/one") || asked != 1 {
			t.Errorf("asked %d times", asked)
		}
		endpoint = "/two"
		time.Sleep(goodFor - time.Minute)
		if !r.Serves(t.Context(), base, "/one") || asked != 1 {
			t.Errorf("asked %d times", asked)
		}
		away = true
		time.Sleep(2 * time.Minute)
		if !r.Serves(t.Context(), base, "/one") {
			t.Error("what was known is forgotten")
		}
		away = false
		time.Sleep(failedFor)
		if r.Serves(t.Context(), base, "/one") || !r.Serves(t.Context(), base, "/two") {
			t.Error("the endpoints are the old ones")
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		time.Sleep(goodFor)
		if r.Serves(gone, base, "/two") {
			t.Error("a client that has left is served")
		}
		synctest.Wait()
		time.Sleep(time.Minute)
	})
}

func TestMetadataThatClientsWillRefuse(t *testing.T) {
	const at = "/.well-known/oauth-protected-resource"
	for resource, refused := range map[string]bool{
		"http://us.example/mcp": false, "https://US.example:443/mcp": false, "http://us.example": false, "http://us.example/": false,
		"http://us.example/mc": true, "http://us.example/mcp/deeper": true, "http://server.example/mcp": true, "": false,
	} {
		w := newWeb(t, map[string]page{at: {200, nil, `{"resource":"` + resource + `"}`}})
		resp, err := ask(t, w.relay(t), "GET", at, nil, "")
		if _, got := errors.AsType[*MismatchError](err); got != refused || resp.Status != 200 {
			t.Errorf("%q: %v, %d", resource, err, resp.Status)
		}
	}
}

func TestWhatALoginNeeds(t *testing.T) {
	const prm = "/.well-known/oauth-protected-resource/server/mcp"
	for name, c := range map[string]struct {
		pages     map[string]string // SELF stands for the server's origin
		challenge string
		notes     []string // the beginnings
		servers   int
	}{
		"its own authorization server": {map[string]string{
			prm: `{"resource":"SELF/server/mcp","authorization_servers":["SELF"]}`,
			"/.well-known/oauth-authorization-server": `{"issuer":"SELF","registration_endpoint":"SELF/register","code_challenge_methods_supported":["plain","S256"],"device_authorization_endpoint":"x"}`,
		}, "", []string{"clients log in through dragoman serve"}, 1},
		"another URL, and nothing that clients know": {map[string]string{
			"/somewhere": `{"resource":"https://vendor.example/mcp","authorization_servers":["SELF/tenant"],"dpop_bound_access_tokens_required":true}`,
			"/tenant/.well-known/openid-configuration": `{"issuer":"SELF/tenant"}`,
		}, `Bearer error="x", resource_metadata="SELF/somewhere"`, []string{
			"the server's metadata is for https://vendor.example/mcp", "SELF/tenant does not say that it supports PKCE", "SELF/tenant registers no clients", "tokens are bound",
		}, 1},
		"an authorization server without metadata": {map[string]string{prm: `{"resource":"SELF","authorization_servers":["SELF/a"]}`}, "",
			[]string{"clients log in through dragoman serve", "SELF/a has no metadata"}, 1},
		"no metadata at all":           {nil, "Bearer", []string{"the server has no metadata: clients use /authorize"}, 1},
		"an authorization server only": {map[string]string{"/.well-known/openid-configuration": `{"issuer":"SELF","registration_endpoint":"x","code_challenge_methods_supported":["S256"]}`}, "", []string{"the server has no metadata of a protected"}, 1},
	} {
		w := newWeb(t, nil)
		self := func(s string) string { return strings.ReplaceAll(s, "SELF", w.URL) }
		w.pages = map[string]page{}
		for p, body := range c.pages {
			w.pages[p], w.asked[p] = page{200, nil, self(body)}, new(atomic.Int32)
		}
		l, err := w.relay(t).Inspect(t.Context(), []string{"Basic", self(c.challenge)})
		if err != nil || len(l.Servers) != c.servers || len(l.Notes) != len(c.notes) {
			t.Errorf("%s: %v %+v", name, err, l)
			continue
		}
		for i, n := range c.notes {
			if !strings.HasPrefix(l.Notes[i], self(n)) {
				t.Errorf("%s: %q, not %q", name, l.Notes[i], self(n))
			}
		}
	}
}
