package file

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/plaintext"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// AuthKind says how an adapter authenticates its requests.
type AuthKind uint8

const (
	AuthNone AuthKind = iota
	authBearer
	authKey
	AuthBasic
	AuthOAuth
	AuthAWS
)

// String returns the kind as files write it. A client certificate is no kind, because it can
// be combined with every kind.
func (k AuthKind) String() string {
	return [...]string{"none", "bearer", "api_key", "basic", "oauth", "aws-sig4"}[k]
}

// Auth says how an adapter authenticates at its API.
type Auth struct {
	Scheme
	OAuth  *OAuth
	AWS    *AWS
	Mutual *Mutual  // a client certificate, in addition to any of the others
	Also   []Scheme // further keys that the API needs, never OAuth
}

// Scheme is a credential and its place in a request.
type Scheme struct {
	Kind   AuthKind
	Header string // name; "" if the key is sent in the query or in a cookie
	Prefix string
	Query  string
	Cookie string
	Value  Credential
	User   Credential // only for basic, where Value is the password
}

// Schemes returns all schemes of a request, the first one included.
func (au *Auth) Schemes() []Scheme { return append([]Scheme{au.Scheme}, au.Also...) }

// sets reports whether a credential is sent in the header, query parameter or cookie of that name.
func (au *Auth) sets(header, query, cookie string) bool {
	return slices.ContainsFunc(au.Schemes(), func(s Scheme) bool {
		return header != "" && strings.EqualFold(s.Header, header) || query != "" && s.Query == query || cookie != "" && s.Cookie == cookie
	})
}

// Hides reports whether the query parameter of that name carries a credential.
func (au *Auth) Hides(query string) bool { return au.sets("", query, "") }

var bearerBlock = block{"auth (type: bearer)", "", []key{
	{"token_env", "variable", must, "The token."},
	{"token_file", "file", "", ""},
	{"header", "header name", "Authorization", "The header that it is sent in."},
	{"prefix", "string", `"Bearer "`, "What is put before it."},
}}

var apiKeyBlock = block{"auth (type: api_key)", "", []key{
	{"key_env", "variable", must, "The key."},
	{"key_file", "file", "", ""},
	{"in", "header, query, cookie", "header", "Where it is sent."},
	{"header_name", "header name", "", "The header; required for header."},
	{"query_name", "string", "", "The query parameter; required for query."},
	{"cookie_name", "string", "", "The cookie; required for cookie."},
}}

var basicBlock = block{"auth (type: basic)", "", []key{
	{"username_env", "variable", must, "The user name."},
	{"username_file", "file", "", ""},
	{"password_env", "variable", must, "The password."},
	{"password_file", "file", "", ""},
}}

var mutualBlock = block{"auth (type: mtls)", "A client certificate, as PEM files, which are read again when they change.", []key{
	{"cert_file", "file", must, "The certificate."},
	{"key_file", "file", must, "Its private key."},
	{"ca_file", "file", "", "Authorities that the API's certificate is verified with. Without it, the system's."},
}}

var alsoBlock = block{"auth.also[]", "Beside `type`, the keys of that type.", []key{
	{"type", "bearer, api_key, basic", must, "How this key is sent."},
}}

func (c *checker) auth(root *node, au *Auth) {
	n := c.get(root, "", "auth", wire.Object)
	if n == nil {
		return
	}
	kind, v := c.need(n, "auth", "type", "Auth type")
	if v == nil {
		return
	}
	switch kind {
	case "none":
		c.authKeys(n, "auth", &authBlock, &mtlsKey)
	case "bearer", "api_key", "basic":
		au.Scheme = c.scheme(n, "auth", kind, &authBlock, &mtlsKey)
	case "oauth", "oauth2":
		au.Scheme = Scheme{Kind: AuthOAuth, Header: "Authorization", Prefix: "Bearer "}
		au.OAuth = c.oauth(n)
	case "mtls":
		c.authKeys(n, "auth", &authBlock, &mutualBlock)
		au.Mutual = c.mutual(n, "auth")
	case "aws-sig4":
		au.Scheme = Scheme{Kind: AuthAWS, Header: "Authorization", Prefix: "AWS4-HMAC-SHA256 "}
		au.AWS = c.aws(n)
	default:
		c.wrong(PluginNotFound, "auth.type", "auth type is unknown", authWords, v, 0)
	}
	if m := c.get(n, "auth", "mtls", wire.Object); m != nil {
		c.only(m, "auth.mtls", &mutualBlock)
		au.Mutual = c.mutual(m, "auth.mtls")
	}
	c.also(n, au)
}

// maxAlso is the largest number of credentials in a request in addition to the first.
const maxAlso = 16

// also reads the credentials that an API needs in addition to the first.
func (c *checker) also(n *node, au *Auth) {
	list := c.get(n, "auth", "also", wire.Array)
	if list == nil {
		return
	}
	if len(list.list) > maxAlso {
		c.wrong(AuthConfigInvalid, "auth.also", "too many credentials", fmt.Sprintf("up to %d", maxAlso), list, 0)
		return
	}
	for at, e := range c.maps(list, "auth.also", "a credential") {
		switch kind, v := c.need(e, at, "type", "Auth type"); {
		case v == nil:
		case kind == "bearer" || kind == "api_key" || kind == "basic":
			c.beside(au, c.scheme(e, at, kind, &alsoBlock), at, e)
		default:
			c.wrong(AuthConfigInvalid, at+".type", "only keys may be added to another credential", "bearer, api_key, basic", v, 0)
		}
	}
}

// beside adds a credential, unless another one is sent in the same place.
func (c *checker) beside(au *Auth, s Scheme, at string, v *node) {
	if au.sets(s.Header, s.Query, s.Cookie) {
		c.wrong(AuthConfigInvalid, at, "another credential is already sent in this place", "a header, query_name or cookie_name of its own", v.hidden(), 0)
		return
	}
	au.Also = append(au.Also, s)
}

// scheme reads the credential at path. more are the blocks of keys that it may have in addition to
// those of its kind.
func (c *checker) scheme(n *node, path, kind string, more ...*block) (s Scheme) {
	bad := func(key, msg, expected string, v *node) {
		c.wrong(AuthConfigInvalid, join(path, key), msg, expected, v, n.line)
	}
	header := func(key, absent string) string {
		s := n.get(key)
		switch {
		case s == nil && absent != "":
			return absent
		case s == nil || s.kind != wire.String || s.text == "":
			bad(key, key+" is required", "header name", s)
		case !IsCredentialHeader(s.text):
			bad(key, key+" is not a valid header name for auth", "RFC 9110 token", s)
		default:
			return s.text
		}
		return ""
	}
	switch kind {
	case "bearer":
		c.authKeys(n, path, append(more, &bearerBlock)...)
		s.Kind, s.Header, s.Prefix = authBearer, header("header", "Authorization"), "Bearer "
		if p := n.get("prefix"); p != nil {
			if p.kind == wire.String && IsHeaderValue(p.text) {
				s.Prefix = p.text
			} else {
				bad("prefix", "prefix is not valid", "string without control characters", p)
			}
		}
		s.Value = c.credential(n, path, "token_env", "token_file")
	case "api_key":
		c.authKeys(n, path, append(more, &apiKeyBlock)...)
		s.Kind = authKey
		switch c.word(n, path, "in", "header", "query", "cookie") {
		case "query":
			if q := n.get("query_name"); q != nil && q.kind == wire.String && q.text != "" {
				s.Query = q.text
			} else {
				bad("query_name", "query_name is required", "non-empty string", q)
			}
		case "cookie":
			if q := n.get("cookie_name"); q != nil && q.kind == wire.String && IsToken(q.text) {
				s.Cookie = q.text
			} else {
				bad("cookie_name", "cookie_name is required", "RFC 9110 token", q)
			}
		default:
			s.Header = header("header_name", "")
		}
		s.Value = c.credential(n, path, "key_env", "key_file")
	case "basic":
		c.authKeys(n, path, append(more, &basicBlock)...)
		s.Kind, s.Header = AuthBasic, "Authorization"
		s.User, s.Value = c.credential(n, path, "username_env", "username_file"), c.credential(n, path, "password_env", "password_file")
	}
	return s
}

// Mutual is a client certificate, kept in files.
type Mutual struct{ Cert, Key, CA string }

// mutual reads the paths of the files and warns if the certificates in them cannot be used.
func (c *checker) mutual(n *node, path string) *Mutual {
	m := &Mutual{Cert: c.pem(n, path, "cert_file"), Key: c.privateKey(n, path, "key_file")}
	if n.get("ca_file") != nil {
		m.CA = c.pem(n, path, "ca_file")
	}
	if m.Cert != "" && m.Key != "" && c.opt.Getenv != nil {
		if _, err := m.Pair(); err != nil {
			c.warn(AuthConfigInvalid, path, "the client certificate cannot be used", n.line)
		}
		if _, err := m.Roots(); err != nil {
			c.warn(AuthConfigInvalid, join(path, "ca_file"), "the authority's certificate cannot be used", n.line)
		}
	}
	return m
}

// Pair returns the client certificate and its key as the files have them now.
func (m *Mutual) Pair() (tls.Certificate, error) {
	cert, err := ReadFile(m.Cert)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := ReadFile(m.Key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(plaintext.Of(cert), plaintext.Of(key))
}

// Roots returns the certificates of ca_file. It returns nil if there is no ca_file, for the
// system's certificates.
func (m *Mutual) Roots() (*x509.CertPool, error) {
	if m.CA == "" {
		return nil, nil
	}
	pem, err := ReadFile(m.CA)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(plaintext.Of(pem)) {
		return nil, fmt.Errorf("it contains no certificate")
	}
	return pool, nil
}

// Credentials returns the names of the variables and files from which secrets are read.
func (au *Auth) Credentials() []string {
	var all []Credential
	for _, s := range au.Schemes() {
		all = append(all, s.User, s.Value)
	}
	if o := au.OAuth; o != nil {
		all = append(all, o.ID, o.Secret, Credential{File: o.Key.File}, o.Refresh, o.Subject, o.Assertion)
	}
	if w := au.AWS; w != nil {
		all = append(all, w.ID, w.Secret, w.Session)
	}
	if m := au.Mutual; m != nil {
		all = append(all, Credential{File: m.Cert}, Credential{File: m.Key}, Credential{File: m.CA})
	}
	var out []string
	for _, c := range all {
		if s := c.String(); s != "" && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// secretHeaders reads headers whose values are kept in the environment or in files.
func (c *checker) secretHeaders(root *node, au *Auth) {
	n := root.get("target")
	for _, key := range [...]string{"headers_env", "headers_file"} {
		m := c.get(n, "target", key, wire.Object)
		if m == nil {
			continue
		}
		if len(m.fields) > maxAlso {
			c.wrong(SchemaInvalidValue, "target."+key, "too many headers", fmt.Sprintf("up to %d", maxAlso), m, 0)
			continue
		}
		for _, f := range m.fields {
			at := "target." + key + "." + clean.FirstRunes(f.key, 60)
			if !IsCredentialHeader(f.key) {
				c.wrong(SchemaInvalidValue, at, "header name is not valid", "RFC 9110 token, none of the connection's", f.val, f.line)
				continue
			}
			s := Scheme{Kind: authKey, Header: f.key}
			switch {
			case key == "headers_env":
				s.Value = c.variable(f.val, at, "a variable", f.line)
			case isPath(f.val):
				s.Value.File = c.place(f.val)
				c.closed(s.Value.File, at, f.line)
			default:
				c.wrong(SchemaInvalidValue, at, "path is not valid", "path of a file", f.val, f.line)
			}
			c.beside(au, s, at, f.val)
		}
	}
}
