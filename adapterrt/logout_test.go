package adapterrt

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/credential"
)

// TestLogout shows that a logout removes the stored login, and revokes it at a server with a revocation endpoint.
func TestLogout(t *testing.T) {
	for _, c := range []struct {
		name, more string
		revoked    bool
		why        string
		after      string // of a call with the same configuration
	}{
		{"no revocation", "", false, "", fine}, // the server keeps tokens, so the configured one is still valid
		{"revoked", ", revocation_url: '%s/revoke'", true, "", "AUTH_LOGIN_REQUIRED"},
		{"refused", ", revocation_url: '%s/revoke', client_auth: post", false, `refused: invalid_client "who are you, with [redacted]"`, fine},
		{"no such endpoint", ", revocation_url: '%s/nowhere'", false, "answered 404", fine},
		{"no server", ", revocation_url: 'http://127.0.0.1:1/revoke'", false, "127.0.0.1:1: ", fine},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := oauthServer(t)
			s.Keeps = true
			opt, _ := oauthOptions(s.Login())
			auth := seeded + c.more
			if strings.Contains(auth, "%s") {
				auth = fmt.Sprintf(auth, s.URL)
			}
			rt := start(t, opt, map[string]string{"test-api-adapter.md": oauthFile(s, auth)})
			mustBeFine(t, rt)
			revoked, why, err := rt.Logout(context.Background(), "test-api")
			said := ""
			if why != nil {
				said = why.Error()
			}
			if revoked != c.revoked || err != nil || (why == nil) != (c.why == "") || !strings.Contains(said, c.why) || strings.Contains(said, "canary") {
				t.Errorf("%v, %v, %v", revoked, why, err)
			}
			rt = start(t, opt, map[string]string{"test-api-adapter.md": oauthFile(s, auth)})
			if got := askStatus(rt); !strings.Contains(got, c.after) {
				t.Error(got)
			}
		})
	}
}

// TestStoredLogins shows the states of stored logins.
func TestStoredLogins(t *testing.T) {
	s := oauthServer(t)
	opt, ck := oauthOptions(s.Login())
	opt.Tokens = credential.NewKeeper(nil).Store
	rt := start(t, opt, map[string]string{"test-api-adapter.md": oauthFile(s, seeded)})
	is := func(state string, until time.Time) {
		t.Helper()
		st, err := rt.Stored(context.Background(), "test-api")
		if err != nil || st.State != state || !st.Expires.Equal(until) || "http://"+st.Server != s.URL {
			t.Errorf("%+v, %v", st, err)
		}
	}
	is("logged in", time.Time{}) // with the configured token
	mustBeFine(t, rt)
	is("logged in", ck.now().Add(time.Hour))
	ck.pass(2 * time.Hour)
	is("logged in", time.Time{})
	s.EndLogins()
	askStatus(rt)
	is("ended by the server (invalid_grant)", time.Time{})
	if _, _, err := rt.Logout(context.Background(), "test-api"); err != nil {
		t.Error(err)
	}
	opt.Getenv = environment("ID", "canary-client-id", "SECRET", "x")
	rt = start(t, opt, map[string]string{"test-api-adapter.md": oauthFile(s, "grant: device_code, device_authorization_url: '"+s.URL+"/device'")})
	is("not logged in", time.Time{})
	opt.Getenv = environment()
	rt = start(t, opt, map[string]string{"test-api-adapter.md": oauthFile(s, seeded)})
	is("credential ID is not set", time.Time{})

	rt = one(t, Options{}, api(t, func(http.ResponseWriter, *http.Request) {}).URL, status)
	if _, err := rt.Stored(context.Background(), "test-api"); err == nil {
		t.Error("an adapter without OAuth stores tokens")
	}
}
