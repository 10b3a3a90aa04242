package oauth

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
	"github.com/dragoman-proxy/dragoman/oauthclient"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// A Browser shows the authorization server's pages to the user.
type Browser interface {
	// Visit shows the page at address and returns the query of the URL with which the browser
	// returns to c. state is that of the sign-in.
	Visit(ctx context.Context, address string, c *Callback, state string) (url.Values, error)
}

// SignIn signs in on request of the user, and stores the tokens. If another process waits for a
// browser, its sign-in ends.
func (a *Account) SignIn(ctx context.Context, b Browser) error {
	return a.signInAsked(ctx, inBrowser{b})
}

// A way is how the user signs in.
type way interface {
	// discover finds out where.
	discover(ctx context.Context, a *Account, c challenge, known string) (*authority, error)
	// ask asks the user and returns the tokens, with a record that lacks them.
	ask(ctx context.Context, a *Account, at *authority, before record) (record, oauthclient.Token, error)
}

// inBrowser asks the user to sign in in a browser.
type inBrowser struct{ Browser }

func (b inBrowser) discover(ctx context.Context, a *Account, c challenge, known string) (*authority, error) {
	return a.discover(ctx, c, known)
}

// signInAsked signs in on request of the user.
func (a *Account) signInAsked(ctx context.Context, by way) error {
	refusal, err := a.provoke(ctx)
	if err != nil {
		return err
	}
	if err := a.store.Locked(ctx, a.terminalID(), func(e Entry) {
		_ = e.Put(fmt.Appendf(nil, `{"process":%d,"at":%d}`, os.Getpid(), a.now().UnixNano()))
	}); err != nil {
		return err
	}
	locked := a.store.Locked(ctx, a.signInID(), func(e Entry) {
		var before record
		if before, err = a.stored(ctx); err == nil {
			if err = a.signIn(ctx, readChallenge(refusal.Challenges()), before, by); IsNowhere(err) && !wantsLogin(refusal) {
				err = refusal
			}
			a.cfg.Count.login(err)
		}
	})
	if locked != nil {
		if p := readState(a.store.peek(a.signInID())).Process; p != 0 {
			return &SignInError{Server: a.cfg.Server, Args: a.args, Process: p}
		}
	}
	if err := errors.Join(err, locked); !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &noAnswerError{a.Arguments(), ""}
}

// provoke sends a request without a token and returns the refusal.
func (a *Account) provoke(ctx context.Context) (*upstream.StatusError, error) {
	initialize := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + a.cfg.Revision + `","capabilities":{},"clientInfo":{"name":"dragoman","version":"1"}}}`
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, a.cfg.Server, strings.NewReader(initialize))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := a.web.posts.Do(r)
	if err != nil {
		return nil, unreached(r.URL, oauthclient.WithoutURL(err))
	}
	defer resp.Body.Close()
	if id := resp.Header.Get("Mcp-Session-Id"); id != "" && resp.StatusCode == http.StatusOK {
		if end, err := http.NewRequestWithContext(ctx, http.MethodDelete, a.cfg.Server, nil); err == nil {
			end.Header.Set("Mcp-Session-Id", id)
			if resp, err := a.web.posts.Do(end); err == nil {
				resp.Body.Close()
			}
		}
	}
	if resp.StatusCode/100 == 2 {
		return nil, fmt.Errorf("%s asks for no sign-in: it answers without a token", a.cfg.Server)
	}
	return refusalOf(resp), nil
}

// signIn signs the user in, with the client registration of before if it has one, and stores the
// tokens.
func (a *Account) signIn(ctx context.Context, c challenge, before record, by way) error {
	known := before.Authority.Issuer
	at, err := by.discover(ctx, a, c, known)
	if err != nil {
		return err
	}
	a.mu.Lock()
	a.device = at.Device != ""
	a.mu.Unlock()
	if at.Issuer != known { // scopes belong to their issuer, as clients do
		before.Scopes, before.Wanted = nil, nil
	}
	if len(a.cfg.Scopes) == 0 {
		if c.err == "insufficient_scope" {
			at.scopes = union(before.Scopes, at.scopes)
		}
		at.scopes = union(at.scopes, before.Wanted)
	}
	at.scopes = at.scopes[:min(len(at.scopes), maxScopes)]
	r, t, err := by.ask(ctx, a, at, before)
	if errors.Is(err, errScope) && r.Client.Registered { // some servers register a client for the scopes of that time
		before.Client, before.Pending = client{}, client{}
		r, t, err = by.ask(ctx, a, at, before)
	}
	if err != nil {
		return err
	}
	r.take(t, a.now())
	r.Client.Tried = false
	if err := a.store.Locked(ctx, a.id, func(e Entry) { save(e, &r) }); err != nil {
		return err
	}
	a.mu.Lock()
	a.live, a.fresh, a.useless = r, r.Access, ""
	a.mu.Unlock()
	return nil
}

// ask sends the user to the authorization server.
func (b inBrowser) ask(ctx context.Context, a *Account, at *authority, before record) (record, oauthclient.Token, error) {
	r := a.recordOf(at, before)
	back, err := a.identify(ctx, at, &before, &r)
	if err != nil {
		return r, oauthclient.Token{}, err
	}
	defer back.Close()
	t, err := a.authorize(ctx, &r, back, b)
	a.cfg.Count.token("authorization_code", err)
	return r, t, err
}

// recordOf returns the record of a new sign-in, without a client and tokens.
func (a *Account) recordOf(at *authority, before record) record {
	return record{
		Server: a.cfg.Server, Profile: a.cfg.Profile, Resource: at.resource, Named: at.named,
		Authority: at.serverMetadata, Scopes: at.scopes, Wanted: before.Wanted, Login: rand.Text(),
	}
}

// errScope is wrapped by the error of an authorization server that refuses the scopes.
var errScope = errors.New("invalid_scope")

// tried notes in the store whether the browser was sent to the authorization server with r's client
// id and has not returned.
func (a *Account) tried(ctx context.Context, r *record, tried bool) {
	if !r.Client.Registered {
		return
	}
	_ = a.store.Locked(ctx, a.id, func(e Entry) {
		old, err := load(e)
		if err != nil {
			old = record{}
		}
		switch { // the registration is kept, also if this sign-in fails
		case old.Client.ID == r.Client.ID:
			old.Client.Tried = tried
		case old.Access+old.Refresh != "": // tokens of another client, which stay good
			old.Pending = r.Client
			old.Pending.Tried = tried
		default:
			old = record{Server: r.Server, Profile: r.Profile, Authority: r.Authority, Client: r.Client, Wanted: old.Wanted, Ended: old.Ended}
			old.Client.Tried = tried
		}
		save(e, &old)
	})
}

func union(a, b []string) []string {
	all := slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

// authorize sends the user to the authorization server and exchanges the code with which the
// browser returns.
func (a *Account) authorize(ctx context.Context, r *record, back *Callback, b Browser) (t oauthclient.Token, err error) {
	state, verifier := rand.Text(), oauthclient.Verifier()
	params := url.Values{"client_id": {r.Client.ID}, "redirect_uri": {r.Client.Redirect}, "state": {state}}
	setScope(params, r.Scopes)
	if r.Resource != "" {
		params.Set("resource", r.Resource)
	}
	setAll(params, a.cfg.Params)
	if slices.Contains(r.Scopes, "offline_access") && a.cfg.Params["prompt"] == "" && r.Authority.openID() {
		params.Set("prompt", "consent") // OpenID Connect ignores the scope without it
	}
	a.cfg.Sent.Keep(verifier)
	a.tried(ctx, r, true)
	q, err := b.Visit(ctx, oauthclient.AuthorizationURL(r.Authority.Authorization, params.Encode(), verifier), back, state)
	if errors.Is(err, context.DeadlineExceeded) && !r.Client.Registered {
		return t, &noAnswerError{a.Arguments(), r.Client.as()}
	} else if err != nil {
		return t, err
	}
	if !hasState(q, state) {
		return t, errors.New("the answer from the browser belongs to another sign-in: sign-in dropped")
	}
	if err := r.Authority.checkIss(q); err != nil && (a.cfg.TokenEndpoint == "" || a.cfg.Issuer != "") { // else the issuer is not known
		return t, err
	}
	if code := q.Get("error"); code != "" {
		sent := []*secret.Set{secret.NewSet(verifier, r.Client.Secret, q.Get("code")), a.cfg.Sent.Set()}
		said := secret.Strike(q.Get("error_description"), sent...)
		code = secret.Strike(code, sent...)
		a.tried(ctx, r, code == "unauthorized_client" || code == "invalid_client")
		if code == errScope.Error() {
			return t, fmt.Errorf("AS refused: %w %s", errScope, quoted(said))
		}
		return t, fmt.Errorf("AS refused: %s (%s)", refusal(code, said), r.Client.as())
	}
	if q.Get("code") == "" {
		return t, errors.New("AS sent neither a code nor an error: sign-in dropped")
	}
	a.cfg.Sent.Keep(q.Get("code"))
	form := url.Values{"grant_type": {"authorization_code"}, "code": {q.Get("code")}, "redirect_uri": {r.Client.Redirect}, "code_verifier": {verifier}}
	if t, err = a.request(ctx, &r.Authority, &r.Client, r.Resource, form, nil); err != nil {
		if _, refused := errors.AsType[*oauthclient.Refusal](err); refused {
			return t, fmt.Errorf("%w (%s)", failure(r.Authority.Token, err), r.Client.as())
		}
		return t, failure(r.Authority.Token, err)
	}
	return t, tokenFault(r.Authority.Token, t)
}

// as says as which client a user was sent to the authorization server, which refuses one that is registered otherwise.
func (c *client) as() string {
	name := "client " + plainWord(c.ID)
	if c.Registered {
		name = "client name " + cmp.Or(c.Name, "dragoman")
	}
	return name + ", redirect URI " + c.Redirect
}

// openID reports whether the metadata was that of an OpenID provider.
func (m *serverMetadata) openID() bool { return slices.Contains(m.Scopes, "openid") }

// checkIss compares iss in an authorization response with the issuer, also in that of an error:
// https://www.rfc-editor.org/rfc/rfc9207#section-2.4.
func (m *serverMetadata) checkIss(q url.Values) error {
	iss, ok := q.Get("iss"), q.Has("iss")
	if ok && iss != m.Issuer || !ok && m.Iss {
		return errors.New("the answer came from another issuer: sign-in dropped")
	}
	return nil
}

// identify chooses the OAuth client with which dragoman signs in, registers it if need be, and
// listens at its redirect URI. The order is that of
// https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization#client-registration-approaches.
func (a *Account) identify(ctx context.Context, at *authority, before, r *record) (*Callback, error) {
	if c, ok := a.configured(at); ok {
		back, err := a.listen("/callback")
		if err != nil {
			return nil, err
		}
		c.Redirect = back.URL
		r.Client = c
		return back, nil
	}
	for _, c := range []client{before.Pending, before.Client} {
		if !a.stillGood(&c, at) || !a.mayCallBack(c.Redirect) {
			continue
		}
		if back, err := Listen(c.Redirect); err == nil {
			r.Client = c
			return back, nil
		}
		// The port is taken. Not every authorization server accepts another one for this client.
	}
	if at.Registration == "" {
		uri, more := a.cfg.RedirectURI, ""
		if uri == "" {
			uri = "http://127.0.0.1:PORT/callback"
			more = " --oauth redirect_uri=" + uri
		}
		return nil, fmt.Errorf("AS registers no clients by itself: register one with redirect URI %s and pass --oauth client_id=…%s", uri, more)
	}
	return a.register(ctx, at, r)
}

// configured returns the client that the configuration names; false if there is none, or the authorization server does not take it.
func (a *Account) configured(at *authority) (c client, ok bool) {
	c = client{ID: a.cfg.ClientID, Secret: a.cfg.ClientSecret, Method: a.method(&at.serverMetadata)}
	if c.ID == "" && at.Document {
		c.ID, c.Secret = a.cfg.ClientMetadataURL, ""
	}
	return c, c.ID != ""
}

// listen listens at the redirect URI of the configuration, or at one with this path.
func (a *Account) listen(path string) (*Callback, error) {
	back, err := Listen(cmp.Or(a.cfg.RedirectURI, "http://127.0.0.1:0"+path))
	switch u, _ := url.Parse(a.cfg.RedirectURI); {
	case a.cfg.RedirectURI == "" || u.Port() == "0":
	case IsInUse(err):
		return nil, fmt.Errorf("port %s of --oauth redirect_uri=%s is in use by another program: end that, or register another port", cmp.Or(u.Port(), "80"), a.cfg.RedirectURI)
	case err == nil:
		back.URL = a.cfg.RedirectURI // to the letter, as it is registered
	}
	return back, err
}

// stillGood reports whether an earlier registration can be used at an authorization server.
func (a *Account) stillGood(c *client, at *authority) bool {
	return c.Registered && !c.Tried && c.Name == a.cfg.ClientName && c.Issuer == at.Issuer && (c.SecretExpires.IsZero() || a.now().Before(c.SecretExpires))
}

// mayCallBack reports whether the configuration allows the redirect URI of an earlier registration.
func (a *Account) mayCallBack(redirect string) bool {
	u, err := url.Parse(redirect)
	want, _ := url.Parse(a.cfg.RedirectURI)
	return a.cfg.RedirectURI == "" || redirect == a.cfg.RedirectURI || err == nil && want.Port() == "0" && u.Hostname() == want.Hostname() && u.Path == cmp.Or(want.Path, "/")
}

// register registers dragoman as a client for sign-ins in a browser and for the given grants, with a redirect URI that no other
// sign-in has, unless the configuration has one.
func (a *Account) register(ctx context.Context, at *authority, r *record, grants ...string) (*Callback, error) {
	var random [16]byte
	rand.Read(random[:])
	path := "/callback/" + hex.EncodeToString(random[:])
	back, err := a.listen(path)
	if err != nil {
		return nil, err
	}
	u, _ := url.Parse(back.URL)
	local := "http://localhost:" + u.Port() + path
	uris := []string{back.URL, local}
	if a.cfg.RedirectURI != "" {
		uris = uris[:1]
	}
	ask := &oauthex.ClientRegistrationMetadata{
		ClientName: cmp.Or(a.cfg.ClientName, "dragoman"), ApplicationType: "native", RedirectURIs: uris,
		GrantTypes: append([]string{"authorization_code", "refresh_token"}, grants...), ResponseTypes: []string{"code"},
		TokenEndpointAuthMethod: "none", Scope: strings.Join(at.scopes, " "),
	}
	if len(at.AuthMethods) > 0 && !slices.Contains(at.AuthMethods, "none") {
		ask.TokenEndpointAuthMethod = at.methodFor("any")
	}
	got, err := oauthex.RegisterClient(ctx, at.Registration, ask, a.web.posts)
	if refusedAs(err, "invalid_client_metadata") && ask.Scope != "" { // some refuse scopes that they do not list
		ask.Scope = ""
		got, err = oauthex.RegisterClient(ctx, at.Registration, ask, a.web.posts)
	}
	if refusedAs(err, "invalid_redirect_uri") && a.cfg.RedirectURI == "" {
		ask.RedirectURIs = []string{local}
		got, err = oauthex.RegisterClient(ctx, at.Registration, ask, a.web.posts)
		back.URL = local
	}
	if err != nil {
		back.Close()
		if refused, ok := errors.AsType[*oauthex.ClientRegistrationError](err); ok {
			return nil, fmt.Errorf("AS refused to register us: %s %s (client name %s, redirect URI %s; --oauth client_name=… and redirect_uri=… change them)",
				plainWord(refused.ErrorCode), quoted(refused.ErrorDescription), ask.ClientName, strings.Join(ask.RedirectURIs, ", "))
		}
		if at.guessed {
			return nil, &nowhereError{a.cfg.Server}
		}
		return nil, fmt.Errorf("AS %s: registration failed: %s", hostOf(at.Registration), quoted(oauthclient.WithoutURL(err).Error()))
	}
	a.cfg.Sent.Keep(got.ClientSecret)
	r.Client = client{
		ID: got.ClientID, Issuer: at.Issuer, Secret: got.ClientSecret, SecretExpires: got.ClientSecretExpiresAt,
		Method: got.TokenEndpointAuthMethod, Redirect: back.URL, Registered: true, Name: a.cfg.ClientName,
	}
	if r.Client.Method == "" {
		r.Client.Method = at.methodFor(got.ClientSecret)
	}
	return back, nil
}

func refusedAs(err error, code string) bool {
	refused, ok := errors.AsType[*oauthex.ClientRegistrationError](err)
	return ok && refused.ErrorCode == code
}
