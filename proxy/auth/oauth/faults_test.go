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
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/proxy/auth/oauth/oauthtest"
)

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
		{"https://203.0.113.1/mcp", "https://[64:ff9b::203.0.113.2]/", true},
		{"https://203.0.113.1/mcp", "https://[64:ff9b::10.0.0.1]/", false},
		{"https://203.0.113.1/mcp", "https://[64:ff9b::127.0.0.1]/", false},
		{"https://203.0.113.1/mcp", "https://[2002:a00:1::]/", false},
		{"https://203.0.113.1/mcp", "https://[2002:7f00:1::]/", false},
		{"https://203.0.113.1/mcp", "https://0.1.2.3/", false},
		{"https://203.0.113.1/mcp", "https://240.0.0.1/", false},
		{"https://10.0.0.1/mcp", "https://100.100.100.200/", false},
		{"https://10.0.0.1/mcp", "https://168.63.129.16/", false},
		{"https://10.0.0.1/mcp", "https://192.0.0.192/", false},
		{"https://10.0.0.1/mcp", "https://[fd00:ec2::254]/", false},
		{"https://10.0.0.1/mcp", "https://[fd20:ce::254]/", false},
		{"http://127.0.0.1/mcp", "https://[64:ff9b::169.254.169.254]/", false},
		{"http://127.0.0.1/mcp", "https://[2002:a9fe:a9fe::]/", false},
		{"https://10.0.0.1/mcp", "https://[64:ff9b::192.168.1.1]/", true},
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
	// allow_http lets a private server name http URLs, and widens nothing else.
	for at, ok := range map[string]bool{"http://10.0.0.2/": true, "http://203.0.113.2/": true, "http://127.0.0.1/": false, "http://169.254.169.254/": false, "ftp://10.0.0.2/": false} {
		server, _ := url.Parse("http://10.0.0.1/mcp")
		if _, err := newWeb(server, true, nil).check(t.Context(), at); (err == nil) != ok {
			t.Errorf("with allow_http, %s: %v", at, err)
		}
	}
	// A name is judged by the address that it leads to, when the connection is made.
	server, _ := url.Parse("https://203.0.113.1/mcp")
	w := newWeb(server, false, nil)
	if _, err := w.check(t.Context(), "https://localhost:1/"); err != nil {
		t.Error(err)
	}
	if err := w.read(t.Context(), "https://localhost:1/", new(any)); err == nil || !strings.Contains(err.Error(), "which a server outside it may not name") {
		t.Error(err)
	}
	if err := w.mayReach(t.Context(), netip.MustParseAddr("::ffff:10.0.0.1")); err == nil {
		t.Error("an IPv4 address in the clothes of IPv6")
	}
}

// slowly answers 404 after a time; never if that is 0.
type slowly time.Duration

func (s slowly) RoundTrip(r *http.Request) (*http.Response, error) {
	var over <-chan time.Time
	if s > 0 {
		over = time.After(time.Duration(s))
	}
	select {
	case <-over:
		return &http.Response{StatusCode: http.StatusNotFound, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// TestDocumentsAreNotWaitedForLong (S3): one document has 10 seconds, and all that a sign-in reads have 30.
func TestDocumentsAreNotWaitedForLong(t *testing.T) {
	withoutKeyring(t)
	for _, c := range []struct{ each, all time.Duration }{{0, 2 * documentTime}, {documentTime - time.Second/10, discoveryTime}} { // the server's own places are two
		synctest.Test(t, func(t *testing.T) {
			a, err := NewAccount(Config{Server: "https://203.0.113.1/mcp"}, New(t.TempDir(), Auto, zap.NewNop()), zap.NewNop())
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			a.web.documents.Transport = slowly(c.each)
			began := time.Now()
			if _, err := a.discoverServer(t.Context(), challenge{}, ""); !os.IsTimeout(err) && !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			if took := time.Since(began); took != c.all {
				t.Errorf("%v each: %v", c.each, took)
			}
		})
	}
}

// TestDocuments (S3): metadata is read over few redirects, each of which is judged, and is bounded.
func TestDocuments(t *testing.T) {
	var hops int
	mux := http.NewServeMux()
	mux.HandleFunc("/hops", func(w http.ResponseWriter, r *http.Request) {
		if said := r.Header.Get("MCP-Protocol-Version"); said != "the newest" {
			t.Error("asked with revision", said)
		}
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
	w.revision = "the newest"
	for _, c := range []struct {
		at    string
		hops  int
		none  bool // the server says that there is nothing
		fails string
	}{
		{ts.URL + "/hops", 0, false, ""},
		{ts.URL + "/hops", maxRedirects, false, ""},
		{ts.URL + "/hops", maxRedirects + 1, false, "more than 3 redirects"},
		{ts.URL + "/inward", 0, false, "may not name"},
		{ts.URL + "/away", 0, false, "is not an https URL"},
		{secure.URL, 0, false, "redirected from https to http"},
		{ts.URL + "/page", 0, true, "is no JSON object"},
		{ts.URL + "/none", 0, true, "answered 404"},
		{ts.URL + "/error", 0, false, "answered 502"},
	} {
		hops = c.hops
		var doc serverMetadata
		err := w.read(t.Context(), c.at, &doc)
		if errors.As(err, new(noDocument)) != c.none || (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: %v", c.at, err)
		}
	}
}

// TestNoPostIsRedirected (S3): what dragoman posts, such as a token, goes to no other place than the one that was judged.
func TestNoPostIsRedirected(t *testing.T) {
	strayed := 0
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { strayed++ }))
	defer elsewhere.Close()
	moved := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer moved.Close()
	s := oauthtest.New(t, oauthtest.Options{})
	a := accountOf(t, s, t.TempDir(), nil)
	if err := a.SignIn(t.Context(), agreeing{s}); err != nil {
		t.Fatal(err)
	}
	r := a.live
	r.Authority.Token, r.Authority.Revocation = moved.URL, moved.URL
	if err := a.store.Locked(t.Context(), a.id, func(e Entry) { save(e, &r) }); err != nil {
		t.Fatal(err)
	}
	s.RevokeAccess()
	if _, err := call(t, a, s); err == nil || !strings.HasSuffix(err.Error(), "answered 307, a redirect, which is not followed; the token is kept") {
		t.Error("refresh:", err)
	}
	if _, revoked, err := a.Logout(t.Context()); revoked || err == nil || !strings.Contains(err.Error(), "answered 307") {
		t.Error("revocation:", err)
	}
	at := &authority{serverMetadata: serverMetadata{Issuer: moved.URL, Registration: moved.URL}}
	if _, err := a.register(t.Context(), at, new(record)); err == nil || !strings.Contains(err.Error(), "registration failed") {
		t.Error("registration:", err)
	}
	if strayed != 0 {
		t.Error(strayed, "requests to another place")
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
	t.Parallel() // it waits most of the time
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
