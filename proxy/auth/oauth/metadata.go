package oauth

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

const (
	resourceWellKnown = "/.well-known/oauth-protected-resource"
	serverWellKnown   = "/.well-known/oauth-authorization-server"
	openIDWellKnown   = "/.well-known/openid-configuration"
)

// readChallenge returns the first Bearer challenge among the fields of WWW-Authenticate.
func readChallenge(fields []string) challenge {
	all, err := oauthex.ParseWWWAuthenticate(fields)
	if err != nil {
		return challenge{}
	}
	for _, c := range all {
		if strings.EqualFold(c.Scheme, "bearer") {
			return challenge{c.Params["resource_metadata"], c.Params["scope"], c.Params["error"], c.Params["error_description"], true}
		}
	}
	return challenge{}
}

// DescriptionIn returns the error_description of the first Bearer challenge, quoted; "" for none.
func DescriptionIn(fields []string) string {
	if c := readChallenge(fields); c.description != "" {
		return quoted(c.description)
	}
	return ""
}

// discover finds the authorization server, by the rules of
// https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization#authorization-server-discovery.
// known is the issuer of the last sign-in, "" for none.
func (a *Account) discover(ctx context.Context, c challenge, known string) (*authority, error) {
	at, err := a.find(ctx, c, known)
	switch {
	case err != nil:
		return nil, err
	case at.Authorization == "" || at.Token == "":
		return nil, fmt.Errorf("metadata of %s: authorization_endpoint or token_endpoint is missing", at.Issuer)
	case !slices.Contains(at.PKCE, "S256") && !a.cfg.AssumePKCE:
		return nil, errors.New("AS does not say that it supports PKCE; if it does (Entra ID): --oauth assume_pkce=true")
	}
	return at, nil
}

// discoverServer is discover for a grant without a browser.
func (a *Account) discoverServer(ctx context.Context, c challenge, known string) (*authority, error) {
	at, err := a.find(ctx, c, known)
	if err == nil && at.Token == "" {
		err = fmt.Errorf("metadata of %s: token_endpoint is missing", at.Issuer)
	}
	return at, err
}

func (a *Account) find(ctx context.Context, c challenge, known string) (*authority, error) {
	ctx, stop := context.WithTimeout(ctx, discoveryTime)
	defer stop()
	var said oauthex.ProtectedResourceMetadata
	at := new(authority)
	err := a.readResource(ctx, c, &said)
	unread, none := errors.AsType[*unreadError](err)
	switch {
	case a.cfg.TokenEndpoint != "" && (err == nil || none):
		u, _ := url.Parse(a.cfg.TokenEndpoint)
		at.older, err = err != nil, nil
		at.serverMetadata = serverMetadata{Issuer: cmp.Or(a.cfg.Issuer, originOf(u)), Authorization: a.cfg.AuthorizationEndpoint, Token: a.cfg.TokenEndpoint, PKCE: []string{"S256"}}
	case err == nil:
		err = a.serverOf(ctx, &said, known, at)
	case none && ctx.Err() == nil && (unread.nothing() || a.cfg.Issuer != ""):
		at.older = true
		err = a.olderRules(ctx, at, unread)
	}
	if err != nil {
		return nil, err
	}
	for _, u := range []string{at.Authorization, at.Token, at.Registration, at.Revocation, at.Device} {
		if u == "" {
			continue
		}
		if _, err := a.web.check(ctx, u); err != nil && a.cfg.TokenEndpoint != "" {
			return nil, fmt.Errorf("--oauth token_endpoint or authorization_endpoint: %w", err)
		} else if err != nil {
			return nil, fmt.Errorf("metadata of %s: %w", plainWord(at.Issuer), err)
		}
	}
	a.choose(at, c, &said)
	return at, nil
}

// choose sets the scopes and the resource that a sign-in requests.
func (a *Account) choose(at *authority, c challenge, said *oauthex.ProtectedResourceMetadata) {
	switch {
	case len(a.cfg.Scopes) > 0:
		at.scopes = slices.Clone(a.cfg.Scopes)
	case c.scope != "":
		at.scopes = strings.Fields(c.scope)
	default:
		at.scopes = slices.Clone(said.ScopesSupported)
	}
	if slices.Contains(at.Scopes, "offline_access") && !slices.Contains(at.scopes, "offline_access") {
		at.scopes = append(at.scopes, "offline_access")
	}
	switch {
	case a.cfg.Resource == NoResource:
	case a.cfg.Resource != "":
		at.resource = a.cfg.Resource
	case at.older:
		at.resource = canonical(a.server)
	default:
		at.resource = said.Resource
	}
	at.named = cmp.Or(plainWord(said.Resource), canonical(a.server))
}

// exists reports whether the server has a page at a URL.
func (a *Account) exists(ctx context.Context, at string) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return false
	}
	resp, err := a.web.posts.Do(r)
	if err != nil {
		return true // it cannot be known
	}
	resp.Body.Close()
	return resp.StatusCode != http.StatusNotFound
}

// readResource reads the metadata of the protected resource: where the challenge says, else at
// the server's path, else at its origin. A document that cannot be read, or is another one, is no reason not to look at the next
// place; one for another resource is. The error is an *unreadError if there is none.
func (a *Account) readResource(ctx context.Context, c challenge, said *oauthex.ProtectedResourceMetadata) error {
	unread := &unreadError{of: a.cfg.Server, named: c.metadata != "", then: "if you know its authorization server: --oauth issuer=URL"}
	own := resourcePlaces(a.server, "")
	for _, at := range resourcePlaces(a.server, c.metadata) {
		*said = oauthex.ProtectedResourceMetadata{}
		err := a.web.read(ctx, at, said)
		switch {
		case err == nil && said.Resource == "" && a.cfg.Resource == "":
			err = errOther
		case err == nil && a.cfg.Resource == "" && !fits(said.Resource, a.server, at):
			meant := plainWord(said.Resource)
			return fmt.Errorf("the metadata of %s is for %s: use %s as --upstream, or --oauth resource=%s if that is meant", a.cfg.Server, meant, meant, meant)
		case err == nil:
			return nil
		}
		unread.tried = append(unread.tried, place{at, err, !slices.Contains(own, at)})
		if ctx.Err() != nil {
			break
		}
	}
	return unread
}

// resourcePlaces returns where the metadata of a server may be, in the order of
// https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization#protected-resource-metadata-discovery-requirements.
// named is what a challenge says, "" for nothing.
func resourcePlaces(server *url.URL, named string) (places []string) {
	origin, path := originOf(server), strings.TrimSuffix(server.EscapedPath(), "/")
	for _, at := range []string{named, origin + resourceWellKnown + path, origin + resourceWellKnown} {
		if at != "" && !slices.Contains(places, at) {
			places = append(places, at)
		}
	}
	return places
}

// fits reports whether a document for resource, read at a URL, may be that of the server: it is
// for the server's URL itself, or for a URL above it whose own document this is. Otherwise one
// tenant of a host could ask for tokens that are good for all.
func fits(resource string, server *url.URL, at string) bool {
	u, err := url.Parse(resource)
	if err != nil || u.RawQuery != "" || u.Fragment != "" || !strings.EqualFold(originOf(u), originOf(server)) {
		return false
	}
	above, path := strings.TrimSuffix(u.EscapedPath(), "/"), strings.TrimSuffix(server.EscapedPath(), "/")
	if above == path {
		return true
	}
	return strings.HasPrefix(path, above+"/") && strings.EqualFold(at, originOf(u)+resourceWellKnown+above)
}

// serverOf reads the metadata of the authorization server: the configured one, else the last one
// if it is still listed, else the first that answers.
func (a *Account) serverOf(ctx context.Context, said *oauthex.ProtectedResourceMetadata, known string, at *authority) error {
	issuers := said.AuthorizationServers
	if len(issuers) == 0 {
		issuers = []string{originOf(a.server)}
	}
	switch {
	case a.cfg.Issuer != "":
		issuers = []string{a.cfg.Issuer}
	case slices.Contains(issuers, known):
		issuers = []string{known}
	}
	var failed []error
	issuers = issuers[:min(len(issuers), 5)]
	for i, issuer := range issuers {
		limit := discoveryTime
		if i+1 < len(issuers) {
			limit = documentTime // one that does not answer leaves time for the next
		}
		ctx, stop := context.WithTimeout(ctx, limit)
		err := a.readServer(ctx, issuer, at)
		stop()
		if err == nil {
			return nil
		}
		failed = append(failed, err)
		if errors.Is(err, errIssuer) {
			break
		}
	}
	if len(failed) == 1 {
		return failed[0]
	}
	return &severalError{failed}
}

// errIssuer says that metadata is for another issuer than the one it was read for.
var errIssuer = errors.New("not trusted")

// readServer reads the metadata of an issuer.
func (a *Account) readServer(ctx context.Context, issuer string, at *authority) error {
	m, _, err := a.web.readServer(ctx, issuer)
	if err != nil {
		return err
	}
	if m.Issuer != issuer {
		a.log.Info("the authorization server's metadata spells its issuer differently (trailing slash)", zap.String("metadata", m.Issuer), zap.String("expected", issuer))
	}
	at.serverMetadata = *m
	at.shorten()
	return nil
}

// readServer reads the metadata of an issuer, and returns it with the document, at the places that
// https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization#authorization-server-metadata-discovery
// lists, in that order. A document that cannot be read, or is another one, is no reason not to look at the next place; one that claims
// to be another issuer's is. The error is an *unreadError if there is none.
func (w *web) readServer(ctx context.Context, issuer string) (m *serverMetadata, document json.RawMessage, err error) {
	u, err := w.check(ctx, issuer)
	if err != nil {
		return nil, nil, fmt.Errorf("AS: %w", err)
	}
	origin, path := originOf(u), strings.TrimSuffix(u.EscapedPath(), "/")
	places := []string{origin + serverWellKnown + path, origin + openIDWellKnown + path}
	if path != "" {
		places = append(places, origin+path+openIDWellKnown)
	}
	unread := &unreadError{of: "AS " + quoted(issuer)}
	for _, at := range places {
		var document json.RawMessage
		m := new(serverMetadata)
		err := w.read(ctx, at, &document)
		switch {
		case err != nil:
		case json.Unmarshal(document, m) != nil:
			err = noDocument("is no JSON object") // or JSON of another kind
		case m.Issuer == "":
			err = errOther
		case strings.TrimSuffix(m.Issuer, "/") != strings.TrimSuffix(issuer, "/"):
			return nil, nil, fmt.Errorf("AS metadata at %s claims to be %s: %w", at, plainWord(m.Issuer), errIssuer)
		default:
			return m, document, nil
		}
		unread.tried = append(unread.tried, place{at: at, err: err})
		if ctx.Err() != nil {
			break
		}
	}
	return nil, nil, unread
}

// MetadataReader reads the metadata of authorization servers that a server names, with the checks of a sign-in to
// that server.
type MetadataReader struct{ web *web }

// NewMetadataReader returns a reader for what server names. config is for TLS; nil for Go's defaults. by opens connections; nil for those
// of the system.
func NewMetadataReader(server *url.URL, allowHTTP bool, config *tls.Config, by upstream.Dial) *MetadataReader {
	w := newWeb(server, allowHTTP, config)
	w.network = by
	return &MetadataReader{w}
}

// Resource returns the metadata of the server's protected resource as it is, and where that is, or nil if the server says that it has
// none. named is what the server's challenge names, "" for nothing. passed says why that was passed over, "" if it was not.
func (r *MetadataReader) Resource(ctx context.Context, named string) (document []byte, at, passed string, err error) {
	ctx, stop := context.WithTimeout(ctx, discoveryTime)
	defer stop()
	unread := &unreadError{of: canonical(r.web.server)}
	for _, at := range resourcePlaces(r.web.server, named) {
		var document json.RawMessage
		var said oauthex.ProtectedResourceMetadata
		err := r.web.read(ctx, at, &document)
		switch {
		case err != nil:
		case json.Unmarshal(document, &said) != nil:
			err = noDocument("is no JSON object")
		case said.Resource == "":
			err = errOther
		default:
			return document, at, passed, nil
		}
		p := place{at: at, err: err}
		if at == named {
			passed = plainWord(at) + ": " + p.why()
		}
		unread.tried = append(unread.tried, p)
	}
	if unread.tried[0].strange = passed != "" && !slices.Contains(resourcePlaces(r.web.server, ""), named); unread.nothing() {
		return nil, "", passed, nil
	}
	return nil, "", passed, unread
}

// AuthorizationServer returns the metadata of an issuer as it is, or nil if there is none.
func (r *MetadataReader) AuthorizationServer(ctx context.Context, issuer string) (document []byte, err error) {
	ctx, stop := context.WithTimeout(ctx, discoveryTime)
	defer stop()
	_, document, err = r.web.readServer(ctx, issuer)
	if unread, none := errors.AsType[*unreadError](err); none && unread.nothing() {
		return nil, nil
	}
	return document, err
}

// Close closes idle connections.
func (r *MetadataReader) Close() { r.web.close() }

// shorten drops what is not needed later, so that the metadata fits into the store.
func (m *serverMetadata) shorten() {
	m.Scopes = slices.DeleteFunc(m.Scopes, func(s string) bool { return s != "openid" && s != "offline_access" })
	m.PKCE = slices.DeleteFunc(m.PKCE, func(s string) bool { return s != "S256" })
	m.AuthMethods = slices.DeleteFunc(m.AuthMethods, func(s string) bool {
		return s != "none" && s != "client_secret_basic" && s != "client_secret_post" && s != privateKeyJWT
	})
	m.Scopes, m.PKCE, m.AuthMethods = slices.Compact(m.Scopes), slices.Compact(m.PKCE), slices.Compact(m.AuthMethods)
}

// olderRules are those of 2025-03-26, for a server without metadata of a protected resource: it is
// its own authorization server, and has endpoints at fixed paths if it says nothing. See
// https://modelcontextprotocol.io/specification/2025-03-26/basic/authorization#server-metadata-discovery.
// A server whose challenge names metadata is newer, and has no such endpoints.
func (a *Account) olderRules(ctx context.Context, at *authority, resource *unreadError) error {
	issuer := cmp.Or(a.cfg.Issuer, originOf(a.server))
	err := a.readServer(ctx, issuer, at)
	unread, none := errors.AsType[*unreadError](err)
	switch {
	case !none || !unread.nothing():
		return err
	case resource.named:
		return &unreadError{of: resource.of, tried: append(resource.tried, unread.tried...), named: true, then: resource.then}
	}
	at.serverMetadata = serverMetadata{
		Issuer: issuer, Authorization: issuer + "/authorize", Token: issuer + "/token", Registration: issuer + "/register",
		PKCE: []string{"S256"},
	}
	at.guessed = true
	return nil
}
