package proxy

import (
	"errors"
	"strings"

	"github.com/dragoman-proxy/dragoman/proxy/clienterror"
	"github.com/dragoman-proxy/dragoman/proxy/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/failures"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/mcpheader"
	"github.com/dragoman-proxy/dragoman/proxy/principal"
	"github.com/dragoman-proxy/dragoman/proxy/replicas"
	"github.com/dragoman-proxy/dragoman/proxy/report"
	"github.com/dragoman-proxy/dragoman/proxy/shape"
	"github.com/dragoman-proxy/dragoman/proxy/trace"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
)

// forwardToOwner forwards a request to the process that its session began in, if that process has
// state which the session id cannot hold: the server's own process, a server on the same machine,
// or, for a modern server, the log level, the subscriptions and the open questions. It reports
// whether the request was answered. If the process cannot be reached, a session with a modern
// server is resumed here without that state; all other such sessions have ended.
func (srv *face) forwardToOwner(method string, req *downstream.Request, resp *downstream.Response) bool {
	if req.Session == "" || req.Forwarded || !srv.Replicas.Configured() {
		return false
	}
	home, ok := srv.Table.OwnerReplica(req.Session, srv.OwnerOf(req))
	if !ok || home == srv.Instance {
		return false
	}
	err := srv.forward(home, method, mcp.PeerLost, req, resp)
	switch {
	case errors.Is(err, replicas.ErrNotTaken), err != nil && method == "GET" && clienterror.Of(err).Cause == mcp.PeerLost:
		return false
	case err != nil:
		srv.refuse(req, resp, srv.Host.Report.Failed(err, report.At{}).WithinSession())
	}
	return true
}

// carriedHeaders returns the headers of a client's request that another replica may need.
func (srv *fronts) carriedHeaders(req *downstream.Request) (list []upstream.Header) {
	if req.Headers != nil {
		req.Headers(mcpheader.Prefix, func(name, value string) {
			if !strings.EqualFold(name, "Mcp-Session-Id") && !strings.EqualFold(name, "MCP-Protocol-Version") { // these have fields of their own
				list = append(list, upstream.Header{Name: name, Value: value})
			}
		})
	}
	if req.Header == nil {
		return list
	}
	list = srv.AppendPassed(list, req.Header)
	for _, name := range srv.Adapters.CallerHeaders() {
		if v := req.Header(name); v != "" && upstream.HeaderValue(list, name) == "" {
			list = append(list, upstream.Header{Name: name, Value: v})
		}
	}
	for _, name := range []string{principal.Header(srv.Now().Config.Bridge.Principal), "Mcp-Method", "Mcp-Name", shape.BudgetHeader, trace.TimingHeader} {
		if v := req.Header(name); v != "" && upstream.HeaderValue(list, name) == "" {
			list = append(list, upstream.Header{Name: name, Value: v})
		}
	}
	return list
}

// newReplicas returns the other processes to which srv may forward requests.
func newReplicas(srv *Server) *replicas.Replicas {
	return replicas.New(replicas.Options{
		Self: srv.Instance, Handler: srv.web, Rescue: srv.web.rescue,
		Memory: srv.Host.Memory(), Streams: &srv.Streams, Draining: srv.Host.Draining, Log: srv.Host.Log,
		Settings: func() replicas.Settings {
			now := srv.Now()
			return replicas.Settings{
				Addresses: now.Config.Bridge.Peers, Sealer: now.Sealer, MaxMessage: int(now.Config.Limits.UpstreamMessage),
				Certificate: now.Guard.Cert, Roots: now.Guard.PeerRoots,
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
