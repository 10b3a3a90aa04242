package oauth

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// Config says how dragoman signs in to a server.
type Config struct {
	Server  string // the URL of the MCP endpoint
	Profile string // tells apart several accounts at one server

	// Revision is the name of the newest revision of MCP that begins with initialize, which a
	// sign-in sends to see the server's refusal.
	Revision string

	// ClientID and ClientSecret belong to a client that was registered before; "" for none.
	// ClientMetadataURL is the https URL of a client metadata document, which authorization
	// servers that support these accept as a client id.
	ClientID, ClientSecret, ClientMetadataURL string
	Key                                       *Key // of the client, in place of a secret; nil for none

	Issuer   string            // the authorization server's; "" for the one that the server's metadata names
	Resource string            // sent instead of the resource in the metadata; "none" to send none
	Scopes   []string          // requested instead of those that the server asks for
	Params   map[string]string // further parameters of the authorization URL

	// TokenEndpoint and AuthorizationEndpoint, if TokenEndpoint is set, replace the metadata of the authorization server.
	TokenEndpoint, AuthorizationEndpoint string

	Sent        *secret.Kept // keeps what is sent and received that nothing may show; nil for one of its own
	RedirectURI string       // an http URL of this machine; "" for one with a free port
	ClientName  string       // to register under; "" for dragoman
	AssumePKCE  bool         // the authorization server supports PKCE and does not say so
	AllowHTTP   bool         // http URLs are allowed also for hosts other than this machine

	Wait time.Duration // how long a request waits for the user to sign in; 0 for 25 s
	TLS  *tls.Config   // nil for Go's defaults
	Dial upstream.Dial // opens connections; nil for those of the system

	Count Counters
}

// Counters counts token requests and sign-ins, by result. A nil function counts nothing.
type Counters struct {
	Token func(grant, result string)
	Login func(result string)
}

func (c *Counters) token(grant string, err error) {
	if c.Token != nil {
		c.Token(grant, resultOf(err))
	}
}

func (c *Counters) login(err error) {
	if c.Login != nil {
		c.Login(resultOf(err))
	}
}

func resultOf(err error) string {
	if err != nil {
		return "failed"
	}
	return "ok"
}

// protocolParams are the parameters of requests to authorization servers that a configuration may not set.
var protocolParams = []string{"response_type", "client_id", "redirect_uri", "scope", "state", "code_challenge", "code_challenge_method", "resource", "client_secret", "grant_type",
	"client_assertion", "client_assertion_type", "assertion", "code", "code_verifier", "device_code"}

// IsProtocolParam reports whether the protocol sets a parameter of authorization URLs.
func IsProtocolParam(name string) bool { return slices.Contains(protocolParams, name) }

// NoResource is the value of Config.Resource that sends no resource.
const NoResource = "none"

// An Account is a sign-in to one server. It keeps the tokens in the store and renews them. Its
// methods are safe for concurrent use.
type Account struct {
	cfg    Config
	server *url.URL
	id     string
	args   string // the arguments of dragoman login after the server's URL
	store  *Store
	log    *zap.Logger
	web    *web
	now    func() time.Time
	sleep  func(context.Context, time.Duration) error
	open   func(address string) error // shows a page; nil if the account is not interactive
	byCode bool                       // the user gets a code for another device instead
	wait   time.Duration              // how long a request waits for a sign-in
	life   context.Context
	end    context.CancelFunc

	mu      sync.Mutex
	live    record    // what the store had last
	looked  bool      // the store was read
	attempt *attempt  // nil if none is in progress
	fresh   string    // the last token that replaced a refused one, or came from a sign-in
	useless string    // the token that the server refused although it was fresh
	marked  time.Time // when it did
	device  bool      // the authorization server has a device flow
	failed  error     // why the last refresh failed at the authorization server
	at      time.Time // when it did
}

const (
	// closeTime is how long Close waits for a sign-in that it has cancelled.
	closeTime = 5 * time.Second
	// uselessFor is how long a fresh token that the server refused is not renewed again.
	uselessFor = time.Minute
	// refreshPause is how long no other refresh is tried after an authorization server has failed.
	refreshPause = 5 * time.Second
)

// NewAccount returns the account that cfg describes. It sends nothing yet.
func NewAccount(cfg Config, store *Store, log *zap.Logger) (*Account, error) {
	u, err := url.Parse(cfg.Server)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, fmt.Errorf("%q is not an http or https URL", cfg.Server)
	}
	for name := range cfg.Params {
		if slices.Contains(protocolParams, name) {
			return nil, fmt.Errorf("params: %s is set by dragoman and cannot be configured", name)
		}
	}
	if cfg.Sent == nil {
		cfg.Sent = new(secret.Kept)
	}
	w := newWeb(u, cfg.AllowHTTP, cfg.TLS)
	w.revision, w.network = cfg.Revision, cfg.Dial
	cfg.Server = canonical(u)
	life, end := context.WithCancel(context.Background())
	return &Account{
		cfg: cfg, server: u, store: store, log: log, web: w, now: time.Now, sleep: pauseFor, wait: cmp.Or(cfg.Wait, signInWait), life: life, end: end,
		id: strings.Join([]string{cfg.Server, accountMark, cfg.Profile, cfg.Resource, cfg.ClientID}, "\n"),
		args: argument(" --profile ", cfg.Profile) + argument(" --oauth client_id=", cfg.ClientID) + argument(" --oauth resource=", cfg.Resource) +
			argument(" --oauth redirect_uri=", cfg.RedirectURI) + argument(" --oauth client_name=", cfg.ClientName) +
			argument(" --oauth token_endpoint=", cfg.TokenEndpoint) + argument(" --oauth authorization_endpoint=", cfg.AuthorizationEndpoint),
	}, nil
}

// argument returns a flag with a value for a shell; "" if there is no value.
func argument(flag, value string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._~:/@-", r)
	}
	switch {
	case value == "":
		return ""
	case strings.ContainsFunc(value, func(r rune) bool { return !plain(r) }):
		value = "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
	}
	return flag + value
}

// accountMark is the second line of the ids of accounts, by which [List] knows them.
const accountMark = "mcp server"

// Identity returns a text that stays the same when tokens are renewed, and changes with each sign-in.
func (a *Account) Identity() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.id + "\n" + a.live.Login
}

// Subject returns the subject that the tokens of the sign-in name; "" if they name none.
func (a *Account) Subject() string {
	var r record
	if json.Unmarshal(a.store.peek(a.id), &r) != nil {
		return ""
	}
	return r.Subject
}

// Stored reports whether tokens of the account are stored. They need not be valid any more.
func (a *Account) Stored() bool {
	var r record
	return json.Unmarshal(a.store.peek(a.id), &r) == nil && r.Access+r.Refresh+r.Ended != ""
}

// Expires returns when the access token expires; zero if that is not known.
func (a *Account) Expires() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.live.Expires
}

// A Refusal is a response with status 401 or 403.
type Refusal struct {
	Status    int
	Challenge []string // the fields of WWW-Authenticate
	Tries     int      // how many renewed credentials the server has refused for the same request
}

// ErrNotOurs is returned by Refused for a refusal that another credential would not change.
var ErrNotOurs = errors.New("the refusal is not about the credential")

// Server returns the URL of the MCP endpoint.
func (a *Account) Server() string { return a.cfg.Server }

// Arguments returns the arguments of dragoman login for this account.
func (a *Account) Arguments() string { return a.cfg.Server + a.args }

// pauseFor waits for d, or until ctx ends.
func pauseFor(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

const (
	signInTime = 10 * time.Minute // for the user to sign in
	tabPause   = 10 * time.Minute // between two tabs that dragoman opens by itself
	signInWait = 25 * time.Second // how long a request waits for a sign-in: clients have timeouts of 30 s and more
	signInPoll = 500 * time.Millisecond

	stepTime  = time.Hour
	stepsEach = 3  // tabs within stepTime for the same scopes
	stepsAll  = 12 // tabs within stepTime for whatever scopes
	maxScopes = 64 // of an account
)

// DeviceCode is what a user needs to sign in on another device.
type DeviceCode struct {
	Page string // where the user types the code
	Code string
	Link string // a page that has the code already; "" for none
}

// attempt is a sign-in that requests wait for.
type attempt struct {
	done chan struct{} // closed when it has ended
	err  error

	// The rest is guarded by the account's lock.
	opened  bool       // a browser shows the sign-in page
	link    string     // URL of the sign-in page, if no browser could be opened
	code    DeviceCode // that the user was told, in place of a browser
	process int        // id of another process that waits for the user; 0 for none
}
