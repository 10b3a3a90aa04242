package credential

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
	"github.com/dragoman-proxy/dragoman/oauthclient"
)

const (
	maxToken       = 32 << 10
	maxDescription = 200 // runes of an OAuth server's error_description

	lifeUnknown  = 5 * time.Minute // of a token without expires_in
	lifeLongest  = 366 * 24 * time.Hour
	lifeShortest = time.Second
)

// client holds the credentials with which the adapter authenticates at a token endpoint.
type client struct {
	oauthclient.Client
	known secrets
}

// oauthClient reads the adapter's client credentials.
func (s *Signer) oauthClient() (c client, err error) {
	o := s.adapter.Auth.OAuth
	id, f := s.secret(o.ID)
	if f != nil {
		return c, f
	}
	c.ID, c.known, c.UserAgent, c.Sent = id, secrets{id}, s.keeper.UserAgent, s.keeper.Sent.Sent
	if c.Basic = o.Client == file.ClientBasic; c.Basic || o.Client == file.ClientPost {
		if c.Secret, f = s.secret(o.Secret); f != nil {
			return c, f
		}
		basic := base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(id) + ":" + url.QueryEscape(c.Secret)))
		c.known = c.known.with(c.Secret, url.QueryEscape(c.Secret), basic)
	}
	return c, nil
}

// send sends a form to an endpoint of the OAuth server. It returns known with the credentials in the request, for [cleaned].
func (s *Signer) send(ctx context.Context, endpoint string, c client, form *httpcall.Pairs, known secrets) (*oauthclient.Reply, secrets, error) {
	ctx, stop := context.WithTimeout(ctx, s.adapter.Target.Timeout)
	defer stop()
	known = append(known.with(c.known...), string(form.Text))
	if s.adapter.Auth.OAuth.Client == file.ClientJWT {
		assertion, err := s.assertion(c.ID)
		if err != nil {
			return nil, known, err
		}
		c.Assertion, known = assertion, known.with(assertion)
	}
	r, err := c.Send(ctx, s.client, endpoint, string(form.Text))
	if u, _ := url.Parse(endpoint); err != nil && u != nil {
		err = fmt.Errorf("%s: %w", u.Host, err)
	}
	return r, known, err
}

// cleaned returns err without the credentials in known.
func cleaned(err error, known secrets) error {
	code := codeOf(err)
	if code == "" {
		return clean.Redact(err, known)
	}
	refused, _ := errors.AsType[*oauthclient.Refusal](err)
	r := *refused
	if r.Description = (clean.Sanitizer{Host: r.Host}).Clean(r.Description, maxDescription, known); !oauthclient.IsCode(code) {
		r.Code, r.Description = "", ""
	}
	return &r
}

// codeOf returns the error code of the OAuth server; "" if err is something else.
func codeOf(err error) string {
	if refused, ok := errors.AsType[*oauthclient.Refusal](err); ok {
		return refused.Code
	}
	return ""
}

// loginIsOver reports whether an error code means that the server refused the refresh token itself. GitHub's code for that is
// bad_refresh_token.
func loginIsOver(code string) bool { return code == "invalid_grant" || code == "bad_refresh_token" }

// ask requests a token from the token endpoint. Its errors contain no credential. After an [oauthclient.Unanswered], it is
// unknown whether the server processed the form.
func (s *Signer) ask(ctx context.Context, c client, form *httpcall.Pairs, known secrets) (t oauthclient.Token, err error) {
	r, known, err := s.send(ctx, s.adapter.Auth.OAuth.URL, c, form, known)
	if err == nil {
		t, err = r.Token()
	}
	if err != nil {
		return t, cleaned(err, known)
	}
	switch {
	case len(t.Access) > maxToken || len(t.Refresh) > maxToken:
		err = oauthclient.Unanswered{Err: fmt.Errorf("the token endpoint answered with a token of more than %d bytes", maxToken)}
	case !file.IsHeaderValue(t.Access) || !file.IsHeaderValue(t.Refresh):
		err = oauthclient.Unanswered{Err: errors.New("the token endpoint answered with control characters in a token")}
	}
	return t, err
}

// lifeFor returns how long a token is used.
func lifeFor(t oauthclient.Token) time.Duration {
	return min(max(cmp.Or(t.Life, lifeUnknown), lifeShortest), lifeLongest)
}

// form returns a form with the grant type, which all token requests have.
func (s *Signer) form(grant string) *httpcall.Pairs {
	f := &httpcall.Pairs{}
	f.Add("grant_type", grant)
	return f
}

// scope adds the scopes of the file and further ones, the audience and the resource of the token to f.
func (s *Signer) scope(f *httpcall.Pairs, further []string) {
	o := s.adapter.Auth.OAuth
	if all := slices.Concat(o.Scopes, further); len(all) > 0 {
		f.Add("scope", strings.Join(all, " "))
	}
	if o.Audience != "" {
		f.Add("audience", o.Audience)
	}
	s.resource(f)
}

// resource adds the URI of the API to f: https://www.rfc-editor.org/rfc/rfc8707
func (s *Signer) resource(f *httpcall.Pairs) {
	if r := s.adapter.Auth.OAuth.Resource; r != "" {
		f.Add("resource", r)
	}
}
