package proxy

import (
	"github.com/dragoman-proxy/dragoman/proxy/failures"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/replicas"
	"github.com/dragoman-proxy/dragoman/proxy/report"
)

// newReplicas returns the other processes to which srv may forward requests.
func newReplicas(srv *Server) *replicas.Replicas {
	return replicas.New(replicas.Options{
		Self: srv.Instance, Handler: srv.web, Rescue: srv.web.Rescue,
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
