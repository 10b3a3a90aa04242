package file

import (
	"net/url"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Grant is an OAuth grant: https://www.rfc-editor.org/rfc/rfc6749#section-1.3
type Grant string

const (
	ClientCredentials Grant = "client_credentials"
	RefreshToken      Grant = "refresh_token"
	AuthorizationCode Grant = "authorization_code"
	DeviceCode        Grant = "device_code"    // https://www.rfc-editor.org/rfc/rfc8628
	TokenExchange     Grant = "token_exchange" // https://www.rfc-editor.org/rfc/rfc8693
	JWTBearer         Grant = "jwt_bearer"     // https://www.rfc-editor.org/rfc/rfc7523
)

// ClientAuth is how the client authenticates at the token endpoint.
type ClientAuth string

const (
	ClientBasic  ClientAuth = "basic"
	ClientPost   ClientAuth = "post"
	ClientJWT    ClientAuth = "private_key_jwt"
	ClientPublic ClientAuth = "none"
)

// OAuth is the configuration for obtaining OAuth tokens.
type OAuth struct {
	Grant       Grant
	URL         string // of the token endpoint
	ID, Secret  Credential
	Client      ClientAuth
	Key         SigningKey // for private_key_jwt
	Refresh     Credential // the first refresh token; empty if it comes from a login
	Subject     Credential // token_exchange
	SubjectType string
	Assertion   Credential // jwt_bearer
	Scopes      []string
	Audience    string
	Resource    string

	AuthorizeURL string // authorization endpoint, where a person logs in; "" for none
	RedirectURL  string // to which the browser returns, on this machine
	Params       []Header
	DeviceURL    string // device authorization endpoint; "" for none
	RevokeURL    string // revocation endpoint: https://www.rfc-editor.org/rfc/rfc7009; "" for none
}

// SigningKey is a private key in a PEM file. ID is "" if the key has no kid. Algorithm is ""
// for the default algorithm for the type of key.
type SigningKey struct{ File, ID, Algorithm string }

// Rotates reports whether the grant uses refresh tokens, which must be stored.
func (o *OAuth) Rotates() bool {
	return o.Grant == RefreshToken || o.Grant == AuthorizationCode || o.Grant == DeviceCode
}

// HasLogin reports whether a person can log in.
func (o *OAuth) HasLogin() bool { return o.AuthorizeURL != "" || o.DeviceURL != "" }

const defaultRedirect = "http://127.0.0.1:0/callback"

// protocolParams are the parameters that OAuth itself sets, so that a file must not:
// https://www.rfc-editor.org/rfc/rfc6749#section-4.1.1
var protocolParams = []string{
	"client_id", "client_secret", "response_type", "redirect_uri", "scope", "state", "resource",
	"code_challenge", "code_challenge_method", "response_mode", "request", "request_uri",
}

var oauthBlock = block{"auth (type: oauth)", "What each grant needs, and how a person logs in: [oauth.md](oauth.md).", []key{
	{"token_url", "https URL", must, "The token endpoint."},
	{"grant", "client_credentials, refresh_token, authorization_code, device_code, token_exchange, jwt_bearer", "client_credentials", "How a token is obtained."},
	{"client_id_env", "variable", must, "The client's id."},
	{"client_id_file", "file", "", ""},
	{"client_auth", "basic, post, private_key_jwt, none", "basic", "How the client authenticates at the token endpoint."},
	{"client_secret_env", "variable", "", "The client's secret; required for basic and post."},
	{"client_secret_file", "file", "", ""},
	{"client_key_file", "file", "", "The PEM file of the key that private_key_jwt signs with, which requires it."},
	{"kid", "string", "", "The id of that key."},
	{"alg", "RS256, PS256, ES256", "", "The algorithm of the signature. Without it, the type of the key decides."},
	{"refresh_token_env", "variable", "", "The first refresh token of grant refresh_token. Without it, it comes from a login."},
	{"refresh_token_file", "file", "", ""},
	{"subject_token_env", "variable", "", "The token that grant token_exchange exchanges, which requires it."},
	{"subject_token_file", "file", "", ""},
	{"subject_token_type", "string", "urn:ietf:params:oauth:token-type:access_token", "Its type."},
	{"assertion_env", "variable", "", "The signed assertion of grant jwt_bearer, which requires it."},
	{"assertion_file", "file", "", ""},
	{"authorization_url", "https URL", "", "Where a person logs in; required for authorization_code."},
	{"redirect_url", "http URL of this machine", "", "Where the browser returns to. Without it, `/callback` at a free port of 127.0.0.1."},
	{"authorization_params", "map", "", "Further parameters of the authorization request, as in `{prompt: consent}`. OAuth's own are refused."},
	{"device_authorization_url", "https URL", "", "Where a login with a code begins; required for device_code."},
	{"revocation_url", "https URL", "", "Where `adapter logout` revokes tokens."},
	{"scopes", "list of strings", "", "The scopes to ask for."},
	{"audience", "string", "", "The API, as the token endpoint knows it."},
	{"resource", "string", "", "The API's URL (RFC 8707)."},
}}

func (c *checker) oauth(n *node) *OAuth {
	c.authKeys(n, "auth", &authBlock, &mtlsKey, &oauthBlock)
	o := &OAuth{
		Scopes: c.strs(n, "auth", "scopes"), Audience: c.str(n, "auth", "audience"), Resource: c.str(n, "auth", "resource"),
		Grant: Grant(c.word(n, "auth", "grant", string(ClientCredentials), string(RefreshToken), string(AuthorizationCode),
			string(DeviceCode), string(TokenExchange), string(JWTBearer))),
		Client: ClientAuth(c.word(n, "auth", "client_auth", string(ClientBasic), string(ClientPost), string(ClientJWT), string(ClientPublic))),
	}
	o.URL = c.oauthURL(n, "token_url", true)
	o.AuthorizeURL = c.oauthURL(n, "authorization_url", o.Grant == AuthorizationCode)
	o.DeviceURL = c.oauthURL(n, "device_authorization_url", o.Grant == DeviceCode)
	o.RevokeURL = c.oauthURL(n, "revocation_url", false)
	o.ID = c.credential(n, "auth", "client_id_env", "client_id_file")
	switch o.Client {
	case ClientBasic, ClientPost:
		o.Secret = c.credential(n, "auth", "client_secret_env", "client_secret_file")
	case ClientJWT:
		o.Key = c.signingKey(n)
	case ClientPublic:
		if o.Grant == ClientCredentials {
			c.wrong(AuthConfigInvalid, "auth.client_auth", "the grant does not go with client_auth none", "basic, post, private_key_jwt", n.get("client_auth"), n.line)
		}
	}
	switch o.Grant {
	case RefreshToken:
		if !o.HasLogin() || n.get("refresh_token_env") != nil || n.get("refresh_token_file") != nil {
			o.Refresh = c.credential(n, "auth", "refresh_token_env", "refresh_token_file")
		}
	case TokenExchange:
		o.Subject = c.credential(n, "auth", "subject_token_env", "subject_token_file")
		if o.SubjectType = c.str(n, "auth", "subject_token_type"); o.SubjectType == "" {
			o.SubjectType = "urn:ietf:params:oauth:token-type:access_token"
		}
	case JWTBearer:
		o.Assertion = c.credential(n, "auth", "assertion_env", "assertion_file")
	}
	if o.AuthorizeURL != "" {
		o.RedirectURL, o.Params = c.redirect(n), c.authorizeParams(n)
	}
	return o
}

// oauthURL reads the URL of an endpoint of the OAuth server.
func (c *checker) oauthURL(n *node, key string, needed bool) string {
	v := n.get(key)
	if v == nil && !needed {
		return ""
	}
	u, err := url.Parse(c.str(n, "auth", key))
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || !isHost(u.Hostname()) || !isPort(u) || u.Scheme != "https" && (u.Scheme != "http" || !IsLocalHost(u.Hostname())) {
		c.wrong(AuthConfigInvalid, "auth."+key, key+" is not valid", "https URL", v, n.line)
		return ""
	}
	return u.String()
}

// redirect reads the redirect URL: https://www.rfc-editor.org/rfc/rfc8252#section-7.3
func (c *checker) redirect(n *node) string {
	v := n.get("redirect_url")
	if v == nil {
		return defaultRedirect
	}
	u, err := url.Parse(c.str(n, "auth", "redirect_url"))
	if err != nil || u.Scheme != "http" || !IsLocalHost(u.Hostname()) || !isPort(u) || u.User != nil || u.Fragment != "" || u.RawQuery != "" {
		c.wrong(AuthConfigInvalid, "auth.redirect_url", "redirect_url is not valid", "http URL of this machine, such as http://127.0.0.1:8765/callback", v, n.line)
		return defaultRedirect
	}
	return u.String()
}

func (c *checker) authorizeParams(n *node) (out []Header) {
	m := c.get(n, "auth", "authorization_params", wire.Object)
	if m == nil {
		return nil
	}
	for _, f := range m.fields {
		at := "auth.authorization_params." + clean.FirstRunes(f.key, 60)
		switch {
		case slices.Contains(protocolParams, strings.ToLower(f.key)):
			c.wrong(AuthConfigInvalid, at, "the protocol sets this parameter itself", "another one", f.val, f.line)
		case f.val.kind != wire.String:
			c.wrong(AuthConfigInvalid, at, "a string is needed", "string", f.val, f.line)
		default:
			out = append(out, Header{f.key, f.val.text})
		}
	}
	return out
}

func (c *checker) signingKey(n *node) SigningKey {
	k := SigningKey{ID: c.str(n, "auth", "kid"), File: c.privateKey(n, "auth", "client_key_file")}
	if n.get("alg") != nil {
		k.Algorithm = c.word(n, "auth", "alg", "RS256", "PS256", "ES256")
	}
	return k
}
