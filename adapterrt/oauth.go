package adapterrt

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

const (
	tokenMargin   = 30 * time.Second // before its end a token is not used any more
	tokenDefault  = 5 * time.Minute  // for one whose end nobody told
	maxTokenReply = 1 << 20
)

// tokens is the token of a running adapter. lock is held while it is used, for as
// long as one is fetched.
type tokens struct {
	lock    chan struct{}
	token   string
	expires time.Time
	rotated string // the refresh token that came with the last token
}

// newTokens is nil for an adapter without OAuth.
func newTokens(a *file.Adapter) *tokens {
	if a.Auth.Oauth == nil {
		return nil
	}
	return &tokens{lock: make(chan struct{}, 1)}
}

// oauthToken is the adapter's token. One that equals stale is replaced. Of those
// who come at once, one fetches and the others wait.
func (rt *Runtime) oauthToken(ctx context.Context, a *adapter, stale string) (string, []string, *failure.Failure) {
	o, t := a.Auth.Oauth, a.tokens
	select {
	case t.lock <- struct{}{}:
	case <-ctx.Done():
		return "", nil, &failure.Failure{Code: failure.TransportTimeout, Message: "Request cancelled", Cause: failure.ErrCancelled}
	}
	defer func() { <-t.lock }()
	if t.token != "" && t.token != stale && rt.opt.Now().Before(t.expires) {
		return t.token, []string{t.token}, nil
	}
	form := httpcall.Pairs{}
	var known []string
	if o.Refresh != nil {
		secret, f := rt.secret(a, *o.Refresh)
		if f != nil {
			return "", nil, f
		}
		if t.rotated != "" {
			secret = t.rotated
		}
		known = append(known, secret)
		form.Add("grant_type", "refresh_token")
		form.Add("refresh_token", secret)
	} else {
		form.Add("grant_type", "client_credentials")
	}
	if len(o.Scopes) > 0 {
		form.Add("scope", strings.Join(o.Scopes, " "))
	}
	if o.Audience != "" {
		form.Add("audience", o.Audience)
	}
	id, f := rt.secret(a, o.Id)
	if f != nil {
		return "", nil, f
	}
	secret, f := rt.secret(a, o.Secret)
	if f != nil {
		return "", nil, f
	}
	known = append(known, secret)
	if err := rt.fetchToken(ctx, a, id, secret, string(form.Text)); err != nil {
		basic := base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(id) + ":" + url.QueryEscape(secret)))
		err = clean.Redact(err, append(known, id, basic, url.QueryEscape(secret), string(form.Text)))
		if ctx.Err() != nil {
			err = failure.ErrCancelled
		}
		return "", nil, &failure.Failure{
			Code: failure.AuthTokenFailed, Own: true, Cause: err,
			Message: "Token for adapter '" + a.Name + "' could not be obtained",
			Details: wire.Members(nil).Str("adapter", a.Name).End(),
		}
	}
	return t.token, append(known, t.token), nil
}

// fetchToken asks the token endpoint. Its errors name no credential.
func (rt *Runtime) fetchToken(ctx context.Context, a *adapter, id, secret, form string) error {
	o, t := a.Auth.Oauth, a.tokens
	ctx, stop := context.WithTimeout(ctx, a.Target.Timeout)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, "POST", o.Url, strings.NewReader(form))
	if err != nil {
		return httpcall.WithoutURL(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", rt.opt.UserAgent)
	req.SetBasicAuth(url.QueryEscape(id), url.QueryEscape(secret)) // section 2.3.1
	res, err := a.client.Do(req)
	if err != nil {
		return httpcall.WithoutURL(err)
	}
	defer res.Body.Close()
	body, err := httpcall.ReadBody(res.Body, -1, maxTokenReply)
	if err != nil {
		return err
	}
	body = wire.Trim(body)
	if res.StatusCode != 200 || !wire.Valid(body) || len(body) > maxTokenReply {
		return fmt.Errorf("token endpoint answered %d", res.StatusCode)
	}
	token := wire.Member(body, "access_token")
	if token == nil || wire.KindOf(token) != wire.String || len(token) < 3 || !file.IsHeaderValue(wire.Unquoted(token)) {
		return fmt.Errorf("token endpoint answered without access_token")
	}
	t.token = string(wire.Unquoted(token))
	life := tokenDefault
	if v := wire.Member(body, "expires_in"); v != nil {
		if s, err := strconv.ParseFloat(strings.Trim(string(v), `"`), 64); err == nil && s > 0 {
			life = time.Duration(min(s, 366*86400)) * time.Second
		}
	}
	t.expires = rt.opt.Now().Add(max(life-tokenMargin, 0))
	if v := wire.Member(body, "refresh_token"); o.Refresh != nil && v != nil && wire.KindOf(v) == wire.String {
		t.rotated = string(wire.Unquoted(v))
	}
	return nil
}

// deliver sends o. When the API takes no notice of an OAuth token, it is fetched
// anew, once, and the request repeated: it had no effect.
func (rt *Runtime) deliver(ctx context.Context, a *adapter, o *httpcall.Outgoing) (*httpcall.Reply, *failure.Failure) {
	r, f := rt.send(ctx, a, o)
	if f != nil || r.Status != 401 || a.Auth.Kind != file.AuthOAuth {
		return r, f
	}
	for i, h := range o.Headers {
		if h.Name != a.Auth.Header {
			continue
		}
		token, secrets, f := rt.oauthToken(ctx, a, strings.TrimPrefix(h.Value, a.Auth.Prefix))
		if f != nil {
			return r, nil // what the API said says more
		}
		o.Secrets = append(o.Secrets, secrets...)
		o.Headers[i].Value = a.Auth.Prefix + token
		return rt.send(ctx, a, o)
	}
	return r, nil
}

// present makes t present the certificate. It is read for each connection, so
// that a renewed one is taken.
func present(m *file.Mutual, t *tls.Config) {
	t.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		c, err := tls.LoadX509KeyPair(m.Cert, m.Key)
		return &c, err
	}
	if pool, err := m.Roots(); err != nil {
		t.RootCAs = x509.NewCertPool() // trust nobody rather than everybody
	} else if pool != nil {
		t.RootCAs = pool
	}
}
