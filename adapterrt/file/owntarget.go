package file

import "github.com/dragoman-proxy/dragoman/translate/wire"

// ownTarget reads where an operation is, if that is not where the adapter's others are, and whether it is sent without credentials.
func (c *checker) ownTarget(n *node, path string, op *Operation) {
	a := op.Adapter
	op.Target = &a.Target
	if v := n.get("auth"); v != nil && v.kind != wire.Null {
		if op.Anonymous = c.str(n, path, "auth") == "none"; !op.Anonymous {
			c.wrong(AuthConfigInvalid, path+".auth", "an operation has the credentials of its file, or none", "none", v.hidden(), 0)
		}
	}
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

// overHTTPS adds an error if credentials would be sent to a target without encryption.
func (c *checker) overHTTPS(au *Auth, t *Target, line int) {
	if b := t.Base; (au.Kind != AuthNone || au.Also != nil) && b != nil && b.Scheme == "http" && !IsLocalHost(b.Hostname()) {
		c.wrong(AuthConfigInvalid, "auth", "credentials go over https only, or to localhost", "none, or an https base_url", nil, line)
	}
}
