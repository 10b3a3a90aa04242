package oauthrelay

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
)

// TestOnlyTheServerIsAsked: whatever a request's target or the server's metadata says, no other host is asked. A web proxy sees which
// one each request is for; the server's URL has no port, so that a text behind it could change its host.
func TestOnlyTheServerIsAsked(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.RequestURI)
		mu.Unlock()
		if r.URL.Path == metadata[0] || r.URL.Path == metadata[0]+"/mcp" {
			_, _ = io.WriteString(w, `{"authorization_servers":["x.evil.example/a","//evil.example/b","http://evil.example/c","..evil.example://d"]}`)
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(web.Close)
	by, err := url.Parse(web.URL)
	if err != nil {
		t.Fatal(err)
	}
	r := New(Config{Server: &url.URL{Scheme: "http", Host: "server", Path: "/mcp"}, Path: "/mcp", Paths: []string{"/*"}, Proxy: func(*url.URL) (*url.URL, error) { return by, nil }})
	t.Cleanup(r.Close)
	for target, want := range map[string]string{
		"/.well-known/oauth-protected-resource?a=http://b": "http://server/.well-known/oauth-protected-resource?a=http://b",
		"/a%20b%C3%A9":           "http://server/a%20b%C3%A9",
		"/a:b@c":                 "http://server/a:b@c",
		"/%zz":                   "",
		"/%":                     "",
		"//evil.example/x":       "",
		"/\\evil.example/x":      "",
		".evil.example/x":        "",
		"x.evil.example://h/x":   "",
		":80@evil.example/x":     "",
		"@evil.example/x":        "",
		"http://evil.example/x":  "",
		"*":                      "",
		"evil.example:443":       "",
		"":                       "",
		"?x":                     "",
		"/x?/../y#z":             "http://server/x?/../y#z",
		"/register/../token":     "",
		"/register/%2e%2e/token": "",
	} {
		t.Run(target, func(t *testing.T) {
			mu.Lock()
			asked = nil
			mu.Unlock()
			resp := new(downstream.Response)
			err := r.Serve(&downstream.Request{Ctx: t.Context(), Method: "GET", Path: target, Base: base, Header: func(string) string { return "" }}, resp)
			if resp.Done != nil {
				resp.Done()
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				t.Error(err)
			case want == "" && (resp.Status != 400 || len(asked) > 0):
				t.Errorf("%d %s; asked %q", resp.Status, resp.Body, asked)
			case want != "" && !slices.Equal(asked, []string{want}):
				t.Errorf("%d %s; asked %q", resp.Status, resp.Body, asked)
			}
		})
	}
	mu.Lock()
	asked = nil
	mu.Unlock()
	if _, err := r.learn(t.Context()); err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, at := range asked {
		if u, err := url.Parse(at); err != nil || u.Host != "server" {
			t.Errorf("asked %s", at)
		}
	}
	if len(asked) < 5 {
		t.Errorf("asked only %q", asked)
	}
}
