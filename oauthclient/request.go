package oauthclient

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// A Client is the registration with which requests authenticate.
type Client struct {
	ID, Secret string
	Basic      bool   // the secret is in a header, and not in the form
	Assertion  string // in place of a secret; "" for none
	UserAgent  string // "" for Go's
	Connected  func() // called when there is a connection, before anything is sent; may be nil

	Sent *secret.Kept // keeps the secrets of requests and responses; nil for none
}

// Doer sends requests.
type Doer interface {
	Do(*http.Request) (*http.Response, error)
}

// Send sends a form to an endpoint, with the client's authentication. If there is no response, it returns an error, which
// names neither the URL nor the host: an [Unanswered] if there was a connection.
func (c *Client) Send(ctx context.Context, by Doer, endpoint, form string) (*Reply, error) {
	connected := false
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		if connected = true; c.Connected != nil {
			c.Connected()
		}
	}})
	form = c.identified(form)
	secrets := c.secretsIn(form)
	c.Sent.Keep(secrets...)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, strings.NewReader(form))
	if err != nil {
		return nil, WithoutURL(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	if c.UserAgent != "" {
		req.Header.Set("User-Agent", c.UserAgent)
	}
	if c.Basic { // https://www.rfc-editor.org/rfc/rfc6749#section-2.3.1
		req.SetBasicAuth(url.QueryEscape(c.ID), url.QueryEscape(c.Secret))
	}
	res, err := by.Do(req)
	switch err = WithoutURL(err); {
	case err != nil && connected:
		return nil, Unanswered{err}
	case err != nil:
		return nil, err
	}
	defer res.Body.Close()
	r := &Reply{Host: req.URL.Host, Status: res.StatusCode, secrets: secrets, sent: c.Sent}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxReply+1))
	switch {
	case err != nil:
		r.broken = fmt.Errorf("%s answered %d, but its body ended early: %w", r.Host, r.Status, err)
	case len(body) > maxReply:
		r.broken = fmt.Errorf("%s answered %d with more than %d bytes", r.Host, r.Status, maxReply)
	default:
		r.body = wire.Trim(body)
	}
	return r, nil
}

// private are the parameters of a form that are secrets. Others are too if their names end like these.
var private = [...]string{"code", "code_verifier", "device_code", "client_assertion", "assertion", "_token", "token", "secret", "password", "_key"}

func isSecret(parameter string) bool {
	return slices.ContainsFunc(private[:], func(end string) bool { return strings.HasSuffix(strings.ToLower(parameter), end) })
}

// secretsIn returns the secrets in a form, and that of the client.
func (c *Client) secretsIn(form string) (all []string) {
	if c.Secret != "" {
		all = append(all, c.Secret)
	}
	if c.Basic {
		all = append(all, base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(c.ID)+":"+url.QueryEscape(c.Secret))))
	}
	values, _ := url.ParseQuery(form)
	for name, list := range values {
		if isSecret(name) {
			all = append(all, list...)
		}
	}
	return all
}

// identified returns a form with the client's authentication.
func (c *Client) identified(form string) string {
	if c.Basic {
		return form
	}
	add := func(name, value string) {
		if value != "" {
			form += "&" + name + "=" + url.QueryEscape(value)
		}
	}
	add("client_id", c.ID)
	if c.Assertion == "" {
		add("client_secret", c.Secret)
	} else {
		add("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
		add("client_assertion", c.Assertion)
	}
	return strings.TrimPrefix(form, "&")
}

// WithoutURL returns the cause of an error of net/http, whose text repeats the URL with its query.
func WithoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// Verifier returns a new PKCE verifier: https://www.rfc-editor.org/rfc/rfc7636#section-4.1.
func Verifier() string { return rand.Text() + rand.Text() }

// AuthorizationURL returns the URL at which a user permits a client to act for them, with the PKCE challenge of verifier. The
// form has the parameters of https://www.rfc-editor.org/rfc/rfc6749#section-4.1.1 but for response_type.
func AuthorizationURL(endpoint, form, verifier string) string {
	sum, mark := sha256.Sum256([]byte(verifier)), "?"
	if strings.Contains(endpoint, "?") {
		mark = "&"
	}
	return endpoint + mark + "response_type=code&" + form + "&code_challenge_method=S256&code_challenge=" + base64.RawURLEncoding.EncodeToString(sum[:])
}

// assertionLife is how long an assertion is valid.
const assertionLife = time.Minute

// Assertion returns a JWT that authenticates the client id at an audience: https://www.rfc-editor.org/rfc/rfc7523#section-3.
// keyID is the kid of the key; "" to send none.
func Assertion(key crypto.Signer, method jwt.SigningMethod, keyID, id, audience string, now time.Time) (string, error) {
	t := jwt.NewWithClaims(method, jwt.MapClaims{
		"iss": id, "sub": id, "aud": audience, "jti": rand.Text(), "iat": now.Unix(), "exp": now.Add(assertionLife).Unix(),
	})
	if keyID != "" {
		t.Header["kid"] = keyID
	}
	return t.SignedString(key)
}
