package oauth

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/oauthclient"
	"github.com/dragoman-proxy/dragoman/proxy/auth/oauth/oauthtest"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// TestMessages: what people are told, word for word. SERVER, AS, ORIGIN and PORT stand for the addresses of
// this run.
func TestMessages(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	redirect := fmt.Sprintf("http://127.0.0.1:%d/oauth/callback", port)
	for name, c := range map[string]struct {
		o      oauthtest.Options
		change func(*Config)
		want   string
	}{
		"no metadata, no endpoints": {o: oauthtest.Options{NoPRM: true},
			want: "SERVER wants a token and does not say where to get one: give it with --header 'Authorization: Bearer ${TOKEN}'"},
		"declined": {o: oauthtest.Options{Deny: "access_denied"},
			want: `AS refused: access_denied "the authorization was refused" (client name dragoman, redirect URI http://127.0.0.1:*/callback/*)`},
		"resource does not fit": {o: oauthtest.Options{Resource: "https://other.example/mcp"},
			want: "the metadata of SERVER is for https://other.example/mcp: use https://other.example/mcp as --upstream, or --oauth resource=https://other.example/mcp if that is meant"},
		"issuer": {o: oauthtest.Options{WrongIssuer: "https://evil.example"},
			want: "AS metadata at ISSUER/.well-known/oauth-authorization-server claims to be https://evil.example: not trusted"},
		"iss": {o: oauthtest.Options{WrongIss: "https://evil.example"},
			want: "the answer came from another issuer: sign-in dropped"},
		"iss with an error": {o: oauthtest.Options{WrongIss: "https://evil.example", Deny: "access_denied"},
			want: "the answer came from another issuer: sign-in dropped"},
		"PKCE": {o: oauthtest.Options{NoPKCE: true},
			want: "AS does not say that it supports PKCE; if it does (Entra ID): --oauth assume_pkce=true"},
		"no registration": {o: oauthtest.Options{NoDCR: true},
			want: "AS registers no clients by itself: register one with redirect URI http://127.0.0.1:PORT/callback and pass --oauth client_id=… --oauth redirect_uri=http://127.0.0.1:PORT/callback"},
		"no registration, port given": {o: oauthtest.Options{NoDCR: true}, change: func(c *Config) { c.RedirectURI = "http://localhost:7777/oauth/callback" },
			want: "AS registers no clients by itself: register one with redirect URI http://localhost:7777/oauth/callback and pass --oauth client_id=…"},
		"registration refused": {o: oauthtest.Options{RefuseDCR: "invalid_redirect_uri"},
			want: `AS refused to register us: invalid_redirect_uri "registrations are refused" (client name dragoman, redirect URI http://localhost:*/callback/*; --oauth client_name=… and redirect_uri=… change them)`},
		"registration refused, named": {o: oauthtest.Options{RefuseDCR: "invalid_client_metadata"}, change: func(c *Config) { c.RedirectURI, c.ClientName = "http://localhost:0/oauth/callback", "Our Tool" },
			want: `AS refused to register us: invalid_client_metadata "registrations are refused" (client name Our Tool, redirect URI http://localhost:*/oauth/callback; --oauth client_name=… and redirect_uri=… change them)`},
		"resource rejected": {o: oauthtest.Options{NoResource: true},
			want: `AS refused: invalid_target "unknown resource"; if it knows the server by another name or takes no resource: --oauth resource=NAME or --oauth resource=none (client name dragoman, redirect URI http://127.0.0.1:*/callback/*)`},
		"port taken": {change: func(c *Config) { c.RedirectURI = redirect },
			want: fmt.Sprintf("port %d of --oauth redirect_uri=%s is in use by another program: end that, or register another port", port, redirect)},
		"port taken, known client": {o: oauthtest.Options{Clients: map[string]string{"known": ""}}, change: func(c *Config) { c.RedirectURI, c.ClientID = redirect, "known" },
			want: fmt.Sprintf("port %d of --oauth redirect_uri=%s is in use by another program: end that, or register another port", port, redirect)},
	} {
		t.Run(name, func(t *testing.T) {
			s := oauthtest.New(t, c.o)
			err := accountOf(t, s, "", c.change).SignIn(t.Context(), agreeing{s})
			if err == nil || !matches(err.Error(), addressed(s, c.want)) {
				t.Errorf("got  %v\nwant %s", err, addressed(s, c.want))
			}
			if n := s.Counts().Codes; n != 0 {
				t.Error("a code was sent to the token endpoint")
			}
		})
	}
}

// addressed puts the addresses of a run into a text.
func addressed(s *oauthtest.Server, text string) string {
	as, _ := url.Parse(s.Issuer)
	return strings.NewReplacer("SERVER", s.URL, "ISSUER", s.Issuer, "ASHOST", as.Host).Replace(text)
}

// matches compares a text with a pattern, in which * stands for a run of letters, digits and the like.
func matches(text, pattern string) bool {
	parts := strings.Split(pattern, "*")
	for i, p := range parts {
		rest, ok := strings.CutPrefix(text, p)
		if !ok {
			return false
		}
		text = rest
		if i < len(parts)-1 {
			text = strings.TrimLeft(text, "0123456789abcdef")
		}
	}
	return text == ""
}

// TestMessagesOfRefreshes: the same for a sign-in that was good.
func TestMessagesOfRefreshes(t *testing.T) {
	for name, c := range map[string]struct {
		fault func(*oauthtest.Server)
		want  string
	}{
		"refused":        {func(s *oauthtest.Server) { s.RevokeAll() }, "sign-in for SERVER has ended (invalid_grant); run dragoman login SERVER"},
		"client removed": {func(s *oauthtest.Server) { s.RevokeAccess(); s.ForgetClients() }, "sign-in for SERVER has ended (invalid_client); run dragoman login SERVER"},
		"unavailable": {func(s *oauthtest.Server) {
			s.RevokeAccess()
			s.Change(func(o *oauthtest.Options) { o.RefreshStatus = 503 })
		}, "AS ASHOST: answered 503; the token is kept"},
		"of another audience": {func(s *oauthtest.Server) {
			s.Change(func(o *oauthtest.Options) { o.Resource = "https://elsewhere.example" })
		}, "SERVER refused a fresh token: it is for SERVER, the server calls itself SERVER"},
	} {
		t.Run(name, func(t *testing.T) {
			s := oauthtest.New(t, oauthtest.Options{})
			a := accountOf(t, s, t.TempDir(), nil)
			if err := a.SignIn(t.Context(), agreeing{s}); err != nil {
				t.Fatal(err)
			}
			c.fault(s)
			for range 3 { // it stays so, without a request more for each call
				if _, err := call(t, a, s); err == nil || err.Error() != addressed(s, c.want) {
					t.Errorf("got  %v\nwant %s", err, addressed(s, c.want))
				}
			}
			if n := s.Counts().Refreshes; n > 1 {
				t.Error(n, "refreshes for three calls")
			}
		})
	}
}

// TestMessageOfAnUnreachableServer: the authorization server cannot be reached, and no request was sent.
func TestMessageOfAnUnreachableServer(t *testing.T) {
	s := oauthtest.New(t, oauthtest.Options{})
	a := accountOf(t, s, t.TempDir(), nil)
	if err := a.SignIn(t.Context(), agreeing{s}); err != nil {
		t.Fatal(err)
	}
	s.RevokeAccess()
	good := ""
	change := func(token string) {
		if err := a.store.Locked(t.Context(), a.id, func(e Entry) {
			r, _ := load(e)
			good, r.Authority.Token = r.Authority.Token, token
			save(e, &r)
		}); err != nil {
			t.Fatal(err)
		}
	}
	change("http://" + peertest.NoListener + "/token")
	want := "AS " + peertest.NoListener + ": dial tcp " + peertest.NoListener + ": connect: connection refused; the token is kept"
	if _, err := call(t, a, s); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	change(good)
	a.at = time.Time{} // the pause is over
	if status, err := call(t, a, s); status != http.StatusOK {
		t.Error("the token was not kept:", status, err)
	}
}

// TestMessageWhileAnotherProcessSignsIn: a process whose user is asked by another one says so, and uses what
// that one gets.
func TestMessageWhileAnotherProcessSignsIn(t *testing.T) {
	s, dir := oauthtest.New(t, oauthtest.Options{}), t.TempDir()
	first, second := accountOf(t, s, dir, nil), accountOf(t, s, dir, nil)
	first.wait = 20 * time.Millisecond
	page := make(chan string, 1)
	first.Interactive(func(address string) error { page <- address; return nil })
	second.Interactive(func(string) error { t.Error("a second tab"); return nil })
	if _, err := call(t, first, s); err == nil || err.Error() != addressed(s, "sign-in needed for SERVER: finish it in the browser, then start this server again (or run: dragoman login SERVER)") &&
		err.Error() != addressed(s, "sign-in needed for SERVER: run dragoman login SERVER") { // the tab is not open yet
		t.Error(err)
	}
	address := <-page
	want := fmt.Sprintf("waiting for the sign-in that process %d has begun", os.Getpid())
	peertest.Within(t, 200*time.Millisecond, func(limit time.Duration) error { // within limit, the message asks which process signs in
		second.wait = limit
		if _, err := call(t, second, s); err == nil || err.Error() != want {
			return fmt.Errorf("got  %w\nwant %s", err, want)
		}
		return nil
	})
	if _, err := s.Visit(address); err != nil {
		t.Fatal(err)
	}
	second.wait = time.Minute
	if status, err := call(t, second, s); status != http.StatusOK {
		t.Error(status, err)
	}
}

// TestMessageWithoutAnAnswer: the person leaves the browser alone.
func TestMessageWithoutAnAnswer(t *testing.T) {
	s := oauthtest.New(t, oauthtest.Options{})
	a := accountOf(t, s, "", nil)
	want := addressed(s, "no answer from the browser in 10 min; run dragoman login SERVER")
	peertest.Within(t, 300*time.Millisecond, func(limit time.Duration) error { // the browser opens within it
		ctx, stop := context.WithTimeout(t.Context(), limit)
		defer stop()
		if err := a.SignIn(ctx, absent{}); err == nil || err.Error() != want {
			return fmt.Errorf("got  %w\nwant %s", err, want)
		}
		return nil
	})
}

// TestMessagesNameTheAccount: what is to be run signs in to the same account, not to another one.
func TestMessagesNameTheAccount(t *testing.T) {
	s := oauthtest.New(t, oauthtest.Options{})
	a := accountOf(t, s, "", func(c *Config) { c.Profile, c.ClientID, c.Resource = "my work", "known", "none" })
	want := addressed(s, "sign-in needed for SERVER: run dragoman login SERVER --profile 'my work' --oauth client_id=known --oauth resource=none")
	if _, err := call(t, a, s); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// absent is a browser without a person.
type absent struct{}

func (absent) Visit(ctx context.Context, _ string, c *Callback, state string) (url.Values, error) {
	return c.Wait(ctx, state)
}

// TestMessagesOfTheStore: what is said of the keyring, and of what cannot be read.
func TestMessagesOfTheStore(t *testing.T) {
	s, dir := oauthtest.New(t, oauthtest.Options{}), t.TempDir()
	core, seen := observer.New(zapcore.DebugLevel)
	a := logged(t, s, dir, nil, zap.New(core))
	if err := a.SignIn(t.Context(), agreeing{s}); err != nil {
		t.Fatal(err)
	}
	first := seen.FilterMessageSnippet("no keyring here").All()
	if len(first) != 1 || !matches(first[0].Message, "no keyring here: tokens are in "+dir+"/http---127-0-0-1-*-mcp-*.json, readable by you alone") {
		t.Error(first)
	}
	if err := os.WriteFile(dir+"/"+fileName(a.id), []byte(`{"version":1,"for":`+fmt.Sprintf("%q", a.id)+`,"sealed":"AAAA"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := a.SignIn(t.Context(), agreeing{s}); err != nil {
		t.Fatal(err)
	}
	if n := seen.FilterMessage("entry cannot be read (other key?): signing in anew").Len(); n != 1 {
		t.Error(n, seen.All())
	}
	if status, err := call(t, a, s); status != http.StatusOK {
		t.Error(status, err)
	}
}

// TestNoTokensNoWordOfTheirPlace: a login that gets no tokens does not say where they are.
func TestNoTokensNoWordOfTheirPlace(t *testing.T) {
	s := oauthtest.New(t, oauthtest.Options{NamedIssuer: "http://" + peertest.NoListener})
	core, seen := observer.New(zapcore.DebugLevel)
	if err := logged(t, s, t.TempDir(), nil, zap.New(core)).SignIn(t.Context(), agreeing{s}); err == nil {
		t.Fatal("signed in")
	}
	if said := seen.FilterMessageSnippet("tokens are in").All(); len(said) != 0 {
		t.Error(said)
	}
}

// TestMessageOfALockedKeyring: a keyring that does not open ends no login: the message says what to do, and no browser
// opens.
func TestMessageOfALockedKeyring(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the keyring is a service on the session's bus only on Linux")
	}
	s, dir := oauthtest.New(t, oauthtest.Options{}), t.TempDir()
	withKeyring(t)
	a, err := NewAccount(Config{Server: s.URL}, New(dir, Auto, zap.NewNop()), zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if err := a.SignIn(t.Context(), agreeing{s}); err != nil {
		t.Fatal(err)
	}
	bus := filepath.Join(t.TempDir(), "bus") // of a keyring that waits for its user
	silent, err := net.Listen("unix", bus)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	file := filepath.Join(dir, fileName(a.id))
	sealed, _ := os.ReadFile(file)
	cmd := beside(t, "locked", dir)
	cmd.Env = append(cmd.Env, "OAUTH_TEST_SERVER="+s.URL, "DBUS_SESSION_BUS_ADDRESS=unix:path="+bus)
	out, err := cmd.Output()
	unlock := "keyring locked: no answer within 100ms; unlock it, it has the key of " + file + "\n"
	want := unlock + unlock + "keyring locked: tokens are in " + filepath.Join(dir, fileName(id)) + ", readable by you alone\n"
	if err != nil || string(out) != want {
		t.Errorf("%v\ngot  %s\nwant %s", err, out, want)
	}
	if after, _ := os.ReadFile(file); !bytes.Equal(after, sealed) || len(sealed) == 0 {
		t.Error("the stored login was changed")
	}
	if status, err := call(t, a, s); status != http.StatusOK { // the keyring is open here
		t.Error(status, err)
	}
}

// withLockedKeyring prints what an account says of a keyring that does not open, and what a store logs.
func withLockedKeyring(dir string) {
	server := os.Getenv("OAUTH_TEST_SERVER")
	store, seen := stored(dir, Auto)
	store.sealer.wait = 100 * time.Millisecond
	a, err := NewAccount(Config{Server: server}, store, zap.NewNop())
	if err != nil {
		fmt.Println(err)
		return
	}
	a.Interactive(func(address string) error { fmt.Println("a tab:", address); return nil })
	_, err = callOnce(a, server)
	fmt.Println(err)
	store.Locked(context.Background(), id, func(e Entry) { e.Put([]byte(token)) })
	fmt.Println(a.SignIn(context.Background(), absent{}))
	for _, line := range seen.All() {
		fmt.Println(line.Message)
	}
}

// TestMessagesOfTLS: an authorization server whose certificate is not trusted.
func TestMessagesOfTLS(t *testing.T) {
	s := oauthtest.New(t, oauthtest.Options{})
	a := accountOf(t, s, t.TempDir(), nil)
	if err := a.SignIn(t.Context(), agreeing{s}); err != nil {
		t.Fatal(err)
	}
	untrusted := httptest.NewTLSServer(http.NotFoundHandler())
	defer untrusted.Close()
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0) // the failed handshakes
	host := strings.TrimPrefix(untrusted.URL, "https://")
	good := ""
	move := func(token string) {
		if err := a.store.Locked(t.Context(), a.id, func(e Entry) {
			r, _ := load(e)
			good, r.Authority.Token = r.Authority.Token, token
			save(e, &r)
		}); err != nil {
			t.Fatal(err)
		}
	}
	move(untrusted.URL + "/token")
	s.RevokeAccess()
	const cause = "tls: failed to verify certificate: x509: certificate signed by unknown authority"
	if _, err := call(t, a, s); err == nil || err.Error() != "AS "+host+": "+cause+"; the token is kept" {
		t.Error("refresh:", err)
	}
	move(good)
	a.at = time.Time{} // the pause is over
	if status, err := call(t, a, s); status != http.StatusOK {
		t.Error("the token was not kept:", status, err)
	}
	s.Change(func(o *oauthtest.Options) { o.NamedIssuer = untrusted.URL })
	if err := accountOf(t, s, "", nil).SignIn(t.Context(), agreeing{s}); err == nil || err.Error() != fmt.Sprintf("cannot read the metadata of AS %q: tried %[1]s/.well-known/oauth-authorization-server and %[1]s/.well-known/openid-configuration: %s", untrusted.URL, cause) {
		t.Error("login:", err)
	}
}

// TestMessageOfEntra: Entra ID refuses the resource under another error code.
func TestMessageOfEntra(t *testing.T) {
	const code, description = "invalid_request", "AADSTS9010010: The resource parameter provided in the request doesn't match with the requested scopes."
	const want = `invalid_request "AADSTS9010010: The resource parameter provided in the request doesn't match with the requested scopes."` +
		"; if it knows the server by another name or takes no resource: --oauth resource=NAME or --oauth resource=none"
	if got := refusal(code, description); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	tokens := &oauthclient.Refusal{Status: http.StatusBadRequest, Code: code, Description: description}
	if got := said(tokens).Error(); got != "refused: "+want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
