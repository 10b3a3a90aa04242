package oauth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// maxTokenFile is the size of a token file that is read.
const maxTokenFile = 64 << 10

// ReadSecret returns the content of a file with one secret, without white space around it.
func ReadSecret(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxTokenFile+1))
	secret := strings.TrimSpace(string(text))
	switch {
	case err != nil:
		return "", err
	case len(text) > maxTokenFile:
		return "", fmt.Errorf("%s is larger than %d bytes", path, maxTokenFile)
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

// ClientCredentials is a token that dragoman requests for itself, without a user:
// https://www.rfc-editor.org/rfc/rfc6749#section-4.4. Tokens stay in memory. Its methods are safe
// for concurrent use.
type ClientCredentials struct {
	a *Account // for discovery; it has no tokens

	mu      sync.Mutex
	at      *authority // nil until the server has refused a request
	token   *oauth2.Token
	got     time.Time
	useless string // a fresh token that the server refused
	marked  time.Time
	failed  error // of the last request for a token
	when    time.Time
}

// NewClientCredentials returns the credential of the client that cfg names. It sends nothing yet.
func NewClientCredentials(cfg Config, log *zap.Logger) (*ClientCredentials, error) {
	if cfg.ClientID == "" || cfg.ClientSecret == "" {
		return nil, errors.New("client_credentials needs client_id and a client secret")
	}
	a, err := NewAccount(cfg, New("", Memory, log), log)
	if err != nil {
		return nil, err
	}
	return &ClientCredentials{a: a}, nil
}

// Close closes idle connections.
func (c *ClientCredentials) Close() { c.a.Close() }

// Identity returns a text that stays the same when tokens are renewed.
func (c *ClientCredentials) Identity() string { return "client_credentials\n" + c.a.id }

// Expires returns when the access token expires; zero if that is not known.
func (c *ClientCredentials) Expires() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.token == nil {
		return time.Time{}
	}
	return c.token.Expiry
}

// Header returns the value of Authorization; "" until a refusal has named the authorization server.
func (c *ClientCredentials) Header(ctx context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at == nil {
		return "", nil
	}
	if now := c.a.now(); c.due(now) {
		if err := c.renew(ctx); err != nil && (c.token == nil || c.over(now)) {
			return "", err
		}
	}
	return "Bearer " + c.token.AccessToken, nil
}

func (c *ClientCredentials) due(now time.Time) bool {
	if c.token == nil {
		return true
	}
	r := record{Access: c.token.AccessToken, Got: c.got, Expires: c.token.Expiry}
	return r.due(now)
}

func (c *ClientCredentials) over(now time.Time) bool {
	return !c.token.Expiry.IsZero() && !now.Before(c.token.Expiry)
}

// Refused handles the server's refusal of a request whose Authorization had this value. It returns
// nil if there is a new value.
func (c *ClientCredentials) Refused(ctx context.Context, value string, refusal Refusal) error {
	ch := readChallenge(refusal.Challenge)
	c.mu.Lock()
	defer c.mu.Unlock()
	current := ""
	if c.token != nil {
		current = "Bearer " + c.token.AccessToken
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
		r := record{Access: c.token.AccessToken, Resource: c.at.resource}
		return &uselessError{server: c.a.cfg.Server, audience: audienceOf(&r), named: c.at.named}
	}
	at, err := c.a.discoverServer(ctx, ch)
	if err != nil {
		return err
	}
	c.at = at
	return c.renew(ctx)
}

// renew requests a token. c.mu is held, so that one request is sent at a time.
func (c *ClientCredentials) renew(ctx context.Context) error {
	if c.failed != nil && c.a.now().Sub(c.when) < refreshPause {
		return c.failed
	}
	scopes := slices.DeleteFunc(slices.Clone(c.at.scopes), func(s string) bool { return s == "offline_access" })
	cfg := clientcredentials.Config{
		ClientID: c.a.cfg.ClientID, ClientSecret: c.a.cfg.ClientSecret, TokenURL: c.at.Token, Scopes: scopes,
		EndpointParams: map[string][]string{}, AuthStyle: oauth2.AuthStyleInHeader,
	}
	if c.at.methodFor(c.a.cfg.ClientSecret) == "client_secret_post" {
		cfg.AuthStyle = oauth2.AuthStyleInParams
	}
	for name, value := range c.a.cfg.Params {
		cfg.EndpointParams.Set(name, value)
	}
	t, err := cfg.Token(c.a.tokenContext(context.WithoutCancel(ctx), c.at.resource))
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		err = fmt.Errorf("AS %s: %w", hostOf(c.at.Token), said(refused))
	} else if err != nil {
		err = fmt.Errorf("AS %s: %w", hostOf(c.at.Token), withoutURL(err))
	} else {
		err = tokenFault(c.at.Token, t)
	}
	c.a.cfg.Count.token("client_credentials", err)
	c.failed, c.when = err, c.a.now()
	if err != nil {
		return err
	}
	c.token, c.got = t, c.a.now()
	return nil
}
