package adapterrt

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt/credential"
)

// page is a Callback whose browser returns with the values in brought.
type page struct{ brought chan url.Values }

func (page) Address() string { return "http://127.0.0.1:1/callback" }
func (page) Close()          {}

func (p page) Wait(ctx context.Context, state string) (url.Values, error) {
	select {
	case q := <-p.brought:
		if q.Get("state") != state {
			return nil, errors.New("another login's")
		}
		return q, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TestCallsSendTheUserToTheLoginPage shows that calls that need a login send the user to the login page once, and then succeed.
func TestCallsSendTheUserToTheLoginPage(t *testing.T) {
	noRedirects := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for name, c := range map[string]struct {
		auth, message string
		send          func(p page, at string) (bool, error)
		want          string
	}{
		"a browser": {"grant: authorization_code, authorization_url: '%s/authorize'", "Adapter test-api needs you to log in to its API", func(p page, at string) (bool, error) {
			res, err := noRedirects.Get(at)
			if err != nil {
				return false, err
			}
			back, err := url.Parse(res.Header.Get("Location"))
			p.brought <- back.Query()
			return true, err
		}, fine},
		"another device": {"grant: device_code, device_authorization_url: '%s/device'", "Adapter test-api needs you to log in to its API. The code is WDJB-MJHT", func(_ page, at string) (bool, error) {
			return at == "https://as.example/device", nil
		}, fine},
		"no, thanks":  {"grant: authorization_code, authorization_url: '%s/authorize'", "Adapter test-api", func(page, string) (bool, error) { return false, nil }, "AUTH_LOGIN_REQUIRED"},
		"no answer":   {"grant: authorization_code, authorization_url: '%s/authorize'", "Adapter test-api", func(page, string) (bool, error) { return false, errors.New("silence") }, "AUTH_LOGIN_REQUIRED"},
		"wrong state": {"grant: authorization_code, authorization_url: '%s/authorize'", "Adapter test-api", func(p page, _ string) (bool, error) { p.brought <- url.Values{}; return true, nil }, "AUTH_LOGIN_REQUIRED"},
	} {
		t.Run(name, func(t *testing.T) {
			s := oauthServer(t)
			opt, _ := oauthOptions("")
			p := page{make(chan url.Values, 8)}
			opt.Listen = func(redirect string) (credential.Callback, error) {
				if redirect != "http://127.0.0.1:0/callback" {
					t.Error(redirect)
				}
				return p, nil
			}
			rt := start(t, opt, map[string]string{"test-api-adapter.md": oauthFile(s, strings.Replace(c.auth, "%s", s.URL, 1))})
			if got := askStatus(rt); !strings.Contains(got, "AUTH_LOGIN_REQUIRED") {
				t.Fatal("a call without Send got:", got)
			}
			var asked atomic.Int32
			var calls sync.WaitGroup
			for range 4 {
				calls.Go(func() {
					r := rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(`{"operation":"get_status"}`), Send: func(_ context.Context, message, at string) (bool, error) {
						asked.Add(1)
						if !strings.HasPrefix(message, c.message) {
							t.Error(message)
						}
						return c.send(p, at)
					}})
					if got := string(r.JSON()); !strings.Contains(got, c.want) {
						t.Errorf("%s (%v)", got, r.Call.Cause)
					}
				})
			}
			calls.Wait()
			if n := asked.Load(); c.want == fine && n != 1 {
				t.Errorf("asked %d times", n)
			}
		})
	}
}

// TestRefusedLoginNamesAReason: the page to which the browser returns says why there is no code. What it says is cleaned, and may
// then be nothing.
func TestRefusedLoginNamesAReason(t *testing.T) {
	s := oauthServer(t)
	opt, _ := oauthOptions("")
	rt := start(t, opt, map[string]string{"test-api-adapter.md": oauthFile(s, "grant: authorization_code, authorization_url: '"+s.URL+"/authorize'")})
	l, err := rt.Login("test-api")
	if err != nil {
		t.Fatal(err)
	}
	for code, want := range map[string]string{
		"access_denied": `the OAuth server refused: access_denied "not now"`,
		"\u200b\u2060":  `the OAuth server refused: unknown "not now"`,
		"\n":            `the OAuth server refused: unknown "not now"`,
	} {
		v, err := l.Visit(t.Context(), "http://127.0.0.1:1/callback")
		if err != nil {
			t.Fatal(err)
		}
		err = v.Finish(t.Context(), url.Values{"state": {v.State}, "error": {code}, "error_description": {"not now"}})
		if err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", code, err, want)
		}
	}
}
