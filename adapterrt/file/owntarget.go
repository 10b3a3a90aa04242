package file

import (
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// ownTarget reads where an operation is, if that is not where the adapter's others are, and whether it is sent without credentials.
func (c *checker) ownTarget(n *node, path string, op *Operation) {
	a := op.Adapter
	op.Target = &a.Target
	if v := n.get("auth"); v != nil && v.kind != wire.Null {
		if op.Anonymous = c.str(n, path, "auth") == "none"; !op.Anonymous {
			c.wrong(AuthConfigInvalid, path+".auth", "an operation has the credentials of its file, or none", "none", v.hidden(), 0)
		}
	}
	op.Scopes = c.scopes(n, path)
	if s := c.str(n, path, "base_url"); s != "" {
		own := a.Target
		own.Base = nil
		if c.baseURL(s, path+".base_url", n.get("base_url"), &own); own.Base != nil {
			op.Target = &own
		}
		if a.Target.Outside {
			c.warn(SchemaInvalidValue, path+".base_url", "base_url of the target is replaced, and this one is not", n.get("base_url").line)
		}
		if !op.Anonymous {
			c.overHTTPS(&a.Auth, op.Target, n.get("base_url").line)
		}
	}
}

// MaxScopes is the largest number of scopes of an operation.
const MaxScopes = 50

// IsScope reports whether s is a scope of at most 200 bytes: https://www.rfc-editor.org/rfc/rfc6749#section-3.3
func IsScope(s string) bool {
	return s != "" && len(s) <= 200 && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '"' || r == '\\' })
}

// scopes reads the scopes that an operation needs.
func (c *checker) scopes(n *node, path string) []string {
	list := c.strs(n, path, "scopes")
	if len(list) > MaxScopes {
		c.wrong(SchemaInvalidValue, path+".scopes", "too many scopes", "up to "+strconv.Itoa(MaxScopes), n.get("scopes"), 0)
		return nil
	}
	for i, s := range list {
		if !IsScope(s) {
			c.wrong(SchemaInvalidValue, index(path+".scopes", i), "scope is not valid", "printable ASCII without blanks, quotes and backslashes, up to 200 bytes", n.get("scopes").list[i], 0)
		}
	}
	return list
}

// Names reports whether the file names a scope: in auth, or at an operation.
func (a *Adapter) Names(scope string) bool {
	return a.Auth.OAuth != nil && slices.Contains(a.Auth.OAuth.Scopes, scope) || slices.ContainsFunc(a.Operations, func(op *Operation) bool { return slices.Contains(op.Scopes, scope) })
}

// overHTTPS adds an error if credentials would be sent to a target without encryption.
func (c *checker) overHTTPS(au *Auth, t *Target, line int) {
	if b := t.Base; (au.Kind != AuthNone || au.Also != nil) && b != nil && b.Scheme == "http" && !IsLocalHost(b.Hostname()) {
		c.wrong(AuthConfigInvalid, "auth", "credentials go over https only, or to localhost", "none, or an https base_url", nil, line)
	}
}
