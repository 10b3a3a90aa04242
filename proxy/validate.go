package proxy

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"go.uber.org/zap/zapcore"

	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Validate finds the first setting that cannot be, and names its path.
func (c *Config) Validate() error {
	fault := func(path, format string, a ...any) error {
		return fmt.Errorf("%s: %s", path, fmt.Sprintf(format, a...))
	}
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		return fault("listen", "%q is not host:port", c.Listen)
	}
	if err := c.Footprint.validate(); err != nil {
		return err
	}
	if c.Transform != nil {
		if err := c.Transform.Validate(); err != nil {
			return err
		}
	}
	if c.Admin.Listen != "" {
		if _, _, err := net.SplitHostPort(c.Admin.Listen); err != nil {
			return fault("admin.listen", "%q is not host:port", c.Admin.Listen)
		}
	}
	taken := []string{"/livez", "/readyz", "/metrics", peersPath}
	for _, p := range []struct{ path, value string }{
		{"path", c.Path}, {"sse_path", c.SSEPath}, {"messages_path", c.MessagesPath},
	} {
		switch {
		case !strings.HasPrefix(p.value, "/"):
			return fault(p.path, "%q does not begin with /", p.value)
		case slices.Contains(taken, p.value):
			return fault(p.path, "%q is taken", p.value)
		}
		taken = append(taken, p.value)
	}
	for method, limit := range c.Limits.Time {
		path := "limits.time." + method
		switch {
		case method != wire.OtherMethod.String() && wire.MethodOf([]byte(method)) == wire.OtherMethod:
			return fault(path, "no revision has this method; %q stands for those", wire.OtherMethod)
		case limit.FirstByte < 0 || limit.Silence < 0:
			return fault(path, "must not be negative")
		}
	}
	for i, token := range c.Auth.Tokens {
		if strings.TrimSpace(token) == "" {
			return fault(fmt.Sprintf("auth.tokens[%d]", i), "is empty")
		}
	}
	if (c.TLS.Cert == "") != (c.TLS.Key == "") {
		return fault("tls", "cert and key belong together")
	}
	if (c.Upstream.ClientCert == "") != (c.Upstream.ClientKey == "") {
		return fault("upstream", "client_cert and client_key belong together")
	}
	if err := c.Upstream.validate(); err != nil {
		return err
	}
	if err := c.Adapters.validate(taken); err != nil {
		return err
	}
	for i := range c.Gates {
		if err := c.Gates[i].validate(); err != nil {
			return fmt.Errorf("gates[%d].%w", i, err)
		}
	}
	if err := c.Contract.Validate(); err != nil {
		return fmt.Errorf("contract.%w", err)
	}
	if c.Log.Losses != "summary" && c.Log.Losses != "every" {
		return fault("log.losses", "%q is neither summary nor every", c.Log.Losses)
	}
	if _, err := zapcore.ParseLevel(c.Log.Level); err != nil {
		return fault("log.level", "%q is not a level", c.Log.Level)
	}
	for _, n := range []struct {
		path  string
		value int
	}{
		{"session.max", c.Session.Max},
		{"bridge.max_sessions", c.Bridge.MaxSessions},
		{"bridge.max_parked", c.Bridge.MaxParked},
		{"bridge.cache.entries", c.Bridge.Cache.Entries},
		{"bridge.idle_timeout", int(c.Bridge.IdleTimeout)},
		{"bridge.park_timeout", int(c.Bridge.ParkTimeout)},
		{"limits.client_message", int(c.Limits.ClientMessage)},
		{"limits.upstream_message", int(c.Limits.UpstreamMessage)},
		{"limits.batch", c.Limits.Batch},
		{"limits.open_requests", c.Limits.OpenRequests},
		{"limits.requests", c.Limits.Requests},
		{"limits.in_hand", int(c.Limits.InHand)},
		{"limits.connections", c.Limits.Connections},
		{"limits.header", int(c.Limits.Header)},
		{"limits.queue", c.Limits.Queue},
		{"limits.queue_bytes", int(c.Limits.QueueBytes)},
		{"limits.replay_bytes", int(c.Limits.ReplayBytes)},
		{"limits.replay_time", int(c.Limits.ReplayTime)},
		{"session.max_age", int(c.Session.MaxAge)},
		{"session.idle_timeout", int(c.Session.IdleTimeout)},
		{"upstream.connect_timeout", int(c.Upstream.ConnectTimeout)},
		{"upstream.handshake_timeout", int(c.Upstream.HandshakeTimeout)},
		{"upstream.silence_timeout", int(c.Upstream.SilenceTimeout)},
	} {
		if n.value <= 0 {
			return fault(n.path, "must be greater than 0")
		}
	}
	if c.Limits.Replay < 0 {
		return fault("limits.replay", "must not be negative")
	}
	if c.Heartbeat < 0 {
		return fault("heartbeat", "must not be negative")
	}
	if r := c.Upstream.Restart; r.Max < 0 || r.Wait < 0 || r.MaxWait < r.Wait {
		return fault("upstream.restart", "max and wait must not be negative, nor max_wait less than wait")
	}
	if c.Bridge.Coalesce < 0 || c.Bridge.TTL < 0 || c.Bridge.OpenedTimeout < 0 {
		return fault("bridge", "coalesce, opened_timeout and ttl must not be negative")
	}
	if err := c.validatePrincipal(); err != nil {
		return err
	}
	if l := c.Bridge.DefaultLogLevel; l != "off" && levelOf(l) == noLevel {
		return fault("bridge.default_log_level", "%q is neither off nor one of %s", l, strings.Join(logLevels, ", "))
	}
	if err := c.validatePeers(); err != nil {
		return err
	}
	if c.Shutdown.Drain < 0 {
		return fault("shutdown.drain", "must not be negative")
	}
	return nil
}

func (u *UpstreamConfig) validate() error {
	switch {
	case u.URL != "" && len(u.Command) > 0:
		return errors.New("upstream: url and command exclude each other")
	case u.URL != "":
		at, err := url.Parse(u.URL)
		switch {
		case err != nil:
			return errors.New("upstream.url: not a URL")
		case at.Scheme != "http" && at.Scheme != "https":
			return errors.New("upstream.url: must begin with http:// or https://")
		case at.Host == "":
			return errors.New("upstream.url: missing host")
		case at.User != nil:
			return errors.New("upstream.url: holds a password; use upstream.headers")
		}
	case len(u.Command) > 0 && u.Command[0] == "":
		return errors.New("upstream.command[0]: is empty")
	}
	if u.ShareChild && u.URL != "" {
		return errors.New("upstream.share_child: is for a command")
	}
	switch t := u.Transport; {
	case len(u.Command) > 0 && t != string(upstream.Auto) && t != "stdio":
		return fmt.Errorf("upstream.transport: %q is for a url", t)
	case u.URL != "" && !slices.Contains([]string{string(upstream.Auto), string(upstream.StreamableHTTP), string(upstream.HTTPWithSSE)}, t):
		return fmt.Errorf("upstream.transport: %q is not one of auto, http, sse", t)
	}
	for name, value := range u.Headers {
		if name == "" || strings.ContainsAny(name, " \t\r\n:") {
			return fmt.Errorf("upstream.headers: %q is not a header name", name)
		}
		if strings.ContainsAny(value, "\r\n\x00") {
			return fmt.Errorf("upstream.headers.%s: value holds a line break", name)
		}
	}
	if u.Version != "" {
		switch r := translate.Lookup(u.Version); {
		case r == nil:
			return fmt.Errorf("upstream.version: %q is not one of %s", u.Version, strings.Join(allNames(), ", "))
		case r.Modern && u.Transport == string(upstream.HTTPWithSSE):
			return fmt.Errorf("upstream.version: %s is not spoken over HTTP+SSE", u.Version)
		}
	}
	return nil
}
