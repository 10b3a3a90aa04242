package oauth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/dragoman-proxy/dragoman/proxy/auth/oauth/oauthtest"
)

// workload has a file with an assertion of its platform.
type workload struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	path string
}

func newWorkload(t *testing.T) *workload {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &workload{t, key, filepath.Join(t.TempDir(), "assertion")}
}

// renew writes a new assertion.
func (w *workload) renew(audience string, life time.Duration) {
	w.t.Helper()
	signed, err := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims{
		"iss": "https://platform.example", "sub": "workload", "aud": audience, "exp": time.Now().Add(life).Unix(), "jti": rand.Text(),
	}).SignedString(w.key)
	if err == nil {
		err = os.WriteFile(w.path+".new", []byte(signed+"\n"), 0o600)
	}
	if err == nil {
		err = os.Rename(w.path+".new", w.path)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// TestJWTBearer: a token for an assertion, with and without a client, and for the next one when the token is due.
func TestJWTBearer(t *testing.T) {
	path, public := keyFile(t, "EC")
	for name, change := range map[string]func(*Config){
		"no client":       func(*Config) {},
		"public client":   func(c *Config) { c.ClientID = "public" },
		"client's secret": func(c *Config) { c.ClientID, c.ClientSecret = "known", "canary-secret" },
		"client's key":    func(c *Config) { c.ClientID, c.Key = "keyed", readKey(t, path) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorkload(t)
			s := oauthtest.New(t, oauthtest.Options{
				NoDCR: true, Scopes: []string{"read"}, AssertionKey: w.key.Public(), Keys: map[string]crypto.PublicKey{"keyed": public},
				Clients: map[string]string{"public": "", "known": "canary-secret"},
			})
			w.renew(s.Issuer, time.Minute)
			cfg := Config{Server: s.URL}
			change(&cfg)
			k, err := NewJWTBearer(cfg, w.path, watched(t))
			if err != nil {
				t.Fatal(err)
			}
			defer k.Close()
			for range 2 {
				if status, err := request(t, k, s, "echo"); status != http.StatusOK {
					t.Fatal(status, err)
				}
			}
			w.renew(s.Issuer, time.Minute)
			s.RevokeAccess()
			if status, err := request(t, k, s, "echo"); status != http.StatusOK {
				t.Fatal(status, err)
			}
			forms := s.TokenForms()
			if len(forms) != 2 || forms[0].Get("assertion") == forms[1].Get("assertion") || k.Expires().IsZero() {
				t.Error(len(forms), "requests for tokens")
			}
			for _, f := range forms {
				if f.Get("resource") != s.URL || f.Get("scope") != "read" || f.Has("client_assertion") != (cfg.Key != nil) || f.Has("client_id") != (cfg.ClientID != "" && cfg.ClientSecret == "") {
					t.Error(f)
				}
			}
		})
	}
}

// TestJWTBearerFails: what the log says. An assertion that was refused is not sent again before a minute has passed; another one is.
func TestJWTBearerFails(t *testing.T) {
	w := newWorkload(t)
	s := oauthtest.New(t, oauthtest.Options{NoDCR: true, AssertionKey: w.key.Public()})
	k, err := NewJWTBearer(Config{Server: s.URL}, w.path, watched(t))
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	passed := time.Duration(0)
	k.a.now = func() time.Time { return time.Now().Add(passed) }
	fails := func(want string, requests int) {
		t.Helper()
		for range 2 {
			if _, err := request(t, k, s, "echo"); err == nil || err.Error() != addressed(s, want) {
				t.Errorf("got  %v\nwant %s", err, addressed(s, want))
			}
		}
		if n := len(s.TokenForms()); n != requests {
			t.Error(n, "requests for tokens, want", requests)
		}
	}
	fails("assertion_file: open "+w.path+": no such file or directory", 0)
	w.renew("https://other.example", time.Minute)
	const refused = `AS ASHOST: refused: invalid_grant "token has invalid claims: token has invalid audience"; the assertion is in `
	fails(refused+w.path, 1)
	passed = 10 * time.Second
	fails(refused+w.path, 1)
	passed = 2 * time.Minute
	fails(refused+w.path, 2)
	passed += 10 * time.Second
	w.renew(s.Issuer, -time.Minute)
	fails(`AS ASHOST: refused: invalid_grant "token has invalid claims: token is expired"; the assertion is in `+w.path, 3)
	passed += 10 * time.Second
	w.renew(s.Issuer, time.Hour)
	if status, err := request(t, k, s, "echo"); status != http.StatusOK {
		t.Error(status, err)
	}
}
