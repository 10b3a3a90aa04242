package adapterrt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/credential"
	"github.com/dragoman-proxy/dragoman/adapterrt/credential/oauthtest"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// oauthServer starts a server whose refresh tokens rotate.
func oauthServer(t *testing.T) *oauthtest.Server {
	s := oauthtest.New()
	t.Cleanup(s.Close)
	return s
}

// oauthFile returns an adapter file for the API of s; auth is added to its auth block.
func oauthFile(s *oauthtest.Server, auth string) string {
	return front(s.URL+"/api", status, "auth: {type: oauth, token_url: '"+s.URL+"/token', client_id_env: ID, client_secret_env: SECRET, "+auth+"}")
}

const seeded = "grant: refresh_token, refresh_token_env: SEED"

// oauthOptions returns the options for a client whose configured refresh token is seed.
func oauthOptions(seed string) (Options, *clock) {
	ck := &clock{at: someTime()}
	opt := fromEnv("ID", oauthtest.ClientID, "SECRET", oauthtest.ClientSecret, "SEED", seed)
	opt.Now = ck.now
	return opt, ck
}

const fine = `{"success":true,"data":"fine"}`

func askStatus(rt *Runtime) string { return ask(rt, Endpoint{}, `{"operation":"get_status"}`) }

func mustBeFine(t *testing.T, rt *Runtime) {
	t.Helper()
	r := rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(`{"operation":"get_status"}`)})
	if got := string(r.JSON()); got != fine {
		t.Errorf("%s (%v)", got, r.Call.Cause)
	}
}

func TestARotatedRefreshTokenSurvivesReload(t *testing.T) {
	s := oauthServer(t)
	opt, ck := oauthOptions(s.Login())
	rt, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	path := filepath.Join(t.TempDir(), "test-api-adapter.md")
	for i, auth := range []string{seeded, seeded, seeded + ", scopes: [other]"} {
		os.WriteFile(path, []byte(oauthFile(s, auth)+strings.Repeat("changed\n", i)), 0o600)
		if _, changed, err := rt.Reload([]string{path}); !changed || err != nil {
			t.Fatal(changed, err)
		}
		mustBeFine(t, rt)
		if i == 0 {
			ck.pass(2 * time.Hour)
		} else if i == 1 {
			mustBeFine(t, rt)
			if n := len(s.Forms()); n != 2 {
				t.Errorf("%d refreshes: the access token did not survive", n)
			}
		}
	}
	if len(s.Forms()) != 3 || s.Reused() != 0 {
		t.Error("a token for other scopes was used, or one came twice:", s.Forms(), s.Reused())
	}
}

func TestRuntimesThatShareAStore(t *testing.T) {
	s := oauthServer(t)
	opt, ck := oauthOptions(s.Login())
	opt.Tokens = credential.NewKeeper(nil).Store
	files := map[string]string{"test-api-adapter.md": oauthFile(s, seeded)}
	all := []*Runtime{start(t, opt, files), start(t, opt, files), start(t, opt, files)}
	for round := range 4 {
		var wg sync.WaitGroup
		for _, rt := range all {
			for range 5 {
				wg.Go(func() { mustBeFine(t, rt) })
			}
		}
		wg.Wait()
		if n := len(s.Forms()); n != round+1 {
			t.Errorf("%d refreshes in %d rounds", n, round+1)
		}
		if round == 1 {
			s.RefuseTokens()
		} else {
			ck.pass(2 * time.Hour)
		}
	}
	if s.Reused() != 0 {
		t.Error("a refresh token came twice")
	}
}

func TestARefreshDoesNotEndWithItsCall(t *testing.T) {
	s := oauthServer(t)
	opt, _ := oauthOptions(s.Login())
	ctx, leave := context.WithCancel(context.Background())
	returned := make(chan struct{})
	s.After(func(url.Values) {
		leave()
		<-returned
	})
	rt := start(t, opt, map[string]string{"test-api-adapter.md": oauthFile(s, seeded)})
	r := rt.Dispatch(ctx, Endpoint{}, &Request{Body: []byte(`{"operation":"get_status"}`)})
	close(returned)
	if !r.Cancelled {
		t.Errorf("%s", r.JSON())
	}
	mustBeFine(t, rt)
	if len(s.Forms()) != 1 {
		t.Error(s.Forms())
	}
	rt.Close() // must not hang
}

// TestARefreshWhoseAnswerIsLost shows that the runtime does not send a refresh token again that
// the server may have replaced.
func TestARefreshWhoseAnswerIsLost(t *testing.T) {
	cut := func(_ url.Values, w http.ResponseWriter) bool {
		c, _, _ := w.(http.Hijacker).Hijack()
		c.Close()
		return true
	}
	answers := func(status int, text string) func(url.Values, http.ResponseWriter) bool {
		return func(_ url.Values, w http.ResponseWriter) bool {
			w.WriteHeader(status)
			fmt.Fprint(w, text)
			return true
		}
	}
	over := make(chan struct{})
	elsewhere := 0
	other := api(t, func(http.ResponseWriter, *http.Request) { elsewhere++ })
	for name, c := range map[string]struct {
		before func(url.Values, http.ResponseWriter) bool
		again  bool // the next call may send the refresh token again
		why    string
	}{
		"connection cut": {cut, false, "EOF"},
		"slow":           {func(url.Values, http.ResponseWriter) bool { <-over; return true }, false, "deadline exceeded"},
		"10 MB":          {answers(200, `{"a":"`+strings.Repeat("x", 10<<20)+`"}`), false, "more than 1048576 bytes"},
		"a page":         {answers(200, "<html>Welcome</html>"), false, "without a JSON object"},
		"cut JSON":       {answers(200, `{"access_token":"a","refr`), false, "without a JSON object"},
		"no token":       {answers(200, `{"token_type":"bearer"}`), false, "without access_token"},
		"control":        {answers(200, `{"access_token":"a\r\nX-Evil: 1"}`), false, "control characters"},
		"large token":    {answers(200, `{"access_token":"`+strings.Repeat("x", maxTokenTried)+`"}`), false, "more than 32768 bytes"},
		"a list":         {answers(200, `[]`), false, "without a JSON object"},
		"deep":           {answers(200, strings.Repeat("[", 1<<19)), false, "without a JSON object"},
		"500":            {answers(500, "<html>no</html>"), true, "answered 500 without a JSON object"},
		"503":            {answers(503, `{}`), true, "answered 503 without an error code"},
		"429":            {answers(429, ``), true, "answered 429"},
		"invalid_client": {answers(401, `{"error":"invalid_client","error_description":"wrong secret canary-client-secret"}`), true, "invalid_client \"wrong secret [redacted]\""},
		"redirect": {func(_ url.Values, w http.ResponseWriter) bool {
			w.Header().Set("Location", other.URL)
			w.WriteHeader(307)
			return true
		}, true, "answered 307, a redirect"},
		"slow_down at 200": {answers(200, `{"error":"slow_down"}`), true, "slow_down"},
	} {
		t.Run(name, func(t *testing.T) {
			s := oauthServer(t)
			opt, ck := oauthOptions(s.Login())
			text := oauthFile(s, seeded)
			files := map[string]string{"test-api-adapter.md": text}
			opt.Tokens = credential.NewKeeper(nil).Store
			rt := start(t, opt, files)
			mustBeFine(t, rt)
			if name == "slow" { // the good calls have the usual time
				rt = start(t, opt, map[string]string{"test-api-adapter.md": strings.Replace(text, "protocol: rest", "protocol: rest, timeout_ms: 200", 1)})
			}
			ck.pass(2 * time.Hour)
			s.Before(c.before)
			r := rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(`{"operation":"get_status"}`)})
			if name == "slow" {
				close(over)
			}
			if all := allOf(&r); r.Failure == nil || r.Failure.Code != "AUTH_TOKEN_FAILED" || !strings.Contains(all, c.why) || strings.Contains(all, "canary") {
				t.Errorf("%s", all)
			}
			s.Before(nil)
			next := start(t, opt, files) // as after a restart
			if c.again {
				mustBeFine(t, next)
				mustBeFine(t, rt)
				if n := len(s.Forms()); n != 3 {
					t.Errorf("%d requests", n)
				}
				return
			}
			for _, rt := range []*Runtime{next, rt} {
				r := rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(`{"operation":"get_status"}`)})
				if all := allOf(&r); r.Failure == nil || r.Failure.Code != "AUTH_LOGIN_REQUIRED" || !strings.Contains(all, "the answer to the last refresh was lost") ||
					!strings.Contains(all, "put a new refresh token into SEED") || strings.Contains(all, "canary") {
					t.Errorf("%s", all)
				}
			}
			if n := len(s.Forms()); n != 2 || s.Reused() != 0 {
				t.Errorf("%d requests, the token was sent again", n)
			}
			opt.Getenv = environment("ID", oauthtest.ClientID, "SECRET", oauthtest.ClientSecret, "SEED", s.Login())
			mustBeFine(t, start(t, opt, files))
		})
	}
	if elsewhere != 0 {
		t.Error("a redirect was followed")
	}
}

const maxTokenTried = 40_000

func TestRefreshIsRepeatedIfTheServerDoesNotRotateTokens(t *testing.T) {
	s := oauthServer(t)
	s.Keeps = true
	opt, ck := oauthOptions(s.Login())
	rt := start(t, opt, map[string]string{"test-api-adapter.md": oauthFile(s, seeded)})
	mustBeFine(t, rt)
	ck.pass(2 * time.Hour)
	s.Before(func(_ url.Values, w http.ResponseWriter) bool {
		c, _, _ := w.(http.Hijacker).Hijack()
		c.Close()
		return true
	})
	if got := askStatus(rt); !strings.Contains(got, "AUTH_TOKEN_FAILED") {
		t.Error(got)
	}
	s.Before(nil)
	mustBeFine(t, rt)
}

func TestAnUnreachableServerLeavesTheRefreshTokenUsable(t *testing.T) {
	s := oauthServer(t)
	opt, _ := oauthOptions(s.Login())
	opt.Tokens = credential.NewKeeper(nil).Store
	text := oauthFile(s, seeded)
	rt := start(t, opt, map[string]string{"test-api-adapter.md": strings.Replace(text, s.URL+"/token", "http://"+peertest.NoListener+"/token", 1)})
	for range 2 {
		r := rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(`{"operation":"get_status"}`)})
		if r.Failure == nil || r.Failure.Code != "AUTH_TOKEN_FAILED" || !strings.Contains(r.Call.Cause.Error(), "connection refused") {
			t.Error(allOf(&r))
		}
	}
}

func TestAnEndedLoginSaysWhatToDo(t *testing.T) {
	for name, c := range map[string]struct{ auth, code, hint string }{
		"seed":  {seeded, "put a new refresh token into SEED", ""},
		"login": {seeded + ", authorization_url: 'https://as.example/authorize'", "run: dragoman adapter login test-api", `,"login":"dragoman adapter login test-api"`},
	} {
		t.Run(name, func(t *testing.T) {
			s := oauthServer(t)
			opt, ck := oauthOptions(s.Login())
			rt := start(t, opt, map[string]string{"test-api-adapter.md": oauthFile(s, c.auth)})
			mustBeFine(t, rt)
			ck.pass(2 * time.Hour)
			s.EndLogins()
			for i := range 3 {
				r := rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(`{"operation":"get_status"}`)})
				said := `,"oauth_error":{"error":"invalid_grant","error_description":"unknown refresh token"}`
				if i > 0 {
					said = ""
				}
				want := `{"success":false,"error":{"code":"AUTH_LOGIN_REQUIRED","message":"Adapter 'test-api' needs a new login by its operator","details":{"adapter":"test-api"` + said + c.hint + `}}}`
				if got := string(r.JSON()); got != want || !strings.Contains(r.Call.Cause.Error(), "invalid_grant") || !strings.HasSuffix(r.Call.Cause.Error(), c.code) {
					t.Errorf("%s\n%s\n%v", got, want, r.Call.Cause)
				}
			}
			if n := len(s.Forms()); n != 2 {
				t.Errorf("a dead token was sent %d times", n-1)
			}
		})
	}
}

// brokenStore is a store whose data cannot be read, or which cannot be locked.
type brokenStore struct{ get, lock error }

func (b brokenStore) Locked(_ context.Context, _ string, do func(credential.Entry)) error {
	if b.lock != nil {
		return b.lock
	}
	do(b)
	return nil
}
func (b brokenStore) Get() ([]byte, error) { return nil, b.get }
func (b brokenStore) Put([]byte) error     { return errors.New("not written") }

// switchStore is a store that tests replace, as another process could.
type switchStore struct{ credential.Store }

func TestAStoreThatFails(t *testing.T) {
	s := oauthServer(t)
	opt, ck := oauthOptions(s.Login())
	inMemory := credential.NewKeeper(nil).Store
	sw := &switchStore{inMemory}
	opt.Tokens = sw
	files := map[string]string{"test-api-adapter.md": oauthFile(s, seeded)}
	rt := start(t, opt, files)
	mustBeFine(t, rt)
	sw.Store = brokenStore{lock: errors.New("another process holds it")}
	ck.pass(3595 * time.Second)
	mustBeFine(t, rt) // the old token is still valid
	ck.pass(time.Hour)
	for want, broken := range map[string]brokenStore{
		"AUTH_TOKEN_FAILED":   {lock: errors.New("another process holds it")},
		"AUTH_LOGIN_REQUIRED": {get: errors.New("the file is damaged")},
	} {
		sw.Store = broken
		r := rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(`{"operation":"get_status"}`)})
		if r.Failure == nil || string(r.Failure.Code) != want || !strings.Contains(r.Call.Cause.Error(), errors.Join(broken.lock, broken.get).Error()) {
			t.Error(allOf(&r))
		}
	}
	if len(s.Forms()) != 1 {
		t.Error("without knowing what is stored the seed was sent again")
	}
	sw.Store = inMemory
	mustBeFine(t, rt)
	for _, damaged := range []string{`[]`, `{"refresh_token":7}`, `x`} {
		sw.Store = &oneEntry{data: []byte(damaged)}
		if got := askStatus(start(t, opt, files)); !strings.Contains(got, "AUTH_LOGIN_REQUIRED") {
			t.Error(damaged, got)
		}
	}
}

// oneEntry is a store of one account.
type oneEntry struct {
	data []byte
	puts [][]byte
}

func (o *oneEntry) Locked(_ context.Context, _ string, do func(credential.Entry)) error {
	do(o)
	return nil
}
func (o *oneEntry) Get() ([]byte, error) { return o.data, nil }
func (o *oneEntry) Put(data []byte) error {
	o.data, o.puts = data, append(o.puts, data)
	return nil
}

func TestTheNewRefreshTokenIsStoredBeforeTheAccessTokenIsUsed(t *testing.T) {
	s := oauthServer(t)
	store := &oneEntry{}
	opt, _ := oauthOptions(s.Login())
	opt.Tokens = store
	marked := false
	s.After(func(url.Values) { marked = bytes.Contains(store.data, []byte(`"asked":true`)) })
	stored := 0
	s.Config.Handler = func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/api") && bytes.Contains(store.data, []byte("canary-refresh-2")) {
				stored++
			}
			next.ServeHTTP(w, r)
		})
	}(s.Config.Handler)
	mustBeFine(t, start(t, opt, map[string]string{"test-api-adapter.md": oauthFile(s, seeded)}))
	if !marked || stored != 1 || len(store.puts) != 2 {
		t.Error(marked, stored, len(store.puts))
	}
}

func TestLifetimeOfTokens(t *testing.T) {
	for expires, life := range map[string]time.Duration{
		``:                            5 * time.Minute,
		`,"expires_in":null`:          5 * time.Minute,
		`,"expires_in":-1`:            5 * time.Minute,
		`,"expires_in":0`:             5 * time.Minute,
		`,"expires_in":"soon"`:        5 * time.Minute,
		`,"expires_in":"NaN"`:         5 * time.Minute,
		`,"expires_in":{}`:            5 * time.Minute,
		`,"expires_in":[60]`:          5 * time.Minute,
		`,"expires_in":3600`:          time.Hour,
		`,"expires_in":"3600"`:        time.Hour,
		`,"expires_in":1e300`:         366 * 24 * time.Hour,
		`,"expires_in":"Infinity"`:    366 * 24 * time.Hour,
		`,"expires_in":9223372036854`: 366 * 24 * time.Hour,
		`,"expires_in":60`:            time.Minute,
		`,"expires_in":0.0001`:        time.Second,
	} {
		t.Run(expires, func(t *testing.T) {
			asked := 0
			s := api(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/token" {
					asked++
					fmt.Fprintf(w, `{"access_token":"t"%s}`, expires)
					return
				}
				fmt.Fprint(w, `"fine"`)
			})
			opt, ck := oauthOptions("")
			rt := one(t, opt, s.URL, status, "auth: {type: oauth, token_url: '"+s.URL+"/token', client_id_env: ID, client_secret_env: SECRET}")
			margin := min(30*time.Second, life/10)
			mustBeFine(t, rt)
			ck.pass(life - margin - time.Millisecond)
			mustBeFine(t, rt)
			if asked != 1 {
				t.Errorf("asked %d times before %v", asked, life-margin)
			}
			ck.pass(2 * time.Millisecond)
			mustBeFine(t, rt)
			if asked != 2 {
				t.Errorf("asked %d times after %v", asked, life-margin)
			}
		})
	}
}

// TestProcessesWithDifferentClocksUseAStoredToken shows how processes with different clocks use a stored token.
func TestProcessesWithDifferentClocksUseAStoredToken(t *testing.T) {
	s := oauthServer(t)
	opt, _ := oauthOptions(s.Login())
	opt.Tokens = credential.NewKeeper(nil).Store
	files := map[string]string{"test-api-adapter.md": oauthFile(s, seeded)}
	for _, wrong := range []time.Duration{0, 10 * time.Minute, -10 * time.Minute, 24 * time.Hour, -24 * time.Hour, 50 * 365 * 24 * time.Hour, -50 * 365 * 24 * time.Hour} {
		opt.Now = func() time.Time { return someTime().Add(wrong) }
		rt := start(t, opt, files)
		mustBeFine(t, rt)
		s.RefuseTokens()
		mustBeFine(t, rt)
	}
	if s.Reused() != 0 {
		t.Error(s.Reused())
	}
}

func TestAChangedRefreshTokenReplacesTheStoredTokens(t *testing.T) {
	s := oauthServer(t)
	store := credential.NewKeeper(nil).Store
	files := map[string]string{"test-api-adapter.md": oauthFile(s, seeded)}
	first := s.Login()
	for _, seed := range []string{first, s.Login()} {
		opt, _ := oauthOptions(seed)
		opt.Tokens = store
		mustBeFine(t, start(t, opt, files))
	}
	var sent []string
	for _, f := range s.Forms() {
		sent = append(sent, f.Get("refresh_token"))
	}
	if len(sent) != 2 || sent[0] != first || sent[1] != "canary-refresh-2" {
		t.Error(sent)
	}
	opt, _ := oauthOptions("")
	opt.Tokens = store
	mustBeFine(t, start(t, opt, files)) // without the seed, the stored token stays in use
}
