package oauth

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/oauth2"
)

// Config says how dragoman signs in to a server.
type Config struct {
	Server  string // the URL of the MCP endpoint
	Profile string // tells apart several accounts at one server

	// ClientID and ClientSecret belong to a client that was registered before; "" for none.
	// ClientMetadataURL is the https URL of a client metadata document, which authorization
	// servers that support these accept as a client id.
	ClientID, ClientSecret, ClientMetadataURL string

	Issuer   string            // the authorization server's; "" for the one that the server's metadata names
	Resource string            // sent instead of the resource in the metadata; "none" to send none
	Scopes   []string          // requested instead of those that the server asks for
	Params   map[string]string // further parameters of the authorization URL

	CallbackHost string // host of the redirect URI; "" for 127.0.0.1
	CallbackPort int    // port of the redirect URI; 0 for a free one
	AssumePKCE   bool   // the authorization server supports PKCE and does not say so
	AllowHTTP    bool   // http URLs are allowed also for hosts other than this machine

	Wait time.Duration // how long a request waits for the user to sign in; 0 for 25 s
	TLS  *tls.Config   // nil for Go's defaults

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

// protocolParams are the parameters of an authorization URL that a configuration may not set.
var protocolParams = []string{"response_type", "client_id", "redirect_uri", "scope", "state", "code_challenge", "code_challenge_method", "resource", "client_secret", "grant_type"}

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
	open   func(address string) error // shows a page; nil if the account is not interactive
	wait   time.Duration              // how long a request waits for a sign-in
	life   context.Context
	end    context.CancelFunc

	mu      sync.Mutex
	live    record    // what the store had last
	looked  bool      // the store was read
	attempt *attempt  // nil if none is in progress
	useless string    // the token that the server refused although it was fresh
	marked  time.Time // when it did
	failed  error     // why the last refresh failed at the authorization server
	at      time.Time // when it did
}

const (
	// uselessFor is how long a fresh token that the server refused is not renewed again.
	uselessFor = time.Minute
	// refreshPause is how long no other refresh is tried after an authorization server has failed.
	refreshPause = 5 * time.Second
)

// A record is what is stored of an account.
type record struct {
	Server   string `json:"server"`
	Profile  string `json:"profile,omitempty"`
	Resource string `json:"resource,omitempty"`

	Authority serverMetadata `json:"authorization_server"`
	Named     string         `json:"server_resource,omitempty"` // the resource in the server's metadata
	Client    client         `json:"client"`
	Pending   client         `json:"pending,omitzero"` // of a sign-in that began while there are tokens of Client
	Scopes    []string       `json:"scopes,omitempty"` // granted
	Wanted    []string       `json:"wanted,omitempty"` // that the server has asked for in refusals
	Login     string         `json:"login,omitempty"`  // another one for each sign-in

	Access  string    `json:"access_token,omitempty"`
	Refresh string    `json:"refresh_token,omitempty"`
	Got     time.Time `json:"got,omitzero"`
	Expires time.Time `json:"expires,omitzero"`

	// Sent says that Refresh was sent and no answer was read: the server may have replaced it,
	// and may end the sign-in if it comes again.
	Sent bool `json:"sent,omitempty"`
	// Ended is why the authorization server has ended the sign-in.
	Ended string `json:"ended,omitempty"`
}

// A client is dragoman's registration at an authorization server.
type client struct {
	ID            string    `json:"id"`
	Issuer        string    `json:"issuer"` // the authorization server's
	Secret        string    `json:"secret,omitempty"`
	SecretExpires time.Time `json:"secret_expires,omitzero"`
	Method        string    `json:"auth_method,omitempty"` // token_endpoint_auth_method
	Redirect      string    `json:"redirect_uri,omitempty"`
	Registered    bool      `json:"registered,omitempty"` // by dragoman itself

	// Tried says that the browser was sent to the authorization server with this client id and did
	// not return: the server may have forgotten the client, and then shows an error to the user.
	Tried bool `json:"tried,omitempty"`
}

// renewMargin is the longest time before its end at which a token is renewed.
const renewMargin = 30 * time.Second

// due reports whether the access token is to be renewed, over whether it has expired.
func (r *record) due(now time.Time) bool {
	return r.Access == "" || !r.Expires.IsZero() && !now.Before(r.Expires.Add(-min(renewMargin, r.Expires.Sub(r.Got)/10)))
}

func (r *record) over(now time.Time) bool { return !r.Expires.IsZero() && !now.Before(r.Expires) }

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
	w := newWeb(u, cfg.AllowHTTP, cfg.TLS)
	cfg.Server = canonical(u)
	life, end := context.WithCancel(context.Background())
	return &Account{
		cfg: cfg, server: u, store: store, log: log, web: w, now: time.Now, wait: cmp.Or(cfg.Wait, signInWait), life: life, end: end,
		id:   strings.Join([]string{cfg.Server, accountMark, cfg.Profile, cfg.Resource, cfg.ClientID}, "\n"),
		args: argument(" --profile ", cfg.Profile) + argument(" --oauth client_id=", cfg.ClientID) + argument(" --oauth resource=", cfg.Resource),
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

// Close cancels a sign-in that is in progress, and closes idle connections.
func (a *Account) Close() {
	a.end()
	a.web.close()
}

// Identity returns a text that stays the same when tokens are renewed, and changes with each sign-in.
func (a *Account) Identity() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.id + "\n" + a.live.Login
}

// Expires returns when the access token expires; zero if that is not known.
func (a *Account) Expires() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.live.Expires
}

// Header returns the value of Authorization for a request to the server, "" if there was no
// sign-in yet. It renews a token that is about to expire.
func (a *Account) Header(ctx context.Context) (string, error) {
	a.mu.Lock()
	r, looked := a.live, a.looked
	a.looked = true
	a.mu.Unlock()
	switch {
	case r.Access == "" && looked, r.Access == "" && a.store.kind != Memory && a.store.peek(a.id) == nil:
		return "", nil // servers that want no token cost no more than this; a refusal reads the store again
	case r.due(a.now()):
		var err error
		if r, err = a.renew(ctx, func(r *record) bool { return r.due(a.now()) }, true); err != nil {
			if _, ended := errors.AsType[*SignInError](err); ended && a.open != nil {
				return "", nil // the server's refusal then begins a sign-in
			}
			return "", err
		}
	}
	if r.Access == "" {
		return "", nil
	}
	return "Bearer " + r.Access, nil
}

// A Refusal is a response with status 401 or 403.
type Refusal struct {
	Status    int
	Challenge []string // the fields of WWW-Authenticate
	Tries     int      // how many renewed credentials the server has refused for the same request
}

// maxSteps is how often one request may ask for further scopes.
const maxSteps = 2

// ErrNotOurs is returned by Refused for a refusal that another credential would not change.
var ErrNotOurs = errors.New("the refusal is not about the credential")

// Refused handles the server's refusal of a request whose Authorization had this value. It returns
// nil if there is a new value, so that the caller can send the request again.
func (a *Account) Refused(ctx context.Context, value string, refusal Refusal) error {
	c := readChallenge(refusal.Challenge)
	switch {
	case refusal.Status == http.StatusForbidden && c.err == "insufficient_scope" && value != "":
		return a.stepUp(ctx, value, c, refusal.Tries)
	case refusal.Status != http.StatusUnauthorized:
		return ErrNotOurs
	}
	a.mu.Lock()
	known := a.useless != "" && value == "Bearer "+a.useless && a.now().Sub(a.marked) < uselessFor
	r := a.live
	first := !known && refusal.Tries > 0 && value == "Bearer "+r.Access && r.Access != ""
	if first {
		a.useless, a.marked, known = r.Access, a.now(), true
	}
	a.mu.Unlock()
	if first && a.movedTo(ctx, c, &r) != "" {
		why := &SignInError{Server: a.cfg.Server, Args: a.args, Err: errors.New("the server has moved to another authorization server")}
		if a.open == nil {
			return why
		}
		return a.await(ctx, value, c, why)
	}
	if known {
		return &uselessError{server: a.cfg.Server, audience: audienceOf(&r), named: r.Named}
	}
	r, err := a.renew(ctx, func(r *record) bool { return r.Access == "" || "Bearer "+r.Access == value }, false)
	useless := r.Access == "" || "Bearer "+r.Access == value
	_, ended := errors.AsType[*SignInError](err)
	switch {
	case err == nil && !useless:
		return nil
	case err != nil && !ended && !errors.Is(err, ErrUnusable):
		return err
	case a.open != nil:
		return a.await(ctx, value, c, err)
	case err != nil:
		return err
	}
	return a.unsigned(ctx, c)
}

// unsigned returns the error for a server that requires a sign-in, or that requires a token without
// saying where to get one.
func (a *Account) unsigned(ctx context.Context, c challenge) error {
	if c.metadata == "" && a.cfg.Issuer == "" {
		if at, err := a.discover(ctx, c, ""); err == nil && at.guessed && !a.exists(ctx, at.Authorization) {
			return &nowhereError{a.cfg.Server}
		}
	}
	return &SignInError{Server: a.cfg.Server, Args: a.args}
}

// renew returns the stored tokens. If stale says that they cannot be used, it renews them first;
// one process does so at a time, and the others read what it stored. With keep, it returns a token
// that has not expired if the authorization server fails.
func (a *Account) renew(ctx context.Context, stale func(*record) bool, keep bool) (r record, err error) {
	// The answer may hold the only refresh token that is still good: it is read to its end, also
	// if the request that needed a token is gone.
	ctx = context.WithoutCancel(ctx)
	locked := a.store.Locked(ctx, a.id, func(e Entry) {
		if r, err = load(e); err != nil || !stale(&r) || r.Refresh == "" {
			if err == nil && r.Ended != "" {
				err = a.ended(&r)
			}
			return
		}
		a.mu.Lock()
		if a.now().Sub(a.at) < refreshPause {
			err = a.failed
		}
		a.mu.Unlock()
		if err == nil {
			err = a.refresh(ctx, e, &r)
			a.cfg.Count.token("refresh_token", err)
		}
	})
	if locked != nil { // the old token, while it lives
		a.mu.Lock()
		r, err = a.live, locked
		a.mu.Unlock()
	}
	_, ended := errors.AsType[*SignInError](err)
	if err != nil && keep && !ended && r.Access != "" && !r.over(a.now()) {
		a.log.Warn("cannot renew the token for the server: the old one is used until it expires", zap.String("server", a.cfg.Server), zap.Error(err))
		err = nil
	}
	if err == nil {
		a.mu.Lock()
		a.live = r
		a.mu.Unlock()
	}
	return r, err
}

// load reads the record of an account, an empty one if there is none.
func load(e Entry) (r record, err error) {
	data, err := e.Get()
	if err != nil || data == nil {
		return r, err
	}
	if json.Unmarshal(data, &r) != nil {
		return record{}, fmt.Errorf("%w: the record of the account is damaged", ErrUnusable)
	}
	return r, nil
}

func save(e Entry, r *record) {
	data, err := json.Marshal(r)
	if err == nil {
		_ = e.Put(data) // the store has logged the error and keeps data in memory
	}
}

// refresh replaces the tokens of a record by means of its refresh token.
func (a *Account) refresh(ctx context.Context, e Entry, r *record) error {
	if r.Sent {
		return &SignInError{Server: a.cfg.Server, Args: a.args, Err: errors.New("the answer to the last refresh was lost")}
	}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		if !r.Sent { // stored before the request, because the process may end before the answer
			r.Sent = true
			save(e, r)
		}
	}})
	t, err := a.oauth2(r).TokenSource(a.tokenContext(ctx, r.Resource), &oauth2.Token{RefreshToken: r.Refresh}).Token()
	if err == nil {
		if err = tokenFault(r.Authority.Token, t); err != nil { // the refresh token was answered, and may be gone
			return &SignInError{Server: a.cfg.Server, Args: a.args, Err: err}
		}
		r.take(t, a.now())
		save(e, r)
		return nil
	}
	refused, answered := errors.AsType[*oauth2.RetrieveError](err)
	if !answered && r.Sent {
		return &SignInError{Server: a.cfg.Server, Args: a.args, Err: fmt.Errorf("the answer to the last refresh was lost: %w", withoutURL(err))}
	}
	if r.Sent {
		r.Sent = false
		defer save(e, r)
	}
	if !answered {
		return a.later(fmt.Errorf("AS %s: %w; the token is kept", hostOf(r.Authority.Token), withoutURL(err)))
	}
	switch refused.ErrorCode {
	case "invalid_grant":
		r.Access, r.Refresh, r.Ended = "", "", refused.ErrorCode
		return a.ended(r)
	case "invalid_client", "unauthorized_client":
		r.Access, r.Refresh, r.Ended, r.Client = "", "", refused.ErrorCode, client{}
		return a.ended(r)
	}
	return a.later(fmt.Errorf("AS %s: %w; the token is kept", hostOf(r.Authority.Token), said(refused)))
}

// later notes that a refresh has failed, so that not every request tries another one.
func (a *Account) later(err error) error {
	a.mu.Lock()
	a.failed, a.at = err, a.now()
	a.mu.Unlock()
	return err
}

// ended returns the error for a record without tokens.
func (a *Account) ended(r *record) error {
	e := &SignInError{Server: a.cfg.Server, Args: a.args}
	if r.Ended != "" {
		e.Err = errors.New(r.Ended)
	}
	return e
}

// take makes a token response the record's.
func (r *record) take(t *oauth2.Token, now time.Time) {
	r.Access, r.Got, r.Expires, r.Sent, r.Ended = t.AccessToken, now, t.Expiry, false, ""
	if t.RefreshToken != "" {
		r.Refresh = t.RefreshToken
	}
	if granted, _ := t.Extra("scope").(string); granted != "" {
		r.Scopes = strings.Fields(granted)
	}
}

// oauth2 returns what golang.org/x/oauth2 needs to know of a record.
func (a *Account) oauth2(r *record) *oauth2.Config {
	c := &oauth2.Config{
		ClientID: r.Client.ID, ClientSecret: r.Client.Secret, RedirectURL: r.Client.Redirect, Scopes: r.Scopes,
		Endpoint: oauth2.Endpoint{AuthURL: r.Authority.Authorization, TokenURL: r.Authority.Token, AuthStyle: oauth2.AuthStyleInParams},
	}
	if r.Client.Method == "client_secret_basic" {
		c.Endpoint.AuthStyle = oauth2.AuthStyleInHeader
	}
	return c
}

// tokenContext returns a context for requests for tokens, which all name the resource:
// https://www.rfc-editor.org/rfc/rfc8707#section-2.2.
func (a *Account) tokenContext(ctx context.Context, resource string) context.Context {
	c := *a.web.posts
	c.Transport = withResource{c.Transport, resource}
	return context.WithValue(ctx, oauth2.HTTPClient, &c)
}

// said returns what an authorization server answered, as an error for people.
func said(e *oauth2.RetrieveError) error {
	switch {
	case e.ErrorCode == "" && e.Response.StatusCode/100 == 3:
		return fmt.Errorf("answered %d, a redirect, which is not followed", e.Response.StatusCode)
	case e.ErrorCode == "":
		return fmt.Errorf("answered %d", e.Response.StatusCode)
	case strings.Contains(e.ErrorDescription, "AADSTS9010010"), e.ErrorCode == "invalid_target":
		return fmt.Errorf("refused: %s %s%s", plainWord(e.ErrorCode), quoted(e.ErrorDescription), resourceAdvice)
	}
	return fmt.Errorf("refused: %s %s", plainWord(e.ErrorCode), quoted(e.ErrorDescription))
}

// resourceAdvice follows the error of an authorization server that does not take the resource.
const resourceAdvice = "; if it knows the server by another name or takes no resource: --oauth resource=NAME or --oauth resource=none"

// plainWord returns text as quoted does, without the quotation marks.
func plainWord(code string) string { return strings.Trim(quoted(code), `"`) }

func hostOf(at string) string {
	u, err := url.Parse(at)
	if err != nil {
		return quoted(at)
	}
	return u.Host
}

// Logout deletes the tokens of the account. If the authorization server has a revocation endpoint,
// it is asked first to revoke the refresh token (https://www.rfc-editor.org/rfc/rfc7009); err says
// why it was not revoked. known is false if no tokens were stored.
func (a *Account) Logout(ctx context.Context) (known, revoked bool, err error) {
	locked := a.store.Locked(ctx, a.id, func(e Entry) {
		r, unusable := load(e)
		known = unusable != nil || r.Refresh+r.Access != ""
		if token := r.Refresh; unusable == nil && r.Authority.Revocation != "" && token+r.Access != "" {
			if token == "" {
				token = r.Access
			}
			err = a.revoke(ctx, &r, token)
			revoked = err == nil
		}
		if failed := e.Put(nil); failed != nil {
			err = errors.Join(err, failed)
		}
	})
	for _, id := range []string{a.signInID(), a.terminalID()} { // not needed if a sign-in is under way
		turn, end := context.WithTimeout(ctx, signInPoll)
		_ = a.store.Locked(turn, id, func(e Entry) { _ = e.Put(nil) })
		end()
	}
	a.mu.Lock()
	a.live = record{}
	a.mu.Unlock()
	return known, revoked, errors.Join(err, locked)
}

func (a *Account) revoke(ctx context.Context, r *record, token string) error {
	form := url.Values{"token": {token}}
	basic := r.Client.Method == "client_secret_basic"
	if !basic {
		form.Set("client_id", r.Client.ID)
		if r.Client.Secret != "" {
			form.Set("client_secret", r.Client.Secret)
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.Authority.Revocation, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if basic {
		req.SetBasicAuth(url.QueryEscape(r.Client.ID), url.QueryEscape(r.Client.Secret))
	}
	resp, err := a.web.posts.Do(req)
	if err != nil {
		return fmt.Errorf("AS %s: %w", req.URL.Host, withoutURL(err))
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("AS %s answered %d to the revocation", req.URL.Host, resp.StatusCode)
	}
	return nil
}

// Status is what is stored of an account.
type Status struct {
	Server, Profile, Issuer, Client string
	Scopes                          []string
	Expires                         time.Time // of the access token; zero if it is not known
	Signed                          bool      // there are tokens
	Renews                          bool      // there is a refresh token
	Sealed                          bool      // the file is encrypted
	Err                             error     // why the file cannot be used; nil if it can
}

// List returns what is stored of all accounts.
func List(ctx context.Context, store *Store) (all []Status, err error) {
	files, err := store.files()
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		lines := strings.Split(f.For, "\n")
		if len(lines) != 5 || lines[1] != accountMark {
			continue
		}
		s := Status{Server: lines[0], Profile: lines[2], Sealed: f.Sealed != nil}
		if locked := store.Locked(ctx, f.For, func(e Entry) {
			var r record
			if r, s.Err = load(e); s.Err == nil {
				s.Issuer, s.Client, s.Scopes, s.Expires = r.Authority.Issuer, r.Client.ID, r.Scopes, r.Expires
				s.Signed, s.Renews = r.Access != "", r.Refresh != ""
			}
		}); locked != nil {
			s.Err = locked
		}
		all = append(all, s)
	}
	return all, nil
}

// Accounts returns all stored accounts, for their logout.
func Accounts(store *Store, log *zap.Logger) (all []*Account, err error) {
	files, err := store.files()
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		lines := strings.Split(f.For, "\n")
		if len(lines) != 5 || lines[1] != accountMark {
			continue
		}
		a, err := NewAccount(Config{Server: lines[0], Profile: lines[2], Resource: lines[3], ClientID: lines[4]}, store, log)
		if err != nil {
			continue // no account of ours has such a server
		}
		a.id = f.For
		all = append(all, a)
	}
	return all, nil
}

// Server returns the URL of the MCP endpoint.
func (a *Account) Server() string { return a.cfg.Server }
