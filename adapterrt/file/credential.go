package file

import (
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
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
			c.closed(c.place(f), join(path, file), f.line)
			return Credential{File: c.place(f)}
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
	return c.place(v)
}

// privateKey reads the path of a PEM file with a private key, which is required.
func (c *checker) privateKey(n *node, path, key string) string {
	file := c.pem(n, path, key)
	if file != "" {
		c.closed(file, join(path, key), n.get(key).line)
	}
	return file
}

// closed warns if other users can read or change a file with a secret.
func (c *checker) closed(file, at string, line int) {
	if c.opt.Getenv == nil {
		return // no secrets are looked for
	}
	if what, do := secret.OpenToOthers(file); what != "" {
		c.warn(AuthConfigInvalid, at, what+"; "+do, line)
	}
}

// variable reads the name of the environment variable that key names.
func (c *checker) variable(e *node, at, key string, line int) Credential {
	if e == nil || e.kind != wire.String || e.text == "" {
		c.wrong(AuthConfigInvalid, at, key+" is required", "name of an environment variable", e, line)
		return Credential{}
	}
	if !isEnvName(e.text) {
		msg := key + " is not the name of an environment variable"
		if strings.HasPrefix(e.text, "$") { // a secret may begin with one, too
			msg = "takes the variable's name alone, without ${ }"
			if name := strings.TrimSuffix(strings.TrimPrefix(e.text, "${"), "}"); "${"+name+"}" == e.text && isEnvName(name) {
				msg += ": " + Credential{Env: name}.String()
			}
			c.add(Error, AuthConfigInvalid, at, msg, e.line)
			return Credential{}
		}
		c.wrong(AuthConfigInvalid, at, msg, "letters, digits and _", e.hidden(), line)
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

const authWords = "none, bearer, api_key, basic, oauth, mtls, aws-sig4"

var authBlock = block{"auth", "A file names where credentials are, and must not hold them.", []key{
	{"type", authWords, must, "How requests are authenticated. The keys of each type are below. oauth2 is the same as oauth."},
	{"also", "list of maps", "", "Up to 16 further keys that the API needs, each in a header, query parameter or cookie of its own."},
}}

// mtlsKey is for the types that are no client certificate themselves.
var mtlsKey = block{"auth", "", []key{
	{"mtls", "map", "", "A client certificate beside another type: the keys of type mtls."},
}}

// secretKeys are keys under which people put a credential itself. authKeys reports that, and
// does not report them as unknown keys in addition.
var secretKeys = block{keys: []key{{name: "token"}, {name: "key"}, {name: "api_key"}, {name: "password"}, {name: "client_secret"}, {name: "refresh_token"},
	{name: "access_key_id"}, {name: "secret_access_key"}, {name: "session_token"}}}

func (c *checker) authKeys(n *node, path string, blocks ...*block) {
	for _, key := range secretKeys.keys {
		if v := n.get(key.name); v != nil {
			c.mind(SchemaEmbeddedCredential, join(path, key.name), "a file must name where its credentials are, not hold them", v.line)
		}
	}
	c.only(n, path, append(blocks, &secretKeys)...)
}
