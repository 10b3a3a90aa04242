// Package oauthtest has a protected MCP server and its OAuth authorization server for tests of
// OAuth clients. Both follow the chapter "Authorization" of the MCP revisions 2025-11-25 and
// 2026-07-28, and are strict where servers in use are lenient. [Options] make them deviate from it.
package oauthtest

import (
	"crypto"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"
)

// Server is a protected MCP server and its authorization server (AS). Both listen on loopback, on
// two ports, and are closed when the test ends.
type Server struct {
	URL    string // of the MCP endpoint: http://127.0.0.1:PORT/mcp
	Issuer string // of the AS: http://127.0.0.1:PORT2, and [Options.IssuerPath]

	origin  string        // of the MCP server
	asPath  string        // path of the issuer
	another string        // origin of the port that is not the AS's, for TokenRedirect
	done    chan struct{} // closed when the test ends

	mu      sync.Mutex
	opt     Options
	counts  Counts
	forms   []url.Values
	bodies  [][]byte          // of registration requests
	clients map[string]client // registered clients by id
	codes   map[string]*grant
	access  map[string]accessToken
	refresh map[string]*refreshToken
	devices map[string]*deviceCode
	proofs  map[string]bool // ids of the assertions that clients have used
}

// Options are faults and features. The zero value is a pair that follows 2025-11-25 and
// 2026-07-28: the protected resource metadata (PRM) is at the path-specific well-known URL, which
// the challenge names. The authorization server metadata (ASM) is at the URL of RFC 8414, and
// promises S256 and iss. Clients can register. Refresh tokens rotate, and a reused one ends all
// tokens of its login. The audience of a token is the resource asked for, which must be that of
// the PRM. Code and refresh requests must repeat the resource of the authorization request.
type Options struct {
	TokenLife        time.Duration                   // of access tokens, default 1 hour
	Now              func() time.Time                // clock of both servers, default [time.Now]
	Scopes           []string                        // scopes_supported of the PRM
	ChallengeScope   string                          // scope in the 401 challenge
	StepUpTool       string                          // a tools/call of this tool needs StepUpScope, else 403 insufficient_scope
	StepUpScope      string                          // the scope, or several with spaces between
	NoPRM            bool                            // 404 for all PRM URLs, which no challenge names; tokens need no audience
	NoASM            bool                            // 404 for all AS metadata
	ASAtOrigin       bool                            // the MCP server is its own AS; with NoPRM as in 2025-03-26; only [New] reads it
	OIDCOnly         bool                            // ASM only at ISSUER/.well-known/openid-configuration
	IssuerPath       string                          // path of the issuer, such as "/tenant1"; only [New] reads it
	Resource         string                          // resource of the PRM, default URL; "origin" for the bare origin
	NamedIssuer      string                          // the AS that the PRM names, default that of this server
	PRMAtRoot        bool                            // PRM only at the root well-known URL, not named in the challenge
	NamedPRM         string                          // resource_metadata of challenges, default where the PRM is; ORIGIN stands for the MCP server's origin
	Instead          map[string]http.HandlerFunc     // pages at these paths, on either port, in place of this server's own; only [New] reads it
	WrongIssuer      string                          // issuer claimed in the ASM and, without WrongIss, in authorization responses
	WrongIss         string                          // iss in authorization responses; "-" to leave it out while the ASM promises it
	NoPKCE           bool                            // the ASM lacks code_challenge_methods_supported; S256 is still demanded
	NoDCR            bool                            // no registration_endpoint
	RefuseDCR        string                          // error code that registrations get, such as invalid_redirect_uri
	RefuseDCRScopes  bool                            // invalid_client_metadata for registrations with scope
	RefuseLoopbackIP bool                            // registrations may have http://localhost, but not http://127.0.0.1
	CIMD             bool                            // client ID metadata documents are supported; their URLs are not fetched
	Clients          map[string]string               // secrets of pre-registered clients by id, "" for a public client
	Keys             map[string]crypto.PublicKey     // of pre-registered clients by id, which authenticate with private_key_jwt
	KeyForToken      bool                            // their assertions must be for the token endpoint, not for the issuer
	Deny             string                          // error code with which /authorize redirects, such as access_denied
	AssertionKey     crypto.PublicKey                // of JWTs for the grant jwt_bearer, with the audience Issuer; nil for no such grant
	Packed           func(http.Handler) http.Handler // compresses all responses; nil for none; only [New] reads it
	Device           bool                            // there is a device flow, in which persons act by [Server.EnterCode]
	DevicePage       string                          // verification_uri, default that of this server, which has no page there
	DeviceLife       time.Duration                   // of codes, default 10 minutes
	DeviceInterval   int                             // interval, in seconds; 0 for none
	DeviceSlow       int                             // so many requests for tokens with a device code get slow_down
	PollStatus       int                             // if > 0, the next request for tokens with a device code gets this status and no body
	NoResource       bool                            // the AS answers invalid_target to a resource; tokens need no audience
	AnyResource      bool                            // the MCP server takes tokens for any resource
	NoRefresh        bool                            // issues no refresh tokens; those issued before remain valid and do not rotate
	OfflineAccess    bool                            // the ASM lists the scope offline_access, without which there is no refresh token
	RefreshStatus    int                             // if > 0, refresh requests get this status and no body, and are not processed
	CutRefresh       bool                            // refresh requests are processed, then the connection is cut before the answer
	DropRefresh      bool                            // the connection of refresh requests is cut before they are processed
	Subject          string                          // the person; token responses have an ID token that names them, without a signature
	TokenRedirect    bool                            // the token endpoint answers 307 to another port, where requests succeed
	SlowToken        time.Duration                   // time between the processing of a token request and its answer
	HugeMetadata     bool                            // the PRM has 2 MiB
	Handler          http.Handler                    // serves authorized requests of the MCP endpoint; nil for a minimal server
}

// Counts says how many requests came so far, including those that were refused.
type Counts struct {
	PRM, ASM         int // well-known URLs, on either port
	Registrations    int
	Authorizations   int
	Codes, Refreshes int // token requests by grant type
	Devices, Polls   int // requests for device codes, and for tokens with them
	Revocations      int
	Unauthorized     int // requests of the MCP endpoint that got 401
	Calls            int // tools/call requests that were authorized
}

func (o Options) clone() Options {
	o.Scopes, o.Clients, o.Keys = slices.Clone(o.Scopes), maps.Clone(o.Clients), maps.Clone(o.Keys)
	return o
}

func (o Options) now() time.Time {
	if o.Now == nil {
		return time.Now()
	}
	return o.Now()
}

// Change changes options while the server runs. f is called with the server's lock held.
func (s *Server) Change(f func(*Options)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.opt)
}

// options counts a request and returns a copy of the options. count is called with s.mu held.
func (s *Server) options(count func(*Counts)) Options {
	s.mu.Lock()
	defer s.mu.Unlock()
	count(&s.counts)
	return s.opt.clone()
}

// Visit opens an authorization URL like the browser of a user who agrees. It follows the redirect to
// the client's callback, and returns the callback's status.
func (s *Server) Visit(authorizationURL string) (status int, err error) {
	callback, err := s.Redirect(authorizationURL)
	if err != nil {
		return 0, err
	}
	resp, err := open(callback)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// Redirect does what Visit does, but returns the callback URL with its query instead of opening it.
func (s *Server) Redirect(authorizationURL string) (callback string, err error) {
	resp, err := open(authorizationURL)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	at, err := resp.Location()
	if err != nil {
		page, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return "", fmt.Errorf("%s does not redirect: %s: %s", authorizationURL, resp.Status, page)
	}
	return at.String(), nil
}

func open(address string) (*http.Response, error) {
	c := &http.Client{
		Timeout:       10 * time.Second,
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c.Get(address)
}

// Counts returns the numbers of requests so far.
func (s *Server) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}

// TokenForms returns the forms of all requests for tokens and for device codes so far, in order.
func (s *Server) TokenForms() []url.Values {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]url.Values, len(s.forms))
	for i, f := range s.forms {
		all[i] = url.Values(http.Header(f).Clone())
	}
	return all
}

// Registrations returns the bodies of all registration requests so far, in order.
func (s *Server) Registrations() []map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]map[string]any, len(s.bodies))
	for i, b := range s.bodies {
		_ = json.Unmarshal(b, &all[i]) // register has checked it
	}
	return all
}

// RevokeAccess makes the MCP server refuse all access tokens issued so far, with 401 and
// error="invalid_token". Refresh tokens remain valid.
func (s *Server) RevokeAccess() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.access)
}

// RevokeAll ends all access and refresh tokens issued so far. Refresh requests get invalid_grant.
func (s *Server) RevokeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.access)
	clear(s.refresh)
}

// ForgetClients removes all clients that have registered so far. Their requests get invalid_client.
func (s *Server) ForgetClients() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.clients)
}

const (
	mcpPath   = "/mcp"
	prmPath   = "/.well-known/oauth-protected-resource"
	asmPath   = "/.well-known/oauth-authorization-server"
	oidcPath  = "/.well-known/openid-configuration"
	elsewhere = "/elsewhere/token" // on both ports
)

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// refuse writes an error of RFC 6749.
func refuse(w http.ResponseWriter, status int, code, why string) {
	writeJSON(w, status, map[string]string{"error": code, "error_description": why})
}

// client is a client that the AS knows.
type client struct {
	secret    string           // "" for a public client
	key       crypto.PublicKey // in place of a secret; nil for none
	redirects []string         // registered redirect URIs; nil for pre-registered and CIMD clients, which may use all of loopback
	grants    []string         // registered grant types
}

// grant is what a user has allowed a client with one authorization. Its tokens end together.
type grant struct {
	client, redirect, challenge, resource string
	scopes                                []string
	used                                  bool // its code was sent to the token endpoint
	ended                                 bool
}

type accessToken struct {
	grant   *grant
	scopes  []string
	expires time.Time
}

type refreshToken struct {
	grant *grant
	used  bool
}

// deviceCode is a sign-in on another device.
type deviceCode struct {
	grant   *grant
	user    string // the code that the person types
	agreed  bool
	refused bool
	used    bool
	expires time.Time
}
