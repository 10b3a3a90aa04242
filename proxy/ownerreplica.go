package proxy

import (
	"errors"
	"net/netip"
	"net/url"
	"strings"

	"github.com/dragoman-proxy/dragoman/proxy/clienterror"
	"github.com/dragoman-proxy/dragoman/proxy/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/failures"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/principal"
	"github.com/dragoman-proxy/dragoman/proxy/replicas"
	"github.com/dragoman-proxy/dragoman/proxy/report"
	"github.com/dragoman-proxy/dragoman/proxy/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/trace"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
)

// serverIsBeside reports whether the server is on this machine, or in this pod, while
// there are replicas elsewhere: then it is another server that each of them has, which
// does not know the sessions of this one.
func (srv *Server) serverIsBeside() bool {
	at, err := url.Parse(srv.now().cfg.Upstream.URL)
	if err != nil || !srv.replicas.Configured() {
		return false
	}
	ip, err := netip.ParseAddr(at.Hostname())
	return at.Hostname() == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// goesHome has a request answered by the process that its session began in, where that
// has what no id can hold: the server's own process, a server beside it, or, of a session
// with a server that knows none, the log level, the subscriptions and the questions to its client. Where the
// process is gone, or there is no way to it, a session of the last kind is taken up here,
// and what only that process knew is lost; the others are over.
func (srv *Server) forwardToOwner(method string, req *downstream.Request, resp *downstream.Response) bool {
	if req.Session == "" || req.Forwarded || !srv.replicas.Configured() {
		return false
	}
	home, ok := srv.sessions.ownerReplica(req.Session, srv.ownerOf(req))
	if !ok || home == srv.parkedCalls.instance {
		return false
	}
	err := srv.forward(home, method, mcp.PeerLost, req, resp)
	switch {
	case errors.Is(err, replicas.ErrNotTaken), err != nil && method == "GET" && clienterror.Of(err).Cause == mcp.PeerLost:
		return false
	case err != nil:
		srv.refuse(req, resp, srv.host.Report.Failed(err, report.At{}).WithinSession())
	}
	return true
}

// forward has another process serve a request, whose call fails for the cause lost where
// its answer does not come.
func (srv *Server) forward(to sealed.ID, method string, lost mcp.Cause, req *downstream.Request, resp *downstream.Response) error {
	return srv.replicas.Forward(to, &replicas.Request{Request: req, Method: method, Header: srv.carriedHeaders(req), Lost: lost}, resp)
}

// carriedHeaders are those of a client's request that the replica that serves it may need.
func (srv *Server) carriedHeaders(req *downstream.Request) (list []upstream.Header) {
	if req.Headers != nil {
		req.Headers(mcpPrefix, func(name, value string) {
			if !strings.EqualFold(name, "Mcp-Session-Id") && !strings.EqualFold(name, "MCP-Protocol-Version") { // which have their place
				list = append(list, upstream.Header{Name: name, Value: value})
			}
		})
	}
	if req.Header == nil {
		return list
	}
	list = srv.appendPassed(list, req.Header)
	for _, name := range []string{principal.Header(srv.now().cfg.Bridge.Principal), "Mcp-Method", "Mcp-Name", maxTokensHeader, trace.TimingHeader} {
		if v := req.Header(name); v != "" && upstream.HeaderValue(list, name) == "" {
			list = append(list, upstream.Header{Name: name, Value: v})
		}
	}
	return list
}

// newReplicas are the other processes that srv may forward to.
func newReplicas(srv *Server) *replicas.Replicas {
	return replicas.New(replicas.Options{
		Self: srv.parkedCalls.instance, Handler: (*face)(srv), Rescue: srv.rescue,
		Memory: srv.host.Memory(), Streams: &srv.streams, Draining: srv.host.Draining, Log: srv.host.Log,
		Settings: func() replicas.Settings {
			now := srv.now()
			return replicas.Settings{
				Addresses: now.cfg.Bridge.Peers, Sealer: now.sealer, MaxMessage: int(now.cfg.Limits.UpstreamMessage),
				Certificate: now.guard.cert, Roots: now.guard.peerRoots,
			}
		},
		Count: func(o replicas.Outcome) { srv.metrics.Forwarded.WithLabelValues(string(o)).Inc() },
		Unreachable: func(err error) {
			srv.host.Report.ServerFailed("replica cannot be reached", failures.ReplicaLost, err, nil)
		},
		Report: func(f *mcp.Failure, method string) string {
			return srv.host.Report.Failed(f, report.At{Method: method}).Why
		},
	})
}
