package origin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/dial"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/config/setting"
	"github.com/dragoman-proxy/dragoman/proxy/origin/era"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/failures"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
)

// Of returns the origin for the upstream that cfg names.
func Of(cfg config.Config, log *zap.Logger) (Origin, error) { return World{}.Of(cfg, log) }

// Of returns the origin for the upstream that cfg names, in w.
func (w World) Of(cfg config.Config, log *zap.Logger) (Origin, error) {
	switch {
	case cfg.Upstream.URL != "":
		return w.httpOrigin(cfg, log, large.NewMemory(cfg.Limits.HeldBytes()), NewCredentials(&cfg, log))
	case len(cfg.Upstream.Command) > 0:
		return w.stdioOrigin(cfg, log, large.NewMemory(cfg.Limits.HeldBytes()), new(pipes.Watch), NewCredentials(&cfg, log)), nil
	case len(cfg.Adapters.Sources) > 0:
		o := None()
		o.World = w
		return o, nil
	}
	return Origin{}, setting.Mistake{Path: "upstream", Text: "neither url nor command is set; say --upstream URL, -- COMMAND, or --adapters DIR"}
}

func (w World) httpOrigin(cfg config.Config, log *zap.Logger, memory *large.Memory, in *Credentials) (Origin, error) {
	u := cfg.Upstream
	c := upstream.HTTPConfig{
		URL:              u.URL,
		Dial:             w.Dial,
		DialTimeout:      u.ConnectTimeout,
		Watch:            dial.NewWatch(u.DeadAfter),
		FirstByteTimeout: u.SilenceTimeout,
		IdleTimeout:      u.SilenceTimeout,
		MaxMessage:       int(cfg.Limits.UpstreamMessage),
		Proxy:            WebProxy,
		Memory:           memory,
		Pass:             u.PassHeaders,
		Cookies:          keptCookies(u.Cookies),
		Secret:           in.keepCookie,
	}
	var err error
	if c.TLS, err = TLS(u); err != nil {
		return Origin{}, err
	}
	shown := new(Certificates)
	c.TLS = shown.watch(c.TLS)
	c.TLS.InsecureSkipVerify = u.Unverified() //nolint:gosec // it was asked for, and the start warns of it
	for name, value := range u.Headers {
		c.Header = append(c.Header, mcp.Header{Name: name, Value: value})
	}
	at, err := url.Parse(u.URL)
	if err != nil {
		return Origin{}, errors.New("upstream.url: not a URL")
	}
	own, err := in.newCredential(w, &cfg, log)
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
		Dialer: d, Credential: own, Credentials: in, Certificates: shown,
		Ready:  w.ready(u.URL, at),
		World:  w,
		Memory: memory,
		Renew: func(cfg config.Config, log *zap.Logger) (Origin, error) {
			if err := cfg.Upstream.Extra.Err; err != nil && u.Extra.Err == nil { // it is half written, or gone
				return Origin{}, fmt.Errorf("%s: %w", config.ExtraCAsVariable, err)
			}
			return w.httpOrigin(cfg, log, memory, in)
		},
		Connect: d.Connect,
		Open: func(context.Context) (*upstream.Begun, error) {
			if d.Transport() == upstream.HTTPWithSSE {
				return nil, era.ErrHandshakeOnly
			}
			return d.HTTP().Session("", translate.Modern()).Begun(), nil
		},
		Resume: func(id, version string) *upstream.Begun { return d.HTTP().Session(id, version).Begun() },
		Close: func() {
			d.Close()
			own.end()
		},
	}, nil
}

func (w World) stdioOrigin(cfg config.Config, log *zap.Logger, memory *large.Memory, lines *pipes.Watch, in *Credentials) Origin {
	o := Origin{Credentials: in}
	secrets := o.Known(&cfg)
	relay := pipes.NewLog(log, secrets, lines)
	child := upstream.Stdio{
		Command:    cfg.Upstream.Command,
		Env:        Env(cfg.Upstream, os.Environ()),
		Dir:        cfg.Upstream.Dir,
		MaxMessage: int(cfg.Limits.UpstreamMessage),
		Memory:     memory,

		UnreadTimeout: cmp.Or(cfg.Upstream.UnreadTimeout, -1),

		StderrLine: relay.Line,
		Skipped:    relay.Skipped,
		Starter:    w.Start,
		Quote:      func(line string) string { return failures.Quote(line, secrets.Sets()...) },
		Mute: func(m *upstream.MuteError) {
			log.Warn("upstream has not answered yet: is it an MCP server on stdio?", zap.String("reason", m.Error()),
				zap.Duration("given_up_after", cfg.Upstream.HandshakeTimeout))
		},
	}
	o = Origin{
		Credentials: in,

		Connect:  child.Connect,
		Open:     child.Open,
		Restarts: true,
		Ready:    w.startable(cfg.Upstream.Command[0]),
		World:    w,
		Renew: func(cfg config.Config, log *zap.Logger) (Origin, error) {
			return w.stdioOrigin(cfg, log, memory, lines, in), nil
		},
		Memory: memory,
		Stderr: lines,
	}
	if cfg.Upstream.ShareChild {
		o.Share()
	}
	return o
}
