package proxy

import "github.com/prometheus/client_golang/prometheus"

// gauges returns how much is held for clients without a session at the moment. [config.Bridge] has
// a bound for each.
func (srv *Server) gauges() []prometheus.Collector {
	gauge := func(name, help string, now func() int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(now()) })
	}
	return []prometheus.Collector{
		gauge("dragoman_upstream_processes", "Running processes of the server.", srv.running.Running),
		gauge("dragoman_bridge_sessions", "Open sessions with the server for clients without sessions.", func() int { return srv.modern.Counts().Sessions }),
		gauge("dragoman_bridge_parked_calls", "Parked calls: calls of clients without a session that wait for the client's answer to a question of the server.", func() int { return srv.modern.Counts().Parked }),
	}
}
