package proxy

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
	"github.com/dragoman-proxy/dragoman/proxy/bridge/legacyclient"
	"github.com/dragoman-proxy/dragoman/proxy/bridge/modernclient"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/unixsocket"
	"github.com/dragoman-proxy/dragoman/proxy/commands/demo"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/features/adapters"
	"github.com/dragoman-proxy/dragoman/proxy/features/owntools"
	"github.com/dragoman-proxy/dragoman/proxy/features/shape"
	"github.com/dragoman-proxy/dragoman/proxy/observe/recording"
	"github.com/dragoman-proxy/dragoman/proxy/ops/host"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/ops/telemetry"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/proxy/origin/era"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/failures"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/results"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/memo"
	"github.com/dragoman-proxy/dragoman/proxy/replicas"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/processes"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/storeconfig"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/proxy/session/clients"
	"github.com/dragoman-proxy/dragoman/proxy/session/clients/pipe"
	"github.com/dragoman-proxy/dragoman/proxy/session/clients/web"
	"github.com/dragoman-proxy/dragoman/proxy/session/exchange"
	"github.com/dragoman-proxy/dragoman/proxy/session/handshake"
	"github.com/dragoman-proxy/dragoman/proxy/session/setup"
	"github.com/dragoman-proxy/dragoman/proxy/store"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// New makes a server for cfg, which must be valid and name an upstream. It
// does not connect to anything yet. The server logs to log.
func New(cfg config.Config, log *zap.Logger) (*Server, error) { return NewIn(origin.World{}, cfg, log) }

// NewIn is like [New], for a server that lives in w. Names are not resolved there: what the configuration names has an IP address.
func NewIn(w origin.World, cfg config.Config, log *zap.Logger) (*Server, error) {
	o, err := w.Of(cfg, log)
	if err != nil {
		return nil, err
	}
	srv, err := NewWith(cfg, log, o)
	if err != nil && o.Close != nil {
		o.Close()
	}
	return srv, err
}

// Check returns the error with which dragoman would refuse cfg at its start, which must be valid: it makes what serving needs, and
// ends it. It connects to nothing, listens at no address and makes no file. Where cfg names neither a server nor adapters, which the command line
// may do, all else is checked.
func Check(cfg config.Config) error {
	log := zap.NewNop()
	o, err := origin.None(), error(nil)
	if cfg.Upstream.URL != "" || len(cfg.Upstream.Command) > 0 {
		o, err = origin.Of(cfg, log)
	}
	if err != nil {
		return err
	}
	srv, err := NewWith(cfg, log, o)
	if err != nil {
		if o.Close != nil {
			o.Close()
		}
		return err
	}
	defer srv.Close()
	if at, err := net.ResolveTCPAddr("tcp", cfg.Listen); err == nil && !unixsocket.Is(cfg.Listen) {
		if err := srv.Now().MayServe(at); err != nil {
			return err
		}
	}
	if cfg.Record.File == "" {
		return nil
	}
	if err := recording.MayCreate(recording.Name(cfg.Record.File)); err != nil {
		return fmt.Errorf("record.file: %w", err)
	}
	return nil
}

// NewDemo is like [New], but instead of cfg.Upstream it uses a small server of the oldest revision in this
// process. If show is not nil, it is called, concurrently, with each message of clients over
// Streamable HTTP after its response was sent.
func NewDemo(cfg config.Config, log *zap.Logger, show func(demo.Exchange)) (*Server, error) {
	srv, err := NewWith(cfg, log, origin.Opened(true, demo.Open))
	if err == nil && show != nil {
		revisionOf := func(id string) string {
			if s := srv.Table.Held(id); s != nil {
				return s.ClientRevision.Name
			}
			return ""
		}
		srv.handler = &demo.Tap{Handler: srv.web, RevisionOf: revisionOf, Show: show}
	}
	return srv, err
}

// RememberServer keeps what a server that is a command turns out to be in a file of the user: see [era.UserMemory]. It must be
// called before ServePipe.
func (srv *Server) RememberServer() {
	if up := srv.Now().Config.Upstream; len(up.Command) > 0 {
		srv.Eras.Memory = era.UserMemory(up.Command, up.Dir, mcp.Version())
	}
}

// NewWith is like [New], but the server is what o opens, instead of cfg.Upstream, and own are tools that the program itself serves
// beside the server's. If it fails, the caller closes o.
func NewWith(cfg config.Config, log *zap.Logger, o origin.Origin, own ...owntools.Source) (*Server, error) {
	srv := &Server{own: own, changed: make(chan struct{}, 1)}
	srv.running = processes.New(func() int { return srv.Now().Config.Session.MaxProcesses }, srv.giveWay)
	o = o.Bounded(srv.running)
	if o.Credentials == nil {
		o.Credentials = origin.NewCredentials(&cfg, log)
	}
	first, err := setup.New(cfg, o, nil)
	if err != nil {
		return nil, err
	}
	all := session.NewTable(cfg.Session.Max, first.Sealer, nil)
	all.Setup = new(setup.Current)
	srv.Proxy = &clients.Proxy{Table: all, Common: &exchange.Common{Table: all}, Opener: handshake.NewOpener(all)}
	log = report.Safe(log, func() []*secret.Set {
		if now := srv.Now(); now != nil {
			return now.Secrets.Sets()
		}
		return first.Secrets.Sets()
	})
	srv.web, srv.sse = &web.Face{Proxy: srv.Proxy}, &pipe.SSE{Proxy: srv.Proxy}
	srv.handler = srv.web
	srv.Metrics = metrics.New(mcp.Version(), func() float64 { return float64(srv.Len()) }, func() float64 { return float64(srv.Streams.Load()) })
	srv.ToolsSize.Bytes = srv.Metrics.ToolsList
	if o.Stderr != nil {
		watch := srv.Observer.Stderr
		o.Stderr.Store(&watch)
	}
	srv.Observer.Credential = func(value string) { o.Credentials.Clients.Keep(value) }
	srv.Observer.Lost = func(reader string) { srv.Metrics.Unobserved.WithLabelValues(reader).Inc() }
	srv.shapes = metrics.NewResults(srv.Metrics)
	shared, err := srv.openStore(o.World.Store, first, log)
	if err != nil {
		return nil, err
	}
	srv.tokens = origin.TokenStore(&cfg, log)
	srv.tokens.Use(shared)
	memory := o.Memory
	if memory == nil {
		memory = large.NewMemory(cfg.Limits.HeldBytes())
	}
	if srv.Adapters, err = adapters.New(o.World, cfg.Adapters, first.SharedKey(), srv.tokens, shared, first.Secrets, func() *shape.Shaping { return srv.Now().Shaping }, srv.Metrics, memory, log); err != nil {
		return nil, err
	}
	if first.Shaping, err = shape.New(cfg, first.Keys, srv.Adapters.Rules(), nil, srv.shapes, shared); err != nil {
		return nil, err
	}
	if srv.Adapters != nil {
		srv.own = append(srv.own, srv.Adapters)
	}
	if first.Own, err = owntools.New(first.Table, owntools.WithMore(srv.own, first.Shaping), cfg.Adapters.Instructions, nil); err != nil {
		return nil, err
	}
	if err := first.Admits(); err != nil {
		return nil, err
	}
	srv.Lists = new(memo.Memo)
	srv.Setup.Replace(first)
	srv.Connected()
	if o.Resume != nil {
		all.Resume = all.ResumeSession
	}
	if cfg.Contract != config.Default().Contract {
		log.Info("translation differs from the default", zap.Any("contract", cfg.Contract))
	}
	srv.Host = host.New(log, srv.Metrics, memory, mcp.Version(), func() report.Setup {
		now := srv.Now()
		return report.Setup{Config: &now.Config, Table: now.Table, Server: now.Server, Secrets: now.Secrets}
	})
	srv.Host.Store = shared
	if srv.Tracer, err = telemetry.New(os.Getenv, srv.traced(), log); err != nil {
		return nil, err
	}
	srv.Host.Draining, srv.Host.Serving = srv.Tracer.Alone(srv.Host.Draining), srv.Tracer.Alone(srv.Host.Serving)
	srv.Results = results.New(func() results.Bounds {
		c := srv.Now().Config.Bridge.Cache
		return results.Bounds{Bytes: int64(c.Bytes), Entries: c.Entries}
	})
	srv.Results.Register(srv.Metrics.Registry)
	first.Shaping.Load(srv.Host)
	srv.Eras = era.New(srv.Host, func() func(context.Context) (*upstream.Begun, error) { return srv.Now().Origin.Open })
	srv.Modern = modernclient.New(modernclient.Options{
		Host: srv.Host, Proxy: &clients.View{Proxy: srv.Proxy}, Results: srv.Results, Streams: &srv.Streams, Instance: srv.Instance,
	})
	srv.Legacy = legacyclient.New(srv.Host, srv.Eras, srv.Results, srv.Lists)
	srv.Metrics.Registry.MustRegister(srv.gauges()...)
	o.Credentials.Share(shared)
	o.Credentials.Register(srv.Metrics.Registry, func() *origin.Credential { return srv.Now().Origin.Credential }, srv.loginChanged)
	srv.SignIns = o.Credentials
	srv.Replicas = newReplicas(srv)
	if err := srv.makePage(); err != nil {
		return nil, err
	}
	return srv, nil
}

// traced is what telemetry asks of srv.
func (srv *Server) traced() telemetry.Options {
	return telemetry.Options{
		Version: mcp.Version(),
		Quote:   func(text string) string { return failures.Quote(text, srv.Now().Secrets.Sets()...) },
		Cause: func(err error) string {
			return string(report.CauseOf(&srv.Now().Config, report.FailureOf(err), report.At{}))
		},
		Named:   func(name string) string { return srv.Now().Redactor.Text(name) },
		Address: func() string { return srv.Now().Address },
		Payload: func(method, tool string, raw []byte) []byte {
			if now := srv.Now(); now.Config.Telemetry.Payloads {
				return now.Redactor.Payload(method, tool, raw)
			}
			return nil
		},
	}
}

// newReplicas returns the other processes to which srv may forward requests.
func newReplicas(srv *Server) *replicas.Replicas {
	return replicas.New(replicas.Options{
		Store: srv.Host.Shared(), Dial: srv.Now().Origin.World.Dial,
		Self: srv.Instance, Handler: srv.web, Rescue: srv.web.Rescue,
		Memory: srv.Host.Memory(), Streams: &srv.Streams, Draining: srv.Host.Draining, Log: srv.Host.Log,
		Settings: func() replicas.Settings {
			now := srv.Now()
			return replicas.Settings{
				Sealer: now.Sealer, MaxMessage: int(now.Config.Limits.UpstreamMessage), Pass: now.Config.Upstream.PassHeaders, Certificate: now.Guard.Cert,
			}
		},
		Count: func(o replicas.Outcome) { srv.Metrics.Forwarded.WithLabelValues(string(o)).Inc() },
		Unreachable: func(err error) {
			srv.Host.Report.ServerFailed("replica cannot be reached", failures.ReplicaLost, err, nil)
		},
		Report: func(f *mcp.Failure, method string) string {
			return srv.Host.Report.Failed(f, report.At{Method: method}).Why
		},
	})
}

// storeFailure returns why the store is down, without what the message says already, and with the address once.
func storeFailure(err error) string {
	text := strings.TrimPrefix(err.Error(), store.ErrUnavailable.Error()+": ")
	if at, _, refused := strings.Cut(strings.TrimPrefix(text, "connect to "), ": dial "); refused && strings.HasSuffix(text, ": connection refused") {
		return at + ": connection refused"
	}
	return text
}

// openStore opens the store that first names, with engine if that is not nil. It does not connect yet.
func (srv *Server) openStore(engine store.Engine, first *setup.Setup, log *zap.Logger) (*store.Store, error) {
	if first.Config.Store.URL == "" {
		return storeconfig.Open(&first.Config, nil, store.Options{})
	}
	counts := srv.Metrics.NewStore()
	var down time.Time // the one goroutine that tells the next of two changes begins after the first
	return storeconfig.OpenAt(engine, &first.Config, first.Keys, store.Options{
		Observe: func(op store.Operation) {
			counts.Operations.WithLabelValues(op.Name, op.Kind, string(op.Outcome)).Inc()
			if op.Outcome != store.Skipped && op.Outcome != store.TooLarge {
				counts.Seconds.WithLabelValues(op.Name).Observe(op.Took.Seconds())
			}
		},
		Changed: func(up bool, why error) {
			if !up {
				down = time.Now()
				counts.Up.Set(0)
				log.Warn("the store is down: calls go on, replicas may not find each other, what needs it fails",
					zap.String("url", config.SafeURL(first.Config.Store.URL)), zap.String("error", storeFailure(why)), zap.String("advice", store.Advice(why)))
				return
			}
			counts.Up.Set(1)
			log.Info("the store is there again", zap.Duration("after", time.Since(down).Round(time.Millisecond)))
		},
	})
}
