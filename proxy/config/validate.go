package config

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"go.uber.org/zap/zapcore"

	"github.com/dragoman-proxy/dragoman/proxy/auth/oauth"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/unixsocket"
	"github.com/dragoman-proxy/dragoman/proxy/config/setting"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Validate checks all settings. The error is [setting.Mistakes], with the path of each
// invalid setting.
func (c *Config) Validate() error {
	var all setting.Mistakes
	fault := all.Addf
	c.validateListen(&all)
	all.Add(c.Footprint.validate())
	if c.Transform != nil {
		all.Add(c.Transform.Validate())
	}
	if c.Admin.Listen != "" {
		validateAddress(&all, "admin.listen", c.Admin.Listen, "8809")
	}
	taken := c.validatePaths(&all)
	for _, method := range slices.Sorted(maps.Keys(c.Limits.Time)) {
		limit, path := c.Limits.Time[method], "limits.time."+method
		switch {
		case method != wire.OtherMethod.String() && wire.MethodOf([]byte(method)) == wire.OtherMethod:
			fault(path, "no revision has this method; %q stands for those", wire.OtherMethod)
		case limit.FirstByte < 0 || limit.Silence < 0:
			fault(path, "must not be negative")
		}
	}
	for i, token := range c.Auth.Tokens {
		if strings.TrimSpace(token) == "" {
			fault(fmt.Sprintf("auth.tokens[%d]", i), "is empty")
		}
	}
	c.validateTokenHeader(&all)
	if (c.TLS.Cert == "") != (c.TLS.Key == "") {
		fault("tls", "cert and key belong together")
	}
	if (c.Upstream.ClientCert == "") != (c.Upstream.ClientKey == "") {
		fault("upstream", "client_cert and client_key belong together")
	}
	all.Add(c.Upstream.validate())
	all.Add(c.OAuth.validate(&c.Upstream))
	all.Add(c.validateCORS())
	c.Adapters.validate(&all, taken)
	c.validateClients(&all)
	if kinds := oauth.Kinds(); !slices.Contains(kinds, oauth.Kind(c.CredentialStore)) {
		fault("credential_store", "%q is not one of %v", c.CredentialStore, kinds)
	} else if oauth.Kind(c.CredentialStore) == oauth.Shared && c.Store.URL == "" {
		fault("credential_store", "store needs store.url, the server that keeps the tokens")
	}
	for i := range c.Gates {
		if err := c.Gates[i].validate(); err != nil {
			all.Add(fmt.Errorf("gates[%d].%w", i, err))
		}
	}
	if err := c.Contract.Validate(); err != nil {
		all.Add(fmt.Errorf("contract.%w", err))
	}
	if _, err := zapcore.ParseLevel(c.Log.Level); err != nil {
		fault("log.level", "%q is not one of debug, info, warn, error", c.Log.Level)
	}
	for i, rule := range c.Log.KnownLosses {
		if !translate.IsRule(rule) {
			fault(fmt.Sprintf("log.known_losses[%d]", i), "%q is no rule, such as C05: docs/revisions-and-losses.md lists them", rule)
		}
	}
	for _, word := range []struct {
		path, value string
		of          []string
	}{
		{"upstream.verify", c.Upstream.Verify, []string{VerifyFull, VerifyNone}},
		{"upstream.cookies", c.Upstream.Cookies, []string{CookiesOfBalancers, AllCookies, NoCookies}},
		{"session.without", c.Session.Without, []string{WithoutRefuse, WithoutOpen}},
		{"oauth.relay", c.OAuth.Relay, []string{"metadata", "oauth", "none"}},
		{"log.format", c.Log.Format, []string{LogAuto, LogText, LogJSON}},
		{"adapters.tools", c.Adapters.Tools, []string{"shared", "per_adapter"}},
		{"adapters.on_clash", c.Adapters.OnClash, []string{ClashShadow, ClashFail}},
		{"adapters.instructions", c.Adapters.Instructions, []string{"append", "prepend", "replace", "off"}},
		{"adapters.errors.addresses", c.Adapters.Errors.Addresses, []string{"mask", "keep"}},
		{"adapters.confirm.via", c.Adapters.Confirm.Via, []string{"auto", "token", "elicitation"}},
		{"adapters.trust.enforce", c.Adapters.Trust.Enforce, []string{"declared", "strict", "off"}},
	} {
		if !slices.Contains(word.of, word.value) {
			fault(word.path, "%q is not one of %s", word.value, strings.Join(word.of, ", "))
		}
	}
	for _, n := range []struct {
		path         string
		value, least int64
	}{
		{"session.max", int64(c.Session.Max), 1},
		{"session.max_processes", int64(c.Session.MaxProcesses), 1},
		{"bridge.max_sessions", int64(c.Bridge.MaxSessions), 1},
		{"bridge.idle_timeout", int64(c.Bridge.IdleTimeout), 1},
		{"bridge.park_timeout", int64(c.Bridge.ParkTimeout), 1},
		{"bridge.ttl", int64(c.Bridge.TTL), 0},
		{"limits.client_message", int64(c.Limits.ClientMessage), 1},
		{"limits.upstream_message", int64(c.Limits.UpstreamMessage), 1},
		{"limits.replay", int64(c.Limits.Replay), 0},
		{"session.max_age", int64(c.Session.MaxAge), 1},
		{"session.idle_timeout", int64(c.Session.IdleTimeout), 1},
		{"upstream.connect_timeout", int64(c.Upstream.ConnectTimeout), 1},
		{"upstream.handshake_timeout", int64(c.Upstream.HandshakeTimeout), 1},
		{"upstream.silence_timeout", int64(c.Upstream.SilenceTimeout), 1},
		{"upstream.keepalive", int64(c.Upstream.KeepAlive), 0},
		{"upstream.unread_timeout", int64(c.Upstream.UnreadTimeout), 0},
		{"upstream.restart.max", int64(c.Upstream.Restart.Max), 0},
		{"heartbeat", int64(c.Heartbeat), 0},
		{"shutdown.drain", int64(c.Shutdown.Drain), 0},
	} {
		switch {
		case n.value >= n.least:
		case n.least == 0:
			fault(n.path, "must not be negative")
		default:
			fault(n.path, "must be greater than 0")
		}
	}
	all.Add(c.Inspect.validate(c.Admin.Listen))
	if min := Size(1 << 20); c.Record.MaxBytes < min {
		fault("record.max_bytes", "must be at least %s", min)
	}
	all.Add(c.validatePrincipal())
	if l := c.Bridge.DefaultLogLevel; l != "off" && mcp.LogLevelOf(l) == mcp.NoLogLevel {
		fault("bridge.default_log_level", "%q is neither off nor one of %s", l, strings.Join(mcp.LogLevels(), ", "))
	}
	all.Add(c.Store.validate(c.Session.KeyFile))
	return all.Err()
}

// validateListen checks where clients connect to.
func (c *Config) validateListen(all *setting.Mistakes) {
	if _, err := strconv.ParseUint(c.ListenMode, 8, 9); err != nil {
		all.Addf("listen_mode", "%q is not a mode of three octal digits, such as 0660", c.ListenMode)
	}
	if !unixsocket.Is(c.Listen) {
		validateAddress(all, "listen", c.Listen, "8808")
		return
	}
	if _, err := unixsocket.Path(c.Listen); err != nil {
		all.Addf("listen", "%q %v", c.Listen, err)
	}
	if c.TLS.Cert != "" {
		all.Addf("tls", "applies only to a listen of host:port")
	}
}

// minToken is the least length of a token of the page.
const minToken = 32

// validate checks the settings of the page, which is at the address admin.
func (c *Inspect) validate(admin string) error {
	var all setting.Mistakes
	if c.Payloads != "masked" && c.Payloads != "none" {
		all.Addf("inspect.payloads", "%q is neither masked nor none", c.Payloads)
	}
	_, _, err := net.SplitHostPort(admin)
	switch {
	case c.Token != "" && len(c.Token) < minToken:
		all.Addf("inspect.token", "is shorter than %d characters", minToken)
	case c.Token == "" && c.Enabled && err == nil && !oauth.IsLoopback(admin):
		all.Addf("inspect.token", "is missing; the page needs one of your own, since admin.listen is not a loopback address")
	}
	return all.Err()
}

func (u *Upstream) validate() error {
	var all setting.Mistakes
	switch {
	case u.URL != "" && len(u.Command) > 0:
		all.Addf("upstream", "url and command exclude each other")
	case unixsocket.Is(u.URL):
		u.validateSocket(&all)
	case u.URL != "":
		at, err := url.Parse(u.URL)
		switch {
		case err != nil:
			all.Addf("upstream.url", "is not a URL%s", meantURL(u.URL))
		case at.Scheme == "" && strings.Contains(u.URL, " "):
			all.Addf("upstream.url", "is not a URL; a command is written behind --, or as upstream.command: [PROGRAM, ARG] in a file")
		case at.Scheme != "http" && at.Scheme != "https":
			all.Addf("upstream.url", "must begin with http:// or https://%s", meantURL(u.URL))
		case at.Host == "":
			all.Addf("upstream.url", "missing host")
		case !isPort(at.Port()):
			all.Addf("upstream.url", "has a port above 65535")
		case at.User != nil:
			all.Addf("upstream.url", "holds a password; use upstream.headers (--header)")
		}
	case len(u.Command) > 0 && u.Command[0] == "":
		all.Addf("upstream.command[0]", "is empty")
	case len(u.Command) > 0 && u.Quoted():
		all.Addf("upstream.command[0]", "is a whole command line, and no program has this name; write %s", yamlList(append(strings.Fields(u.Command[0]), u.Command[1:]...)))
	}
	if u.ShareChild && u.URL != "" {
		all.Addf("upstream.share_child", "applies only to upstream.command")
	}
	switch t := u.Transport; {
	case len(u.Command) > 0 && t != string(upstream.Auto) && t != "stdio":
		all.Addf("upstream.transport", "%q applies only to upstream.url", t)
	case u.URL != "" && !slices.Contains([]string{string(upstream.Auto), string(upstream.StreamableHTTP), string(upstream.HTTPWithSSE)}, t):
		all.Addf("upstream.transport", "%q is not one of auto, http, sse", t)
	}
	if u.HeaderFile != "" && len(u.Command) > 0 {
		all.Addf("upstream.header_file", "applies only to upstream.url")
	}
	u.validateHeaders(&all)
	u.validatePassed(&all)
	all.Add(u.validateAuth())
	u.validateVerify(&all)
	if u.Version != "" {
		switch r := translate.Lookup(u.Version); {
		case r == nil:
			all.Addf("upstream.version", "%q is not one of %s", u.Version, strings.Join(translate.Names(), ", "))
		case u.Transport == string(upstream.HTTPWithSSE) && translate.WithHandshake(r.Name) == nil:
			all.Addf("upstream.version", "%s is not spoken over HTTP+SSE", u.Version)
		}
	}
	return all.Err()
}

// validateSocket checks the settings of a server at a unix socket: there is no TLS, and no URL for which a token could be asked.
func (u *Upstream) validateSocket(all *setting.Mistakes) {
	if _, _, err := unixsocket.Server(u.URL); err != nil {
		all.Addf("upstream.url", "%v", err)
	}
	if u.CAFile != "" {
		all.Addf("upstream.ca_file", "applies only to https")
	}
	if u.ClientCert != "" {
		all.Addf("upstream.client_cert", "applies only to https")
	}
	if t := u.Auth.Type; u.Auth.Lends() && t != AuthTokenFile {
		all.Addf("upstream.auth.type", "%s needs a server at an http or https URL; at a unix socket use upstream.headers or %s", t, AuthTokenFile)
	}
}

// meantURL suggests the URL that a text without a scheme probably means.
func meantURL(text string) string {
	if bare := strings.Trim(text, "\"'<> `"); bare != text {
		if at, err := url.Parse(bare); err == nil && at.Host != "" && strings.HasPrefix(at.Scheme, "http") {
			return "; did you mean " + SafeURL(bare) + ", without what is around it?"
		}
		return ""
	}
	scheme := "http://"
	if host, _, _ := strings.Cut(text, "/"); strings.HasSuffix(host, ":443") {
		scheme = "https://"
	}
	if at, err := url.Parse(scheme + text); err != nil || at.Host == "" || at.User != nil || strings.Contains(text, "://") {
		return ""
	}
	return "; did you mean " + scheme + text + "?"
}

// validatePrincipal checks bridge.principal.
func (c *Config) validatePrincipal() error {
	by := c.Bridge.Principal
	if names := ClaimsOf(by); names != nil {
		for _, name := range names {
			if name == "" || strings.ContainsAny(name, " \t\r\n") {
				return fmt.Errorf("bridge.principal: %q: a claim has no name", by)
			}
		}
		if c.Upstream.URL == "" {
			return fmt.Errorf("bridge.principal: %q: only a server at upstream.url verifies the claims, and there is none", by)
		}
		if c.Upstream.Auth.Lends() {
			return fmt.Errorf("bridge.principal: %q: the server cannot verify the claims, as it gets the credential of upstream.auth", by)
		}
		if c.Upstream.SetsAuthorization() {
			return fmt.Errorf("bridge.principal: %q: the server cannot verify the claims, as it gets the Authorization of upstream.headers", by)
		}
		return nil
	}
	if name, ok := strings.CutPrefix(by, "header:"); by != "authorization" && (!ok || name == "" || strings.ContainsAny(name, " \t\r\n:")) {
		return fmt.Errorf("bridge.principal: %q is not one of authorization, header:NAME, claim:NAME+NAME", by)
	}
	return nil
}

// ClaimsOf returns the names in "claim:iss+sub", or nil if by has another form.
func ClaimsOf(by string) []string {
	names, ok := strings.CutPrefix(by, "claim:")
	if !ok {
		return nil
	}
	return strings.Split(names, "+")
}
