package oauth

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/auth/oauth/oauthtest"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// page answers with a status and a text.
func page(status int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(text))
	}
}

// cut closes the connection in place of an answer.
func cut(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

const (
	prmAtPath = "/.well-known/oauth-protected-resource/mcp"
	prmAtRoot = "/.well-known/oauth-protected-resource"
	asmAtRoot = "/.well-known/oauth-authorization-server"
)

// broken are metadata documents that are none, by what the error says of them.
var broken = map[string]http.HandlerFunc{
	"answered 404":          page(404, ""),
	"answered 401":          page(401, `{"resource":"x"}`),
	"answered 500":          page(500, ""),
	"is no JSON object":     page(200, "<html>"),
	"is no JSON object, ":   page(200, "[]"),
	"is no JSON object,":    page(200, ""),
	"EOF":                   cut,
	"more than 3 redirects": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) },
	"may not name": func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://169.254.169.254/", http.StatusFound)
	},
	"is larger than":            page(200, strings.Repeat(" ", maxDocument+1)),
	"is not metadata":           page(200, "{}"),
	"is not metadata, ":         page(200, `{"error":"not_found"}`),
	"is no JSON object, either": page(200, `{"resource":7,"issuer":7}`),
}

// TestMetadataIsLookedForElsewhere: a document that a challenge names and that cannot be read is no reason to end a sign-in, as long as
// the document is at one of the places where clients look for it without a challenge.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization#protected-resource-metadata-discovery-requirements
func TestMetadataIsLookedForElsewhere(t *testing.T) {
	signIn := func(name string, o oauthtest.Options) {
		t.Run(name, func(t *testing.T) {
			s := oauthtest.New(t, o)
			if err := accountOf(t, s, "", nil).SignIn(t.Context(), agreeing{s}); err != nil {
				t.Error(err)
			}
			if forms := s.TokenForms(); len(forms) != 1 || forms[0].Get("resource") != s.URL {
				t.Error("not signed in by the server's metadata:", forms)
			}
		})
	}
	for _, named := range []string{
		"/relative", "metadata", "//", "ORIGIN.example/.well-known", "not a URL at all", "ftp://127.0.0.1/x", "https://user@127.0.0.1/", "https://127.0.0.1/#part",
		"https://169.254.169.254/latest", "javascript:alert(1)", "http://" + peertest.NoListener + "/x", "http://" + strings.Repeat("x", maxURL),
	} {
		signIn("named "+named[:min(len(named), 40)], oauthtest.Options{NamedPRM: named})
		signIn("at the root, named "+named[:min(len(named), 40)], oauthtest.Options{NamedPRM: named, PRMAtRoot: true})
	}
	for what, instead := range broken {
		signIn("named, "+what, oauthtest.Options{NamedPRM: "ORIGIN/there", Instead: map[string]http.HandlerFunc{"/there": instead}})
		signIn("at the path, "+what, oauthtest.Options{NamedPRM: "ORIGIN/there", PRMAtRoot: true, Instead: map[string]http.HandlerFunc{"/there": instead, prmAtPath: instead}})
		signIn("without a challenge, "+what, oauthtest.Options{PRMAtRoot: true, Instead: map[string]http.HandlerFunc{prmAtPath: instead}})
		signIn("AS at its first place, "+what, oauthtest.Options{OIDCOnly: true, Instead: map[string]http.HandlerFunc{asmAtRoot: instead}})
		signIn("AS with a path, "+what, oauthtest.Options{OIDCOnly: true, IssuerPath: "/t", Instead: map[string]http.HandlerFunc{asmAtRoot + "/t": instead, "/.well-known/openid-configuration/t": instead}})
		signIn("a server of 2025-03-26 that names nothing good, "+what, oauthtest.Options{NamedPRM: "ORIGIN/there", NoPRM: true, ASAtOrigin: true, AnyResource: true, Instead: map[string]http.HandlerFunc{"/there": instead}})
	}
}

// TestTriedPlacesAreNamed: what is said in the end names every place and what was wrong there.
func TestTriedPlacesAreNamed(t *testing.T) {
	const advice = "; if you know its authorization server: --oauth issuer=URL"
	for name, c := range map[string]struct {
		o    oauthtest.Options
		want string
	}{
		"no URL": {oauthtest.Options{NamedPRM: "/relative", NoPRM: true},
			`cannot read the metadata of SERVER: tried /relative: is not an absolute URL without user and fragment; ORIGIN` + prmAtPath + `, ORIGIN` + prmAtRoot + `, ORIGIN` + asmAtRoot + ` and ORIGIN/.well-known/openid-configuration: answered 404` + advice},
		"a server that fails": {oauthtest.Options{Instead: map[string]http.HandlerFunc{prmAtPath: page(503, ""), prmAtRoot: page(200, "<html>")}},
			`cannot read the metadata of SERVER: tried ORIGIN` + prmAtPath + `: answered 503; ORIGIN` + prmAtRoot + `: is no JSON object` + advice},
		"no AS": {oauthtest.Options{NoASM: true, IssuerPath: "/t"},
			`AS "ISSUER" has no metadata: tried ASORIGIN/.well-known/oauth-authorization-server/t, ASORIGIN/.well-known/openid-configuration/t and ISSUER/.well-known/openid-configuration: answered 404`},
		"an AS that is elsewhere": {oauthtest.Options{NamedIssuer: "http://" + peertest.NoListener},
			"the authorization server http://NOLISTENER refuses connections"},
		"an AS that is no URL": {oauthtest.Options{NamedIssuer: "/login"}, `AS: "/login" is not an absolute URL without user and fragment`},
	} {
		t.Run(name, func(t *testing.T) {
			s := oauthtest.New(t, c.o)
			err := accountOf(t, s, "", nil).SignIn(t.Context(), agreeing{s})
			as, _ := url.Parse(s.Issuer)
			want := strings.NewReplacer("ASORIGIN", originOf(as), "SERVER", s.URL, "ISSUER", s.Issuer, "ORIGIN", strings.TrimSuffix(s.URL, "/mcp"), "NOLISTENER", peertest.NoListener).Replace(c.want)
			if err == nil || err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
			if c := s.Counts(); c.Registrations+c.Authorizations != 0 {
				t.Errorf("%+v", c)
			}
		})
	}
}

// TestADocumentForAnotherResourceEndsTheSignIn (S4): it was read, and says what it is for. No other place is asked.
func TestADocumentForAnotherResourceEndsTheSignIn(t *testing.T) {
	s := oauthtest.New(t, oauthtest.Options{NamedPRM: "ORIGIN/there", Instead: map[string]http.HandlerFunc{"/there": page(200, `{"resource":"https://other.example/mcp"}`)}})
	err := accountOf(t, s, "", nil).SignIn(t.Context(), agreeing{s})
	if err == nil || !strings.Contains(err.Error(), "is for https://other.example/mcp") || s.Counts().PRM != 0 {
		t.Error(err, s.Counts())
	}
}

// TestAConfiguredIssuerNeedsNoMetadataOfTheServer: --oauth issuer=URL is what an error about it advises.
func TestAConfiguredIssuerNeedsNoMetadataOfTheServer(t *testing.T) {
	s := oauthtest.New(t, oauthtest.Options{NamedPRM: "/relative", Instead: map[string]http.HandlerFunc{prmAtPath: page(503, ""), prmAtRoot: cut}})
	if err := logged(t, s, "", func(c *Config) { c.Issuer = s.Issuer }, zap.NewNop()).SignIn(t.Context(), agreeing{s}); err != nil {
		t.Error(err)
	}
}
