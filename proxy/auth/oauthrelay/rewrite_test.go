package oauthrelay

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
)

const publicURL, publicPRM = "https://us.example/tools/mcp", "https://us.example/.well-known/oauth-protected-resource/tools/mcp"

func public(t *testing.T) *url.URL {
	t.Helper()
	u, err := url.Parse(publicURL)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// TestRewriteChallenge: resource_metadata changes, in every challenge of a field, and nothing else does.
func TestRewriteChallenge(t *testing.T) {
	const at = "http://server.example:80/.well-known/oauth-protected-resource"
	for value, want := range map[string]string{
		`Bearer resource_metadata="` + at + `/mcp"`:                                                 `Bearer resource_metadata="` + publicPRM + `"`,
		`Bearer error="invalid_token", resource_metadata="` + at + `", scope="a b"`:                 `Bearer error="invalid_token", resource_metadata="` + publicPRM + `", scope="a b"`,
		`bearer RESOURCE_Metadata = ` + at + `/mcp ,scope=a`:                                        `bearer RESOURCE_Metadata = "` + publicPRM + `" ,scope=a`,
		`Bearer resource_metadata="` + at + `", DPoP algs="ES256", resource_metadata=` + at:         `Bearer resource_metadata="` + publicPRM + `", DPoP algs="ES256", resource_metadata="` + publicPRM + `"`,
		`Bearer resource_metadata="http:\/\/server.example\/.well-known\/oauth-protected-resource"`: `Bearer resource_metadata="` + publicPRM + `"`,
		`Bearer error_description="say \", resource_metadata=` + at + `", scope="a"`:                `Bearer error_description="say \", resource_metadata=` + at + `", scope="a"`,
		`Bearer my_resource_metadata="` + at + `"`:                                                  `Bearer my_resource_metadata="` + at + `"`,
		`Bearer resource_metadata_uri="` + at + `"`:                                                 `Bearer resource_metadata_uri="` + at + `"`,
		`Bearer resource_metadata="https://server.example/elsewhere"`:                               `Bearer resource_metadata="https://server.example/elsewhere"`,
		`Bearer resource_metadata="https://server.example/.well-known/oauth-protected-resourceful"`: `Bearer resource_metadata="https://server.example/.well-known/oauth-protected-resourceful"`,
		`Bearer resource_metadata="%zz", resource_metadata="` + at + `"`:                            `Bearer resource_metadata="%zz", resource_metadata="` + publicPRM + `"`,
		`Bearer resource_metadata="` + at:                                                           `Bearer resource_metadata="` + publicPRM + `"`,
		`Bearer resource_metadata=`:                                                                 `Bearer resource_metadata=`,
		`Basic realm="a"`:                                                                           `Basic realm="a"`,
		``:                                                                                          ``,
	} {
		if got := RewriteChallenge(value, public(t)); got != want {
			t.Errorf("%s\n got  %s\n want %s", value, got, want)
		}
	}
}

// FuzzRewriteChallenge: no value makes it fail, and a rewritten one is not changed again.
func FuzzRewriteChallenge(f *testing.F) {
	for _, seed := range []string{`Bearer resource_metadata="http://a/.well-known/oauth-protected-resource"`, `a="\`, `resource_metadata=`, `"resource_metadata="`, "resource_metadata \t= \"\""} {
		f.Add(seed)
	}
	to, _ := url.Parse(publicURL)
	f.Fuzz(func(t *testing.T, value string) {
		once := RewriteChallenge(value, to)
		if twice := RewriteChallenge(once, to); twice != once {
			t.Errorf("%q\n once  %q\n twice %q", value, once, twice)
		}
	})
}

// TestRewriteMetadata: the metadata of the server itself says the public URL, without claims that stand above it. No other document
// changes.
func TestRewriteMetadata(t *testing.T) {
	const prm, asm = "/.well-known/oauth-protected-resource", "/.well-known/oauth-authorization-server"
	const document = `{"resource":"https://server.example/mcp", "resource":"x","authorization_servers":["https://as.example"],"signed_metadata":"a.b.c", "n":1.0e3}`
	const rewritten = `{"authorization_servers":["https://as.example"],"n":1.0e3,"resource":"` + publicURL + `"}`
	header := http.Header{"Etag": {`"1"`}, "Cache-Control": {"max-age=60"}, "Content-Digest": {"sha-256=:x:"}}
	for name, c := range map[string]struct {
		at, path, body, want string
		status               int
	}{
		"server's path":            {prm + "/server/mcp", prm + "/server/mcp", document, rewritten, 200},
		"dragoman's path":          {prm + "/server/mcp", prm + "/mcp", document, rewritten, 200},
		"public path":              {prm + "/server/mcp", prm + "/tools/mcp", document, rewritten, 200},
		"root":                     {prm, prm, document, rewritten, 200},
		"another resource":         {prm + "/other", prm + "/other", document, document, 200},
		"no resource":              {prm, prm, `{"a": 1}`, `{"a": 1}`, 200},
		"a page":                   {prm, prm, `<html>`, `<html>`, 200},
		"an error":                 {prm, prm, document, document, 500},
		"authorization server":     {asm, asm, document, document, 200},
		"its path with signed one": {asm + "/server/mcp", asm + "/mcp", `{"signed_metadata":"a.b.c"}`, `{"signed_metadata":"a.b.c"}`, 200},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWeb(t, map[string]page{c.at: {c.status, header, c.body}})
			r := w.relay(t, func(cfg *Config) { cfg.Public, cfg.Rewrite = public(t), true })
			resp, err := ask(t, r, "GET", c.path, nil, "")
			if strings.HasPrefix(c.path, prm) && c.status == 200 && c.body == document && c.want == document {
				if err == nil {
					t.Error("no note that clients refuse it")
				}
			} else if err != nil {
				t.Error(err)
			}
			if string(resp.Body) != c.want || resp.Status != c.status {
				t.Errorf("%d %s\nwant %s", resp.Status, resp.Body, c.want)
			}
			changed := c.want != c.body
			if tagged := len(valuesOf(resp.Header, "ETag"))+len(valuesOf(resp.Header, "Content-Digest")) > 0; tagged == changed || len(valuesOf(resp.Header, "Cache-Control")) != 1 {
				t.Error(resp.Header)
			}
			if changed && !json.Valid(resp.Body) {
				t.Error("not JSON")
			}
		})
	}
}

// TestPublicURL: without rewriting, the public URL is what clients are expected to know.
func TestPublicURL(t *testing.T) {
	const prm = "/.well-known/oauth-protected-resource/server/mcp"
	w := newWeb(t, map[string]page{
		prm: {200, nil, `{"resource":"` + publicURL + `","authorization_servers":["https://us.example"]}`},
		"/.well-known/oauth-authorization-server": {200, nil, `{"token_endpoint":"https://us.example/token"}`},
	})
	w.asked[prm] = new(atomic.Int32)
	r := w.relay(t, func(cfg *Config) { cfg.Public = public(t) })
	resp, err := ask(t, r, "GET", "/.well-known/oauth-protected-resource/tools/mcp", nil, "")
	if err != nil || string(resp.Body) != w.pages[prm].body {
		t.Errorf("%v %s", err, resp.Body)
	}
	if !r.Serves(t.Context(), "http://127.0.0.1:8080", "/token") {
		t.Error("the endpoint at the public origin is not served")
	}
}
