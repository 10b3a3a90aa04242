// Package origin opens connections to the server that the configuration names: a URL, a command,
// or none where dragoman serves only tools of its own. With the connection come the settings of
// TLS and of the web proxy, the process's environment, and the credential of upstream.auth.
//
// An [Origin] is made once per configuration. It has functions instead of methods, so that tests
// and the demo can be a server in this process.
package origin

import (
	"context"
	"errors"
	"fmt"
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

// Origin says how connections to the server are made. Its functions may be called concurrently.
type Origin struct {
	// Connect opens a connection and sends initialize on it.
	Connect func(ctx context.Context, initialize *upstream.Outgoing) (*upstream.Begun, error)
	// Resume returns the connection of a session that has an id at the server. It is nil if a
	// session ends with its connection.
	Resume func(id, version string) upstream.Conn
	// Restarts says that the server is a process, which can be started again after it has ended.
	Restarts bool
	// Open opens a connection without sending anything. It is nil if servers are known to be
	// handshake servers.
	Open func(ctx context.Context) (*upstream.Begun, error)
	// Shared is the process that all sessions share; nil if each has its own.
	Shared *share.Sharing
	// Ready returns an error if the server cannot be reached. It is nil if that cannot be checked.
	Ready func(ctx context.Context) error
	// Renew makes an origin for the same server from another configuration. It may be nil.
	Renew func(cfg config.Config, log *zap.Logger) (Origin, error)
	// Certificates are those of connections to the server; nil if there are none.
	Certificates *Certificates
	// Credential is what requests to the server carry; nil for none.
	Credential *Credential
	// Credentials makes credentials; nil where there never is one.
	Credentials *Credentials
	// Close releases what the connections share; may be nil.
	Close func()
	// Memory is the memory for large messages of the server; nil if it is not limited.
	Memory *large.Memory
	// Stderr has who watches what the server's process writes to its stderr; nil if there is none.
	Stderr *server.Watch
}

// Of returns the origin for the upstream that cfg names.
func Of(cfg config.Config, log *zap.Logger) (Origin, error) {
	switch {
	case cfg.Upstream.URL != "":
		return httpOrigin(cfg, log, large.NewMemory(cfg.Limits.HeldBytes()), NewCredentials(&cfg, log))
	case len(cfg.Upstream.Command) > 0:
		return stdioOrigin(cfg, log, large.NewMemory(cfg.Limits.HeldBytes()), new(server.Watch)), nil
	case len(cfg.Adapters.Sources) > 0:
		return None(), nil
	}
	return Origin{}, setting.Mistake{Path: "upstream", Text: "neither url nor command is set; say --upstream URL, -- COMMAND, or --adapters DIR"}
}

func httpOrigin(cfg config.Config, log *zap.Logger, memory *large.Memory, in *Credentials) (Origin, error) {
	u := cfg.Upstream
	c := upstream.HTTPConfig{
		URL:              u.URL,
		DialTimeout:      u.ConnectTimeout,
		FirstByteTimeout: u.SilenceTimeout,
		IdleTimeout:      u.SilenceTimeout,
		MaxMessage:       int(cfg.Limits.UpstreamMessage),
		Proxy:            WebProxy,
		Memory:           memory,
	}
	var err error
	if c.TLS, err = TLS(u); err != nil {
		return Origin{}, err
	}
	shown := new(Certificates)
	c.TLS = shown.watch(c.TLS)
	for name, value := range u.Headers {
		c.Header = append(c.Header, upstream.Header{Name: name, Value: value})
	}
	at, err := url.Parse(u.URL)
	if err != nil {
		return Origin{}, errors.New("upstream.url: not a URL")
	}
	own, err := in.newCredential(&cfg, log)
	if err != nil {
		return Origin{}, err
	}
	switch {
	case own != nil:
		c.Credential = own
	case u.Auth.Browser:
		c.Explain = explainRefusal(u)
	case cfg.OAuth.Rewrite:
		public, err := url.Parse(cfg.OAuth.PublicURL)
		if err != nil {
			return Origin{}, errors.New("oauth.public_url: not a URL")
		}
		c.Explain = rewriteChallenge(public)
		log.Warn(fmt.Sprintf("oauth.rewrite: tokens are asked for %s and given to %s; only for a server you run yourself", public, Name(u)))
	}
	d, err := upstream.NewDialer(c, upstream.Transport(u.Transport))
	if err != nil {
		own.end()
		return Origin{}, err
	}
	return Origin{
		Credential: own, Credentials: in, Certificates: shown,
		Ready:  reachable(at),
		Memory: memory,
		Renew: func(cfg config.Config, log *zap.Logger) (Origin, error) {
			return httpOrigin(cfg, log, memory, in)
		},
		Connect: d.Connect,
		Open: func(context.Context) (*upstream.Begun, error) {
			if d.Transport() == upstream.HTTPWithSSE {
				return nil, era.ErrHandshakeOnly
			}
			return &upstream.Begun{Conn: d.HTTP().Session("", translate.Modern())}, nil
		},
		Resume: func(id, version string) upstream.Conn { return d.HTTP().Session(id, version) },
		Close: func() {
			d.Close()
			own.end()
		},
	}, nil
}

func stdioOrigin(cfg config.Config, log *zap.Logger, memory *large.Memory, lines *server.Watch) Origin {
	secrets := Secrets(cfg.Upstream)
	child := upstream.Stdio{
		Command:    cfg.Upstream.Command,
		Env:        Env(cfg.Upstream, os.Environ()),
		Dir:        cfg.Upstream.Dir,
		MaxMessage: int(cfg.Limits.UpstreamMessage),
		Memory:     memory,
		StderrLine: server.NewLog(log, secrets, lines).Line,
		Quote:      func(line string) string { return failures.Quote(line, secrets) },
		Mute: func(m *upstream.MuteError) {
			log.Warn("upstream has not answered yet: is it an MCP server on stdio?", zap.String("reason", m.Error()),
				zap.Duration("given_up_after", cfg.Upstream.HandshakeTimeout))
		},
	}
	o := Origin{
		Connect:  child.Connect,
		Open:     child.Open,
		Restarts: true,
		Ready:    startable(cfg.Upstream.Command[0]),
		Renew: func(cfg config.Config, log *zap.Logger) (Origin, error) {
			return stdioOrigin(cfg, log, memory, lines), nil
		},
		Memory: memory,
		Stderr: lines,
	}
	if cfg.Upstream.ShareChild {
		o.Share()
	}
	return o
}

// Share makes all sessions share one process.
func (o *Origin) Share() {
	o.Shared = share.New()
	o.Close = o.Shared.Close
}

// Opened returns an origin that opens a connection with open and then sends initialize on it. piped says
// that all messages of the server come on one stream.
func Opened(piped bool, open func(ctx context.Context) (upstream.Conn, error)) Origin {
	return Origin{Connect: func(ctx context.Context, initialize *upstream.Outgoing) (*upstream.Begun, error) {
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

// Env returns the environment of the server's process: the variables that it may inherit, and
// those of the configuration.
func Env(u config.Upstream, ours []string) []string {
	env := upstream.AllowEnv(ours, u.PassEnv)
	for name, value := range u.Env {
		env = append(env, name+"="+value)
	}
	return env
}

// Secrets returns the credentials in the configuration.
func Secrets(u config.Upstream) []string {
	var secrets []string
	if len(u.Command) > 0 {
		secrets = failures.Secrets(Env(u, os.Environ()))
	}
	for _, v := range u.Headers {
		secrets = append(secrets, v)
	}
	if u.Auth.ClientSecret != "" {
		secrets = append(secrets, u.Auth.ClientSecret)
	}
	return secrets
}

// Name returns the server's name for log lines, without credentials, query and arguments.
func Name(u config.Upstream) string {
	if len(u.Command) > 0 {
		return filepath.Base(u.Command[0])
	}
	at, err := url.Parse(u.URL)
	if err != nil {
		return ""
	}
	return (&url.URL{Scheme: at.Scheme, Host: at.Host, Path: at.Path}).String()
}
