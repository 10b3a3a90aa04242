package credential

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

const (
	maxTokenReply  = 1 << 20
	maxToken       = 32 << 10
	maxDescription = 200 // runes of an OAuth server's error_description

	lifeUnknown  = 5 * time.Minute // of a token without expires_in
	lifeLongest  = 366 * 24 * time.Hour
	lifeShortest = time.Second
)

// answer is the successful answer of a token endpoint.
type answer struct {
	token, refresh string
	life           time.Duration
	said           bool // the life was in the answer
}

// refusal is the error response of an OAuth server.
type refusal struct{ host, code, description string }

func (r *refusal) Error() string {
	s := r.host + " refused: " + r.code
	if r.description != "" {
		s += " " + strconv.Quote(r.description)
	}
	return s
}

// details returns the refusal as JSON, for the client.
func (r *refusal) details() []byte {
	d := wire.Members(nil).Str("error", r.code)
	if r.description != "" {
		d = d.Str("error_description", r.description)
	}
	return d.End()
}

// loginIsOver reports whether the server refused the refresh token itself. GitHub's code for
// that is bad_refresh_token.
func (r *refusal) loginIsOver() bool {
	return r.code == "invalid_grant" || r.code == "bad_refresh_token"
}

// unanswered is an error after which it is unknown whether the server processed the request.
type unanswered struct{ error }

func (u unanswered) Unwrap() error { return u.error }

// client holds the credentials with which the adapter authenticates at a token endpoint.
type client struct {
	id, secret string
	known      secrets
	sending    func() // called when there is a connection, before anything is sent; may be nil
}

// oauthClient reads the adapter's client credentials.
func (s *Signer) oauthClient() (c client, err error) {
	o := s.adapter.Auth.OAuth
	id, f := s.secret(o.ID)
	if f != nil {
		return c, f
	}
	c.id, c.known = id, secrets{id}
	if o.Client == file.ClientBasic || o.Client == file.ClientPost {
		if c.secret, f = s.secret(o.Secret); f != nil {
			return c, f
		}
		basic := base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(id) + ":" + url.QueryEscape(c.secret)))
		c.known = c.known.with(c.secret, url.QueryEscape(c.secret), basic)
	}
	return c, nil
}

// post sends a form to an endpoint of the OAuth server and returns the JSON object of a
// successful answer. Its errors contain no credential. After an [unanswered] error, it is
// unknown whether the server processed the form.
func (s *Signer) post(ctx context.Context, endpoint string, c client, form *httpcall.Pairs, known secrets) ([]byte, error) {
	known = append(known.with(c.known...), string(form.Text))
	known, err := s.identify(c, form, known)
	if err != nil {
		return nil, err
	}
	r, err := s.exchange(ctx, endpoint, c, form)
	var body []byte
	if err == nil {
		body, err = r.object(known)
	}
	if lost := (unanswered{}); errors.As(err, &lost) {
		return nil, unanswered{clean.Redact(lost.error, known)}
	}
	if r := (*refusal)(nil); errors.As(err, &r) {
		return nil, r // its text is clean already
	}
	return body, clean.Redact(err, known)
}

// identify adds the client authentication to a token request form.
func (s *Signer) identify(c client, form *httpcall.Pairs, known secrets) (secrets, error) {
	switch s.adapter.Auth.OAuth.Client {
	case file.ClientPost:
		form.Add("client_id", c.id)
		form.Add("client_secret", c.secret)
	case file.ClientPublic:
		form.Add("client_id", c.id)
	case file.ClientJWT:
		assertion, err := s.assertion(c.id)
		if err != nil {
			return known, clean.Redact(err, known)
		}
		known = known.with(assertion)
		form.Add("client_id", c.id)
		form.Add("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
		form.Add("client_assertion", assertion)
	}
	return known, nil
}

// reply is the response of an endpoint of the OAuth server.
type reply struct {
	host   string
	status int
	body   []byte
	broken error // why there is no body
}

func (r *reply) good() bool { return r.status/100 == 2 }

// exchange sends a form. It returns an error if there was no response.
func (s *Signer) exchange(ctx context.Context, endpoint string, c client, form *httpcall.Pairs) (*reply, error) {
	ctx, stop := context.WithTimeout(ctx, s.adapter.Target.Timeout)
	defer stop()
	connected := false
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		if connected = true; c.sending != nil {
			c.sending()
		}
	}})
	req, err := http.NewRequestWithContext(ctx, "POST", endpoint, strings.NewReader(string(form.Text)))
	if err != nil {
		return nil, httpcall.WithoutURL(err)
	}
	host := req.URL.Host
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", s.keeper.UserAgent)
	if s.adapter.Auth.OAuth.Client == file.ClientBasic {
		req.SetBasicAuth(url.QueryEscape(c.id), url.QueryEscape(c.secret)) // https://www.rfc-editor.org/rfc/rfc6749#section-2.3.1
	}
	res, err := s.client.Do(req)
	if err != nil {
		err = fmt.Errorf("%s: %w", host, httpcall.WithoutURL(err))
		if connected {
			return nil, unanswered{err}
		}
		return nil, err
	}
	defer res.Body.Close()
	r := &reply{host: host, status: res.StatusCode}
	body, err := httpcall.ReadBody(res.Body, -1, maxTokenReply)
	switch {
	case err != nil:
		r.broken = fmt.Errorf("%s answered %d, but its body ended early: %w", host, r.status, err)
	case len(body) > maxTokenReply:
		r.broken = fmt.Errorf("%s answered %d with more than %d bytes", host, r.status, maxTokenReply)
	default:
		r.body = wire.Trim(body)
	}
	return r, nil
}

// object returns the JSON object of a successful response.
func (r *reply) object(known secrets) ([]byte, error) {
	err := r.broken
	switch {
	case err != nil:
	case !wire.Valid(r.body) || wire.KindOf(r.body) != wire.Object:
		err = fmt.Errorf("%s answered %d without a JSON object", r.host, r.status)
	default:
		if refused := r.refused(known); refused != nil { // some servers send an error with status 200
			return nil, refused
		}
		if r.good() {
			return r.body, nil
		}
		err = fmt.Errorf("%s answered %d without an error code", r.host, r.status)
	}
	if r.status/100 == 3 {
		err = fmt.Errorf("%s answered %d, a redirect, which is not followed", r.host, r.status)
	}
	if r.good() {
		return nil, unanswered{err}
	}
	return nil, err
}

// refused returns the error in the server's response, or nil if it has none. The body must
// be a JSON object.
func (r *reply) refused(known secrets) error {
	code := text(r.body, "error")
	if !isErrorCode(code) {
		return nil
	}
	return &refusal{r.host, code, clean.Sanitizer{Host: r.host}.Clean(text(r.body, "error_description"), maxDescription, known)}
}

// ask requests a token from the token endpoint.
func (s *Signer) ask(ctx context.Context, c client, form *httpcall.Pairs, known secrets) (answer, error) {
	body, err := s.post(ctx, s.adapter.Auth.OAuth.URL, c, form, known)
	if err != nil {
		return answer{}, err
	}
	a := answer{token: text(body, "access_token"), refresh: text(body, "refresh_token"), life: lifeUnknown}
	switch {
	case a.token == "":
		err = errors.New("the token endpoint answered without access_token")
	case len(a.token) > maxToken || len(a.refresh) > maxToken:
		err = fmt.Errorf("the token endpoint answered with a token of more than %d bytes", maxToken)
	case !file.IsHeaderValue(a.token) || !file.IsHeaderValue(a.refresh):
		err = errors.New("the token endpoint answered with control characters in a token")
	}
	if err != nil {
		return answer{}, unanswered{err}
	}
	v := wire.Member(body, "expires_in")
	if n, err := strconv.ParseFloat(strings.Trim(string(v), `"`), 64); err == nil && n > 0 {
		a.life, a.said = time.Duration(min(n, lifeLongest.Seconds())*float64(time.Second)), true
		a.life = max(a.life, lifeShortest)
	}
	return a, nil
}

// text returns the value of a member that is a string, or "" if there is no such member.
func text(body []byte, name string) string {
	v := wire.Member(body, name)
	if v == nil || wire.KindOf(v) != wire.String {
		return ""
	}
	return string(wire.Unquoted(v))
}

// isErrorCode reports whether s looks like an error code. Otherwise it might be a secret that
// the server echoes.
func isErrorCode(s string) bool {
	for i := range len(s) {
		if c := s[i]; c != '_' && c != '.' && c != '-' && (c|0x20 < 'a' || c|0x20 > 'z') {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

// form returns a form with the grant type, which all token requests have.
func (s *Signer) form(grant string) *httpcall.Pairs {
	f := &httpcall.Pairs{}
	f.Add("grant_type", grant)
	return f
}

// scope adds the scopes, the audience and the resource of the token to f.
func (s *Signer) scope(f *httpcall.Pairs) {
	o := s.adapter.Auth.OAuth
	if len(o.Scopes) > 0 {
		f.Add("scope", strings.Join(o.Scopes, " "))
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
