package file

import (
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Credential says where a secret is kept: in an environment variable or in a file.
type Credential struct{ Env, File string }

// String returns the name of the variable or file, for logs. It masks secrets, because an
// adapter file may contain, by mistake, the credential itself instead of the variable's name.
func (c Credential) String() string { return clean.MaskSecrets(c.Env) + c.File }

// credential reads where a secret is kept. One of the keys env and file is required.
func (c *checker) credential(n *node, path, env, file string) Credential {
	e := n.get(env)
	if e == nil || e.kind == wire.Null {
		switch f := n.get(file); {
		case isPath(f):
			return Credential{File: f.text}
		case n.has(file):
			c.wrong(AuthConfigInvalid, join(path, file), file+" is not valid", "path of a file", f.hidden(), 0)
			return Credential{}
		}
	}
	return c.variable(e, join(path, env), env, n.line)
}

// pem reads the path of a PEM file, which is required.
func (c *checker) pem(n *node, path, key string) string {
	v := n.get(key)
	if !isPath(v) {
		c.wrong(AuthConfigInvalid, join(path, key), key+" is required", "path of a PEM file", v, n.line)
		return ""
	}
	return v.text
}

// variable reads the name of the environment variable that key names.
func (c *checker) variable(e *node, at, key string, line int) Credential {
	if e == nil || e.kind != wire.String || e.text == "" {
		c.wrong(AuthConfigInvalid, at, key+" is required", "name of an environment variable", e, line)
		return Credential{}
	}
	if !isEnvName(e.text) {
		c.wrong(AuthConfigInvalid, at, key+" is not the name of an environment variable", "letters, digits and _", e.hidden(), line)
		return Credential{}
	}
	if c.opt.Getenv != nil {
		if v, ok := c.opt.Getenv(e.text); !ok || strings.TrimSpace(v) == "" {
			c.warn(AuthConfigInvalid, at, "environment variable "+Credential{Env: e.text}.String()+" is not set", e.line)
		}
	}
	return Credential{Env: e.text}
}

// isPath reports whether v can be the path of a file.
func isPath(v *node) bool {
	return v != nil && v.kind == wire.String && v.text != "" && !strings.ContainsRune(v.text, 0)
}

// secretKeys are keys under which people put a credential itself. authKeys reports that, and
// does not report them as unknown keys in addition.
var secretKeys = []string{"token", "key", "api_key", "password", "client_secret", "refresh_token",
	"access_key_id", "secret_access_key", "session_token"}

func (c *checker) authKeys(n *node, path string, keys ...string) {
	for _, key := range secretKeys {
		if v := n.get(key); v != nil {
			c.mind(SchemaEmbeddedCredential, join(path, key), "a file must name where its credentials are, not hold them", v.line)
		}
	}
	c.only(n, path, append(keys, secretKeys...)...)
}
