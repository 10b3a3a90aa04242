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

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// AuthTokenFailed is the code for an OAuth token that could not be had.
const AuthTokenFailed Code = "AUTH_TOKEN_FAILED"

const (
	tokenMargin   = 30 * time.Second // before its end a token is not used any more
	tokenDefault  = 5 * time.Minute  // for one whose end nobody told
	maxTokenReply = 1 << 20
)

// oauth is where tokens come from: https://www.rfc-editor.org/rfc/rfc6749
type oauth struct {
	url      string
	id       credential
	secret   credential
	refresh  *credential // grant refresh_token
	scopes   []string
	audience string

	// What follows is of the running adapter. lock is held while it is used, for as
	// long as a token is fetched.
	lock    chan struct{}
	token   string
	expires time.Time
	rotated string // the refresh token that came with the last token
}

func (c *checker) oauth(n *node) *oauth {
	c.known(n, "auth", "type", "token_url", "client_id_env", "client_secret_env", "grant", "refresh_token_env", "scopes", "audience", "mtls")
	o := &oauth{scopes: c.strs(n, "auth", "scopes"), audience: c.str(n, "auth", "audience"), lock: make(chan struct{}, 1)}
	v := n.get("token_url")
	u, err := url.Parse(c.str(n, "auth", "token_url"))
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || !isHost(u.Hostname()) || !isPort(u) || u.Scheme != "https" && (u.Scheme != "http" || !isLocalHost(u.Hostname())) {
		c.wrong(AuthConfigInvalid, "auth.token_url", "token_url is not valid", "https URL", v, n.line)
	} else {
		o.url = u.String()
	}
	o.id, o.secret = c.credential(n, "client_id_env", ""), c.credential(n, "client_secret_env", "")
	if c.word(n, "auth", "grant", "client_credentials", "refresh_token") == "refresh_token" {
		r := c.credential(n, "refresh_token_env", "")
		o.refresh = &r
	}
	return o
}

// oauthToken is the adapter's token. One that equals stale is replaced. Of those
// who come at once, one fetches and the others wait.
func (rt *Runtime) oauthToken(ctx context.Context, a *Adapter, stale string) (string, []string, *Failure) {
	o := a.auth.oauth
	select {
	case o.lock <- struct{}{}:
	case <-ctx.Done():
		return "", nil, &Failure{Code: TransportTimeout, Message: "Request cancelled", Cause: errCancelled}
	}
	defer func() { <-o.lock }()
	if o.token != "" && o.token != stale && rt.opt.Now().Before(o.expires) {
		return o.token, []string{o.token}, nil
	}
	form := pairs{}
	var known []string
	if o.refresh != nil {
		secret, f := rt.secret(a, *o.refresh)
		if f != nil {
			return "", nil, f
		}
		if o.rotated != "" {
			secret = o.rotated
		}
		known = append(known, secret)
		form.add("grant_type", "refresh_token")
		form.add("refresh_token", secret)
	} else {
		form.add("grant_type", "client_credentials")
	}
	if len(o.scopes) > 0 {
		form.add("scope", strings.Join(o.scopes, " "))
	}
	if o.audience != "" {
		form.add("audience", o.audience)
	}
	id, f := rt.secret(a, o.id)
	if f != nil {
		return "", nil, f
	}
	secret, f := rt.secret(a, o.secret)
	if f != nil {
		return "", nil, f
	}
	known = append(known, secret)
	if err := rt.fetchToken(ctx, a, id, secret, string(form.buf)); err != nil {
		basic := base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(id) + ":" + url.QueryEscape(secret)))
		err = redact(err, append(known, id, basic, url.QueryEscape(secret), string(form.buf)))
		if ctx.Err() != nil {
			err = errCancelled
		}
		return "", nil, &Failure{
			Code: AuthTokenFailed, Own: true, Cause: err,
			Message: "Token for adapter '" + a.Name + "' could not be obtained",
			Details: wire.Members(nil).Str("adapter", a.Name).End(),
		}
	}
	return o.token, append(known, o.token), nil
}

// fetchToken asks the token endpoint. Its errors name no credential.
func (rt *Runtime) fetchToken(ctx context.Context, a *Adapter, id, secret, form string) error {
	o := a.auth.oauth
	ctx, stop := context.WithTimeout(ctx, a.target.timeout)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, "POST", o.url, strings.NewReader(form))
	if err != nil {
		return withoutURL(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", rt.opt.UserAgent)
	req.SetBasicAuth(url.QueryEscape(id), url.QueryEscape(secret)) // section 2.3.1
	res, err := a.client.Do(req)
	if err != nil {
		return withoutURL(err)
	}
	defer res.Body.Close()
	body, err := readBody(res.Body, -1, maxTokenReply)
	if err != nil {
		return err
	}
	body = wire.Trim(body)
	if res.StatusCode != 200 || !wire.Valid(body) || len(body) > maxTokenReply {
		return fmt.Errorf("token endpoint answered %d", res.StatusCode)
	}
	token := wire.Member(body, "access_token")
	if token == nil || wire.KindOf(token) != wire.String || len(token) < 3 || !isHeaderValue(wire.Unquoted(token)) {
		return fmt.Errorf("token endpoint answered without access_token")
	}
	o.token = string(wire.Unquoted(token))
	life := tokenDefault
	if v := wire.Member(body, "expires_in"); v != nil {
		if s, err := strconv.ParseFloat(strings.Trim(string(v), `"`), 64); err == nil && s > 0 {
			life = time.Duration(min(s, 366*86400)) * time.Second
		}
	}
	o.expires = rt.opt.Now().Add(max(life-tokenMargin, 0))
	if v := wire.Member(body, "refresh_token"); o.refresh != nil && v != nil && wire.KindOf(v) == wire.String {
		o.rotated = string(wire.Unquoted(v))
	}
	return nil
}

// deliver sends o. When the API takes no notice of an OAuth token, it is fetched
// anew, once, and the request repeated: it had no effect.
func (rt *Runtime) deliver(ctx context.Context, a *Adapter, o *outgoing) (*reply, *Failure) {
	r, f := rt.send(ctx, a, o)
	if f != nil || r.status != 401 || a.auth.kind != authOAuth {
		return r, f
	}
	for i, h := range o.headers {
		if h.name != a.auth.header {
			continue
		}
		token, secrets, f := rt.oauthToken(ctx, a, strings.TrimPrefix(h.value, a.auth.prefix))
		if f != nil {
			return r, nil // what the API said says more
		}
		o.secrets = append(o.secrets, secrets...)
		o.headers[i].value = a.auth.prefix + token
		return rt.send(ctx, a, o)
	}
	return r, nil
}

// mutual is a client certificate, kept in files.
type mutual struct{ cert, key, ca string }

// mutual reads the files' names and warns when they are no use now.
func (c *checker) mutual(n *node, path string) *mutual {
	file := func(key string, needed bool) string {
		v := n.get(key)
		if v == nil && !needed {
			return ""
		}
		if v == nil || v.kind != wire.String || v.text == "" || strings.ContainsRune(v.text, 0) {
			c.wrong(AuthConfigInvalid, join(path, key), key+" is required", "path of a PEM file", v, n.line)
			return ""
		}
		return v.text
	}
	m := &mutual{file("cert_file", true), file("key_file", true), file("ca_file", false)}
	if m.cert != "" && m.key != "" && c.opt.Getenv != nil {
		if _, err := tls.LoadX509KeyPair(m.cert, m.key); err != nil {
			c.warn(AuthConfigInvalid, path, "the client certificate cannot be used", n.line)
		}
		if _, err := m.roots(); err != nil {
			c.warn(AuthConfigInvalid, join(path, "ca_file"), "the authority's certificate cannot be used", n.line)
		}
	}
	return m
}

// roots are whom to trust: ca_file's, nil for the usual ones.
func (m *mutual) roots() (*x509.CertPool, error) {
	if m.ca == "" {
		return nil, nil
	}
	var files secretFiles
	pem, err := files.get(m.ca)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(pem)) {
		return nil, fmt.Errorf("no certificate in it")
	}
	return pool, nil
}

// configure makes t present the certificate. It is read for each connection, so
// that a renewed one is taken.
func (m *mutual) configure(t *tls.Config) {
	t.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		c, err := tls.LoadX509KeyPair(m.cert, m.key)
		return &c, err
	}
	if pool, err := m.roots(); err != nil {
		t.RootCAs = x509.NewCertPool() // trust nobody rather than everybody
	} else if pool != nil {
		t.RootCAs = pool
	}
}
