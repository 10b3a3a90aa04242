package proxy

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/era"
	"github.com/dragoman-proxy/dragoman/proxy/failures"
	"github.com/dragoman-proxy/dragoman/proxy/large"
	"github.com/dragoman-proxy/dragoman/proxy/server"
	"github.com/dragoman-proxy/dragoman/proxy/setting"
	"github.com/dragoman-proxy/dragoman/proxy/share"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
)

// origin is where connections to the server come from.
type origin struct {
	// connect opens a connection and says initialize on it.
	connect func(ctx context.Context, initialize *upstream.Outgoing) (*upstream.Begun, error)
	// resume is the connection of a session that the server knows by itself;
	// nil where a session lives and ends with its connection.
	resume func(id, version string) upstream.Conn
	// restarts says that what ends is a process, in the place of which another one
	// can be started.
	restarts bool
	// open opens a connection on which nothing was said yet; nil where servers are
	// known to have a handshake.
	open func(ctx context.Context) (*upstream.Begun, error)
	// shared is the process that all sessions have; nil where each has its own.
	shared *share.Sharing
	// ready says why there is no server to connect to; nil where that cannot be
	// known.
	ready func(ctx context.Context) error
	// renew is the same server by another configuration; nil where there is none.
	renew func(cfg config.Config, log *zap.Logger) (origin, error)
	// close ends what conversations share; may be nil.
	close func()
	// memory is what large messages of the server take; nil where they are not
	// counted.
	memory *large.Memory
}

// originOf is the upstream that cfg names.
func originOf(cfg config.Config, log *zap.Logger) (origin, error) {
	switch {
	case cfg.Upstream.URL != "":
		return httpOrigin(cfg, large.NewMemory(cfg.Limits.HeldBytes()))
	case len(cfg.Upstream.Command) > 0:
		return stdioOrigin(cfg, log, large.NewMemory(cfg.Limits.HeldBytes())), nil
	case len(cfg.Adapters.Sources) > 0:
		return noUpstreamOrigin(), nil
	}
	return origin{}, setting.Mistake{Path: "upstream", Text: "neither url nor command is set; say --upstream URL, -- COMMAND, or --adapters DIR"}
}

func httpOrigin(cfg config.Config, memory *large.Memory) (origin, error) {
	u := cfg.Upstream
	c := upstream.HTTPConfig{
		URL:              u.URL,
		DialTimeout:      u.ConnectTimeout,
		FirstByteTimeout: u.SilenceTimeout,
		IdleTimeout:      u.SilenceTimeout,
		MaxMessage:       int(cfg.Limits.UpstreamMessage),
		Proxy:            webProxy,
		Memory:           memory,
	}
	var err error
	if c.TLS, err = upstreamTLS(u); err != nil {
		return origin{}, err
	}
	for name, value := range u.Headers {
		c.Header = append(c.Header, upstream.Header{Name: name, Value: value})
	}
	d, err := upstream.NewDialer(c, upstream.Transport(u.Transport))
	if err != nil {
		return origin{}, err
	}
	at, err := url.Parse(u.URL)
	if err != nil {
		return origin{}, errors.New("upstream.url: not a URL")
	}
	return origin{
		ready:   reachable(at),
		memory:  memory,
		renew:   func(cfg config.Config, _ *zap.Logger) (origin, error) { return httpOrigin(cfg, memory) },
		connect: d.Connect,
		open: func(context.Context) (*upstream.Begun, error) {
			if d.Transport() == upstream.HTTPWithSSE {
				return nil, era.ErrHandshakeOnly
			}
			return &upstream.Begun{Conn: d.HTTP().Session("", translate.Modern())}, nil
		},
		resume: func(id, version string) upstream.Conn { return d.HTTP().Session(id, version) },
		close:  func() { d.Close() },
	}, nil
}

func stdioOrigin(cfg config.Config, log *zap.Logger, memory *large.Memory) origin {
	secrets := secretsOf(cfg.Upstream)
	child := upstream.Stdio{
		Command:    cfg.Upstream.Command,
		Env:        childEnv(cfg.Upstream, os.Environ()),
		Dir:        cfg.Upstream.Dir,
		MaxMessage: int(cfg.Limits.UpstreamMessage),
		Memory:     memory,
		StderrLine: server.NewLog(log, secrets).Line,
		Quote:      func(line string) string { return failures.Quote(line, secrets) },
		Mute: func(m *upstream.MuteError) {
			log.Warn("upstream has not answered yet: is it an MCP server on stdio?", zap.String("reason", m.Error()),
				zap.Duration("given_up_after", cfg.Upstream.HandshakeTimeout))
		},
	}
	o := origin{
		connect:  child.Connect,
		open:     child.Open,
		restarts: true,
		ready:    startable(cfg.Upstream.Command[0]),
		renew:    func(cfg config.Config, log *zap.Logger) (origin, error) { return stdioOrigin(cfg, log, memory), nil },
		memory:   memory,
	}
	if cfg.Upstream.ShareChild {
		o.share()
	}
	return o
}

// share makes all sessions have one process.
func (o *origin) share() {
	o.shared = share.New()
	o.close = o.shared.Close
}

// opened is an origin whose connections are open before anything is said on
// them. piped says that all the server says comes by one Listen.
func opened(piped bool, open func(ctx context.Context) (upstream.Conn, error)) origin {
	return origin{connect: func(ctx context.Context, initialize *upstream.Outgoing) (*upstream.Begun, error) {
		conn, err := open(ctx)
		if err != nil {
			return nil, err
		}
		b := &upstream.Begun{Conn: conn}
		if piped {
			b.Standing, err = conn.Listen(context.WithoutCancel(ctx), upstream.ListenOptions{})
		}
		if err == nil {
			b.Answer, err = conn.Send(ctx, initialize)
		}
		if err != nil {
			conn.Close(ctx)
			return nil, err
		}
		return b, nil
	}}
}

// childEnv is the environment of a child: what it may inherit, and what was
// set for it.
func childEnv(u config.Upstream, ours []string) []string {
	env := upstream.AllowEnv(ours, u.PassEnv)
	for name, value := range u.Env {
		env = append(env, name+"="+value)
	}
	return env
}

// secretsOf are the credentials that a server gets from the configuration.
func secretsOf(u config.Upstream) []string {
	var secrets []string
	if len(u.Command) > 0 {
		secrets = failures.Secrets(childEnv(u, os.Environ()))
	}
	for _, v := range u.Headers {
		secrets = append(secrets, v)
	}
	return secrets
}

// serverName is the server's name in the log: without credentials, query and arguments.
func serverName(u config.Upstream) string {
	if len(u.Command) > 0 {
		return filepath.Base(u.Command[0])
	}
	at, err := url.Parse(u.URL)
	if err != nil {
		return ""
	}
	return (&url.URL{Scheme: at.Scheme, Host: at.Host, Path: at.Path}).String()
}
