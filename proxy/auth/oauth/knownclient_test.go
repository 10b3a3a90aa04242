package oauth

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/auth/oauth/oauthtest"
)

// freePort returns a port of this machine that no program listens at.
func freePort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	return port
}

// remembers notes the addresses that the browser is sent to.
type remembers struct {
	Browser
	visited []string
}

func (b *remembers) Visit(ctx context.Context, address string, c *Callback, state string) (url.Values, error) {
	b.visited = append(b.visited, address)
	return b.Browser.Visit(ctx, address, c, state)
}

// TestRedirectURIToTheLetter checks that the redirect URI of the configuration is registered and sent as it is written, with the name of
// the client, and that an earlier registration is used only as long as both are the same.
func TestRedirectURIToTheLetter(t *testing.T) {
	t.Parallel()
	s, dir := oauthtest.New(t, oauthtest.Options{}), t.TempDir()
	first, second := "http://localhost:"+freePort(t), "http://127.0.0.1:"+freePort(t)+"/oauth/callback"
	for _, c := range []struct {
		redirect, name, registered string
		registrations              int
	}{
		{first, "", "dragoman", 1},
		{first, "", "dragoman", 1},
		{first, "Our Tool", "Our Tool", 2},
		{second, "Our Tool", "Our Tool", 3},
		{second, "Our Tool", "Our Tool", 3},
		{"http://localhost:0/cb", "Our Tool", "Our Tool", 4},
		{"http://localhost:0/cb", "Our Tool", "Our Tool", 4},
	} {
		a := accountOf(t, s, dir, func(cfg *Config) { cfg.RedirectURI, cfg.ClientName = c.redirect, c.name })
		b := &remembers{Browser: agreeing{s}}
		if err := a.SignIn(t.Context(), b); err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		all := s.Registrations()
		last := all[len(all)-1]
		sent, _ := url.Parse(b.visited[0])
		uri, uris := sent.Query().Get("redirect_uri"), last["redirect_uris"].([]any)
		if len(all) != c.registrations || last["client_name"] != c.registered || len(uris) != 1 || uris[0] != uri && c.redirect == uri {
			t.Errorf("%+v: %d registrations, the last one %v; sent %s", c, len(all), last, uri)
		}
		if uri != c.redirect && !matches(uri, strings.Replace(c.redirect, ":0/", ":*/", 1)) {
			t.Errorf("%+v: sent %s", c, uri)
		}
		if status, err := call(t, a, s); status != http.StatusOK {
			t.Error(status, err)
		}
	}
}

// TestEndpointsOfTheConfiguration checks that an authorization server without metadata is used by its endpoints, in a browser and as a
// service, whether the server has metadata or not, and that none of its metadata is read.
func TestEndpointsOfTheConfiguration(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]oauthtest.Options{
		"no metadata at all":             {NoASM: true, NoPRM: true, AnyResource: true},
		"metadata of the server":         {NoASM: true},
		"metadata that must not be read": {WrongIssuer: "https://evil.example"},
	} {
		t.Run(name, func(t *testing.T) {
			o.Clients = map[string]string{"known": "s3cret"}
			s := oauthtest.New(t, o)
			change := func(c *Config) {
				c.ClientID, c.ClientSecret = "known", "s3cret"
				c.TokenEndpoint, c.AuthorizationEndpoint = s.Issuer+"/token", s.Issuer+"/authorize"
			}
			a := accountOf(t, s, t.TempDir(), change)
			if err := a.SignIn(t.Context(), agreeing{s}); err != nil {
				t.Fatal(err)
			}
			if status, err := call(t, a, s); status != http.StatusOK {
				t.Error(status, err)
			}
			s.RevokeAccess()
			if status, err := call(t, a, s); status != http.StatusOK {
				t.Error("after a refresh:", status, err)
			}
			if n := s.Counts().ASM; n != 0 {
				t.Error(n, "requests for metadata of the authorization server")
			}
		})
	}
}

// TestRefusalNamesTheClient checks what the user is told if the token endpoint refuses, or the browser never returns, as it does from an
// authorization server that knows the client by another redirect URI.
func TestRefusalNamesTheClient(t *testing.T) {
	t.Parallel()
	s := oauthtest.New(t, oauthtest.Options{Clients: map[string]string{"known": "s3cret"}})
	redirect := "http://localhost:" + freePort(t) + "/oauth/callback"
	change := func(c *Config) {
		c.RedirectURI, c.ClientID, c.ClientSecret = redirect, "known", "canary-wrong"
	}
	err := accountOf(t, s, "", change).SignIn(t.Context(), agreeing{s})
	want := addressed(s, `AS ASHOST: refused: invalid_client "unknown client or wrong secret" (client known, redirect URI `+redirect+`)`)
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	err = accountOf(t, s, "", change).SignIn(t.Context(), leaving{})
	want = "no answer from the browser in 10 min; run dragoman login " + s.URL + " --oauth client_id=known --oauth redirect_uri=" + redirect +
		". If its page showed an error, the authorization server may know the client otherwise: client known, redirect URI " + redirect
	if late, ok := errors.AsType[*noAnswerError](err); !ok || late.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// leaving is a browser that never returns.
type leaving struct{}

func (leaving) Visit(context.Context, string, *Callback, string) (url.Values, error) {
	return nil, context.DeadlineExceeded
}
