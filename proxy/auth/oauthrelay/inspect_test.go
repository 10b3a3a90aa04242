package oauthrelay

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// inspected returns what the metadata of a server says that has these pages, after a challenge. SELF stands for its origin.
func inspected(t *testing.T, pages map[string]string, challenge string) (*Login, *web) {
	t.Helper()
	w := newWeb(t, nil)
	w.pages = map[string]page{}
	for p, body := range pages {
		w.pages[p], w.asked[p] = page{200, nil, strings.ReplaceAll(body, "SELF", w.URL)}, new(atomic.Int32)
	}
	l, err := w.relay(t).Inspect(t.Context(), []string{strings.ReplaceAll(challenge, "SELF", w.URL)})
	if err != nil {
		t.Fatal(err)
	}
	return l, w
}

// TestOnlyURLsThatASignInReadsAreRead: a server chooses what its challenge and its metadata name. What it names inside the network of the
// machine that probes it is not read; the notes say so, and the well-known places are read as if it were not named.
func TestOnlyURLsThatASignInReadsAreRead(t *testing.T) {
	for named, why := range map[string]string{
		"http://169.254.169.254/latest/meta-data/":       "may not name",
		"http://[64:ff9b::a9fe:a9fe]/":                   "may not name",
		"http://100.100.100.200/":                        "may not name",
		"http://[fd00:ec2::254]/latest":                  "may not name",
		"file:///etc/passwd":                             "is not an absolute URL",
		"gopher://127.0.0.1/x":                           "is not an https URL",
		"/relative":                                      "is not an absolute URL",
		"http://user:secret@127.0.0.1/":                  "is not an absolute URL",
		"http://" + peertest.NoListener + "/there":       "connection refused",
		"SELF/there":                                     "answered 404",
		"http://127.0.0.1/" + strings.Repeat("x", 3<<10): "longer than",
	} {
		t.Run(named[:min(len(named), 40)], func(t *testing.T) {
			l, w := inspected(t, map[string]string{
				prm: `{"resource":"SELF/server/mcp","authorization_servers":["SELF"]}`,
				"/.well-known/oauth-authorization-server": `{"issuer":"SELF","registration_endpoint":"x","code_challenge_methods_supported":["S256"]}`,
			}, `Bearer resource_metadata="`+named+`"`)
			if l.Metadata != w.URL+prm || !l.Servers[0].Found || !says(l, why) || !says(l, "the well-known places") {
				t.Errorf("%+v", l)
			}
			l, _ = inspected(t, map[string]string{prm: `{"resource":"SELF/server/mcp","authorization_servers":["` + named + `"]}`}, "Bearer")
			if len(l.Servers) != 1 || l.Servers[0].Found || !says(l, why) && !says(l, "has no metadata") && !(why == "connection refused" && says(l, "the authorization server "+named+" refuses connections")) || !says(l, "no client can log in") {
				t.Errorf("as the issuer: %+v", l)
			}
		})
	}
}

const prm = "/.well-known/oauth-protected-resource/server/mcp"

// says reports whether a note has a text.
func says(l *Login, text string) bool { return strings.Contains(strings.Join(l.Notes, "\n"), text) }

// TestMetadataAtTheSecondPlace: a document that cannot be read is passed over, as in a sign-in.
func TestMetadataAtTheSecondPlace(t *testing.T) {
	for _, broken := range []string{"<html>", "[]", "{}", `{"error":"not_found"}`} {
		l, w := inspected(t, map[string]string{
			prm: broken, "/.well-known/oauth-protected-resource": `{"resource":"SELF","authorization_servers":["SELF/t"]}`,
			"/.well-known/oauth-authorization-server/t": broken, "/t/.well-known/openid-configuration": `{"issuer":"SELF/t","code_challenge_methods_supported":["S256"]}`,
		}, "Bearer")
		if l.Metadata != w.URL+"/.well-known/oauth-protected-resource" || !l.Servers[0].Found || !l.Servers[0].PKCE {
			t.Errorf("%s: %+v", broken, l)
		}
	}
}
