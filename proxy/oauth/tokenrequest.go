package oauth

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"

	"golang.org/x/oauth2"
)

// tokenContext returns a context for requests for tokens by the client c at an authorization server. They
// all name the resource (https://www.rfc-editor.org/rfc/rfc8707#section-2.2), and prove who c is if it has a key.
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

// errNoKey says that a client has a key which this process was not given.
var errNoKey = errors.New("the client has a private key: --oauth key_file=FILE names it")

// proofOf returns the parameters of a request by c that prove who it is; none if c has a secret or nothing.
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

// useConfigured makes the configured secret or key that of c, if c is the configured client: it may be another one than
// at the time of the sign-in.
func (a *Account) useConfigured(c *client, m *serverMetadata) {
	if c.ID != "" && (c.ID == a.cfg.ClientID || c.ID == a.cfg.ClientMetadataURL) && (a.cfg.ClientSecret != "" || a.cfg.Key != nil) {
		c.Secret, c.Method = a.cfg.ClientSecret, a.method(m)
	}
}

// authenticate adds to a form what proves that the request is of c. It returns true if the id and the secret belong
// into the header of HTTP Basic instead.
func (a *Account) authenticate(form url.Values, c *client, m *serverMetadata) (basic bool, err error) {
	if c.Method == "client_secret_basic" {
		return true, nil
	}
	form.Set("client_id", c.ID)
	if c.Secret != "" {
		form.Set("client_secret", c.Secret)
	}
	proof, err := a.proofOf(c, m)
	maps.Copy(form, proof)
	return false, err
}
