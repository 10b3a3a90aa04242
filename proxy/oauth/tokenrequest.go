package oauth

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// tokenContext returns a context for requests for tokens by the client c at an authorization server. They
// all have the resource (https://www.rfc-editor.org/rfc/rfc8707#section-2.2), and a proof of c's key if it has one.
func (a *Account) tokenContext(ctx context.Context, m *serverMetadata, c *client, resource string) context.Context {
	web := *a.web.posts
	web.Transport = tokenRequests{web.Transport, func() (url.Values, error) {
		more, err := a.proofOf(c, m)
		if err == nil && resource != "" {
			more.Set("resource", resource)
		}
		return more, err
	}}
	return context.WithValue(ctx, oauth2.HTTPClient, &web)
}

// errNoKey says that a client has a key and that the configuration has none.
var errNoKey = errors.New("the client has a private key: --oauth key_file=FILE names it")

// proofOf returns the parameters that authenticate a request by c with its key; none if c has no key.
func (a *Account) proofOf(c *client, m *serverMetadata) (url.Values, error) {
	switch {
	case c.Method != privateKeyJWT:
		return url.Values{}, nil
	case a.cfg.Key == nil:
		return nil, errNoKey
	}
	return a.cfg.Key.proof(c.ID, m, a.now())
}

// tokenRequests adds parameters to each request for a token.
type tokenRequests struct {
	next http.RoundTripper
	more func() (url.Values, error)
}

// RoundTrip sends r, a POST of a form.
func (t tokenRequests) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	r.Body.Close()
	if err != nil {
		return nil, err
	}
	more, err := t.more()
	if err != nil {
		return nil, err
	}
	if len(more) > 0 {
		body = append(append(body, '&'), more.Encode()...)
	}
	again := r.Clone(r.Context())
	again.Body, again.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	again.GetBody = nil // it is not sent twice
	return t.next.RoundTrip(again)
}

// useConfigured sets the configured secret or key in c, if c is the configured client: the configuration may have changed
// since the sign-in.
func (a *Account) useConfigured(c *client, m *serverMetadata) {
	if c.ID != "" && (c.ID == a.cfg.ClientID || c.ID == a.cfg.ClientMetadataURL) && (a.cfg.ClientSecret != "" || a.cfg.Key != nil) {
		c.Secret, c.Method = a.cfg.ClientSecret, a.method(m)
	}
}

// post sends a form that is not a token request, as the client c.
func (a *Account) post(ctx context.Context, at string, form url.Values, c *client, m *serverMetadata) (*http.Response, error) {
	basic := c.Method == "client_secret_basic"
	if !basic {
		form.Set("client_id", c.ID)
		if c.Secret != "" {
			form.Set("client_secret", c.Secret)
		}
	}
	proof, err := a.proofOf(c, m)
	if err != nil {
		return nil, err
	}
	maps.Copy(form, proof)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	if basic {
		req.SetBasicAuth(url.QueryEscape(c.ID), url.QueryEscape(c.Secret))
	}
	return a.web.posts.Do(req)
}

// setAll sets the parameters of the configuration in a form.
func setAll(form url.Values, params map[string]string) {
	for name, value := range params {
		form.Set(name, value)
	}
}

// exchange requests a token as the client c, by the grant that params describe.
func (a *Account) exchange(ctx context.Context, m *serverMetadata, c *client, resource string, scopes []string, params url.Values) (*oauth2.Token, error) {
	cfg := clientcredentials.Config{ClientID: c.ID, ClientSecret: c.Secret, TokenURL: m.Token, Scopes: scopes, EndpointParams: params, AuthStyle: c.style()}
	return cfg.Token(a.tokenContext(ctx, m, c, resource))
}

// style returns where golang.org/x/oauth2 puts the id and the secret of c.
func (c *client) style() oauth2.AuthStyle {
	if c.Method == "client_secret_basic" {
		return oauth2.AuthStyleInHeader
	}
	return oauth2.AuthStyleInParams
}

// tokenFault returns an error for an answer of a token endpoint without a token that can be sent.
func tokenFault(at string, t *oauth2.Token) error {
	unsendable := func(r rune) bool { return r <= ' ' || r > '~' }
	switch {
	case t.AccessToken == "" || t.TokenType != "" && !strings.EqualFold(t.TokenType, "bearer"):
		return fmt.Errorf("AS %s: the token response has no bearer token", hostOf(at))
	case len(t.AccessToken) > maxToken || len(t.RefreshToken) > maxToken:
		return fmt.Errorf("AS %s: the token response has a token of more than %d bytes", hostOf(at), maxToken)
	case strings.ContainsFunc(t.AccessToken, unsendable):
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
