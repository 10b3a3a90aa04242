package oauth

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/proxy/oauth/oauthtest"
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
	for name, c := range map[string]struct {
		o      oauthtest.Options
		change func(*Config)
		want   string
	}{
		"no metadata, no endpoints": {o: oauthtest.Options{NoPRM: true},
			want: "SERVER wants a token and does not say where to get one: --header 'Authorization: Bearer ${TOKEN}'"},
		"declined": {o: oauthtest.Options{Deny: "access_denied"},
			want: `AS refused: access_denied "the authorization was refused"`},
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
			want: "AS registers no clients by itself: register one with redirect URI http://127.0.0.1:PORT/callback and pass --oauth client_id=… --oauth callback_port=PORT"},
		"no registration, port given": {o: oauthtest.Options{NoDCR: true}, change: func(c *Config) { c.CallbackPort, c.CallbackHost = 7777, "localhost" },
			want: "AS registers no clients by itself: register one with redirect URI http://localhost:7777/callback and pass --oauth client_id=…"},
		"registration refused": {o: oauthtest.Options{RefuseDCR: "invalid_redirect_uri"}, change: func(c *Config) { c.CallbackHost = "localhost" },
			want: `AS refused to register us: invalid_redirect_uri "registrations are refused" (redirect URIs http://localhost:*/callback/*, http://localhost:*/callback/*; --oauth callback_host=… and callback_port=… change them)`},
		"resource rejected": {o: oauthtest.Options{NoResource: true},
			want: `AS refused: invalid_target "unknown resource"; if it knows the server by another name or takes no resource: --oauth resource=NAME or --oauth resource=none`},
		"port taken": {change: func(c *Config) { c.CallbackPort = port },
			want: fmt.Sprintf("port %d of --oauth callback_port is in use by another program", port)},
		"port taken, known client": {o: oauthtest.Options{Clients: map[string]string{"known": ""}}, change: func(c *Config) { c.CallbackPort, c.ClientID = port, "known" },
			want: fmt.Sprintf("port %d of --oauth callback_port is in use by another program", port)},
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
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
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
	change("http://" + gone.Addr().String() + "/token")
	want := "AS " + gone.Addr().String() + ": dial tcp " + gone.Addr().String() + ": connect: connection refused; the token is kept"
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
	first.wait, second.wait = 20*time.Millisecond, 2*time.Second
	page := make(chan string, 1)
	first.Interactive(func(address string) error { page <- address; return nil })
	second.Interactive(func(string) error { t.Error("a second tab"); return nil })
	if _, err := call(t, first, s); err == nil || err.Error() != addressed(s, "sign-in needed for SERVER: finish it in the browser, then start this server again (or run: dragoman login SERVER)") &&
		err.Error() != addressed(s, "sign-in needed for SERVER: run dragoman login SERVER") { // the tab is not open yet
		t.Error(err)
	}
	address := <-page
	want := fmt.Sprintf("waiting for the sign-in that process %d has begun", os.Getpid())
	if _, err := call(t, second, s); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
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
	ctx, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	want := addressed(s, "no answer from the browser in 10 min; run dragoman login SERVER")
	if err := a.SignIn(ctx, absent{}); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
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

// TestStepUp: a token that lacks scopes is replaced by one with more, of the same registration, once the
// person agrees.
func TestStepUp(t *testing.T) {
	o := oauthtest.Options{Scopes: []string{"read"}, StepUpTool: "write", StepUpScope: "write"}
	s, dir := oauthtest.New(t, o), t.TempDir()
	a := accountOf(t, s, dir, nil)
	tabs := 0
	a.Interactive(func(address string) error {
		tabs++
		go s.Visit(address)
		return nil
	})
	for _, tool := range []string{"echo", "write", "echo", "write"} {
		if status, err := callTool(t, a, s, tool); status != http.StatusOK {
			t.Error(tool, status, err)
		}
	}
	if c := s.Counts(); tabs != 2 || c.Registrations != 1 || c.Authorizations != 2 || strings.Join(a.live.Scopes, " ") != "read write" {
		t.Error(tabs, c, a.live.Scopes)
	}
}

// TestMovedServer: a server that names another authorization server, and refuses the tokens of the old one, gets a
// sign-in at the new one, although the last tab was a moment ago.
func TestMovedServer(t *testing.T) {
	s, dir := oauthtest.New(t, oauthtest.Options{}), t.TempDir()
	other := oauthtest.New(t, oauthtest.Options{})
	a := accountOf(t, s, dir, nil)
	tabs := 0
	a.Interactive(func(address string) error {
		tabs++
		go s.Visit(address)
		return nil
	})
	if status, err := call(t, a, s); status != http.StatusOK {
		t.Fatal(status, err)
	}
	s.Change(func(o *oauthtest.Options) { o.NamedIssuer = other.Issuer })
	s.RevokeAll()
	_, _ = call(t, a, s)
	if c := other.Counts(); tabs != 2 || c.Registrations != 1 || c.Codes != 1 {
		t.Error(tabs, "tabs", c)
	}
}

// TestUnprotectedServer: an account of a server that wants no token makes no file, and reads none for each request.
func TestUnprotectedServer(t *testing.T) {
	s, dir := oauthtest.New(t, oauthtest.Options{}), t.TempDir()+"/tokens"
	a := accountOf(t, s, dir, nil)
	var value string
	var err error
	if n := testing.AllocsPerRun(100, func() { value, err = a.Header(t.Context()) }); n > 1 || value != "" || err != nil {
		t.Error(n, "allocations", value, err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("a directory was made")
	}
	// A sign-in of another process counts from the next refusal on.
	if err := accountOf(t, s, dir, nil).SignIn(t.Context(), agreeing{s}); err != nil {
		t.Fatal(err)
	}
	if status, err := call(t, a, s); status != http.StatusOK {
		t.Error(status, err)
	}
}

// TestTabs (S11): a server opens few tabs, whatever it asks for.
func TestTabs(t *testing.T) {
	now := time.Now()
	var s signInState
	open := func(scopes string, done bool) bool {
		ok := s.mayOpen(now, scopes)
		if ok {
			s.Tab, s.Done = now, done
			if scopes != "" {
				s.Steps = append(s.Steps, step{scopes, now})
			}
		}
		return ok
	}
	want := func(name string, got, want bool) {
		t.Helper()
		if got != want {
			t.Error(name, got)
		}
	}
	want("first", open("", false), true)
	want("again", open("", false), false)
	want("step-up of a person who does not come", open("a", false), false)
	now = now.Add(tabPause)
	want("after the pause", open("", true), true)
	want("again after a sign-in", open("", true), false)
	for range stepsEach {
		want("step-up after a sign-in", open("a", true), true)
	}
	want("the same once more", open("a", true), false)
	for i := range stepsAll - stepsEach {
		want("others", open(fmt.Sprint("b", i), true), true)
	}
	want("no end of others", open("c", true), false)
	now = now.Add(stepTime)
	want("an hour later", open("a", true), true)
	s.Tab = now.Add(time.Hour)
	want("a clock that was set back", s.mayOpen(now, ""), true)
}

// TestStepUpInVain: what is said if there is no one to ask, and if the new token is refused as well.
func TestStepUpInVain(t *testing.T) {
	o := oauthtest.Options{Scopes: []string{"read"}, StepUpTool: "write", StepUpScope: "write"}
	s, dir := oauthtest.New(t, o), t.TempDir()
	a := accountOf(t, s, dir, nil)
	if err := a.SignIn(t.Context(), agreeing{s}); err != nil {
		t.Fatal(err)
	}
	want := addressed(s, "SERVER wants scopes write, the sign-in gave read; run dragoman login SERVER")
	if _, err := callTool(t, a, s, "write"); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	// The next sign-in asks for what was missing.
	if err := a.SignIn(t.Context(), agreeing{s}); err != nil {
		t.Fatal(err)
	}
	if status, err := callTool(t, a, s, "write"); status != http.StatusOK {
		t.Error(status, err)
	}
	refused := Refusal{http.StatusForbidden, []string{`Bearer error="insufficient_scope", scope="read write"`}, 1}
	want = addressed(s, "SERVER wants scopes read write, the sign-in gave read write")
	if err := a.Refused(t.Context(), "Bearer "+a.live.Access, refused); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if err := a.Refused(t.Context(), "Bearer "+a.live.Access, Refusal{Status: http.StatusForbidden}); !errors.Is(err, ErrNotOurs) {
		t.Error(err)
	}
}

// TestTerminalComesFirst: a sign-in in a terminal ends one that waits in another process, and calls there
// work after it.
func TestTerminalComesFirst(t *testing.T) {
	s, dir := oauthtest.New(t, oauthtest.Options{}), t.TempDir()
	shim := accountOf(t, s, dir, nil)
	opened := make(chan string, 1)
	shim.Interactive(func(address string) error { opened <- address; return nil })
	failed := make(chan error)
	go func() {
		_, err := call(t, shim, s)
		failed <- err
	}()
	<-opened
	if err := accountOf(t, s, dir, nil).SignIn(t.Context(), agreeing{s}); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; err == nil || !strings.HasPrefix(err.Error(), "sign-in needed") {
		t.Error(err)
	}
	if status, err := call(t, shim, s); status != http.StatusOK {
		t.Error(status, err)
	}
}

// TestForgottenRegistration: an authorization server that has forgotten dragoman shows an error to the person,
// who does not come back; the next sign-in registers anew.
func TestForgottenRegistration(t *testing.T) {
	s, dir := oauthtest.New(t, oauthtest.Options{}), t.TempDir()
	a := accountOf(t, s, dir, nil)
	if err := a.SignIn(t.Context(), agreeing{s}); err != nil {
		t.Fatal(err)
	}
	s.ForgetClients()
	if err := a.SignIn(t.Context(), agreeing{s}); err == nil {
		t.Fatal("signed in as a client that is not known")
	}
	if err := a.SignIn(t.Context(), agreeing{s}); err != nil {
		t.Fatal(err)
	}
	if n := s.Counts().Registrations; n != 2 {
		t.Error(n, "registrations")
	}
	s.Change(func(o *oauthtest.Options) { o.Deny = "access_denied" })
	_ = a.SignIn(t.Context(), agreeing{s})
	s.Change(func(o *oauthtest.Options) { o.Deny = "" })
	if err := a.SignIn(t.Context(), agreeing{s}); err != nil || s.Counts().Registrations != 2 {
		t.Error("a declined sign-in does not end the registration:", err, s.Counts().Registrations)
	}
}

// TestZones (S1, S2): a server names no addresses further inside than its own, and no link-local ones.
func TestZones(t *testing.T) {
	for _, c := range []struct {
		server, at string
		ok         bool
	}{
		{"https://203.0.113.1/mcp", "https://203.0.113.2/", true},
		{"https://203.0.113.1/mcp", "https://10.0.0.1/", false},
		{"https://203.0.113.1/mcp", "https://[fd00::1]/", false},
		{"https://203.0.113.1/mcp", "https://100.64.0.1/", false},
		{"https://203.0.113.1/mcp", "https://127.0.0.1/", false},
		{"https://203.0.113.1/mcp", "https://[::ffff:127.0.0.1]/", false},
		{"https://203.0.113.1/mcp", "https://0.0.0.0/", false},
		{"https://10.0.0.1/mcp", "https://192.168.1.1/", true},
		{"https://10.0.0.1/mcp", "https://203.0.113.2/", true},
		{"https://10.0.0.1/mcp", "https://127.0.0.1/", false},
		{"http://127.0.0.1/mcp", "http://[::1]/", true},
		{"http://127.0.0.1/mcp", "https://10.0.0.1/", true},
		{"http://127.0.0.1/mcp", "https://169.254.169.254/", false},
		{"http://127.0.0.1/mcp", "https://[fe80::1]/", false},
		{"http://127.0.0.1/mcp", "http://203.0.113.2/", false},
		{"https://203.0.113.1/mcp", "http://203.0.113.1/", false},
		{"https://203.0.113.1/mcp", "http://127.0.0.1/", false},
		{"https://203.0.113.1/mcp", "https://user@203.0.113.1/", false},
		{"https://203.0.113.1/mcp", "https://203.0.113.1/#part", false},
		{"https://203.0.113.1/mcp", "javascript:alert(1)", false},
		{"https://203.0.113.1/mcp", "file:///etc/passwd", false},
		{"https://203.0.113.1/mcp", "https://203.0.113.1/" + strings.Repeat("x", maxURL), false},
	} {
		server, _ := url.Parse(c.server)
		w := newWeb(server, false, nil)
		if _, err := w.check(t.Context(), c.at); (err == nil) != c.ok {
			t.Errorf("%s names %.60s: %v", c.server, c.at, err)
		}
	}
	// A name is judged by the address that it leads to, when the connection is made.
	server, _ := url.Parse("https://203.0.113.1/mcp")
	w := newWeb(server, false, nil)
	if _, err := w.check(t.Context(), "https://localhost:1/"); err != nil {
		t.Error(err)
	}
	if _, err := w.read(t.Context(), "https://localhost:1/", new(any)); err == nil || !strings.Contains(err.Error(), "which a server outside it may not name") {
		t.Error(err)
	}
	if err := w.mayReach(t.Context(), netip.MustParseAddr("::ffff:10.0.0.1")); err == nil {
		t.Error("an IPv4 address in the clothes of IPv6")
	}
}

// TestDocuments (S3): metadata is read over few redirects, each of which is judged, and is bounded.
func TestDocuments(t *testing.T) {
	var hops int
	mux := http.NewServeMux()
	mux.HandleFunc("/hops", func(w http.ResponseWriter, r *http.Request) {
		if hops--; hops >= 0 {
			http.Redirect(w, r, "/hops", http.StatusFound)
			return
		}
		w.Write([]byte(`{"issuer":"x"}`))
	})
	mux.HandleFunc("/inward", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://169.254.169.254/latest", http.StatusFound)
	})
	mux.HandleFunc("/away", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "ftp://127.0.0.1/", http.StatusFound)
	})
	mux.HandleFunc("/page", func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("<html>")) })
	mux.HandleFunc("/error", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(502) })
	ts := httptest.NewServer(mux)
	defer ts.Close()
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, ts.URL+"/hops", http.StatusFound)
	}))
	defer secure.Close()
	server, _ := url.Parse(ts.URL)
	w := newWeb(server, false, secure.Client().Transport.(*http.Transport).TLSClientConfig)
	for _, c := range []struct {
		at    string
		hops  int
		found bool
		fails string
	}{
		{ts.URL + "/hops", 0, true, ""},
		{ts.URL + "/hops", maxRedirects, true, ""},
		{ts.URL + "/hops", maxRedirects + 1, false, "more than 3 redirects"},
		{ts.URL + "/inward", 0, false, "may not name"},
		{ts.URL + "/away", 0, false, "is not an https URL"},
		{secure.URL, 0, false, "redirected from https to http"},
		{ts.URL + "/page", 0, false, ""},
		{ts.URL + "/none", 0, false, ""},
		{ts.URL + "/error", 0, false, "answered 502"},
	} {
		hops = c.hops
		var doc serverMetadata
		found, err := w.read(t.Context(), c.at, &doc)
		if found != c.found || (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: %v, %v", c.at, found, err)
		}
	}
}

// TestCallbackIgnoresStrangers (S5): only a GET of the path, at a loopback name, with the state, ends the wait.
func TestCallbackIgnoresStrangers(t *testing.T) {
	back, err := Listen("http://127.0.0.1:0/callback/abc")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan url.Values, 1)
	go func() {
		q, _ := back.Wait(t.Context(), "right")
		ended <- q
	}()
	send := func(method, at, host string) int {
		r, _ := http.NewRequest(method, at, nil)
		r.Host = host
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	at, _ := url.Parse(back.URL)
	for _, c := range [][3]string{
		{"GET", back.URL + "?code=x&state=wrong", ""},
		{"GET", back.URL + "?code=x", ""},
		{"POST", back.URL + "?code=x&state=right", ""},
		{"GET", "http://" + at.Host + "/callback?code=x&state=right", ""},
		{"GET", back.URL + "?code=x&state=right", "evil.example"},
	} {
		if status := send(c[0], c[1], c[2]); status != http.StatusNotFound {
			t.Error(c, status)
		}
	}
	if status := send("GET", back.URL+"?code=x&state=right", ""); status != http.StatusOK {
		t.Error(status)
	}
	if q := <-ended; q.Get("code") != "x" {
		t.Error(q)
	}
	if _, err := net.DialTimeout("tcp", at.Host, time.Second); err == nil {
		t.Error("it still listens")
	}
}

// TestTheIssuerKeepsItsCredentials (S6, S7, S8): a server that moves to another authorization server gets a new
// registration there, and neither the old token nor the old refresh token are sent to it.
func TestTheIssuerKeepsItsCredentials(t *testing.T) {
	s, dir := oauthtest.New(t, oauthtest.Options{}), t.TempDir()
	a := accountOf(t, s, dir, nil)
	if err := a.SignIn(t.Context(), agreeing{s}); err != nil {
		t.Fatal(err)
	}
	old := a.live
	other := oauthtest.New(t, oauthtest.Options{Resource: s.URL})
	r := old
	r.Authority.Issuer, r.Client.Issuer = other.Issuer, other.Issuer // as if the last sign-in had been there
	a.store.Locked(t.Context(), a.id, func(e Entry) { save(e, &r) })
	if err := a.SignIn(t.Context(), agreeing{s}); err != nil {
		t.Fatal(err)
	}
	if a.live.Client.ID == old.Client.ID || s.Counts().Registrations != 2 || other.Counts() != (oauthtest.Counts{}) {
		t.Error("the registration of another issuer was used")
	}
	// An expired secret is not used again.
	r = a.live
	r.Client.SecretExpires = time.Now().Add(-time.Minute)
	a.store.Locked(t.Context(), a.id, func(e Entry) { save(e, &r) })
	if err := a.SignIn(t.Context(), agreeing{s}); err != nil || s.Counts().Registrations != 3 {
		t.Error(err, s.Counts().Registrations)
	}
}

// TestTextsFromTheNetwork (S9): they are cut, on one line, and cannot change how the rest is shown.
func TestTextsFromTheNetwork(t *testing.T) {
	got := quoted("a\nb\x1b[31m\u202ec\u200b\u0085" + strings.Repeat("x", 500))
	if want := `"ab[31mc` + strings.Repeat("x", maxQuoted-len("ab[31mc")-4) + `…"`; len([]rune(got)) > maxQuoted+4 || !strings.HasPrefix(got, `"ab[31mcx`) || !strings.HasSuffix(got, `…"`) {
		t.Errorf("%q, want about %q", got, want)
	}
}

// TestParamsOfTheProtocol: a configuration cannot replace what the protocol says.
func TestParamsOfTheProtocol(t *testing.T) {
	for _, name := range protocolParams {
		if _, err := NewAccount(Config{Server: "https://s.example/mcp", Params: map[string]string{name: "x"}}, New("", Memory, zap.NewNop()), zap.NewNop()); err == nil {
			t.Error(name)
		}
	}
}

// TestNoSecretIsTold (S10): neither the log at debug level nor an error holds a code, a token, a verifier or a
// state.
func TestNoSecretIsTold(t *testing.T) {
	core, seen := observer.New(zapcore.DebugLevel)
	var said []string
	note := func(err error) {
		if err != nil {
			said = append(said, err.Error())
		}
	}
	var states []string
	var mu sync.Mutex
	for _, o := range []oauthtest.Options{
		{}, {Deny: "access_denied"}, {WrongIss: "https://evil.example"}, {NoResource: true}, {TokenRedirect: true}, {RefuseDCR: "no"}, {NoRefresh: true},
	} {
		s, dir := oauthtest.New(t, o), t.TempDir()
		a := logged(t, s, dir, nil, zap.New(core))
		a.wait = 200 * time.Millisecond
		note(a.SignIn(t.Context(), agreeing{s}))
		note(a.SignIn(t.Context(), pasting{s}))
		a.Interactive(func(address string) error {
			u, _ := url.Parse(address)
			mu.Lock()
			states = append(states, u.Query().Get("state"))
			mu.Unlock()
			return errors.New("no display")
		})
		for _, fault := range []func(){func() {}, s.RevokeAccess, func() { s.Change(func(o *oauthtest.Options) { o.CutRefresh = true }) }, s.RevokeAccess, s.RevokeAll} {
			fault()
			_, err := call(t, a, s)
			if link, ok := errors.AsType[*SignInError](err); ok && link.Link != "" {
				continue // the link is for the person
			}
			note(err)
		}
		_, _, err := a.Logout(t.Context())
		note(err)
	}
	text := fmt.Sprint(said)
	for _, e := range seen.All() {
		text += fmt.Sprintln(e.Message, e.ContextMap())
	}
	if len(said) < 10 || len(states) < 2 {
		t.Error("too little has happened:", len(said), len(states))
	}
	for _, canary := range append(states, "canary-") {
		if i := strings.Index(text, canary); i >= 0 {
			t.Errorf("told: …%.200s", text[max(0, i-80):])
		}
	}
}
