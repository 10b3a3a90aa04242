package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/rawio"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/proxy/session/clients/pipe"
	"github.com/dragoman-proxy/dragoman/proxy/session/setup"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
)

// Admin makes [Server.Serve] and [Server.ServePipe] also serve probes, metrics and the page, on ln. It must be called before,
// and they close ln.
func (srv *Server) Admin(ln net.Listener) { srv.admin = ln }

// WhenServing makes [Server.Serve] call do as soon as clients are served. It must be called before.
func (srv *Server) WhenServing(do func()) { srv.serving = do }

// Serve answers HTTP clients on ln until ctx ends or ln fails. Then it ends standing streams and begins no more sessions, lets
// calls in flight and those that wait for their clients finish within the drain time, accepting connections as long as there are
// any, ends the sessions and stops child processes. It returns when all it started has ended. It closes ln in any case. The error is nil if
// ctx was the reason. Serve refuses an address that is not a loopback address if clients could use
// dragoman's credentials there without a token.
func (srv *Server) Serve(ctx context.Context, ln net.Listener) error {
	endAdmin := srv.serveAdmin()
	if err := srv.open(ln.Addr()); err != nil {
		ln.Close()
		endAdmin()
		srv.Close()
		return err
	}
	srv.Table.Share()
	srv.register(ln.Addr()) // others may send requests from here on
	srv.tellServing(ln.Addr())
	srv.Now().Origin.Credential.TellLent(srv.Now().Server, srv.Host.Log)
	srv.warnOfOpenFiles()
	srv.remark(new(config.Config))
	srv.warnOfOthers(ln.Addr())
	if len(srv.Now().Config.Upstream.Command) > 0 {
		if err := srv.Ready(); err != nil { // warn now, as the process starts only when a client comes
			srv.notReady(err)
		}
	}
	face := srv.face
	ended := make(chan error, 1)
	go func() { ended <- face.Serve(ln) }()
	if srv.serving != nil {
		srv.serving()
	}
	tending, stop := context.WithCancel(context.Background())
	srv.Host.Spawn(func() { srv.tend(tending) })
	if srv.Now().Config.Upstream.URL != "" {
		srv.Host.Spawn(func() { srv.lookOut(tending) })
	}

	var err error
	select {
	case err = <-ended:
		ended <- nil
	case <-ctx.Done():
		srv.Host.Log.Info("stopping", zap.Duration("drain", srv.Now().Config.Shutdown.Drain))
	}
	srv.Host.Drain()
	grace, cancel := context.WithTimeout(context.Background(), srv.Now().Config.Shutdown.Drain)
	if e := face.Shutdown(grace); errors.Is(e, context.DeadlineExceeded) {
		srv.Host.Log.Info("some calls were still open at the end of shutdown.drain: they got an error")
	} else if e != nil {
		srv.Host.Log.Warn("cannot end all connections of clients", zap.Error(e))
	}
	cancel()
	<-ended
	stop()
	endAdmin()
	srv.Close()
	return err
}

// ServePipe serves one client that writes to in and reads from out, one message a line, until in
// ends, ctx ends, the server is lost or, on Linux, the client has closed its end of out. It returns when all it started has ended,
// but for writing what the client does not read when ctx ends.
// When in or ctx ends, open calls may still be answered within the drain time, and then get an error response. They have no such time
// when out ends, since their answers would not be read, nor when both in and ctx have ended, as clients end a server that does not leave.
// Questions of the server are refused in that time, since the client cannot answer any more. The
// error is nil if one of these has ended.
func (srv *Server) ServePipe(ctx context.Context, in io.Reader, out io.Writer) error {
	srv.Personal.Store(true)
	srv.Host.Report.Near()
	srv.warnOfOpenFiles()
	srv.remark(new(config.Config))
	srv.lookWhenLost(ctx)
	srv.Connected()
	endAdmin := srv.serveAdmin()
	tending, stop := context.WithCancel(context.Background())
	srv.Host.Spawn(func() { srv.tend(tending) })
	present, left := context.WithCancelCause(ctx)
	defer left(nil)
	if c, ok := out.(syscall.Conn); ok { // in may stay open, since another process holds it
		defer rawio.WhenHungUp(c, func() {
			srv.Host.Log.Info("the client has closed dragoman's stdout: stopping")
			left(downstream.ErrClientLeft)
		})()
	}
	err := pipe.Serve(present, srv.Proxy, in, out)
	stop()
	if ctx.Err() == nil && err == nil { // a sign-in that was begun is not lost
		srv.Now().Origin.Credential.Linger(ctx)
	}
	endAdmin() // Close waits for it
	srv.Close()
	return err
}

// serveAdmin serves operators if they have a listener, until end is called.
func (srv *Server) serveAdmin() (end func()) {
	admin := srv.adminFace()
	if srv.admin != nil {
		srv.Host.Spawn(func() {
			if err := admin.Serve(srv.admin); err != nil && !errors.Is(err, downstream.ErrStopped) {
				srv.Host.Log.Error("cannot serve probes and metrics", zap.Error(err))
			}
		})
	}
	return func() {
		now, cancel := context.WithCancel(context.Background())
		cancel() // metrics need no draining
		if srv.page != nil {
			srv.page.Close()
		}
		admin.Shutdown(now)
	}
}

// open checks that dragoman may serve at the clients' address, notes it, and makes the HTTP server for
// it.
func (srv *Server) open(at net.Addr) error {
	srv.reloading.Lock()
	defer srv.reloading.Unlock()
	srv.at = at
	if err := srv.Now().MayServe(at); err != nil {
		return err
	}
	if setup.IsLoopback(at) {
		srv.Host.Report.Near()
	}
	srv.face = srv.httpFace(at)
	return nil
}

// Close ends all sessions, except those that other replicas can resume, waits for all goroutines and frees what [New] has
// opened. It is for a server that is not served, or only by [Server.Handler]: Serve and ServePipe do it themselves. It must be
// called once.
func (srv *Server) Close() {
	srv.Host.Close()
	srv.Modern.Close()
	srv.Eras.Close()
	if sh := srv.Now().Origin.Shared; sh != nil {
		sh.DrainModern()
	}
	for _, s := range srv.Table.DropAll() {
		if srv.Now().Config.Session.KeyFile != "" {
			srv.Retire(s, report.ErrShutdown)
			continue
		}
		srv.Host.Spawn(func() { srv.End(s, report.ErrShutdown) })
	}
	srv.Table.Unshare()
	srv.Host.Wait()
	srv.Tracer.Close()
	srv.EndRecording()
	srv.Replicas.Close()
	srv.Now().Relay.Close()
	srv.reloading.Lock()
	defer srv.reloading.Unlock()
	if end := srv.Now().Origin.Close; end != nil {
		end()
	}
	for _, end := range srv.outdated {
		end()
	}
	if srv.Adapters != nil {
		srv.Adapters.Close()
	}
	srv.tokens.Close()
	srv.SignIns.Close()
	srv.Host.Store.Close()
	srv.Host.FlushAll()
}

// tend does the periodic work, such as ending idle sessions, until ctx ends.
func (srv *Server) tend(ctx context.Context) {
	flushed := time.Now()
	for {
		timer := time.NewTimer(min(time.Minute, max(srv.Now().Config.Session.IdleTimeout/4, 10*time.Millisecond)))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case now := <-timer.C:
			srv.Modern.Tend(now)
			srv.Legacy.Expire(now)
			srv.Eras.EndSpareSince(now)
			for _, s := range srv.Table.DropIdle(now.Add(-srv.Now().Config.Session.IdleTimeout)) {
				srv.Retire(s, report.ErrIdle)
			}
			srv.Table.Each(func(s *session.Session) {
				if l := s.Lanes; l != nil {
					l.Trails.Sweep(now)
				}
			})
			if now.Sub(flushed) >= time.Minute {
				flushed = now
				srv.Host.Flush(now)
			}
		}
	}
}

// Register adds a collector to those of /metrics. It must be called before Serve.
func (srv *Server) Register(c prometheus.Collector) { srv.Metrics.Registry.MustRegister(c) }
