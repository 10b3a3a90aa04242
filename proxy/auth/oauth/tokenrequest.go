package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/oauthclient"
)

// errNoKey says that a client has a key and that the configuration has none.
var errNoKey = errors.New("the client has a private key: --oauth key_file=FILE names it")

// send sends a form to an endpoint of an authorization server, as the client c.
func (a *Account) send(ctx context.Context, m *serverMetadata, c *client, at string, form url.Values, connected func()) (*oauthclient.Reply, error) {
	by := oauthclient.Client{ID: c.ID, Secret: c.Secret, Basic: c.Method == "client_secret_basic", Connected: connected, Sent: a.cfg.Sent}
	if c.Method == privateKeyJWT {
		if a.cfg.Key == nil {
			return nil, errNoKey
		}
		var err error
		if by.Assertion, err = a.cfg.Key.assertion(c.ID, m, a.now()); err != nil {
			return nil, err
		}
	}
	return by.Send(ctx, a.web.posts, at, form.Encode())
}

// request requests a token as the client c, by the grant that the form describes. Every such request has the resource:
// https://www.rfc-editor.org/rfc/rfc8707#section-2.2. connected is called before anything is sent; nil for nothing.
func (a *Account) request(ctx context.Context, m *serverMetadata, c *client, resource string, form url.Values, connected func()) (t oauthclient.Token, err error) {
	if resource != "" {
		form.Set("resource", resource)
	}
	r, err := a.send(ctx, m, c, m.Token, form, connected)
	if err != nil {
		return t, err
	}
	return r.Token()
}

// useConfigured sets the configured secret or key in c, if c is the configured client: the configuration may have changed
// since the sign-in.
func (a *Account) useConfigured(c *client, m *serverMetadata) {
	if c.ID != "" && (c.ID == a.cfg.ClientID || c.ID == a.cfg.ClientMetadataURL) && (a.cfg.ClientSecret != "" || a.cfg.Key != nil) {
		c.Secret, c.Method = a.cfg.ClientSecret, a.method(m)
	}
}

// setAll sets the parameters of the configuration in a form.
func setAll(form url.Values, params map[string]string) {
	for name, value := range params {
		form.Set(name, value)
	}
}

// setScope sets the scopes in a form, if there are any.
func setScope(form url.Values, scopes []string) {
	if len(scopes) > 0 {
		form.Set("scope", strings.Join(scopes, " "))
	}
}

// tokenFault returns an error for an answer of a token endpoint without a token that can be sent.
func tokenFault(at string, t oauthclient.Token) error {
	unsendable := func(r rune) bool { return r <= ' ' || r > '~' }
	switch {
	case t.Type != "" && !strings.EqualFold(t.Type, "bearer"):
		return fmt.Errorf("AS %s: the token response has no bearer token", hostOf(at))
	case len(t.Access) > maxToken || len(t.Refresh) > maxToken:
		return fmt.Errorf("AS %s: the token response has a token of more than %d bytes", hostOf(at), maxToken)
	case strings.ContainsFunc(t.Access, unsendable):
		return fmt.Errorf("AS %s: the token response has a token with characters that an HTTP header must not have", hostOf(at))
	}
	return nil
}

// maxToken is the largest token that is accepted, in bytes. Servers accept no longer headers.
const maxToken = 32 << 10

// method returns how the configured client authenticates at the token endpoint.
func (a *Account) method(m *serverMetadata) string {
	if a.cfg.Key != nil {
		return privateKeyJWT
	}
	return m.methodFor(a.cfg.ClientSecret)
}

// methodFor returns how a client with this secret authenticates at the token endpoint.
func (m *serverMetadata) methodFor(secret string) string {
	switch {
	case secret == "":
		return "none"
	case slices.Contains(m.AuthMethods, "client_secret_post") && !slices.Contains(m.AuthMethods, "client_secret_basic"):
		return "client_secret_post"
	}
	return "client_secret_basic" // the default of RFC 8414
}
