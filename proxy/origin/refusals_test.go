package origin

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/auth/oauth"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// TestRefusalsAreExplained: a user of a client on stdio learns what to do. A token is one that this user has configured.
func TestRefusalsAreExplained(t *testing.T) {
	const json, plain, page = "application/json", "text/plain; charset=utf-8", "text/html"
	for name, c := range map[string]struct {
		header          string // of the configuration
		status          int
		challenge       string
		mediaType, body string
		want            string // "" for the refusal itself
	}{
		"another status":            {"", 403, "", json, `{"error":{"message":"no"}}`, ""},
		"no token":                  {"", 401, "Bearer", "", "", "https://mcp.example.com/mcp wants a token: --header 'Authorization: Bearer ${TOKEN}', or --login auto"},
		"another header":            {"X-Key", 401, "", page, "<html>", "https://mcp.example.com/mcp wants a token: --header 'Authorization: Bearer ${TOKEN}', or --login auto"},
		"wrong token":               {"authorization", 401, "", "", "", "https://mcp.example.com/mcp refused the token given by --header (401): is it complete and still valid?"},
		"it says why":               {"Authorization", 401, `Bearer error="invalid_token", error_description="expired yesterday"`, json, `{"error":{"message":"log in\nagain"}}`, `https://mcp.example.com/mcp refused the token given by --header (401): "expired yesterday" (it says: log in again)`},
		"in plain text":             {"Authorization", 401, "", plain, "Nope.", "https://mcp.example.com/mcp refused the token given by --header (401): is it complete and still valid? (it says: Nope.)"},
		"no text, no JSON":          {"Authorization", 401, "", json, `{"error":{"message":"cut`, "https://mcp.example.com/mcp refused the token given by --header (401): is it complete and still valid?"},
		"a message that is no text": {"Authorization", 401, "", json, `{"error":{"message":{"a":1}}}`, "https://mcp.example.com/mcp refused the token given by --header (401): is it complete and still valid?"},
	} {
		t.Run(name, func(t *testing.T) {
			u := config.Upstream{URL: "https://mcp.example.com/mcp?key=canary"}
			if c.header != "" {
				u.Headers = map[string]string{c.header: "Bearer canary"}
			}
			refusal := &upstream.StatusError{Code: c.status, Body: []byte(c.body), Header: []mcp.Header{{Name: "content-type", Value: c.mediaType}, {Name: "www-authenticate", Value: c.challenge}}}
			err := explainRefusal(u)(refusal)
			if c.want == "" {
				if err != error(refusal) {
					t.Error(err)
				}
				return
			}
			of, ok := errors.AsType[*upstream.CredentialError](err)
			if !ok || of.Err.Error() != c.want {
				t.Fatalf("got  %v\nwant %s", err, c.want)
			}
			if _, told := errors.AsType[interface {
				error
				ForClient()
			}](err); !told {
				t.Error("the client does not get the text")
			}
		})
	}
}

// refusing is a source of credentials that does not have a better one.
type refusing struct{ err error }

func (refusing) Header(context.Context) (string, error)                 { return "", nil }
func (r refusing) Refused(context.Context, string, oauth.Refusal) error { return r.err }
func (refusing) Identity() string                                       { return "" }

// TestRefusalThatIsNotAboutTheCredential reaches the client without the challenge: a login of the client could not help.
func TestRefusalThatIsNotAboutTheCredential(t *testing.T) {
	refusal := &upstream.StatusError{Code: http.StatusForbidden, Body: []byte("no"), Header: []mcp.Header{{Name: "Www-Authenticate", Value: "Bearer"}, {Name: "Retry-After", Value: "7"}}}
	c := &Credential{from: refusing{oauth.ErrNotOurs}, own: true}
	got, ok := errors.AsType[*upstream.StatusError](c.Refused(t.Context(), "Bearer x", refusal, 0))
	if !ok || got.Code != refusal.Code || string(got.Body) != "no" || len(got.Header) != 1 || got.Header[0].Name != "Retry-After" {
		t.Errorf("%+v", got)
	}
	if len(refusal.Header) != 2 {
		t.Error("the refusal itself has changed")
	}
}

// TestErrorsOfACredentialReachItsOwner, and not the clients of a shared one.
func TestErrorsOfACredentialReachItsOwner(t *testing.T) {
	why := errors.New("sign in at https://login.example")
	for own, want := range map[bool]bool{true: true, false: false} {
		err := (&Credential{from: refusing{why}, own: own, of: new(Credentials)}).Refused(t.Context(), "Bearer x", &upstream.StatusError{Code: 401}, 0)
		_, told := err.(interface{ ForClient() })
		if !errors.Is(err, why) || told != want {
			t.Errorf("own %v: %v, for the client: %v", own, err, told)
		}
	}
}
