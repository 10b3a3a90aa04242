package adapterrt

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt/credential"
)

// scopeServer is an OAuth server whose tokens have the scopes that were asked for, and an API that needs them. Its API says which
// scope a path needs: /w needs w, /secret a scope that no file names, and all need r.
type scopeServer struct {
	*httptest.Server
	mu      sync.Mutex
	given   int
	scopes  map[string]string // of a token, and of a code
	asked   []string          // the scopes of each request for a token or a code
	calls   []string          // of the API, with their status
	never   string            // a scope that is not given
	refuse  string            // a scope with which the token endpoint answers invalid_scope
	down    bool              // the token endpoint answers 503
	silent  bool              // the API does not say why
	answers string            // the field of a refusal; "" for the usual one
}

func newScopeServer(t *testing.T) *scopeServer {
	s := &scopeServer{scopes: map[string]string{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *scopeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	give := func(scope string) string {
		s.given++
		name := fmt.Sprint("canary-", s.given)
		s.scopes[name] = strings.Join(slices.DeleteFunc(strings.Fields(scope), func(f string) bool { return f == s.never }), " ")
		return name
	}
	switch _ = r.ParseForm(); r.URL.Path {
	case "/authorize":
		s.asked = append(s.asked, "authorize "+r.Form.Get("scope"))
		http.Redirect(w, r, r.Form.Get("redirect_uri")+"?"+url.Values{"code": {give(r.Form.Get("scope"))}, "state": {r.Form.Get("state")}}.Encode(), http.StatusFound)
		return
	case "/token":
		scope := r.Form.Get("scope")
		if r.Form.Get("grant_type") == "authorization_code" {
			scope = s.scopes[r.Form.Get("code")]
		} else {
			s.asked = append(s.asked, r.Form.Get("grant_type")+" "+scope)
		}
		if s.down {
			w.WriteHeader(503)
			return
		}
		if s.refuse != "" && slices.Contains(strings.Fields(scope), s.refuse) {
			w.WriteHeader(400)
			fmt.Fprint(w, `{"error":"invalid_scope"}`)
			return
		}
		fmt.Fprintf(w, `{"access_token":%q,"token_type":"bearer","expires_in":3600,"refresh_token":"refresh"}`, give(scope))
		return
	}
	needed := strings.Trim(r.URL.Path, "/")
	has := strings.Fields(s.scopes[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")])
	if !slices.Contains(has, needed) {
		s.calls = append(s.calls, r.URL.Path+" 403")
		field := s.answers
		if field == "" {
			field = fmt.Sprintf(`Bearer realm="x", error="insufficient_scope", scope="%s"`, needed)
		}
		if !s.silent {
			w.Header().Set("WWW-Authenticate", field)
		}
		w.WriteHeader(403)
		return
	}
	s.calls = append(s.calls, r.URL.Path+" 200")
	fmt.Fprint(w, `"fine"`)
}

// seen returns what was asked for and called since the last time.
func (s *scopeServer) seen() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := strings.Join(append(s.asked, s.calls...), ", ")
	s.asked, s.calls = nil, nil
	return out
}

const scopedOps = `read:
- {name: read, maps_to: GET /r, description: Read it, scopes: [r]}
- {name: secret, maps_to: GET /secret, description: Read a secret}
create:
- {name: write, maps_to: POST /w, description: Write it, scopes: [r, w]}`

func scopedFile(s *scopeServer, auth string) map[string]string {
	return map[string]string{"test-api-adapter.md": front(s.URL, scopedOps, "auth: {type: oauth, token_url: '"+s.URL+"/token', client_id_env: ID, client_secret_env: SECRET, "+auth+"}")}
}

// TestStepUpWithoutAPerson: a client's own token gets the scopes of an operation when it is called, and only those that the file names.
func TestStepUpWithoutAPerson(t *testing.T) {
	const one = "scopes: [r]"
	for name, c := range map[string]struct {
		auth  string
		set   func(*scopeServer)
		calls []string // operation, what is seen, and the outcome
	}{
		"before the call": {one, func(s *scopeServer) { s.silent = true }, []string{
			"read", "client_credentials r, /r 200", fine, "write", "client_credentials r w, /w 200", fine, "read", "/r 200", fine, "write", "/w 200", fine}},
		"all at first":    {"scopes: [r, w]", nil, []string{"write", "client_credentials r w, /w 200", fine}},
		"not of the file": {one, nil, []string{"secret", "client_credentials r, /secret 403", "PERMISSION_DENIED", "secret", "/secret 403", "PERMISSION_DENIED"}},
		"after a refusal": {"audience: x", nil, []string{
			"write", "client_credentials , client_credentials r w, /w 403, /w 200", fine, "read", "/r 200", fine}},
		"the server does not give it": {one, func(s *scopeServer) { s.never = "w" }, []string{
			"write", "client_credentials r, client_credentials r w, /w 403", "PERMISSION_DENIED", "write", "/w 403", "PERMISSION_DENIED", "read", "/r 200", fine}},
		"the server refuses it": {one, func(s *scopeServer) { s.refuse = "w" }, []string{
			"write", "client_credentials r, client_credentials r w, /w 403", "PERMISSION_DENIED", "write", "/w 403", "PERMISSION_DENIED", "read", "/r 200", fine}},
		"another refusal": {"audience: x", func(s *scopeServer) { s.answers = `Bearer error="invalid_request", scope="w"` }, []string{
			"write", "client_credentials , /w 403", "PERMISSION_DENIED"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScopeServer(t)
			if c.set != nil {
				c.set(s)
			}
			rt := start(t, fromEnv("ID", "id", "SECRET", "client-secret-1"), scopedFile(s, c.auth))
			for i := 0; i < len(c.calls); i += 3 {
				got := ask(rt, Endpoint{}, `{"operation":"`+c.calls[i]+`"}`)
				if seen := s.seen(); seen != c.calls[i+1] || !strings.Contains(got, c.calls[i+2]) || strings.Contains(got, "canary") {
					t.Errorf("%s: seen %s, want %s; %s", c.calls[i], seen, c.calls[i+1], got)
				}
			}
		})
	}
}

// TestStepUpWithAPerson: a call that needs further scopes asks the user once for them, and the next login and refresh keep them.
func TestStepUpWithAPerson(t *testing.T) {
	noRedirects := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	s := newScopeServer(t)
	ck := &clock{at: someTime()}
	opt := fromEnv("ID", "id", "SECRET", "client-secret-1")
	opt.Now = ck.now
	p := page{make(chan url.Values, 8)}
	opt.Listen = func(string) (credential.Callback, error) { return p, nil }
	rt := start(t, opt, scopedFile(s, "scopes: [r], grant: authorization_code, authorization_url: '"+s.URL+"/authorize'"))
	var messages []string
	agree := true
	call := func(operation string, withPerson bool) string {
		req := &Request{Body: []byte(`{"operation":"` + operation + `"}`)}
		if withPerson {
			req.Send = func(_ context.Context, message, at string) (bool, error) {
				messages = append(messages, message)
				if !agree {
					return false, nil
				}
				res, err := noRedirects.Get(at)
				if err != nil {
					return false, err
				}
				back, err := url.Parse(res.Header.Get("Location"))
				p.brought <- back.Query()
				return true, err
			}
		}
		r := rt.Dispatch(t.Context(), Endpoint{}, req)
		return string(r.JSON())
	}
	for i, c := range []struct {
		operation        string
		person           bool
		before           func()
		seen, want, said string
	}{
		{"read", true, nil, "authorize r, /r 200", fine, "Adapter test-api needs you to log in to its API"},
		{"read", true, nil, "/r 200", fine, ""},
		// Without a person, the API decides; its refusal says what to run.
		{"write", false, nil, "/w 403", `"needs a new login by its operator, for the scopes w","details":{"adapter":"test-api","scopes":["w"],"login":"dragoman adapter login test-api"}`, ""},
		{"write", true, func() { agree = false }, "", "AUTH_LOGIN_REQUIRED", "Adapter test-api needs you to log in to its API, also for the scopes w"},
		{"read", true, nil, "/r 200", fine, ""}, // the first login is still there
		{"write", true, func() { agree = true }, "authorize r w, /w 200", fine, "Adapter test-api needs you to log in to its API, also for the scopes w"},
		{"write", true, nil, "/w 200", fine, ""},
		{"read", true, nil, "/r 200", fine, ""},
		// A scope that only the API names.
		{"secret", true, nil, "authorize r w secret, /secret 403, /secret 403, /secret 200", fine, "Adapter test-api needs you to log in to its API, also for the scopes w secret"},
		{"write", true, nil, "/w 200", fine, ""},
		// No second login for a scope that the server does not give.
		{"write", true, func() { s.mu.Lock(); s.never = "w"; clear(s.scopes); s.mu.Unlock() }, "/w 403", "PERMISSION_DENIED", ""},
	} {
		if c.before != nil {
			c.before()
		}
		messages = nil
		got := call(c.operation, c.person)
		if seen := s.seen(); seen != c.seen || !strings.Contains(got, strings.Trim(c.want, `"`)) || strings.Join(messages, "|") != c.said {
			t.Errorf("%d %s: seen %q, want %q; said %q; %s", i, c.operation, seen, c.seen, messages, got)
		}
	}
	if st, err := rt.Stored(t.Context(), "test-api"); err != nil || st.State != "logged in" {
		t.Error(st, err)
	}
}

// TestALoginElsewhereIsFound: a login with the wanted scopes in another process is used without another question, and a login after a
// refusal asks for what was wanted.
func TestALoginElsewhereIsFound(t *testing.T) {
	s := newScopeServer(t)
	opt := fromEnv("ID", "id", "SECRET", "client-secret-1")
	opt.Tokens = credential.NewKeeper(nil).Store
	files := scopedFile(s, "scopes: [r], grant: authorization_code, authorization_url: '"+s.URL+"/authorize'")
	rt, other := start(t, opt, files), start(t, opt, files)
	login := func() {
		l, err := other.Login("test-api")
		if err != nil {
			t.Fatal(err)
		}
		v, err := l.Visit(t.Context(), "http://127.0.0.1:1/callback")
		if err != nil {
			t.Fatal(err)
		}
		res, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Get(v.URL)
		if err != nil {
			t.Fatal(err)
		}
		back, _ := url.Parse(res.Header.Get("Location"))
		if err := v.Finish(t.Context(), back.Query()); err != nil {
			t.Fatal(err)
		}
	}
	login()
	if got := ask(rt, Endpoint{}, `{"operation":"read"}`); got != fine {
		t.Fatal(got)
	}
	if got := ask(rt, Endpoint{}, `{"operation":"write"}`); !strings.Contains(got, "for the scopes w") {
		t.Fatal(got)
	}
	login()
	s.seen()
	r := rt.Dispatch(t.Context(), Endpoint{}, &Request{Body: []byte(`{"operation":"write"}`), Send: func(context.Context, string, string) (bool, error) {
		return false, errors.New("no person is asked")
	}})
	if got := string(r.JSON()); got != fine || s.seen() != "/w 200" {
		t.Error(got)
	}
}

// TestAScopeThatSpoilsLogins: servers show an error page for a scope that they do not know, and the browser does not come back. The next
// login does not ask for it again, unless a call has wanted it since.
func TestAScopeThatSpoilsLogins(t *testing.T) {
	s := newScopeServer(t)
	opt := fromEnv("ID", "id", "SECRET", "client-secret-1")
	rt := start(t, opt, scopedFile(s, "scopes: [r], grant: authorization_code, authorization_url: '"+s.URL+"/authorize', device_authorization_url: '"+s.URL+"/device'"))
	l, err := rt.Login("test-api")
	if err != nil {
		t.Fatal(err)
	}
	visit := func() *credential.Visit {
		v, err := l.Visit(t.Context(), "http://127.0.0.1:1/callback")
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	asks := func() string {
		u, _ := url.Parse(visit().URL)
		return u.Query().Get("scope")
	}
	back := func(v *credential.Visit) {
		res, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Get(v.URL)
		if err != nil {
			t.Fatal(err)
		}
		to, _ := url.Parse(res.Header.Get("Location"))
		if err := v.Finish(t.Context(), to.Query()); err != nil {
			t.Fatal(err)
		}
	}
	back(visit())
	for i := range 2 {
		if got := ask(rt, Endpoint{}, `{"operation":"write"}`); !strings.Contains(got, "for the scopes w") {
			t.Fatal(got)
		}
		if first, next := asks(), asks(); first != "r w" || next != "r" {
			t.Errorf("%d: the login asks for %q, and the next one for %q", i, first, next)
		}
	}
}

// TestStepUpAfterAnOutage: a token endpoint that is down has not refused the scopes that a call needs.
func TestStepUpAfterAnOutage(t *testing.T) {
	s := newScopeServer(t)
	rt := start(t, fromEnv("ID", "id", "SECRET", "client-secret-1"), scopedFile(s, "scopes: [r]"))
	down := func(is bool) { s.mu.Lock(); defer s.mu.Unlock(); s.down = is }
	if got := ask(rt, Endpoint{}, `{"operation":"read"}`); got != fine {
		t.Fatal(got)
	}
	down(true)
	if got := ask(rt, Endpoint{}, `{"operation":"write"}`); !strings.Contains(got, "PERMISSION_DENIED") {
		t.Error(got)
	}
	down(false)
	if got := ask(rt, Endpoint{}, `{"operation":"write"}`); got != fine {
		t.Error(got)
	}
}
