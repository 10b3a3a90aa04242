package adapterrt

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

type authKind uint8

const (
	authNone authKind = iota
	authBearer
	authKey
	authBasic
	authOAuth
)

// String is the kind as files write it. Client certificates stand beside any.
func (k authKind) String() string {
	return [...]string{"none", "bearer", "api_key", "basic", "oauth"}[k]
}

// auth says how a request is made the caller's own.
type auth struct {
	kind   authKind
	header string // name; "" when the key goes into the query
	prefix string
	query  string
	value  credential
	user   credential // basic: value is the password
	oauth  *oauth
	mutual *mutual // beside any of them
}

// credential is where a secret is kept: in the environment or in a file.
type credential struct{ env, file string }

// String is the name of the place, for logs. Files may hold, by mistake, the
// credential itself where the name of its variable belongs.
func (c credential) String() string { return maskSecrets(c.env) + c.file }

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
		case !isToken(s.text) || !strings.EqualFold(s.text, "authorization") && isForbiddenHeader(s.text):
			bad(key, key+" is no header name for auth", "RFC 9110 token", s)
		default:
			return s.text
		}
		return ""
	}
	for _, key := range [...]string{"token", "key", "api_key", "password", "client_secret", "refresh_token"} {
		if v := n.get(key); v != nil {
			c.mind(SchemaEmbeddedCredential, "auth."+key, "a file must name where its credentials are, not hold them", v.line)
		}
	}
	au := &a.auth
	switch kind {
	case "none":
		c.known(n, "auth", "type", "mtls")
	case "bearer":
		c.known(n, "auth", "type", "token_env", "token_file", "header", "prefix", "mtls")
		au.kind, au.header, au.prefix = authBearer, token("header", "Authorization"), "Bearer "
		if p := n.get("prefix"); p != nil {
			if p.kind == wire.String && isHeaderValue(p.text) {
				au.prefix = p.text
			} else {
				bad("prefix", "prefix is not valid", "string without control characters", p)
			}
		}
		au.value = c.credential(n, "token_env", "token_file")
	case "api_key":
		c.known(n, "auth", "type", "header_name", "key_env", "key_file", "in", "query_name", "mtls")
		au.kind = authKey
		if c.word(n, "auth", "in", "header", "query") == "query" {
			if q := n.get("query_name"); q != nil && q.kind == wire.String && q.text != "" {
				au.query = q.text
			} else {
				bad("query_name", "query_name is required", "non-empty string", q)
			}
		} else {
			au.header = token("header_name", "")
		}
		au.value = c.credential(n, "key_env", "key_file")
	case "basic":
		c.known(n, "auth", "type", "username_env", "password_env", "mtls")
		au.kind, au.header = authBasic, "Authorization"
		au.user, au.value = c.credential(n, "username_env", ""), c.credential(n, "password_env", "")
	case "oauth", "oauth2":
		au.kind, au.header, au.prefix = authOAuth, "Authorization", "Bearer "
		au.oauth = c.oauth(n)
	case "mtls":
		c.known(n, "auth", "type", "cert_file", "key_file", "ca_file")
		au.mutual = c.mutual(n, "auth")
	case "aws-sig4":
		c.wrong(PluginNotFound, "auth.type", "auth type "+kind+" is known, not supported", authWords, v, 0)
	default:
		c.wrong(PluginNotFound, "auth.type", "auth type is unknown", authWords, v, 0)
	}
	if m := c.get(n, "auth", "mtls", wire.Object); m != nil {
		c.known(m, "auth.mtls", "cert_file", "key_file", "ca_file")
		au.mutual = c.mutual(m, "auth.mtls")
	}
}

const authWords = "none, bearer, api_key, basic, oauth, mtls"

// credential reads where a secret is kept; one of the two keys must be there.
func (c *checker) credential(n *node, env, file string) credential {
	e := n.get(env)
	if file != "" && (e == nil || e.kind == wire.Null) {
		if f := n.get(file); f != nil && f.kind == wire.String && f.text != "" && !strings.ContainsRune(f.text, 0) {
			return credential{file: f.text}
		}
	}
	at := join("auth", env)
	if e == nil || e.kind != wire.String || e.text == "" {
		c.wrong(AuthConfigInvalid, at, env+" is required", "name of an environment variable", e, n.line)
		return credential{}
	}
	if !isEnvName(e.text) {
		hidden := &node{kind: wire.Object, line: e.line} // perhaps the secret itself
		c.wrong(AuthConfigInvalid, at, env+" is not the name of an environment variable", "letters, digits and _", hidden, n.line)
		return credential{}
	}
	if c.opt.Getenv != nil {
		if v, ok := c.opt.Getenv(e.text); !ok || strings.TrimSpace(v) == "" {
			c.warn(AuthConfigInvalid, at, "environment variable "+credential{env: e.text}.String()+" is not set", e.line)
		}
	}
	return credential{env: e.text}
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

// secretFiles remembers secrets read from files until the files change.
type secretFiles struct {
	mu   sync.Mutex
	read map[string]secretFile
}

type secretFile struct {
	changed time.Time
	size    int64
	value   string
}

const maxSecret = 64 << 10

func (s *secretFiles) get(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !st.Mode().IsRegular() {
		return "", errors.New("not a regular file")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, ok := s.read[path]; ok && r.changed.Equal(st.ModTime()) && r.size == st.Size() {
		return r.value, nil
	}
	b, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil {
		return "", err
	}
	if len(b) > maxSecret {
		return "", fmt.Errorf("larger than %d bytes", maxSecret)
	}
	if s.read == nil {
		s.read = map[string]secretFile{}
	}
	s.read[path] = secretFile{st.ModTime(), st.Size(), string(b)}
	return string(b), nil
}

// secret is the value of a credential.
func (rt *Runtime) secret(a *Adapter, c credential) (string, *Failure) {
	var v string
	var cause error
	if c.file != "" {
		v, cause = rt.files.get(c.file)
	} else if rt.opt.Getenv != nil {
		v, _ = rt.opt.Getenv(c.env)
	}
	if v = strings.TrimRight(v, "\r\n"); strings.TrimSpace(v) == "" {
		if cause == nil {
			cause = fmt.Errorf("credential %v is not set", c)
		}
		return "", &Failure{
			Code: AuthCredentialMissing, Own: true, Cause: cause,
			Message: "Credential for adapter '" + a.Name + "' is not configured",
			Details: wire.Members(nil).Str("adapter", a.Name).End(),
		}
	}
	for i := range len(v) {
		if v[i] < ' ' || v[i] == 0x7f {
			return "", &Failure{
				Code: AuthInvalid, Own: true, Cause: fmt.Errorf("credential %v holds control characters", c),
				Message: "Credential for adapter '" + a.Name + "' is not usable",
				Details: wire.Members(nil).Str("adapter", a.Name).End(),
			}
		}
	}
	return v, nil
}

// authorize adds the adapter's credentials to o.
func (rt *Runtime) authorize(ctx context.Context, a *Adapter, o *outgoing) *Failure {
	au := &a.auth
	switch au.kind {
	case authNone:
		return nil
	case authOAuth:
		token, secrets, f := rt.oauthToken(ctx, a, "")
		if f != nil {
			return f
		}
		o.secrets = append(o.secrets, secrets...)
		o.headers = append(o.headers, header{au.header, au.prefix + token})
		return nil
	}
	v, f := rt.secret(a, au.value)
	if f != nil {
		return f
	}
	o.secrets = append(o.secrets, v)
	switch {
	case au.kind == authBasic:
		user, f := rt.secret(a, au.user)
		if f != nil {
			return f
		}
		v = base64.StdEncoding.EncodeToString([]byte(user + ":" + v))
		o.secrets = append(o.secrets, v)
		o.headers = append(o.headers, header{au.header, "Basic " + v})
	case au.query != "":
		o.url.add(au.query, v)
		o.secrets = append(o.secrets, string(appendQueryText(nil, v)))
	default:
		o.headers = append(o.headers, header{au.header, au.prefix + v})
	}
	return nil
}
