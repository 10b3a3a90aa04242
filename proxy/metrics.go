package proxy

import (
	"cmp"
	"math"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/memlimit"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
)

// gauges returns what is measured whenever the metrics are read: how much is held at the moment, and how much may be.
func (srv *Server) gauges() []prometheus.Collector {
	gauge := func(name, help string, now func() int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(now()) })
	}
	memory := cmp.Or(float64(memlimit.Read()), math.Inf(1))
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "dragoman_ready", Help: "1 if /readyz says that a client could be served now, else 0."}, func() float64 {
			if srv.Ready() != nil {
				return 0
			}
			return 1
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "dragoman_memory_limit_bytes", Help: "Memory that the system lets this process have; +Inf if there is no limit.",
		}, func() float64 { return memory }),
		gauge("dragoman_sessions_limit", "Greatest number of dragoman_sessions (session.max).", func() int { return srv.Now().Config.Session.Max }),
		gauge("dragoman_bridge_sessions_limit", "Greatest number of dragoman_bridge_sessions (bridge.max_sessions).", func() int { return srv.Now().Config.Bridge.MaxSessions }),
		gauge("dragoman_bridge_parked_calls_limit", "Greatest number of dragoman_bridge_parked_calls.", func() int { return srv.Now().Config.Bridge.MaxParked }),
		metrics.Expiries(func() map[string]time.Time {
			now := srv.Now()
			ends := map[string]time.Time{"client": now.Origin.Certificates.Client(), "server": now.Origin.Certificates.Server()}
			if c := now.Guard.Cert; c != nil {
				ends["listener"] = c.Leaf.NotAfter
			}
			return ends
		}),
		gauge("dragoman_upstream_processes", "Running processes of the server.", srv.running.Running),
		gauge("dragoman_bridge_sessions", "Open sessions with the server for clients without sessions.", func() int { return srv.Modern.Counts().Sessions }),
		gauge("dragoman_pooled_sessions", "Open sessions with the server for requests without a session (session.without), of those in dragoman_sessions.", srv.web.Pooled),
		gauge("dragoman_bridge_parked_calls", "Parked calls: calls of clients without a session that wait for the client's answer to a question of the server.", func() int { return srv.Modern.Counts().Parked }),
	}
}

// register tells the other replicas, by the store, where this one is.
func (srv *Server) register(listener net.Addr) {
	cfg := &srv.Now().Config
	if !srv.Host.Store.Shared() {
		return
	}
	at, err := cfg.Store.Reached(listener)
	if err != nil {
		srv.Host.Log.Warn("other replicas cannot find this one, and calls that only it can serve fail elsewhere: set store.advertise to an address at which they reach it", zap.Error(err))
		return
	}
	srv.Replicas.Register(at)
}
