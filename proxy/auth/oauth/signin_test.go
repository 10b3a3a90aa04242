package oauth

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/auth/oauth/oauthtest"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// agreeing is a browser whose user agrees.
type agreeing struct{ s *oauthtest.Server }

func (b agreeing) Visit(ctx context.Context, address string, c *Callback, state string) (url.Values, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	visited := make(chan struct{})
	go func() {
		defer close(visited)
		if _, err := b.s.Visit(address); err != nil {
			stop(err)
		}
	}()
	q, err := c.Wait(ctx, state)
	if err != nil {
		return nil, context.Cause(ctx)
	}
	<-visited
	return q, nil
}

// pasting is a browser on another machine.
type pasting struct{ s *oauthtest.Server }

func (b pasting) Visit(_ context.Context, address string, _ *Callback, _ string) (url.Values, error) {
	at, err := b.s.Redirect(address)
	if err != nil {
		return nil, err
	}
	return Pasted(at)
}

func accountOf(t *testing.T, s *oauthtest.Server, dir string, change func(*Config)) *Account {
	t.Helper()
	return logged(t, s, dir, change, zap.NewNop())
}

func logged(t *testing.T, s *oauthtest.Server, dir string, change func(*Config), log *zap.Logger) *Account {
	t.Helper()
	withoutKeyring(t)
	cfg := Config{Server: s.URL}
	if change != nil {
		change(&cfg)
	}
	kind := Auto
	if dir == "" {
		kind = Memory
	}
	a, err := NewAccount(cfg, New(dir, kind, log), log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

// call sends a request to the server as the transport does, and returns the status.
func call(t *testing.T, a *Account, s *oauthtest.Server) (int, error) {
	t.Helper()
	return callTool(t, a, s, "echo")
}

func callTool(t *testing.T, a *Account, s *oauthtest.Server, tool string) (int, error) {
	t.Helper()
	for tries := 0; ; tries++ {
		value, err := a.Header(t.Context())
		if err != nil {
			return 0, err
		}
		r, _ := http.NewRequest(http.MethodPost, s.URL, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+`"}}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		if value != "" {
			r.Header.Set("Authorization", value)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, err
		}
		resp.Body.Close()
		if resp.StatusCode/100 == 2 {
			return resp.StatusCode, nil
		}
		if tries > 5 {
			t.Fatal("no end to the refusals")
		}
		if err := a.Refused(t.Context(), value, Refusal{resp.StatusCode, resp.Header.Values("WWW-Authenticate"), tries}); err != nil {
			return resp.StatusCode, err
		}
	}
}

// TestSignIn: what servers and authorization servers may look like, and the message where a sign-in
// cannot work.
func TestSignIn(t *testing.T) {
	for name, c := range map[string]struct {
		o      oauthtest.Options
		change func(*Config)
		fails  string // a part of the error
	}{
		"all":                          {},
		"metadata at the root":         {o: oauthtest.Options{PRMAtRoot: true, Resource: "origin"}},
		"resource is the origin":       {o: oauthtest.Options{Resource: "origin"}, fails: "is for"},
		"its own authorization server": {o: oauthtest.Options{ASAtOrigin: true, NoPRM: true}},
		"no metadata at all":           {o: oauthtest.Options{ASAtOrigin: true, NoPRM: true, NoASM: true}},
		"OpenID":                       {o: oauthtest.Options{OIDCOnly: true}},
		"issuer with a path":           {o: oauthtest.Options{IssuerPath: "/tenant1"}},
		"OpenID, issuer with a path":   {o: oauthtest.Options{OIDCOnly: true, IssuerPath: "/tenant1"}},
		"resource of another server":   {o: oauthtest.Options{Resource: "https://other.example/mcp"}, fails: "is for https://other.example/mcp: use https://other.example/mcp as --upstream, or --oauth resource=https://other.example/mcp if that is meant"},
		"no metadata of the AS":        {o: oauthtest.Options{NoASM: true}, fails: "has no metadata"},
		"wrong issuer":                 {o: oauthtest.Options{WrongIssuer: "https://evil.example"}, fails: "claims to be https://evil.example: not trusted"},
		"wrong iss":                    {o: oauthtest.Options{WrongIss: "https://evil.example"}, fails: "the answer came from another issuer: sign-in dropped"},
		"iss promised and absent":      {o: oauthtest.Options{WrongIss: "-"}, fails: "the answer came from another issuer: sign-in dropped"},
		"no PKCE":                      {o: oauthtest.Options{NoPKCE: true}, fails: "AS does not say that it supports PKCE; if it does (Entra ID): --oauth assume_pkce=true"},
		"PKCE assumed":                 {o: oauthtest.Options{NoPKCE: true}, change: func(c *Config) { c.AssumePKCE = true }},
		"no registration":              {o: oauthtest.Options{NoDCR: true}, fails: "AS registers no clients by itself: register one with redirect URI http://127.0.0.1:PORT/callback and pass --oauth client_id=…"},
		"registered before":            {o: oauthtest.Options{NoDCR: true, Clients: map[string]string{"known": ""}}, change: func(c *Config) { c.ClientID = "known" }},
		"with a secret":                {o: oauthtest.Options{NoDCR: true, Clients: map[string]string{"known": "s3cret"}}, change: func(c *Config) { c.ClientID, c.ClientSecret = "known", "s3cret" }},
		"client ID metadata document":  {o: oauthtest.Options{CIMD: true}, change: func(c *Config) { c.ClientMetadataURL = "https://dragoman.example/client.json" }},
		"registration refused":         {o: oauthtest.Options{RefuseDCR: "invalid_software_statement"}, fails: "AS refused to register us: invalid_software_statement"},
		"registration without scopes":  {o: oauthtest.Options{RefuseDCRScopes: true, Scopes: []string{"read"}}},
		"only localhost":               {o: oauthtest.Options{RefuseLoopbackIP: true}},
		"declined":                     {o: oauthtest.Options{Deny: "access_denied"}, fails: "AS refused: access_denied"},
		"resource rejected":            {o: oauthtest.Options{NoResource: true}, fails: "--oauth resource=none"},
		"a redirecting token endpoint": {o: oauthtest.Options{TokenRedirect: true}, fails: "answered 307, a redirect, which is not followed"},
		"huge metadata":                {o: oauthtest.Options{HugeMetadata: true}, fails: "larger than"},
		"scopes of the challenge":      {o: oauthtest.Options{ChallengeScope: "read write", Scopes: []string{"other"}}},
		"offline_access":               {o: oauthtest.Options{OfflineAccess: true}},
	} {
		t.Run(name, func(t *testing.T) {
			s := oauthtest.New(t, c.o)
			a := accountOf(t, s, "", c.change)
			if _, err := call(t, a, s); err == nil || !strings.HasPrefix(err.Error(), "sign-in needed for "+s.URL+": run dragoman login "+s.URL) {
				t.Fatal("before:", err)
			}
			err := a.SignIn(t.Context(), agreeing{s})
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Errorf("got  %v\nwant %s", err, c.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if status, err := call(t, a, s); status != http.StatusOK || err != nil {
				t.Error(status, err)
			}
			for _, form := range s.TokenForms() {
				if form.Get("resource") == "" || form.Get("code_verifier") == "" {
					t.Error(form)
				}
			}
			switch name {
			case "scopes of the challenge":
				if got := a.live.Scopes; !reflect.DeepEqual(got, []string{"read", "write"}) {
					t.Error(got)
				}
			case "offline_access":
				if a.live.Refresh == "" || !slices.Contains(a.live.Scopes, "offline_access") {
					t.Error(a.live.Scopes)
				}
			}
		})
	}
}

// TestSignInByPasting: the browser is on another machine.
func TestSignInByPasting(t *testing.T) {
	s := oauthtest.New(t, oauthtest.Options{})
	a := accountOf(t, s, "", nil)
	if err := a.SignIn(t.Context(), pasting{s}); err != nil {
		t.Fatal(err)
	}
	if status, err := call(t, a, s); status != http.StatusOK {
		t.Error(status, err)
	}
}

// TestSignInIsKept: another process uses what one has stored, and a second sign-in keeps the
// registration.
func TestSignInIsKept(t *testing.T) {
	s, dir := oauthtest.New(t, oauthtest.Options{}), t.TempDir()
	if err := accountOf(t, s, dir, nil).SignIn(t.Context(), agreeing{s}); err != nil {
		t.Fatal(err)
	}
	other := accountOf(t, s, dir, nil)
	if status, err := call(t, other, s); status != http.StatusOK {
		t.Fatal(status, err)
	}
	if err := other.SignIn(t.Context(), agreeing{s}); err != nil {
		t.Fatal(err)
	}
	if n := s.Counts().Registrations; n != 1 {
		t.Error(n, "registrations")
	}
	all, err := List(t.Context(), other.store)
	if err != nil || len(all) != 1 || all[0].Server != s.URL || all[0].Issuer != s.Issuer || !all[0].Renews || all[0].Err != nil {
		t.Error(all, err)
	}
	known, revoked, err := other.Logout(t.Context())
	if !known || !revoked || err != nil || s.Counts().Revocations != 1 {
		t.Error(known, revoked, err)
	}
	if all, _ := List(t.Context(), other.store); len(all) != 0 {
		t.Error(all)
	}
	if known, _, err := other.Logout(t.Context()); known || err != nil {
		t.Error("a second logout:", known, err)
	}
}

// TestRefresh: tokens are renewed before they expire and when the server refuses them, by one of
// many callers and processes, always with the resource.
func TestRefresh(t *testing.T) {
	const life = time.Minute // a token must not end while the calls wait for a processor
	s, dir := oauthtest.New(t, oauthtest.Options{TokenLife: life}), t.TempDir()
	if err := accountOf(t, s, dir, nil).SignIn(t.Context(), agreeing{s}); err != nil {
		t.Fatal(err)
	}
	var accounts []*Account
	for range 5 { // as many processes
		accounts = append(accounts, accountOf(t, s, dir, nil))
	}
	for round := range 2 {
		s.RevokeAccess()
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() {
				if status, err := call(t, accounts[i%len(accounts)], s); status != http.StatusOK {
					t.Error(round, status, err)
				}
			})
		}
		all.Wait()
	}
	if n := s.Counts().Refreshes; n != 2 {
		t.Error(n, "refreshes")
	}
	for _, form := range s.TokenForms() {
		if form.Get("resource") != s.URL || form.Get("grant_type") == "refresh_token" && form.Has("scope") {
			t.Error(form)
		}
	}
	// Before the end: by a tenth of the token's life.
	a := accounts[0]
	a.now = func() time.Time { return time.Now().Add(life * 19 / 20) }
	if value, err := a.Header(t.Context()); err != nil || value == "" || s.Counts().Refreshes != 3 {
		t.Error(value, err, s.Counts().Refreshes)
	}
}

// TestRefreshFails: what becomes of an account when a refresh does not work.
func TestRefreshFails(t *testing.T) {
	for name, c := range map[string]struct {
		fault func(*oauthtest.Server)
		want  string // part of the error of a call
		after string // of the next call, once the fault is gone; "" if it works
	}{
		"refused":      {func(s *oauthtest.Server) { s.RevokeAll() }, "has ended (invalid_grant); run dragoman login", "has ended (invalid_grant); run dragoman login"},
		"unavailable":  {func(s *oauthtest.Server) { s.Change(func(o *oauthtest.Options) { o.RefreshStatus = 503 }) }, "answered 503; the token is kept", ""},
		"request lost": {func(s *oauthtest.Server) { s.Change(func(o *oauthtest.Options) { o.DropRefresh = true }) }, "EOF; the token is kept", ""},
		"answer lost":  {func(s *oauthtest.Server) { s.Change(func(o *oauthtest.Options) { o.CutRefresh = true }) }, "EOF; the token is kept", "has ended (invalid_grant); run dragoman login"},
	} {
		t.Run(name, func(t *testing.T) {
			s, dir := oauthtest.New(t, oauthtest.Options{}), t.TempDir()
			a := accountOf(t, s, dir, nil)
			if err := a.SignIn(t.Context(), agreeing{s}); err != nil {
				t.Fatal(err)
			}
			s.RevokeAccess()
			c.fault(s)
			if _, err := call(t, a, s); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
			refreshes := len(s.TokenForms())
			s.Change(func(o *oauthtest.Options) { o.RefreshStatus, o.CutRefresh, o.DropRefresh = 0, false, false })
			other := accountOf(t, s, dir, nil)
			status, err := call(t, other, s)
			switch {
			case c.after == "" && status != http.StatusOK:
				t.Error(status, err)
			case c.after != "" && (err == nil || !strings.Contains(err.Error(), c.after)):
				t.Errorf("got %v, want %s", err, c.after)
			}
			if name == "refused" {
				refreshes-- // the server has said no, and is not asked again
			}
			_, _ = call(t, other, s)
			if n := len(s.TokenForms()) - refreshes; n != 1 {
				t.Errorf("%d refreshes after the fault", n)
			}
		})
	}
}

// TestNoBlindRepetition: while the access token lives, a refresh whose answer was lost is not repeated, and calls go on.
func TestNoBlindRepetition(t *testing.T) {
	s := oauthtest.New(t, oauthtest.Options{})
	a := accountOf(t, s, t.TempDir(), nil)
	if err := a.SignIn(t.Context(), agreeing{s}); err != nil {
		t.Fatal(err)
	}
	s.Change(func(o *oauthtest.Options) { o.DropRefresh = true })
	end := a.live.Expires
	a.now = func() time.Time { return end.Add(-time.Second) } // within the margin
	for range 3 {
		if status, err := call(t, a, s); status != http.StatusOK {
			t.Error(status, err)
		}
	}
	if n := s.Counts().Refreshes; n != 1 {
		t.Error(n, "refreshes while the token lived")
	}
	s.Change(func(o *oauthtest.Options) { o.DropRefresh = false })
	a.now = func() time.Time { return end.Add(refreshPause) }
	if status, err := call(t, a, s); status != http.StatusOK || s.Counts().Refreshes != 2 {
		t.Error(status, err, s.Counts().Refreshes, "refreshes")
	}
}

// TestInteractive: five processes with many calls open one tab, all calls are answered after the
// sign-in, and no second tab opens soon after.
func TestInteractive(t *testing.T) {
	s, dir := oauthtest.New(t, oauthtest.Options{}), t.TempDir()
	var mu sync.Mutex
	tabs := 0
	open := func(address string) error {
		mu.Lock()
		tabs++
		mu.Unlock()
		go func() {
			time.Sleep(50 * time.Millisecond) // a quick user
			s.Visit(address)
		}()
		return nil
	}
	var all sync.WaitGroup
	var accounts []*Account
	for range 5 {
		a := accountOf(t, s, dir, nil)
		a.Interactive(open)
		accounts = append(accounts, a)
	}
	for i := range 20 {
		all.Go(func() {
			if status, err := call(t, accounts[i%5], s); status != http.StatusOK {
				t.Error(status, err)
			}
		})
	}
	all.Wait()
	if c := s.Counts(); tabs != 1 || c.Registrations != 1 || c.Authorizations != 1 {
		t.Error(tabs, "tabs", c)
	}
	s.RevokeAll()
	if _, err := call(t, accounts[0], s); err == nil || !strings.Contains(err.Error(), "run dragoman login "+s.URL) || tabs != 1 {
		t.Error(err, tabs)
	}
}

// TestInteractiveWaits: a user who takes longer than a client waits, and no browser at all.
func TestInteractiveWaits(t *testing.T) {
	s := oauthtest.New(t, oauthtest.Options{})
	for name, c := range map[string]struct {
		err           error
		want, awaited string
	}{
		"slow user":  {nil, "finish it in the browser, then start this server again", "the user to sign in on the page that was opened in the browser"},
		"no browser": {errors.New("no display"), "dragoman login --paste " + s.URL, "the user to sign in: no browser could be opened"},
	} {
		t.Run(name, func(t *testing.T) {
			a := accountOf(t, s, t.TempDir(), nil)
			a.wait = 20 * time.Millisecond
			var page string
			opened := make(chan struct{})
			a.Interactive(func(address string) error {
				page = address
				close(opened)
				return c.err
			})
			peertest.Eventually(t, c.want, func() bool {
				_, err := call(t, a, s)
				return err != nil && strings.Contains(err.Error(), c.want)
			})
			<-opened
			if got := a.Awaited(); got != c.awaited {
				t.Errorf("waits for %q", got)
			}
			a.wait = time.Minute
			if _, err := s.Visit(page); err != nil { // the sign-in goes on
				t.Fatal(err)
			}
			if status, err := call(t, a, s); status != http.StatusOK {
				t.Error(status, err)
			}
			a.Finish(t.Context()) // the token may be in use a moment before that
			if got := a.Awaited(); got != "" {
				t.Errorf("signed in, and waits for %q", got)
			}
		})
	}
}

// TestStoredTokenIsNotFresh: a refused token that a request without one has read from the store is renewed. It may be
// as old as any, and says nothing about new ones.
func TestStoredTokenIsNotFresh(t *testing.T) {
	s, dir := oauthtest.New(t, oauthtest.Options{}), t.TempDir()
	if err := accountOf(t, s, dir, nil).SignIn(t.Context(), agreeing{s}); err != nil {
		t.Fatal(err)
	}
	s.RevokeAccess()
	a := accountOf(t, s, dir, nil)
	a.looked = true // as if another request had begun to read the store
	if status, err := call(t, a, s); status != http.StatusOK {
		t.Error(status, err)
	}
}

// TestPortThatCannotBeListenedAt: only a port that another program has is said to be in use.
func TestPortThatCannotBeListenedAt(t *testing.T) {
	a := &Account{cfg: Config{RedirectURI: "http://192.0.2.1:40404/callback"}} // an address of no machine
	back, err := a.listen("/callback")
	if err == nil {
		back.Close()
		t.Skip("this machine has the address")
	}
	if strings.Contains(err.Error(), "in use") || !strings.Contains(err.Error(), "192.0.2.1:40404") {
		t.Error(err)
	}
}
