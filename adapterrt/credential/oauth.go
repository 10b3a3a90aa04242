package credential

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
	tokenDefault  = 5 * time.Minute  // for one without expires_in
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
	if a.Auth.OAuth == nil {
		return nil
	}
	return &tokens{lock: make(chan struct{}, 1)}
}

// token is the adapter's token. One that equals stale is replaced. Of several
// calls at once, one fetches it and the others wait.
func (s *Signer) token(ctx context.Context, stale string) (string, []string, *failure.Failure) {
	o, t := s.adapter.Auth.OAuth, s.oauth
	select {
	case t.lock <- struct{}{}:
	case <-ctx.Done():
		return "", nil, &failure.Failure{Code: failure.TransportTimeout, Message: "Request cancelled", Cause: failure.ErrCancelled}
	}
	defer func() { <-t.lock }()
	if t.token != "" && t.token != stale && s.keeper.Now().Before(t.expires) {
		return t.token, []string{t.token}, nil
	}
	form := httpcall.Pairs{}
	var known []string
	if o.Refresh != nil {
		secret, f := s.secret(*o.Refresh)
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
	id, f := s.secret(o.ID)
	if f != nil {
		return "", nil, f
	}
	secret, f := s.secret(o.Secret)
	if f != nil {
		return "", nil, f
	}
	known = append(known, secret)
	if err := s.fetch(ctx, id, secret, string(form.Text)); err != nil {
		basic := base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(id) + ":" + url.QueryEscape(secret)))
		err = clean.Redact(err, append(known, id, basic, url.QueryEscape(secret), string(form.Text)))
		if ctx.Err() != nil {
			err = failure.ErrCancelled
		}
		return "", nil, &failure.Failure{
			Code: failure.AuthTokenFailed, Own: true, Cause: err,
			Message: "Token for adapter '" + s.adapter.Name + "' could not be obtained",
			Details: wire.Members(nil).Str("adapter", s.adapter.Name).End(),
		}
	}
	return t.token, append(known, t.token), nil
}

// fetch asks the token endpoint. Its errors name no credential.
func (s *Signer) fetch(ctx context.Context, id, secret, form string) error {
	o, t := s.adapter.Auth.OAuth, s.oauth
	ctx, stop := context.WithTimeout(ctx, s.adapter.Target.Timeout)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, "POST", o.URL, strings.NewReader(form))
	if err != nil {
		return httpcall.WithoutURL(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", s.keeper.UserAgent)
	req.SetBasicAuth(url.QueryEscape(id), url.QueryEscape(secret)) // section 2.3.1
	res, err := s.client.Do(req)
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
	t.expires = s.keeper.Now().Add(max(life-tokenMargin, 0))
	if v := wire.Member(body, "refresh_token"); o.Refresh != nil && v != nil && wire.KindOf(v) == wire.String {
		t.rotated = string(wire.Unquoted(v))
	}
	return nil
}

// Renew puts a new OAuth token in the place of one in o that the API takes no notice
// of. It reports false when there is none to be had.
func (s *Signer) Renew(ctx context.Context, o *httpcall.Outgoing) bool {
	au := &s.adapter.Auth
	for i, h := range o.Headers {
		if h.Name != au.Header {
			continue
		}
		token, secrets, f := s.token(ctx, strings.TrimPrefix(h.Value, au.Prefix))
		if f != nil {
			return false // what the API said says more
		}
		o.Secrets = append(o.Secrets, secrets...)
		o.Headers[i].Value = au.Prefix + token
		return true
	}
	return false
}

// PresentCertificate makes t present the certificate. It is read for each connection, so
// that a renewed one is taken.
func PresentCertificate(m *file.Mutual, t *tls.Config) {
	t.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		c, err := tls.LoadX509KeyPair(m.Cert, m.Key)
		return &c, err
	}
	if pool, err := m.Roots(); err != nil {
		t.RootCAs = x509.NewCertPool() // an empty pool trusts no certificate; nil would trust the system's
	} else if pool != nil {
		t.RootCAs = pool
	}
}
