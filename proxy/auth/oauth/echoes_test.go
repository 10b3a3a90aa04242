package oauth

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
	"github.com/dragoman-proxy/dragoman/adapterrt/secret/secrettest"
)

// A parrot is a server with its authorization server, which repeats in a spelling what it gets.
type parrot struct {
	*httptest.Server
	mu      sync.Mutex
	spell   func(string) string
	got     map[string]string // by parameter
	refuse  string            // the grant that is refused
	answers int
}

func newParrot(t *testing.T, spelling string) *parrot {
	p := &parrot{spell: secrettest.Spell[spelling], got: map[string]string{}}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

func (p *parrot) said() string {
	var all []string
	for _, s := range p.got {
		all = append(all, p.spell(s))
	}
	return strings.Join(all, " ")
}

func (p *parrot) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	reply := func(status int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v)
	}
	type object = map[string]any
	switch r.URL.Path {
	case "/mcp":
		w.WriteHeader(401)
	case "/.well-known/oauth-protected-resource/mcp":
		reply(200, object{"resource": p.URL + "/mcp", "authorization_servers": []string{p.URL}})
	case "/.well-known/oauth-authorization-server":
		reply(200, object{
			"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "registration_endpoint": p.URL + "/register",
			"device_authorization_endpoint": p.URL + "/device", "response_types_supported": []string{"code"}, "code_challenge_methods_supported": []string{"S256"}, "token_endpoint_auth_methods_supported": []string{"client_secret_basic"},
		})
	case "/register":
		p.got["issued client secret"] = "registered/secret+1"
		reply(201, object{"client_id": "c", "client_secret": p.got["issued client secret"], "token_endpoint_auth_method": "client_secret_basic", "redirect_uris": []string{}})
	case "/device":
		p.got["device code"] = "device/code+1"
		reply(200, object{"device_code": p.got["device code"], "user_code": "ABCD", "verification_uri": p.URL + "/page", "interval": 1})
	case "/token":
		_ = r.ParseForm()
		for _, name := range []string{"code", "code_verifier", "refresh_token", "client_secret", "device_code"} {
			if v := r.PostForm.Get(name); v != "" {
				p.got[name] = v
			}
		}
		if pair, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(r.Header.Get("Authorization"), "Basic ")); err == nil && len(pair) > 0 {
			p.got["Basic"] = strings.TrimPrefix(r.Header.Get("Authorization"), "Basic ")
		}
		if p.refuse == r.PostForm.Get("grant_type") {
			reply(400, object{"error": "invalid_request", "error_description": "got " + p.said()})
			return
		}
		p.answers++
		p.got["issued access token"], p.got["issued refresh token"] = fmt.Sprintf("access/token+%d", p.answers), fmt.Sprintf("refresh/token+%d", p.answers)
		reply(200, object{"token_type": "bearer", "access_token": p.got["issued access token"], "refresh_token": p.got["issued refresh token"], "expires_in": 1})
	}
}

// returning is a browser that returns with these parameters.
type returning struct {
	p    *parrot
	with url.Values
}

func (b returning) Visit(_ context.Context, _ string, _ *Callback, state string) (url.Values, error) {
	q := url.Values{"state": {state}}
	for name, values := range b.with {
		q[name] = values
	}
	return q, nil
}

// TestAuthorizationServersThatRepeatWhatTheyGot: no error and no line of the log holds a code, a verifier, a secret or a token, however
// the authorization server spells them in what it says.
func TestAuthorizationServersThatRepeatWhatTheyGot(t *testing.T) {
	for _, spelling := range []string{"as it is", "a query in lower case", "every second byte as %", "escaped twice for a URL", `every second as \u`, "JSON in JSON", "HTML", "base64", "base64, one byte before", "base64, two bytes before", "base64 of a form"} {
		for _, kept := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, kept %v", spelling, kept), func(t *testing.T) {
				p := newParrot(t, spelling)
				core, logs := observer.New(zap.DebugLevel)
				cfg := Config{Server: p.URL + "/mcp"}
				if kept {
					cfg.Sent = new(secret.Kept)
				}
				a, err := NewAccount(cfg, New("", Memory, zap.New(core)), zap.New(core))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(a.Close)
				a.sleep = func(context.Context, time.Duration) error { return nil }
				var told []string
				tell := func(what string, err error) {
					if err == nil {
						t.Errorf("%s: no error", what)
						return
					}
					told = append(told, err.Error())
				}
				p.refuse = "authorization_code"
				code := url.Values{"code": {"authorization/code+1=="}}
				tell("the code", a.SignIn(t.Context(), returning{p, code}))
				tell("the browser", a.SignIn(t.Context(), returning{p, url.Values{"error": {"access_denied"}, "error_description": {"got " + p.said()}, "code": {"another/code+2"}}}))
				p.refuse = "urn:ietf:params:oauth:grant-type:device_code"
				tell("the device code", a.SignInOnDevice(t.Context(), func(DeviceCode) {}))
				p.refuse = ""
				if err := a.SignIn(t.Context(), returning{p, code}); err != nil {
					t.Fatal(err)
				}
				p.refuse = "refresh_token"
				a.now = func() time.Time { return time.Now().Add(time.Hour) }
				_, err = a.Header(t.Context())
				tell("the refresh token", err)
				for _, line := range logs.All() {
					fields, _ := json.Marshal(line.ContextMap())
					told = append(told, line.Message+string(fields))
				}
				all := strings.Join(told, "\n")
				for name, s := range p.got {
					for _, as := range []string{s, p.spell(s)} {
						if strings.HasPrefix(spelling, "base64") && as != s {
							as = as[len(as)/3 : len(as)*2/3]
						}
						if strings.Contains(all, as) {
							t.Errorf("%s: %q is in\n%s", name, as, all)
						}
					}
				}
				for _, name := range []string{"code", "code_verifier", "refresh_token", "device_code", "Basic"} {
					if p.got[name] == "" {
						t.Errorf("%s was not sent", name)
					}
				}
			})
		}
	}
}
