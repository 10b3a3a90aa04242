package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/proxy/config/setting"
)

// validateClients checks what the settings of adapters say of clients against the listener's.
func (c *Config) validateClients(all *setting.Mistakes) {
	a := &c.Adapters
	for i, name := range a.Pin {
		if name == "" {
			all.Addf(fmt.Sprintf("adapters.pin[%d]", i), "is empty; it must name an operation")
		}
	}
	if adapter, passes := a.PassesAuthorization(); passes && c.Upstream.URL != "" && !c.Upstream.Auth.Lends() && !c.Upstream.SetsAuthorization() {
		all.Addf("adapters.callers."+adapter, "the clients' Authorization is for the server at upstream.url, and no other API may get it; name another header")
	}
	for _, name := range slices.Sorted(maps.Keys(a.Tokens)) {
		g, path := a.Tokens[name], "adapters.tokens."+name
		if _, ok := c.Auth.NamedTokens[name]; !ok && name != OtherClients {
			all.Addf(path, "auth.named_tokens has no token of this name")
		}
		if g.Allow != nil && len(g.Allow) == 0 {
			all.Addf(path+".allow", `is empty; leave it out to allow everything, or set deny: ["*"] to allow nothing`)
		}
	}
	c.validateNamedTokens(all)
}

// spoken are headers of HTTP and of MCP that have a meaning of their own.
var spoken = []string{"accept", "authorization", "baggage", "dpop", "last-event-id", "origin", "traceparent", "tracestate", "user-agent", "x-max-tokens"}

// validateTokenHeader checks auth.header, which no other setting may read.
func (c *Config) validateTokenHeader(all *setting.Mistakes) {
	name, low := c.Auth.Header, strings.ToLower(c.Auth.Header)
	same := func(other string) bool { return strings.EqualFold(other, name) }
	switch {
	case name == "":
	case !file.IsCredentialHeader(name), slices.Contains(spoken, low), slices.ContainsFunc([]string{"mcp-", "content-", "access-control-", "sec-", "x-dragoman-"}, func(p string) bool { return strings.HasPrefix(low, p) }):
		all.Addf("auth.header", "%q cannot be the header of a token: name one such as X-API-Key", name)
	case len(c.Auth.Tokens)+len(c.Auth.NamedTokens) == 0 && c.Auth.TokenFile == "":
		all.Addf("auth.header", "has no effect without auth.tokens, auth.named_tokens or auth.token_file")
	case slices.ContainsFunc(c.Adapters.CallerHeaders(), same), same(strings.TrimPrefix(c.Bridge.Principal, "header:")):
		all.Addf("auth.header", "%s is read by adapters.callers or bridge.principal, too: name another header", name)
	}
}

// validateNamedTokens checks that each name stands for a token of its own.
func (c *Config) validateNamedTokens(all *setting.Mistakes) {
	names := slices.Sorted(maps.Keys(c.Auth.NamedTokens))
	for i, name := range names {
		path, token := "auth.named_tokens."+name, c.Auth.NamedTokens[name]
		same := slices.IndexFunc(names[:i], func(other string) bool { return c.Auth.NamedTokens[other] == token })
		switch {
		case name == OtherClients || name == "":
			all.Addf("auth.named_tokens", "%q is not a name", name)
		case strings.TrimSpace(token) == "":
			all.Addf(path, "is empty")
		case slices.Contains(c.Auth.Tokens, token):
			all.Addf(path, "is in auth.tokens, too, where it has no name")
		case same >= 0:
			all.Addf(path, "is the same token as %s", names[same])
		}
	}
}
