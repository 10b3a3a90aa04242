package oauth

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/adapterrt/plaintext"
	"github.com/dragoman-proxy/dragoman/oauthclient"
)

// ReadSecret returns the content of a file with one secret, without white space around it.
func ReadSecret(path string) (string, error) {
	text, err := plaintext.Read(path, maxTokenFile)
	secret := strings.TrimSpace(string(text))
	switch {
	case err != nil:
		return "", err
	case secret == "":
		return "", fmt.Errorf("%s is empty", path)
	case strings.ContainsFunc(secret, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return "", fmt.Errorf("%s: expected one word on one line", path)
	}
	return secret, nil
}

// TokenFile is a token in a file that another program renews. It is read again when the file
// changes. Its methods are safe for concurrent use.
type TokenFile struct {
	path string

	mu      sync.Mutex
	checked time.Time
	state   fs.FileInfo
	value   string
}

// tokenFileCheck is how often the file's state is looked at.
const tokenFileCheck = time.Second

// NewTokenFile returns the token in the file at path.
func NewTokenFile(path string) *TokenFile { return &TokenFile{path: path} }

// Identity returns a text that stays the same when tokens are renewed.
func (f *TokenFile) Identity() string { return "token_file\n" + f.path }

// Header returns the value of Authorization.
func (f *TokenFile) Header(context.Context) (string, error) { return f.read(false) }

// Refused returns nil if the file now has another token than the refused one.
func (f *TokenFile) Refused(_ context.Context, value string, refusal Refusal) error {
	if refusal.Status != http.StatusUnauthorized {
		return ErrNotOurs
	}
	next, err := f.read(true)
	switch {
	case err != nil:
		return err
	case next == value:
		return fmt.Errorf("the server refused the token in %s", f.path)
	}
	return nil
}

func (f *TokenFile) read(now bool) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !now && f.value != "" && time.Since(f.checked) < tokenFileCheck {
		return f.value, nil
	}
	state, err := os.Stat(f.path) // of the target of a link, which projected tokens replace
	if err != nil {
		return "", err
	}
	f.checked = time.Now()
	if !now && f.value != "" && os.SameFile(state, f.state) && state.ModTime().Equal(f.state.ModTime()) && state.Size() == f.state.Size() {
		return f.value, nil
	}
	secret, err := ReadSecret(f.path)
	if err != nil {
		return "", err
	}
	f.value, f.state = "Bearer "+secret, state
	return f.value, nil
}

// ServiceToken is a token that dragoman requests for itself, without a user. Tokens stay in memory. Its methods are safe for
// concurrent use.
type ServiceToken struct {
	a         *Account // for discovery; it has no tokens
	grant     string   // client_credentials or jwt_bearer
	assertion string   // file of the assertion of jwt_bearer

	mu      sync.Mutex
	at      *authority // nil until the server has refused a request
	live    record     // its tokens; none before the first
	useless string     // a fresh token that the server refused
	marked  time.Time
	failed  error // of the last request for a token
	when    time.Time
	sent    string // the assertion of that request
}

// NewClientCredentials returns the credential of the client that cfg names:
// https://www.rfc-editor.org/rfc/rfc6749#section-4.4. It sends nothing yet.
func NewClientCredentials(cfg Config, log *zap.Logger) (*ServiceToken, error) {
	if cfg.ClientID == "" || cfg.ClientSecret == "" && cfg.Key == nil {
		return nil, errors.New("client_credentials needs client_id, and a client secret or a key")
	}
	return newServiceToken(cfg, "client_credentials", "", log)
}

// NewJWTBearer returns the credential for the assertion in a file, which another program renews:
// https://www.rfc-editor.org/rfc/rfc7523#section-2.1. If cfg names a client, the client authenticates too. It sends nothing yet.
func NewJWTBearer(cfg Config, assertionFile string, log *zap.Logger) (*ServiceToken, error) {
	return newServiceToken(cfg, "jwt_bearer", assertionFile, log)
}

func newServiceToken(cfg Config, grant, assertion string, log *zap.Logger) (*ServiceToken, error) {
	a, err := NewAccount(cfg, New("", Memory, log), log)
	if err != nil {
		return nil, err
	}
	return &ServiceToken{a: a, grant: grant, assertion: assertion}, nil
}

// Close closes idle connections.
func (c *ServiceToken) Close() { c.a.Close() }

// Identity returns a text that stays the same when tokens are renewed.
func (c *ServiceToken) Identity() string { return c.grant + "\n" + c.a.id + "\n" + c.assertion }

// Expires returns when the access token expires; zero if that is not known.
func (c *ServiceToken) Expires() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.live.Expires
}

// Header returns the value of Authorization; "" until a refusal has named the authorization server.
func (c *ServiceToken) Header(ctx context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at == nil {
		return "", nil
	}
	if now := c.a.now(); c.live.due(now) {
		if err := c.renew(ctx); err != nil && (c.live.Access == "" || c.live.over(now)) {
			return "", err
		}
	}
	return "Bearer " + c.live.Access, nil
}

// Refused handles the server's refusal of a request whose Authorization had this value. It returns
// nil if there is a new value.
func (c *ServiceToken) Refused(ctx context.Context, value string, refusal Refusal) error {
	ch := readChallenge(refusal.Challenge)
	c.mu.Lock()
	defer c.mu.Unlock()
	current := ""
	if c.live.Access != "" {
		current = "Bearer " + c.live.Access
	}
	switch {
	case refusal.Status == http.StatusForbidden && ch.err == "insufficient_scope" && c.at != nil:
		return &scopesError{server: c.a.cfg.Server, wants: strings.Fields(ch.scope), gave: c.at.scopes}
	case refusal.Status != http.StatusUnauthorized:
		return ErrNotOurs
	case current != "" && value != current:
		return nil
	}
	if refusal.Tries > 0 && current != "" {
		c.useless, c.marked = current, c.a.now()
	}
	if current != "" && current == c.useless && c.a.now().Sub(c.marked) < uselessFor {
		r := record{Access: c.live.Access, Resource: c.at.resource}
		return &uselessError{server: c.a.cfg.Server, audience: audienceOf(&r), named: c.at.named}
	}
	at, err := c.a.discoverServer(ctx, ch, "")
	if err != nil {
		return err
	}
	c.at = at
	return c.renew(ctx)
}

// assertionPause is how long a refused assertion is not sent again.
const assertionPause = time.Minute

// renew requests a token. c.mu is held, so that one request is sent at a time.
func (c *ServiceToken) renew(ctx context.Context) error {
	params, age := url.Values{"grant_type": {"client_credentials"}}, c.a.now().Sub(c.when)
	if c.failed != nil && age < refreshPause {
		return c.failed
	}
	setAll(params, c.a.cfg.Params)
	if c.grant == "jwt_bearer" {
		assertion, err := ReadSecret(c.assertion)
		if err != nil {
			return fmt.Errorf("assertion_file: %w", err)
		}
		if _, refused := errors.AsType[*oauthclient.Refusal](c.failed); refused && assertion == c.sent && age < assertionPause {
			return c.failed
		}
		params.Set("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer")
		params.Set("assertion", assertion)
		c.sent = assertion
	}
	t, err := c.request(context.WithoutCancel(ctx), params)
	c.a.cfg.Count.token(c.grant, err)
	c.failed, c.when = err, c.a.now()
	if err != nil {
		return err
	}
	c.live.take(t, c.a.now())
	return nil
}

func (c *ServiceToken) request(ctx context.Context, params url.Values) (oauthclient.Token, error) {
	m, cfg := &c.at.serverMetadata, &c.a.cfg
	as := client{ID: cfg.ClientID, Secret: cfg.ClientSecret, Method: c.a.method(m)}
	setScope(params, slices.DeleteFunc(slices.Clone(c.at.scopes), func(s string) bool { return s == "offline_access" }))
	t, err := c.a.request(ctx, m, &as, c.at.resource, params, nil)
	if refused, ok := errors.AsType[*oauthclient.Refusal](err); ok {
		return t, &serviceError{hostOf(m.Token), c.assertion, refused}
	} else if err != nil {
		return t, failure(m.Token, err)
	}
	return t, tokenFault(m.Token, t)
}

// serviceError says that an authorization server has refused a token to dragoman.
type serviceError struct {
	host, assertion string // the file of the assertion, "" for none
	refused         *oauthclient.Refusal
}

func (e *serviceError) Error() string {
	text := fmt.Sprintf("AS %s: %v", e.host, said(e.refused))
	if e.assertion != "" {
		text += "; the assertion is in " + e.assertion
	}
	return text
}

func (e *serviceError) Unwrap() error { return e.refused }
