package oauthrelay

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/auth/oauth"
)

// TestOldClientsGetACopy: where the server has no metadata of an authorization server, and only there, clients of 2025-03-26 get
// that of the one that it names, byte for byte.
func TestOldClientsGetACopy(t *testing.T) {
	const asm, prm = "/.well-known/oauth-authorization-server", "/.well-known/oauth-protected-resource/server/mcp"
	as := newWeb(t, nil)
	document := "{ \"issuer\":\"" + as.URL + "\",\n\t\"token_endpoint\" : \"http://127.0.0.1/t\" }"
	as.pages = map[string]page{asm: {200, nil, document}}
	as.asked[asm] = new(atomic.Int32)
	named := page{200, nil, `{"resource":"http://us.example/mcp","authorization_servers":["` + as.URL + `","https://other.example"]}`}
	turnOn := func(c *Config) { c.Copy = oauth.NewMetadataReader(c.Server, false, nil, nil) }
	for name, c := range map[string]struct {
		pages        map[string]page
		change       func(*Config)
		method, path string
		want         string
		fails        string // a part of the error
	}{
		"copy":                          {map[string]page{prm: named}, turnOn, "GET", asm, "200 " + document, ""},
		"metadata at the root":          {map[string]page{"/.well-known/oauth-protected-resource": named}, turnOn, "GET", asm, "200 " + document, ""},
		"HEAD":                          {map[string]page{prm: named}, turnOn, "HEAD", asm, "200 ", ""},
		"turned off":                    {map[string]page{prm: named}, func(*Config) {}, "GET", asm, "404 404 page not found\n", ""},
		"of its own":                    {map[string]page{prm: named, asm: {200, nil, "own"}}, turnOn, "GET", asm, "200 own", ""},
		"refused":                       {map[string]page{prm: named, asm: {403, nil, "no"}}, turnOn, "GET", asm, "403 no", ""},
		"newer clients' path":           {map[string]page{prm: named}, turnOn, "GET", asm + "/mcp", "404 404 page not found\n", ""},
		"OpenID":                        {map[string]page{prm: named}, turnOn, "GET", "/.well-known/openid-configuration", "404 404 page not found\n", ""},
		"no protected resource":         {nil, turnOn, "GET", asm, "404 404 page not found\n", ""},
		"no authorization server":       {map[string]page{prm: {200, nil, `{}`}}, turnOn, "GET", asm, "404 404 page not found\n", ""},
		"one without metadata":          {map[string]page{prm: {200, nil, `{"authorization_servers":["` + as.URL + `/tenant"]}`}}, turnOn, "GET", asm, "404 404 page not found\n", ""},
		"one inside another network":    {map[string]page{prm: {200, nil, `{"authorization_servers":["https://169.254.169.254"]}`}}, turnOn, "GET", asm, "404 404 page not found\n", "169.254.169.254 is an address inside this network"},
		"one without TLS":               {map[string]page{prm: {200, nil, `{"authorization_servers":["http://as.example"]}`}}, turnOn, "GET", asm, "404 404 page not found\n", "is not an https URL"},
		"one that claims to be another": {map[string]page{prm: {200, nil, `{"authorization_servers":["` + strings.Replace(as.URL, "127.0.0.1", "localhost", 1) + `"]}`}}, turnOn, "GET", asm, "404 404 page not found\n", "claims to be " + as.URL},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWeb(t, c.pages)
			for p := range c.pages {
				w.asked[p] = new(atomic.Int32)
			}
			r := w.relay(t, c.change)
			before := as.asked[asm].Load()
			for range 3 {
				resp, err := ask(t, r, c.method, c.path, map[string]string{"Origin": "https://page.example"}, "")
				if got := fmt.Sprintf("%d %s", resp.Status, resp.Body); got != c.want || !slices.Equal(valuesOf(resp.Header, allowOrigin), []string{"*"}) {
					t.Errorf("%q %v", got, resp.Header)
				}
				if _, noCopy := errors.AsType[*CopyError](err); noCopy != (c.fails != "") || c.fails != "" && !strings.Contains(err.Error(), c.fails) {
					t.Errorf("%v; want %s", err, c.fails)
				}
			}
			if n := as.asked[asm].Load() - before; n > 1 {
				t.Error("the authorization server was asked", n, "times")
			}
		})
	}
}

// TestCopyIsReadAgain: the copy is read again after a while, and the old one stays while that fails.
func TestCopyIsReadAgain(t *testing.T) {
	const asm, prm = "/.well-known/oauth-authorization-server", "/.well-known/oauth-protected-resource/server/mcp"
	as := newWeb(t, nil)
	metadata := func(more string) page { return page{200, nil, `{"issuer":"` + as.URL + `"` + more + `}`} }
	as.pages, as.asked[asm] = map[string]page{asm: metadata("")}, new(atomic.Int32)
	w := newWeb(t, map[string]page{prm: {200, nil, `{"authorization_servers":["` + as.URL + `"]}`}})
	r := w.relay(t, func(c *Config) { c.Copy = oauth.NewMetadataReader(c.Server, false, nil, nil) })
	later := func(d time.Duration) {
		r.copied.mu.Lock()
		r.copied.until = r.copied.until.Add(-d)
		r.copied.mu.Unlock()
	}
	for i, step := range []struct {
		has   page
		after time.Duration
		want  page
	}{
		{metadata(""), 0, metadata("")},
		{metadata(`,"a":1`), goodFor - time.Minute, metadata("")},
		{page{503, nil, ""}, time.Minute, metadata("")},
		{metadata(`,"a":2`), 0, metadata("")},
		{metadata(`,"a":2`), failedFor, metadata(`,"a":2`)},
	} {
		as.pages[asm] = step.has
		later(step.after)
		resp, err := ask(t, r, "GET", asm, nil, "")
		if err != nil || string(resp.Body) != step.want.body {
			t.Errorf("%d: %v %s, want %s", i, err, resp.Body, step.want.body)
		}
	}
}
