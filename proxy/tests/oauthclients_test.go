package tests

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// plainly returns the response to a GET of a path of the listener.
func (c *webClient) plainly(method, path string, header ...string) (status int, h http.Header, body string) {
	c.t.Helper()
	text := method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n"
	for _, line := range header {
		text += line + "\r\n"
	}
	got := c.raw(text+"Content-Length: 0\r\n\r\n", 1)[0]
	return got.status, got.header, strings.Join(got.messages, "")
}

func TestOAuthClientsReachTheServersMetadata(t *testing.T) {
	var seen http.Header
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/.well-known/oauth-protected-resource/server":
			seen = r.Header // not of the ping by which dragoman learns that the server is ready
			_, _ = w.Write([]byte(`{"resource" : "http://localhost/mcp"}`))
		case "/server":
			w.Header().Add("WWW-Authenticate", `Bearer resource_metadata="http://localhost/.well-known/oauth-protected-resource/mcp"`)
			w.Header().Add("WWW-Authenticate", `DPoP algs="ES256"`)
			w.WriteHeader(401)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(web.Close)
	client := serving(t, func(cfg *config.Config) {
		cfg.Upstream.URL, cfg.Upstream.Transport = web.URL+"/server", "http"
		cfg.Upstream.Headers = map[string]string{"X-Api-Key": "secret", "Authorization": "Bearer ours"}
		cfg.Auth.Tokens = []string{"token"}
		cfg.CORS.Origins = []string{"https://page.example"}
	})
	const page = "Origin: https://page.example"
	status, header, body := client.plainly("GET", "/.well-known/oauth-protected-resource/mcp", page, "Authorization: Bearer token")
	if status != 200 || body != `{"resource" : "http://localhost/mcp"}` || header.Get("Access-Control-Allow-Origin") != "*" || len(header.Values("Access-Control-Allow-Origin")) != 1 {
		t.Errorf("%d %v %s", status, header, body)
	}
	if seen.Get("X-Api-Key") != "" || seen.Get("Authorization") != "" {
		t.Errorf("the server got credentials: %v", seen)
	}
	if status, _, body = client.plainly("GET", "/.well-known/oauth-authorization-server"); status != 404 || body != "404 page not found\n" {
		t.Errorf("%d %s", status, body)
	}
	if status, _, body = client.plainly("GET", "/metrics-of-others"); status != 401 || strings.HasPrefix(body, "{") {
		t.Errorf("%d %s", status, body)
	}
	// A web page can read the server's challenge, which passes unchanged.
	got := client.raw(request("POST", initialize("2025-06-18", "{}"), page, "X-Dragoman-Token: token"), 1)[0]
	if got.status != 401 || len(got.header.Values("WWW-Authenticate")) != 2 || got.header.Get("Access-Control-Allow-Origin") != "https://page.example" {
		t.Errorf("%d %v", got.status, got.header)
	}
	if status, header, _ = client.plainly("OPTIONS", "/mcp", page, "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: authorization"); status != 204 || header.Get("Access-Control-Allow-Headers") != "authorization" {
		t.Errorf("%d %v", status, header)
	}
}

// TestOAuthClientsWithoutAServerToLogInTo: the response says in a sentence why there is nothing to
// log in to.
func TestOAuthClientsWithoutAServerToLogInTo(t *testing.T) {
	for why, change := range map[string]func(*config.Config){
		"local command":       func(cfg *config.Config) { cfg.Upstream.Command = []string{"true"} },
		"oauth.relay is none": func(cfg *config.Config) { cfg.Upstream.URL, cfg.OAuth.Relay = "http://127.0.0.1:1/mcp", "none" },
	} {
		t.Run(why, func(t *testing.T) {
			client := serving(t, change)
			status, header, body := client.plainly("GET", "/.well-known/oauth-protected-resource/mcp")
			if status != 404 || header.Get("Content-Type") != "text/plain; charset=utf-8" || !strings.Contains(body, why) {
				t.Errorf("%d %v %s", status, header, body)
			}
			if status, _, body = client.plainly("GET", "/authorize"); status != 404 || strings.HasPrefix(body, "{") {
				t.Errorf("%d %s", status, body)
			}
		})
	}
}

func TestOAuthClientsOfAServerThatIsAway(t *testing.T) {
	client := serving(t, func(cfg *config.Config) { cfg.Upstream.URL = "http://127.0.0.1:1/mcp" })
	if status, _, body := client.plainly("GET", "/.well-known/oauth-protected-resource/mcp"); status != 502 || body != "the server behind this proxy cannot be reached\n" {
		t.Errorf("%d %s", status, body)
	}
	if n := client.logs.FilterMessage("cannot forward the OAuth request of a client to the server").Len(); n != 1 {
		t.Errorf("%d lines", n)
	}
	if status, _, _ := client.plainly("GET", "/authorize"); status != 404 {
		t.Errorf("status %d", status)
	}
}

// TestRelayedRequestsAreCounted: by what they were for, and by the status of the server's answer.
func TestRelayedRequestsAreCounted(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/register":
			w.WriteHeader(http.StatusCreated)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(web.Close)
	client := serving(t, func(cfg *config.Config) { cfg.Upstream.URL = web.URL + "/mcp" })
	for range 2 {
		client.plainly("GET", "/.well-known/oauth-protected-resource/mcp")
	}
	client.plainly("POST", "/register")
	client.plainly("GET", "/authorize")
	client.plainly("GET", "/elsewhere") // is not relayed
	for _, c := range []struct {
		kind, status string
		want         int
	}{{"metadata", "404", 2}, {"endpoint", "201", 1}, {"endpoint", "404", 1}, {"metadata", "200", 0}} {
		if n := counted(t, client.srv.Metrics, "dragoman_oauth_relayed_total", "kind="+c.kind, "status="+c.status); n != c.want {
			t.Errorf("%s %s: counted %d, want %d", c.kind, c.status, n, c.want)
		}
	}
}

// TestClientsMaySendWholeURLs: a client that writes the whole URL as the target of its requests, as for a web proxy, gets what it would
// get for the path. The server is asked for the path alone.
func TestClientsMaySendWholeURLs(t *testing.T) {
	var targets []string
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		targets = append(targets, r.Host+r.RequestURI)
		w.WriteHeader(401)
	}))
	t.Cleanup(web.Close)
	client := serving(t, func(cfg *config.Config) { cfg.Upstream.URL, cfg.Upstream.Transport = web.URL+"/server", "http" })
	eventually(t, "serve has looked at the server", func() bool { return client.logs.FilterMessageSnippet("wants a credential").Len() == 1 })
	const metadata = "/.well-known/oauth-protected-resource"
	at := strings.TrimPrefix(web.URL, "http://")
	for _, c := range []struct {
		method, target string
		status         int
		want           []string
	}{
		{"GET", metadata + "?a=%2F", 401, []string{at + metadata + "?a=%2F"}},
		{"GET", "http://localhost" + metadata + "?a=%2F", 401, []string{at + metadata + "?a=%2F"}},
		{"GET", "https://LOCALHOST:1234" + metadata, 401, []string{at + metadata}},
		{"GET", "http://localhost@evil.example" + metadata, 400, nil},
		{"GET", "http://evil.example" + metadata, 403, nil},
		{"GET", "x.evil.example://localhost" + metadata, 400, nil},
		{"OPTIONS", "*", 400, nil},
		{"CONNECT", "localhost:443", 400, nil},
	} {
		targets = nil
		status, _, body := client.plainly(c.method, c.target)
		if status != c.status || !slices.Equal(targets, c.want) {
			t.Errorf("%s %s: %d %s; asked %q", c.method, c.target, status, body, targets)
		}
	}
	whole := strings.Replace(request("POST", initialize("2025-06-18", "{}")), "/mcp", client.base+"/mcp", 1)
	targets = nil
	if got := client.raw(whole, 1)[0]; got.status != 401 || !slices.Equal(targets, []string{at + "/server"}) {
		t.Errorf("%d %q; asked %q", got.status, got.messages, targets)
	}
}
