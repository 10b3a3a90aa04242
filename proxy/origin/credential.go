package origin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
	"github.com/dragoman-proxy/dragoman/proxy/auth/oauth"
	"github.com/dragoman-proxy/dragoman/proxy/auth/oauthrelay"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/failures"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/storeconfig"
	"github.com/dragoman-proxy/dragoman/proxy/store"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
)

// lingerTime is how long a sign-in in the browser may go on after the client on stdio has left.
const lingerTime = 2 * time.Minute

// TokenStore returns the store of OAuth tokens that cfg selects. The store writes its warnings to log. If it is the one of
// store.url, it connects on its own, unless it is given a connection before its first use.
func TokenStore(cfg *config.Config, log *zap.Logger) *oauth.Store {
	if oauth.Kind(cfg.CredentialStore) == oauth.Shared {
		c := *cfg
		return oauth.NewShared(func() (*store.Store, error) {
			keys, err := sealed.ReadKeys(c.Session.KeyFile)
			if err != nil {
				return nil, err
			}
			return storeconfig.Open(&c, keys, store.Options{})
		}, log)
	}
	return oauth.New(cfg.Credentials, oauth.Kind(cfg.CredentialStore), log)
}

// NewAccount returns the sign-in to the server of cfg, with its tokens in store.
func NewAccount(cfg *config.Config, store *oauth.Store, log *zap.Logger) (*oauth.Account, error) {
	c, err := oauthConfig(cfg.Upstream)
	if err != nil {
		return nil, err
	}
	return oauth.NewAccount(c, store, log)
}

// BorrowLogin makes cfg use the login of the person who has signed in, with dragoman login or stdio, to the server that it names, and
// reports whether there is one. It is for commands that ask the server themselves. A credential that cfg names goes first.
func BorrowLogin(cfg *config.Config) bool {
	u := &cfg.Upstream
	if u.SetsAuthorization() || u.URL == "" || u.Auth.Type != "" || u.Unverified() {
		return false
	}
	log := zap.NewNop()
	store := TokenStore(cfg, log)
	defer store.Close()
	a, err := NewAccount(cfg, store, log)
	if err != nil {
		return false // its URL is none of HTTP, or a file that it names is wrong, which others say
	}
	defer a.Close()
	if !a.Stored() {
		return false
	}
	u.Auth.Type = config.AuthLogin
	return true
}

func oauthConfig(u config.Upstream) (c oauth.Config, err error) {
	a := u.Auth
	c = oauth.Config{
		Server: u.URL, Profile: a.Profile, Revision: translate.Latest().Name, ClientID: a.ClientID, ClientSecret: a.ClientSecret, ClientMetadataURL: a.ClientMetadataURL,
		Issuer: a.Issuer, Resource: a.Resource, Scopes: a.Scopes, Params: a.Params,
		RedirectURI: a.RedirectURI, ClientName: a.ClientName, TokenEndpoint: a.TokenEndpoint, AuthorizationEndpoint: a.AuthorizationEndpoint, AssumePKCE: a.AssumePKCE, AllowHTTP: a.AllowHTTP,
		Wait: min(a.Wait, max(u.HandshakeTimeout-2*time.Second, time.Second)), // so that the client gets the reason before the timeout
	}
	if a.ClientSecretFile != "" {
		if c.ClientSecret, err = oauth.ReadSecret(a.ClientSecretFile); err != nil {
			return c, fmt.Errorf("upstream.auth.client_secret_file: %w", err)
		}
	}
	if a.KeyFile != "" {
		if c.Key, err = oauth.ReadKey(a.KeyFile); err != nil {
			return c, fmt.Errorf("upstream.auth.key_file: %w", err)
		}
		c.Key.ID, c.Key.ForTokenEndpoint = a.Kid, a.KeyAudience == config.KeyForTokenEndpoint
	}
	c.TLS, err = TLS(u)
	return c, err
}

// Credentials makes the credential of an origin, and of those that replace it after a reload.
type Credentials struct {
	store                   *oauth.Store
	tokens, logins, relayed *prometheus.CounterVec
	Changed                 func()                 // called when another user has signed in; nil until Register is called
	login                   atomic.Pointer[string] // whose credential the last request carried; nil before the first

	// Sent are the secrets that requests to the server and to authorization servers have carried, and those that these have issued.
	Sent secret.Kept
	// Clients are the secrets of clients in requests that something observes. Elsewhere a request's own are looked for.
	Clients secret.Kept
	// Cookies are those of balancers that the server has set. Most change with each response, so that few are kept.
	Cookies secret.Kept
}

// NewCredentials returns Credentials that keep tokens in the [TokenStore] of cfg.
func NewCredentials(cfg *config.Config, log *zap.Logger) *Credentials {
	return &Credentials{
		Cookies: secret.Kept{Most: 32},
		store:   TokenStore(cfg, log),
		tokens: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dragoman_oauth_tokens_total",
			Help: "Token requests to the server's authorization server, by grant and result (ok or failed).",
		}, []string{"grant", "result"}),
		logins: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dragoman_oauth_logins_total",
			Help: "Sign-ins to the server in a browser that this process has begun, by result (ok or failed).",
		}, []string{"result"}),
		relayed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dragoman_oauth_relayed_total",
			Help: "Requests of OAuth clients that were relayed to the server, by kind (metadata or endpoint) and HTTP status.",
		}, []string{"kind", "status"}),
	}
}

// Share makes the credentials keep their tokens in s, if they are kept in a store that replicas share. It must be called
// before their first use.
func (s *Credentials) Share(with *store.Store) { s.store.Use(with) }

// Close gives up tokens that could not be stored. The store of Share must be open until then.
func (s *Credentials) Close() { s.store.Close() }

// Register adds the metrics of credentials to registry. now returns the credential in use; nil for none. changed
// is called when another person has signed in: what the server told one person is not for another.
func (s *Credentials) Register(registry prometheus.Registerer, now func() *Credential, changed func()) {
	s.Changed = changed
	registry.MustRegister(s.tokens, s.logins, s.relayed, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "dragoman_oauth_token_expiry_seconds",
		Help: "Time until the token for the server expires; NaN if there is no token, or if its expiry is not known.",
	}, func() float64 {
		c := now()
		if c == nil || c.expires == nil || c.expires().IsZero() {
			return math.NaN()
		}
		return time.Until(c.expires()).Seconds()
	}))
}

// Note stores the login whose credential a request carries. A login keeps its identity when its tokens are renewed. Note
// calls Changed if the login differs from the last one.
func (s *Credentials) Note(login string) {
	if was := s.login.Load(); was == nil || *was != login {
		if s.login.Store(&login); was != nil {
			s.Changed()
		}
	}
}

// Login returns the login whose credential the last request carried; "" for none.
func (s *Credentials) Login() string {
	if id := s.login.Load(); id != nil {
		return *id
	}
	return ""
}

// CountRelayed counts a request of an OAuth client.
func (s *Credentials) CountRelayed(path string, status int) {
	kind := "endpoint"
	if oauthrelay.IsMetadata(path) {
		kind = "metadata"
	}
	s.relayed.WithLabelValues(kind, strconv.Itoa(status)).Inc()
}

// A Credential is the credential of upstream.auth. It implements [upstream.Credential].
type Credential struct {
	from interface {
		Header(context.Context) (string, error)
		Refused(context.Context, string, oauth.Refusal) error
		Identity() string
	}
	own     bool             // the credential belongs to the client's user, so errors reach the client
	expires func() time.Time // nil if that is never known
	finish  func(context.Context)
	awaited func() string // nil if no request waits for a sign-in
	person  func() string // returns who has signed in for all clients; nil if no person has
	close   func()
	of      *Credentials
}

// newCredential returns the credential of cfg; nil for none.
func (s *Credentials) newCredential(w World, cfg *config.Config, log *zap.Logger) (*Credential, error) {
	u := cfg.Upstream
	if !u.Auth.Lends() {
		return nil, nil
	}
	if u.Auth.Type == config.AuthTokenFile {
		return &Credential{from: oauth.NewTokenFile(u.Auth.TokenFile), own: u.Auth.Browser, of: s}, nil
	}
	c, err := oauthConfig(u)
	if err != nil {
		return nil, err
	}
	c.Sent, c.Dial = &s.Sent, w.Dial
	log = report.Safe(log, func() []*secret.Set { return []*secret.Set{s.Sent.Set()} })
	c.Count = oauth.Counters{
		Token: func(grant, result string) { s.tokens.WithLabelValues(grant, result).Inc() },
		Login: func(result string) { s.logins.WithLabelValues(result).Inc() },
	}
	var k *oauth.ServiceToken
	switch u.Auth.Type {
	case config.AuthClientCredentials:
		k, err = oauth.NewClientCredentials(c, log)
	case config.AuthJWTBearer:
		k, err = oauth.NewJWTBearer(c, u.Auth.AssertionFile, log)
	}
	if err != nil {
		return nil, err
	}
	if k != nil {
		return &Credential{from: k, own: u.Auth.Browser, expires: k.Expires, close: k.Close, of: s}, nil
	}
	a, err := oauth.NewAccount(c, s.store, log)
	if err != nil {
		return nil, err
	}
	made := &Credential{from: a, own: u.Auth.Browser, expires: a.Expires, finish: a.Finish, awaited: a.Awaited, close: a.Close, of: s}
	switch {
	case u.Auth.Device:
		a.InteractiveOnDevice()
	case u.Auth.Browser:
		a.Interactive(oauth.OpenBrowser)
	default:
		made.person = a.Subject
	}
	return made, nil
}

// TellLent warns if every client of the server with this name acts as the person who has signed in. c may be nil.
func (c *Credential) TellLent(server string, log *zap.Logger) {
	if c == nil || c.person == nil {
		return
	}
	person := zap.Skip()
	if sub := c.person(); sub != "" {
		person = zap.String("sub", sub)
	}
	log.Warn("upstream.auth.type is login: every client acts as the person who has signed in to the server", zap.String("server", server), person)
}

func (c *Credential) Header(ctx context.Context) (string, error) {
	value, err := c.from.Header(ctx)
	if value != "" {
		c.of.Sent.Keep(value)
		c.of.Note(c.from.Identity())
	}
	return value, c.told(err)
}

func (c *Credential) Refused(ctx context.Context, value string, refusal *upstream.StatusError, tries int) error {
	err := c.from.Refused(ctx, value, oauth.Refusal{Status: refusal.Code, Challenge: refusal.Challenges(), Tries: tries})
	if errors.Is(err, oauth.ErrNotOurs) {
		plain := *refusal // a client that got the challenge would begin a login that cannot help
		plain.Header = slices.DeleteFunc(slices.Clone(refusal.Header), func(h mcp.Header) bool { return strings.EqualFold(h.Name, "WWW-Authenticate") })
		return &plain
	}
	if said := wordsOf(refusal); said != "" && oauth.IsNowhere(err) { // a token of another kind may be missing
		err = fmt.Errorf("%w (it says: %s)", err, said)
	}
	return c.told(err)
}

// end ends a sign-in under way, and closes connections. c may be nil.
func (c *Credential) end() {
	if c != nil && c.close != nil {
		c.close()
	}
}

// Linger waits until no sign-in is under way, lingerTime at most.
func (c *Credential) Linger(ctx context.Context) {
	if c == nil || c.finish == nil {
		return
	}
	ctx, stop := context.WithTimeout(ctx, lingerTime)
	defer stop()
	c.finish(ctx)
}

// Awaited says what requests wait for while a sign-in is in progress, in words for a log; "" if none is. c may be nil.
func (c *Credential) Awaited() string {
	if c == nil || c.awaited == nil {
		return ""
	}
	return c.awaited()
}

// told marks an error that the client may read.
func (c *Credential) told(err error) error {
	err = secret.Error(err, c.of.Sent.Set())
	if err == nil || !c.own {
		return err
	}
	return forClient{err}
}

// forClient is an error that the client may read: its user is at this machine.
type forClient struct{ error }

func (e forClient) Unwrap() error { return e.error }

// ForClient makes package clienterror pass the text on.
func (forClient) ForClient() {}

// wordsOf returns what the server says in the body of a refusal, on one line; "" for nothing that is for people.
func wordsOf(refusal *upstream.StatusError) string {
	if said := gjson.GetBytes(refusal.Body, "error.message"); gjson.ValidBytes(refusal.Body) && said.Type == gjson.String {
		return failures.Line(said.Str)
	}
	return report.PlainWords(refusal)
}

// explainRefusal returns an error in place of a refusal for a client on stdio, whose user has configured the
// token, if any.
func explainRefusal(u config.Upstream) func(*upstream.StatusError) error {
	given := u.SetsAuthorization()
	return func(refusal *upstream.StatusError) error {
		if refusal.Code != http.StatusUnauthorized {
			return refusal
		}
		text := Name(u) + " wants a token: --header 'Authorization: Bearer ${TOKEN}', or --login auto"
		if given {
			text = Name(u) + " refused the token given by " + cmp.Or(u.HeadersFrom, "--header") + " (401): " + cmp.Or(oauth.DescriptionIn(refusal.Challenges()), "is it complete and still valid?")
		}
		if said := wordsOf(refusal); said != "" {
			text += " (it says: " + said + ")"
		}
		return &upstream.CredentialError{Err: forClient{errors.New(text)}}
	}
}
