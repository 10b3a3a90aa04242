package oauth

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/auth/oauth/oauthtest"
)

// holder is what all credentials have.
type holder interface {
	Header(context.Context) (string, error)
	Refused(context.Context, string, Refusal) error
}

// request sends a request with a credential as the transport does, and returns the status.
func request(t *testing.T, k holder, s *oauthtest.Server, tool string) (int, error) {
	t.Helper()
	for tries := 0; tries < 5; tries++ {
		value, err := k.Header(t.Context())
		if err != nil {
			return 0, err
		}
		r, _ := http.NewRequest(http.MethodPost, s.URL, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+`"}}`))
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
		if err := k.Refused(t.Context(), value, Refusal{resp.StatusCode, resp.Header.Values("WWW-Authenticate"), tries}); err != nil {
			return resp.StatusCode, err
		}
	}
	t.Fatal("no end to the refusals")
	return 0, nil
}

// TestClientCredentials: a token without a person, for the resource, kept until it is due.
func TestClientCredentials(t *testing.T) {
	clients := map[string]string{"service": "canary-secret"}
	for name, o := range map[string]oauthtest.Options{
		"separate": {}, "with scopes": {ChallengeScope: "read"}, "at the root": {PRMAtRoot: true}, "offline": {OfflineAccess: true, Scopes: []string{"read"}},
	} {
		t.Run(name, func(t *testing.T) {
			o.Clients = clients
			s := oauthtest.New(t, o)
			k, err := NewClientCredentials(Config{Server: s.URL, ClientID: "service", ClientSecret: "canary-secret"}, zap.NewNop())
			if err != nil {
				t.Fatal(err)
			}
			defer k.Close()
			for range 3 {
				if status, err := request(t, k, s, "echo"); status != http.StatusOK {
					t.Fatal(status, err)
				}
			}
			s.RevokeAccess()
			if status, err := request(t, k, s, "echo"); status != http.StatusOK {
				t.Fatal(status, err)
			}
			k.a.now = func() time.Time { return time.Now().Add(time.Hour - 20*time.Second) }
			before := k.live.Access
			if value, err := k.Header(t.Context()); err != nil || value == "Bearer "+before || !k.Expires().After(k.a.now()) {
				t.Error("not renewed before its end:", err)
			}
			forms := s.TokenForms()
			if len(forms) != 3 {
				t.Error(len(forms), "requests for tokens")
			}
			for _, f := range forms {
				if f.Get("resource") != s.URL || f.Get("scope") != strings.Join(append(o.Scopes, strings.Fields(o.ChallengeScope)...), " ") {
					t.Error(f)
				}
			}
		})
	}
}

// TestClientCredentialsFail: what the log says, without a storm of requests. The next one may succeed.
func TestClientCredentialsFail(t *testing.T) {
	clients := map[string]string{"service": "canary-secret"}
	for name, c := range map[string]struct {
		o      oauthtest.Options
		secret string
		tool   string
		want   string
	}{
		"wrong secret":      {tool: "echo", secret: "canary-other", want: `AS ASHOST: refused: invalid_client "unknown client or wrong secret"`},
		"scopes":            {o: oauthtest.Options{Scopes: []string{"read"}, StepUpTool: "admin", StepUpScope: "write"}, tool: "admin", want: "SERVER wants scopes write, the sign-in gave read"},
		"resource rejected": {tool: "echo", o: oauthtest.Options{NoResource: true}, want: `AS ASHOST: refused: invalid_target "another resource than before"; if it knows the server by another name or takes no resource: --oauth resource=NAME or --oauth resource=none`},
	} {
		t.Run(name, func(t *testing.T) {
			c.o.Clients = clients
			if c.secret == "" {
				c.secret = clients["service"]
			}
			s := oauthtest.New(t, c.o)
			k, err := NewClientCredentials(Config{Server: s.URL, ClientID: "service", ClientSecret: c.secret}, zap.NewNop())
			if err != nil {
				t.Fatal(err)
			}
			defer k.Close()
			for range 3 {
				if _, err := request(t, k, s, c.tool); err == nil || err.Error() != addressed(s, c.want) {
					t.Errorf("got  %v\nwant %s", err, addressed(s, c.want))
				}
			}
			if n := len(s.TokenForms()); n != 1 {
				t.Error(n, "requests for tokens")
			}
			k.a.now = func() time.Time { return time.Now().Add(5 * time.Second) }
			s.Change(func(o *oauthtest.Options) {
				*o = oauthtest.Options{Clients: map[string]string{"service": c.secret}, Scopes: []string{"read", "write"}}
			})
			if status, err := request(t, k, s, c.tool); status != http.StatusOK {
				t.Error("with what it needs:", status, err)
			}
		})
	}
}

// TestTokenFile: the file is read again when it changes, also by a link to another file.
func TestTokenFile(t *testing.T) {
	s := oauthtest.New(t, oauthtest.Options{})
	a := accountOf(t, s, "", nil)
	dir := t.TempDir()
	path := filepath.Join(dir, "token")
	write := func(n int, text string) {
		target := filepath.Join(dir, fmt.Sprint("v", n))
		if err := os.WriteFile(target, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		os.Remove(path)
		if err := os.Symlink(target, path); err != nil {
			t.Skip(err)
		}
	}
	k := NewTokenFile(path)
	if _, err := request(t, k, s, "echo"); err == nil {
		t.Error("there is no file")
	}
	for n := range 2 {
		if err := a.SignIn(t.Context(), agreeing{s}); err != nil {
			t.Fatal(err)
		}
		s.Change(func(*oauthtest.Options) {})
		write(n, a.live.Access)
		if status, err := request(t, k, s, "echo"); status != http.StatusOK {
			t.Error(status, err)
		}
		s.RevokeAccess()
	}
	if _, err := request(t, k, s, "echo"); err == nil || err.Error() != "the server refused the token in "+path {
		t.Error(err)
	}
	for _, text := range []string{"", "two words", strings.Repeat("x", maxTokenFile+1)} {
		write(9, text)
		if _, err := ReadSecret(path); err == nil || strings.Contains(err.Error(), "words") {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}
