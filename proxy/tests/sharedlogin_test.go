package tests

import (
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/auth/oauth/oauthtest"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/store/storetest"
)

// TestReplicasShareALogin: a person logs in once, as dragoman login does, and all replicas use the tokens. The
// authorization server would end the login if a refresh token came twice. Nothing of the tokens can be read at the store.
func TestReplicasShareALogin(t *testing.T) {
	r := storetest.StartRedis(t)
	key := make([]byte, sealed.KeyBytes)
	rand.Read(key)
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(base64.StdEncoding.EncodeToString(key)), 0o600); err != nil {
		t.Fatal(err)
	}
	s := oauthtest.New(t, oauthtest.Options{})
	change := func(c *config.Config) {
		c.Session.KeyFile, c.Store.URL, c.CredentialStore = file, "redis://"+r.Address, "store"
		c.Upstream.Auth.Type = config.AuthLogin
	}
	var all []*protected
	for range 3 {
		all = append(all, serveProtected(t, s, change))
	}
	if resp, _ := all[0].begin(); resp.StatusCode != http.StatusBadGateway {
		t.Errorf("without a login: %d", resp.StatusCode)
	}
	all[2].signIn()
	_, session := all[0].begin()
	works := func(when string) {
		t.Helper()
		for n, p := range all {
			if status, r := p.echo(session); status != http.StatusOK || r.Get("result.content.0.text").Str != "hello" {
				t.Errorf("%s, replica %d: %d %s", when, n, status, r.Raw)
			}
		}
	}
	works("after the login")
	for range 2 {
		s.RevokeAccess()
		works("after a refusal")
	}
	if c := s.Counts(); c.Authorizations != 1 || c.Refreshes != 2 {
		t.Errorf("%+v", c)
	}
	r.Stop()
	works("while the store is down")
	r.Start()
	for _, p := range all { // it is empty now, and each of them has the token that is in force
		if status, _ := p.echo(session); status != http.StatusOK {
			t.Errorf("%d", status)
		}
	}
	s.RevokeAccess() // the refresh token is lost with the store
	if status, r := all[0].echo(session); status != http.StatusOK || !strings.HasPrefix(r.Get("error.message").Str, "the proxy has no valid credential for the server (at ") {
		t.Errorf("after the store has lost the login: %d %s", status, r.Raw)
	}
	all[1].signIn()
	works("after another login")
	for _, p := range all {
		for _, e := range p.logs.All() {
			for _, v := range e.ContextMap() {
				if text, ok := v.(string); ok && (strings.Contains(text, "canary") || strings.Contains(text, string(key))) {
					t.Errorf("%s tells %s", e.Message, text)
				}
			}
		}
	}
}
