package proxy

import (
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/valyala/fasthttp"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/observe/inspect"
	livepage "github.com/dragoman-proxy/dragoman/proxy/observe/page"
	"github.com/dragoman-proxy/dragoman/proxy/observe/recording"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
)

// redactor is the [observe.Redactor] of the configuration in force.
type redactor Server

func (r *redactor) Payload(method, tool string, raw []byte) []byte {
	return (*Server)(r).Now().Redactor.Payload(method, tool, raw)
}

func (r *redactor) Header(name, value string) (string, bool) {
	return (*Server)(r).Now().Redactor.Header(name, value)
}

func (r *redactor) Text(text string) string { return (*Server)(r).Now().Redactor.Text(text) }

func (r *redactor) Cut(method, tool string, raw []byte) string {
	return (*Server)(r).Now().Redactor.Cut(method, tool, raw)
}

// makePage makes the page if inspect.enabled asks for it.
func (srv *Server) makePage() (err error) {
	cfg := &srv.Now().Config
	if !cfg.Inspect.Enabled {
		return nil
	}
	srv.pageToken = cfg.Inspect.Token
	if srv.pageToken == "" {
		srv.pageToken = inspect.NewToken()
	}
	safe := (*redactor)(srv)
	srv.page, err = inspect.New(inspect.Options{
		Ring: observe.NewRing(safe), Observer: &srv.Observer, Keep: cfg.Inspect.Keep, Files: livepage.Files(), Token: srv.pageToken, Redactor: safe,
		AllowsHost: srv.allowsHost,
		Version:    mcp.Version(), Replica: srv.replicaName(), Started: time.Now(), Payloads: cfg.Inspect.Payloads,
		Live: srv.Live, Watching: srv.noteWatcher, Endpoint: srv.pageEndpoint,
		Export: inspect.ExportHeader{Version: mcp.Version(), Configuration: func() string { return srv.Now().Config.Digest() }},
	})
	return err
}

// allowsHost reports whether a page in a browser may use a name of the listener for operators.
func (srv *Server) allowsHost(host string, local net.Addr) bool {
	return downstream.HostCheck(srv.Now().Config.AllowedHosts)(host, local)
}

// replicaName returns a short name of this process.
func (srv *Server) replicaName() string {
	const digits = "0123456789abcdef"
	b := srv.Instance[:2]
	return string([]byte{digits[b[0]>>4], digits[b[0]&15], digits[b[1]>>4], digits[b[1]&15]})
}

// PageURL returns the URL of the page at the address of the listener for operators, with the page's token, or "" if there is
// no page. The URL is a secret. It holds the token in the fragment, which browsers do not send.
func (srv *Server) PageURL(at net.Addr) string {
	if srv.page == nil {
		return ""
	}
	return "http://" + fromHere(at).String() + inspect.Path + "#token=" + url.QueryEscape(srv.pageToken)
}

// PageInvitation returns a URL of the page at the address of the listener for operators that gives access once and soon, or "" if
// there is no page.
func (srv *Server) PageInvitation(at net.Addr) string {
	if srv.page == nil {
		return ""
	}
	return "http://" + fromHere(at).String() + inspect.Path + "#once=" + srv.page.Invite()
}

// pageEndpoint returns the URL that clients use, as far as it is known.
func (srv *Server) pageEndpoint() string {
	srv.reloading.Lock()
	defer srv.reloading.Unlock()
	if srv.at == nil {
		return "$URL"
	}
	return srv.Endpoint(srv.at)
}

// noteWatcher logs who looks at the page, so that a reviewer can see it.
func (srv *Server) noteWatcher(w inspect.Watcher) {
	at := zap.String("address", w.Address)
	switch {
	case !w.Ended:
		srv.Host.Log.Info("live page opened", at)
	case w.Why != "":
		srv.Host.Log.Info("live page cut off", at, zap.String("cause", w.Why), zap.Duration("after", w.For))
	default:
		srv.Host.Log.Info("live page closed", at, zap.Duration("after", w.For))
	}
}

// Live returns what is open now, as the page shows it: sessions, parked calls and replicas.
func (srv *Server) Live() inspect.Live {
	l := inspect.Live{Sessions: map[string]inspect.LiveSession{}}
	srv.Table.Each(func(s *session.Session) {
		p := s.Peers()
		open := s.Open.Count()
		l.Sessions[p.Session] = inspect.LiveSession{
			Peers: *p, Since: s.Made, Open: open, Asking: s.Asked.Count(), Streams: max(0, int(s.Busy.Load())-open),
		}
		l.Parked = appendAsked(l.Parked, s, p.Session)
	})
	srv.Table.EachPipe(func(s *session.Session) {
		p := s.Peers()
		l.Sessions[p.Session] = inspect.LiveSession{Peers: *p, Since: s.Made, Open: s.Open.Count(), Asking: s.Asked.Count()}
		l.Parked = appendAsked(l.Parked, s, p.Session)
	})
	l.Connections = len(l.Sessions) + srv.Modern.Counts().Sessions
	for _, q := range srv.Modern.Parked() {
		l.Parked = append(l.Parked, inspect.Parked{Method: q.Method.String(), Since: q.Since, Ends: q.Ends, Call: q.Seen.Number()})
	}
	for _, r := range srv.Replicas.List() {
		l.Replicas = append(l.Replicas, inspect.Replica{Address: r.Address, Reachable: r.Reachable, Forwarded: r.Forwarded})
	}
	return l
}

// pageRoutes returns the routes of the page.
func (srv *Server) pageRoutes() map[string]fasthttp.RequestHandler {
	if srv.page == nil {
		return nil
	}
	return map[string]fasthttp.RequestHandler{
		inspect.Path: srv.page.Serve,
		"/inspect":   func(c *fasthttp.RequestCtx) { c.Redirect(inspect.Path, fasthttp.StatusMovedPermanently) },
	}
}

// Record begins the recording that record.file asks for, if it does. It must be called before Serve or ServePipe, which
// end it, as [Server.EndRecording] and [Server.Close] do.
func (srv *Server) Record() error {
	cfg := &srv.Now().Config
	if cfg.Record.File == "" {
		return nil
	}
	r, err := recording.Start(&srv.Observer, recording.Options{
		File: recording.Name(cfg.Record.File), MaxBytes: int(cfg.Record.MaxBytes), Version: mcp.Version(), Configuration: cfg.Digest(),
	}, func() observe.Redactor { return srv.Now().Redactor }, func(err error) {
		srv.Metrics.RecordingFailures.Inc()
		srv.Host.Log.Error("the recording has ended, since its file cannot be written; calls go on", zap.Error(err),
			zap.String("advice", "make room on the disk, and restart dragoman to record into a new file"))
	})
	if err != nil {
		return fmt.Errorf("record.file: %w", err)
	}
	srv.Host.Log.Info("recording messages", zap.String("file", r.File()))
	srv.recorder = r
	return nil
}

// EndRecording writes what waits and closes the file of [Server.Record]. Without a recording it does nothing.
func (srv *Server) EndRecording() {
	r := srv.recorder
	if r == nil {
		return
	}
	srv.recorder = nil
	if err := r.Close(); err != nil {
		srv.Host.Log.Error("cannot finish the recording", zap.Error(err))
	}
}

// appendAsked appends the questions that wait for the answers of the session's client.
func appendAsked(list []inspect.Parked, s *session.Session, fingerprint string) []inspect.Parked {
	p := s.Peers()
	for _, q := range s.Asked.List() {
		list = append(list, inspect.Parked{Method: q.Method.String(), Session: fingerprint, Client: p.Client, Server: p.Server, Since: q.Began, Call: q.More.Seen.Number()})
	}
	return list
}
