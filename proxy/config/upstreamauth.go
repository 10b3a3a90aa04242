package config

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/auth/oauth"
	"github.com/dragoman-proxy/dragoman/proxy/config/setting"
)

// The values of upstream.auth.type.
const (
	AuthNone              = "none"
	AuthTokenFile         = "token_file"
	AuthClientCredentials = "client_credentials"
	AuthJWTBearer         = "jwt_bearer"
	AuthLogin             = "login"
)

// The values of upstream.auth.key_audience.
const (
	KeyForIssuer        = "issuer"
	KeyForTokenEndpoint = "token_endpoint"
)

// UpstreamAuth sets the credential for the server at URL, if it is a token that expires. The
// Authorization of clients is then not forwarded. For a token that does not expire, use headers.
type UpstreamAuth struct {
	// Type is none; token_file, for a token that another program renews; client_credentials, for a token that dragoman
	// gets as a service; jwt_bearer, for a token that it gets for a signed assertion, such as that of a workload; or login, for the tokens of a
	// person who has run "dragoman login URL". With "", serve uses none, and stdio uses login unless headers has an
	// Authorization.
	Type string `yaml:"type"`
	// TokenFile is the file of token_file. It is read again when it changes.
	TokenFile string `yaml:"token_file" file:"use,secret"`
	// AssertionFile is the file of jwt_bearer: a JWT that another program renews, such as a projected service-account
	// token. It is read for each request for a token. ClientID is optional then.
	AssertionFile string `yaml:"assertion_file" file:"use,secret"`
	// ClientID and ClientSecret belong to a client that is registered at the authorization server. The secret may contain
	// ${NAME}, or is read from ClientSecretFile. With login and no ClientID, dragoman registers itself.
	ClientID         string `yaml:"client_id"`
	ClientSecret     string `yaml:"client_secret"`
	ClientSecretFile string `yaml:"client_secret_file" file:"reload,secret"`
	// KeyFile is the private key of the client, instead of a secret (private_key_jwt): PEM with an EC key on P-256 or an RSA
	// key. Kid is its id at the authorization server, if that requires one. KeyAudience is the audience of the
	// signed assertions: issuer, or token_endpoint for authorization servers that expect its URL.
	KeyFile     string `yaml:"key_file" file:"reload,secret"`
	Kid         string `yaml:"kid"`
	KeyAudience string `yaml:"key_audience"`
	// ClientMetadataURL is the https URL of a client ID metadata document, for authorization servers that accept one as
	// client id.
	ClientMetadataURL string `yaml:"client_metadata_url"`
	// Issuer is the authorization server; "" for the one that the server's metadata names.
	Issuer string `yaml:"issuer"`
	// Scopes replace those that the server asks for.
	Scopes []string `yaml:"scopes"`
	// Resource is what tokens are requested for, instead of the resource in the server's metadata; none sends no resource,
	// for authorization servers that refuse it, such as Entra ID.
	Resource string `yaml:"resource"`
	// Params are further parameters for the authorization server, such as prompt: consent.
	Params map[string]string `yaml:"params"`
	// RedirectURI is where the browser returns after a login, such as http://localhost:3334/oauth/callback; "" for /callback at a free
	// port of 127.0.0.1. Set it to the one that ClientID is registered with. Port 0 is a free one.
	RedirectURI string `yaml:"redirect_uri"`
	// ClientName is the name under which dragoman registers itself; "" for dragoman. Some authorization servers register only names
	// that they know.
	ClientName string `yaml:"client_name"`
	// TokenEndpoint and AuthorizationEndpoint are URLs of an authorization server that publishes no metadata, in place of which they
	// are used. A login needs both, and ClientID; the other types need the token endpoint.
	TokenEndpoint         string `yaml:"token_endpoint"`
	AuthorizationEndpoint string `yaml:"authorization_endpoint"`
	// AssumePKCE logs in even if the authorization server's metadata does not list PKCE, as with Entra ID.
	AssumePKCE bool `yaml:"assume_pkce"`
	// AllowHTTP allows http URLs of other machines, for private networks.
	AllowHTTP bool `yaml:"allow_http"`
	// Profile tells apart several accounts at one server.
	Profile string `yaml:"profile"`
	// Wait is how long a request waits for a login in the browser. Clients have timeouts of 30 s and more.
	Wait time.Duration `yaml:"wait"`

	// Browser says that the client's user is at this machine, so that a login may open a browser.
	Browser bool `yaml:"-"`
	// Device says that such a login asks for a code on another device instead.
	Device bool `yaml:"-"`
}

// Set sets a setting of u by its name, as --oauth NAME=VALUE does. params has one NAME each.
func (u *UpstreamAuth) Set(name, value string) error {
	texts := map[string]*string{
		"client_id": &u.ClientID, "client_secret": &u.ClientSecret, "client_secret_file": &u.ClientSecretFile,
		"assertion_file": &u.AssertionFile, "key_file": &u.KeyFile, "kid": &u.Kid, "key_audience": &u.KeyAudience,
		"client_metadata_url": &u.ClientMetadataURL, "issuer": &u.Issuer, "resource": &u.Resource,
		"profile": &u.Profile, "type": &u.Type, "token_file": &u.TokenFile, "redirect_uri": &u.RedirectURI, "client_name": &u.ClientName,
		"token_endpoint": &u.TokenEndpoint, "authorization_endpoint": &u.AuthorizationEndpoint,
	}
	switches := map[string]*bool{"assume_pkce": &u.AssumePKCE, "allow_http": &u.AllowHTTP}
	var err error
	switch {
	case texts[name] != nil:
		*texts[name] = value
	case switches[name] != nil:
		if *switches[name], err = strconv.ParseBool(value); err != nil {
			return fmt.Errorf("%s: expected true or false", name)
		}
	case name == "scopes":
		u.Scopes = strings.FieldsFunc(value, func(r rune) bool { return r == ' ' || r == ',' })
	case name == "wait":
		if u.Wait, err = time.ParseDuration(value); err != nil {
			return fmt.Errorf("%s: expected a duration such as 25s", name)
		}
	case strings.HasPrefix(name, "params."):
		if u.Params == nil {
			u.Params = map[string]string{}
		}
		u.Params[strings.TrimPrefix(name, "params.")] = value
	default:
		known := append(slices.Collect(maps.Keys(texts)), slices.Collect(maps.Keys(switches))...)
		known = append(known, "scopes", "wait", "params.NAME")
		slices.Sort(known)
		return fmt.Errorf("%q is not one of %s", name, strings.Join(known, ", "))
	}
	return nil
}

// Lends reports whether dragoman adds a credential of its own to requests to the server.
func (u *UpstreamAuth) Lends() bool { return u.Type != "" && u.Type != AuthNone }

// Patience returns how much longer a request may take because it waits for a credential.
func (u *UpstreamAuth) Patience() time.Duration {
	if u.Browser && u.Type == AuthLogin {
		return u.Wait
	}
	return 0
}

func (u *Upstream) validateAuth() error {
	var all setting.Mistakes
	a := &u.Auth
	fault := func(key, format string, args ...any) { all.Addf("upstream.auth."+key, format, args...) }
	secret := a.ClientSecret != "" || a.ClientSecretFile != ""
	switch a.Type {
	case "", AuthNone, AuthLogin:
	case AuthTokenFile:
		if a.TokenFile == "" {
			fault("token_file", "is missing")
		}
	case AuthClientCredentials:
		if a.ClientID == "" {
			fault("client_id", "is missing")
		}
		if !secret && a.KeyFile == "" {
			fault("client_secret", "is missing; set it, client_secret_file or key_file")
		}
	case AuthJWTBearer:
		if a.AssertionFile == "" {
			fault("assertion_file", "is missing")
		}
	default:
		fault("type", "%q is not one of %s, %s, %s, %s, %s", a.Type, AuthNone, AuthTokenFile, AuthClientCredentials, AuthJWTBearer, AuthLogin)
	}
	if a.Lends() {
		if u.URL == "" {
			fault("type", "%s applies only to upstream.url", a.Type)
		}
		if u.SetsAuthorization() {
			fault("type", "%s cannot be set together with the Authorization in upstream.headers", a.Type)
		}
	}
	if a.TokenFile != "" && a.Type != AuthTokenFile {
		fault("token_file", "applies only to type: %s", AuthTokenFile)
	}
	if a.AssertionFile != "" && a.Type != AuthJWTBearer {
		fault("assertion_file", "applies only to type: %s", AuthJWTBearer)
	}
	if a.ClientSecret != "" && a.ClientSecretFile != "" {
		fault("client_secret", "cannot be set together with client_secret_file")
	}
	if secret && a.ClientID == "" && a.Type != AuthClientCredentials {
		fault("client_id", "is missing; client_secret needs it")
	}
	if secret && a.KeyFile != "" {
		fault("key_file", "cannot be set together with a client secret")
	}
	if a.KeyFile != "" && a.ClientID+a.ClientMetadataURL == "" && a.Type != AuthClientCredentials {
		fault("client_id", "is missing; key_file needs it")
	}
	if a.Kid != "" && a.KeyFile == "" {
		fault("kid", "applies only with key_file")
	}
	if a.KeyAudience != KeyForIssuer && a.KeyAudience != KeyForTokenEndpoint {
		fault("key_audience", "%q is neither %s nor %s", a.KeyAudience, KeyForIssuer, KeyForTokenEndpoint)
	}
	for _, f := range []struct{ key, value string }{{"issuer", a.Issuer}, {"client_metadata_url", a.ClientMetadataURL}} {
		at, err := url.Parse(f.value)
		if f.value != "" && (err != nil || at.Host == "" || at.Scheme != "https" && (at.Scheme != "http" || f.key != "issuer")) {
			fault(f.key, "%q is not an https URL", f.value)
		}
	}
	if a.Resource != "" && a.Resource != oauth.NoResource {
		if at, err := url.Parse(a.Resource); err != nil || at.Scheme == "" || at.Fragment != "" {
			fault("resource", "%q is neither a URI nor %s", a.Resource, oauth.NoResource)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.Params)) {
		if oauth.IsProtocolParam(name) {
			fault("params", "%s is set by dragoman and cannot be configured", name)
		}
	}
	at, err := url.Parse(a.RedirectURI)
	if a.RedirectURI != "" && (err != nil || at.Scheme != "http" || !oauth.IsLoopback(at.Hostname()) || !isPort(at.Port()) || at.User != nil || strings.ContainsAny(a.RedirectURI, "?#")) {
		fault("redirect_uri", "is not an http URL of this machine such as http://localhost:3334/oauth/callback")
	}
	a.validateEndpoints(fault)
	for _, f := range []struct{ key, value string }{{"profile", a.Profile}, {"client_id", a.ClientID}, {"client_name", a.ClientName}, {"resource", a.Resource}} {
		if strings.ContainsAny(f.value, "\r\n") {
			fault(f.key, "must have no line breaks")
		}
	}
	if a.Wait <= 0 {
		fault("wait", "must be greater than 0")
	}
	return all.Err()
}

// validateEndpoints checks the endpoints that replace metadata.
func (u *UpstreamAuth) validateEndpoints(fault func(key, format string, args ...any)) {
	for _, f := range []struct{ key, value string }{{"token_endpoint", u.TokenEndpoint}, {"authorization_endpoint", u.AuthorizationEndpoint}} {
		at, err := url.Parse(f.value)
		switch {
		case f.value == "":
		case err != nil, at.Host == "", at.User != nil, at.Fragment != "":
			fault(f.key, "is not an absolute URL without user and fragment")
		case at.Scheme != "https" && (at.Scheme != "http" || !u.AllowHTTP && !oauth.IsLoopback(at.Host)):
			fault(f.key, "%q is not an https URL; allow_http: true allows http", SafeURL(f.value))
		}
	}
	login := u.Type == AuthLogin
	const both = "is missing; a login needs both endpoints, or the metadata of the authorization server"
	switch {
	case login && u.AuthorizationEndpoint == "" && u.TokenEndpoint != "":
		fault("authorization_endpoint", both)
	case login && u.AuthorizationEndpoint != "" && u.TokenEndpoint == "":
		fault("token_endpoint", both)
	}
	if login && u.TokenEndpoint != "" && u.ClientID == "" {
		fault("client_id", "is missing; token_endpoint needs it, since an authorization server without metadata registers no clients by itself")
	}
	if u.AuthorizationEndpoint != "" && u.Lends() && !login {
		fault("authorization_endpoint", "applies only to type: %s", AuthLogin)
	}
}

// SetsAuthorization reports whether Headers have an Authorization, which the server gets instead of the client's.
func (u *Upstream) SetsAuthorization() bool {
	for name := range u.Headers {
		if strings.EqualFold(name, "Authorization") {
			return true
		}
	}
	return false
}
