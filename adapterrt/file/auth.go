package file

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// AuthKind is how an adapter signs its requests.
type AuthKind uint8

const (
	AuthNone AuthKind = iota
	authBearer
	authKey
	AuthBasic
	AuthOAuth
)

// String is the kind as files write it. Client certificates stand beside any.
func (k AuthKind) String() string {
	return [...]string{"none", "bearer", "api_key", "basic", "oauth"}[k]
}

// Auth says how a request is made the caller's own.
type Auth struct {
	Kind   AuthKind
	Header string // name; "" when the key goes into the query
	Prefix string
	Query  string
	Value  Credential
	User   Credential // basic: value is the password
	OAuth  *OAuth
	Mutual *Mutual // beside any of them
}

// Credential is where a secret is kept: in the environment or in a file.
type Credential struct{ Env, File string }

// String is the name of the place, for logs. Files may hold, by mistake, the
// credential itself where the name of its variable belongs.
func (c Credential) String() string { return clean.MaskSecrets(c.Env) + c.File }

func (c *checker) auth(root *node, a *Adapter) {
	n := c.get(root, "", "auth", wire.Object)
	if n == nil {
		return
	}
	bad := func(key, msg, expected string, v *node) {
		c.wrong(AuthConfigInvalid, join("auth", key), msg, expected, v, n.line)
	}
	kind, v := c.need(n, "auth", "type", "Auth type")
	if v == nil {
		return
	}
	token := func(key, absent string) string {
		s := n.get(key)
		switch {
		case s == nil && absent != "":
			return absent
		case s == nil || s.kind != wire.String || s.text == "":
			bad(key, key+" is required", "header name", s)
		case !IsToken(s.text) || !strings.EqualFold(s.text, "authorization") && isForbiddenHeader(s.text):
			bad(key, key+" is no header name for auth", "RFC 9110 token", s)
		default:
			return s.text
		}
		return ""
	}
	for _, key := range secretKeys {
		if v := n.get(key); v != nil {
			c.mind(SchemaEmbeddedCredential, "auth."+key, "a file must name where its credentials are, not hold them", v.line)
		}
	}
	au := &a.Auth
	switch kind {
	case "none":
		c.authKeys(n, "type", "mtls")
	case "bearer":
		c.authKeys(n, "type", "token_env", "token_file", "header", "prefix", "mtls")
		au.Kind, au.Header, au.Prefix = authBearer, token("header", "Authorization"), "Bearer "
		if p := n.get("prefix"); p != nil {
			if p.kind == wire.String && IsHeaderValue(p.text) {
				au.Prefix = p.text
			} else {
				bad("prefix", "prefix is not valid", "string without control characters", p)
			}
		}
		au.Value = c.credential(n, "token_env", "token_file")
	case "api_key":
		c.authKeys(n, "type", "header_name", "key_env", "key_file", "in", "query_name", "mtls")
		au.Kind = authKey
		if c.word(n, "auth", "in", "header", "query") == "query" {
			if q := n.get("query_name"); q != nil && q.kind == wire.String && q.text != "" {
				au.Query = q.text
			} else {
				bad("query_name", "query_name is required", "non-empty string", q)
			}
		} else {
			au.Header = token("header_name", "")
		}
		au.Value = c.credential(n, "key_env", "key_file")
	case "basic":
		c.authKeys(n, "type", "username_env", "username_file", "password_env", "password_file", "mtls")
		au.Kind, au.Header = AuthBasic, "Authorization"
		au.User, au.Value = c.credential(n, "username_env", "username_file"), c.credential(n, "password_env", "password_file")
	case "oauth", "oauth2":
		au.Kind, au.Header, au.Prefix = AuthOAuth, "Authorization", "Bearer "
		au.OAuth = c.oauth(n)
	case "mtls":
		c.authKeys(n, "type", "cert_file", "key_file", "ca_file")
		au.Mutual = c.mutual(n, "auth")
	case "aws-sig4":
		c.wrong(PluginNotFound, "auth.type", "auth type "+kind+" is known, not supported", authWords, v, 0)
	default:
		c.wrong(PluginNotFound, "auth.type", "auth type is unknown", authWords, v, 0)
	}
	if m := c.get(n, "auth", "mtls", wire.Object); m != nil {
		c.only(m, "auth.mtls", "cert_file", "key_file", "ca_file")
		au.Mutual = c.mutual(m, "auth.mtls")
	}
}

// secretKeys are where people put a credential itself. There is a word about that
// already.
var secretKeys = []string{"token", "key", "api_key", "password", "client_secret", "refresh_token"}

func (c *checker) authKeys(n *node, keys ...string) {
	c.only(n, "auth", append(keys, secretKeys...)...)
}

const authWords = "none, bearer, api_key, basic, oauth, mtls"

// credential reads where a secret is kept; one of the two keys must be there.
func (c *checker) credential(n *node, env, file string) Credential {
	e := n.get(env)
	if e == nil || e.kind == wire.Null {
		if f := n.get(file); f != nil && f.kind == wire.String && f.text != "" && !strings.ContainsRune(f.text, 0) {
			return Credential{File: f.text}
		}
	}
	at := join("auth", env)
	if e == nil || e.kind != wire.String || e.text == "" {
		c.wrong(AuthConfigInvalid, at, env+" is required", "name of an environment variable", e, n.line)
		return Credential{}
	}
	if !isEnvName(e.text) {
		hidden := &node{kind: wire.Object, line: e.line} // perhaps the secret itself
		c.wrong(AuthConfigInvalid, at, env+" is not the name of an environment variable", "letters, digits and _", hidden, n.line)
		return Credential{}
	}
	if c.opt.Getenv != nil {
		if v, ok := c.opt.Getenv(e.text); !ok || strings.TrimSpace(v) == "" {
			c.warn(AuthConfigInvalid, at, "environment variable "+Credential{Env: e.text}.String()+" is not set", e.line)
		}
	}
	return Credential{Env: e.text}
}

// isEnvName: ^[A-Za-z_][A-Za-z0-9_]*$
func isEnvName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c|0x20 < 'a' || c|0x20 > 'z' {
			if c != '_' && (i == 0 || c < '0' || c > '9') {
				return false
			}
		}
	}
	return s != ""
}

// Mutual is a client certificate, kept in files.
type Mutual struct{ Cert, Key, ca string }

// mutual reads the files' names and warns when they are no use now.
func (c *checker) mutual(n *node, path string) *Mutual {
	file := func(key string, needed bool) string {
		v := n.get(key)
		if v == nil && !needed {
			return ""
		}
		if v == nil || v.kind != wire.String || v.text == "" || strings.ContainsRune(v.text, 0) {
			c.wrong(AuthConfigInvalid, join(path, key), key+" is required", "path of a PEM file", v, n.line)
			return ""
		}
		return v.text
	}
	m := &Mutual{file("cert_file", true), file("key_file", true), file("ca_file", false)}
	if m.Cert != "" && m.Key != "" && c.opt.Getenv != nil {
		if _, err := tls.LoadX509KeyPair(m.Cert, m.Key); err != nil {
			c.warn(AuthConfigInvalid, path, "the client certificate cannot be used", n.line)
		}
		if _, err := m.Roots(); err != nil {
			c.warn(AuthConfigInvalid, join(path, "ca_file"), "the authority's certificate cannot be used", n.line)
		}
	}
	return m
}

// Roots returns the certificates of ca_file, nil for the system's.
func (m *Mutual) Roots() (*x509.CertPool, error) {
	if m.ca == "" {
		return nil, nil
	}
	pem, err := ReadFile(m.ca)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("no certificate in it")
	}
	return pool, nil
}

// Credentials are the places that secrets are read from.
func (au *Auth) Credentials() []string {
	all := []Credential{au.User, au.Value}
	if o := au.OAuth; o != nil {
		all = append(all, o.ID, o.Secret, Credential{File: o.Key.File}, o.Refresh, o.Subject, o.Assertion)
	}
	if m := au.Mutual; m != nil {
		all = append(all, Credential{File: m.Cert}, Credential{File: m.Key}, Credential{File: m.ca})
	}
	var out []string
	for _, c := range all {
		if s := c.String(); s != "" && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
