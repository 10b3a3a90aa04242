package tests

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/zalando/go-keyring"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/auth/oauth"
	"github.com/dragoman-proxy/dragoman/proxy/auth/oauth/oauthtest"
	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// clientOf returns an OAuth client that knows the server by the URL of the proxy.
func (p *protected) clientOf() *oauth.Account {
	p.t.Helper()
	a, err := oauth.NewAccount(oauth.Config{Server: p.url}, oauth.New(p.t.TempDir(), oauth.Auto, zap.NewNop()), zap.NewNop())
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(a.Close)
	return a
}

// asked sends a request with the client's token.
func (p *protected) asked(value string) *http.Response {
	p.t.Helper()
	r, _ := http.NewRequest(http.MethodPost, p.url, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if value != "" {
		r.Header.Set("Authorization", value)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	text, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	resp.Body = io.NopCloser(strings.NewReader(string(text)))
	return resp
}

// TestRewritingLetsClientsLogIn: a server whose public URL cannot be set refuses clients through the proxy, which log in
// with oauth.rewrite, from a reload on.
func TestRewritingLetsClientsLogIn(t *testing.T) {
	keyring.MockInitWithError(errors.New("no keyring in tests"))
	s := oauthtest.New(t, oauthtest.Options{AnyResource: true})
	p := serveProtected(t, s, func(*config.Config) {})
	challenge := func() string { return p.asked("").Header.Get("WWW-Authenticate") }
	if err := p.clientOf().SignIn(t.Context(), visitor{s}); err == nil || !strings.Contains(err.Error(), "the metadata of "+p.url+" is for "+s.URL) {
		t.Fatal("without the setting:", err)
	}
	next := p.cfg
	next.OAuth.Rewrite, next.OAuth.PublicURL = true, p.url
	if err := next.Validate(); err != nil {
		t.Fatal(err)
	}
	if err := p.srv.Reload(next); err != nil {
		t.Fatal(err)
	}
	if want := `Bearer resource_metadata="` + strings.Replace(p.url, "/mcp", "/.well-known/oauth-protected-resource/mcp", 1) + `"`; challenge() != want {
		t.Errorf("got  %s\nwant %s", challenge(), want)
	}
	a := p.clientOf()
	if err := a.SignIn(t.Context(), visitor{s}); err != nil {
		t.Fatal(err)
	}
	value, err := a.Header(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if resp := p.asked(value); resp.StatusCode != http.StatusOK {
		t.Error(resp.Status)
	}
	for _, f := range s.TokenForms() {
		if f.Get("resource") != p.url {
			t.Error(f)
		}
	}
	if warned := p.logs.FilterMessageSnippet("tokens are asked for " + p.url + " and given to " + s.URL + "; only for a server you run yourself"); warned.Len() != 1 {
		t.Error(warned.Len(), "warnings")
	}
	s.Change(func(o *oauthtest.Options) { o.AnyResource = false })
	if resp := p.asked(value); resp.StatusCode != http.StatusUnauthorized {
		t.Error("the server is strict, and takes a token for another URL:", resp.Status)
	}
	if err := p.srv.Reload(p.cfg); err != nil {
		t.Fatal(err)
	}
	if got := challenge(); !strings.Contains(got, strings.TrimSuffix(s.URL, "/mcp")) {
		t.Error("rewritten after it was turned off:", got)
	}
}
