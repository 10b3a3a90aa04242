package proxy

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/auth/oauth"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/unixsocket"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/features/owntools"
	"github.com/dragoman-proxy/dragoman/proxy/observe/inspect"
	"github.com/dragoman-proxy/dragoman/proxy/observe/recording"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/processes"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/proxy/session/clients"
	"github.com/dragoman-proxy/dragoman/proxy/session/clients/pipe"
	"github.com/dragoman-proxy/dragoman/proxy/session/clients/web"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
)

// Server stands between clients and one MCP server. Make it with [New]; then
// [Server.Serve] or [Server.ServePipe] is called, once.
type Server struct {
	*clients.Proxy
	lookout    reachability
	admin      net.Listener       // nil if there is none
	handler    downstream.Handler // handles HTTP clients' requests
	web        *web.Face
	sse        *pipe.SSE // handles clients on HTTP+SSE
	running    *processes.Limit
	recorder   *recording.Recorder // nil if there is none
	page       *inspect.Handler    // nil if there is none
	pageToken  string              // what the page must be opened with
	shapes     *metrics.Results
	own        []owntools.Source // the sources of tools that dragoman serves itself
	mismatches rateLimit         // limits the log lines about the URLs of protected resources
	copies     rateLimit         // for clients of 2025-03-26 that get no copy of metadata
	plainHTTP  rateLimit         // for clients that use HTTP at a port for TLS
	tlsAtPlain rateLimit         // for clients that use TLS at a port without

	sseAtStreamable, streamableAtSSE rateLimit // for clients at the path of the other transport

	serving func()        // called when clients are served; may be nil
	changed chan struct{} // gets an element when a reload has changed how the server is reached

	reloading sync.Mutex
	at        net.Addr         // the address of the listener for clients; nil while there is none
	face      *downstream.HTTP // serves that listener
	outdated  []func()         // close what earlier setups shared
	tokens    *oauth.Store     // of adapters
}

// forgetAnswers empties the caches of what the server has answered.
func (srv *Server) forgetAnswers() {
	srv.Lists.Forget()
	srv.Results.Forget()
}

// loginChanged makes room for another person than the one whose credential requests have carried: what the server told
// one is not for the other.
func (srv *Server) loginChanged() {
	srv.forgetAnswers()
	srv.Modern.Retire()
	srv.web.RetirePooled()
}

// reachability holds the result of the last check of the server.
type reachability struct {
	mu   sync.Mutex
	at   time.Time
	last error
}

func (p *reachability) ask(ctx context.Context, look func(context.Context) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.at) > probeAge {
		ctx, cancel := context.WithTimeout(ctx, probeTimeout)
		defer cancel()
		p.last = look(ctx)
		p.at = time.Now()
	}
	return p.last
}

// These constants bound how the server's reachability is checked.
const (
	probeTimeout = time.Second
	probeAge     = 2 * time.Second // how long a result is used, however many callers ask
)

// rateLimit limits how often something is logged.
type rateLimit struct {
	mu   sync.Mutex
	last time.Time
}

// tellEvery is the least time between two equal warnings to operators.
const tellEvery = 10 * time.Minute

func (s *rateLimit) do(say func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); now.Sub(s.last) >= tellEvery {
		s.last = now
		say()
	}
}

// errGaveWay is the reason why a session ended so that another client could have a process.
var errGaveWay = errors.New("the idle session was ended to free a process for another client: session.max_processes is reached")

// idleSession is a session whose process may be stopped to free its place.
type idleSession struct {
	since time.Time
	end   func() bool // returns false if the session is in use again
}

// giveWay ends a session that nothing uses but subscriptions from before a reload, which lose nothing by that, or else the session that was idle for the
// longest time, of the clients for which the function of returns true. It returns false if there is none. It does not wait until the process
// has ended.
func (srv *Server) giveWay(of func(client string) bool) bool {
	if srv.Now().Origin.Shared != nil {
		return false // all sessions share one process
	}
	if srv.Modern.HandOver(of) {
		return true
	}
	for {
		var oldest *idleSession
		note := func(s idleSession) {
			if oldest == nil || s.since.Before(oldest.since) {
				oldest = &s
			}
		}
		srv.Table.Each(func(s *session.Session) {
			if of(s.RunsFor) && s.Lanes != nil && s.MayYield() {
				note(idleSession{time.Unix(0, s.Used.Load()), func() bool {
					if !srv.Table.Yield(s) {
						return false
					}
					srv.Retire(s, errGaveWay)
					return true
				}})
			}
		})
		srv.sse.EachIdle(of, func(since time.Time, end func(error) bool) {
			note(idleSession{since, func() bool { return end(errGaveWay) }})
		})
		srv.Modern.EachIdle(of, func(since time.Time, end func() bool) { note(idleSession{since, end}) })
		if oldest == nil {
			return false
		}
		if oldest.end() {
			srv.Host.Log.Info("session ended to free a process for another client: session.max_processes is reached")
			return true
		}
	}
}

// Endpoint returns the URL of the Streamable HTTP endpoint at an address, as this machine reaches it: for a unix socket, as
// upstream.url takes it.
func (srv *Server) Endpoint(at net.Addr) string {
	s := srv.Now()
	if local, ok := at.(*net.UnixAddr); ok {
		return unixsocket.URL(local, s.Config.Path)
	}
	scheme := "http://"
	if s.Guard.Cert != nil {
		scheme = "https://"
	}
	return scheme + fromHere(at).String() + s.Config.Path
}

// fromHere returns the address at which this machine reaches a listener: browsers cannot open that of all interfaces.
func fromHere(at net.Addr) net.Addr {
	if tcp, ok := at.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: tcp.Port}
	}
	return at
}

// remark says, when clients begin to be served and after a reload, what is probably not meant and was not so before.
func (srv *Server) remark(was *config.Config) {
	now, before := srv.Now(), was.Said()
	for _, r := range now.Config.Said() {
		level := zap.WarnLevel
		if r.Do == "" {
			level = zap.InfoLevel
		}
		if !slices.Contains(before, r) {
			srv.Host.Log.Log(level, r.What, zap.String("server", now.Server), zap.String("setting", r.Setting), zap.String("advice", r.Do))
		}
	}
}
