package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dragoman-proxy/dragoman/adapterrt"
)

// adapterMetrics count calls of adapters. Names of adapters and operations come
// from files, outcomes from a list: what clients send makes no label.
type adapterMetrics struct {
	adapterRequests *prometheus.CounterVec
	adapterSeconds  *prometheus.HistogramVec
	adapterUpstream *prometheus.HistogramVec
	adapterBytes    *prometheus.CounterVec
	adapterGates    *prometheus.CounterVec
	adapterCache    *prometheus.CounterVec
	AdapterReloads  *prometheus.CounterVec
}

func newAdapterMetrics() adapterMetrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	seconds := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: name, Help: help, Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"adapter", "operation"})
	}
	return adapterMetrics{
		adapterRequests: counter("dragoman_adapter_requests_total",
			"Calls of operations of adapters, by how they ended: success, cancelled, or the code of the failure.", "adapter", "operation", "outcome"),
		adapterSeconds:  seconds("dragoman_adapter_request_seconds", "Time from such a call to its result."),
		adapterUpstream: seconds("dragoman_adapter_upstream_seconds", "Time spent waiting for the API with it."),
		adapterBytes:    counter("dragoman_adapter_response_bytes_total", "Bytes of what APIs answered.", "adapter"),
		adapterGates:    counter("dragoman_adapter_gates_total", "Capability gates that were asked, by what came of it.", "adapter", "operation", "verdict"),
		adapterCache:    counter("dragoman_adapter_cache_total", "Looks into the cache, by what was found.", "adapter", "operation", "result"),
		AdapterReloads:  counter("dragoman_adapter_reloads_total", "Times that adapter files were read anew and something had changed, or was wrong.", "result"),
	}
}

func (m *adapterMetrics) register(r *prometheus.Registry) {
	r.MustRegister(m.adapterRequests, m.adapterSeconds, m.adapterUpstream, m.adapterBytes, m.adapterGates, m.adapterCache, m.AdapterReloads)
}

// AdapterCall counts one call that has ended.
func (m *adapterMetrics) AdapterCall(c *adapterrt.Record, outcome string) {
	m.adapterRequests.WithLabelValues(c.Adapter, c.Operation, outcome).Inc()
	m.adapterSeconds.WithLabelValues(c.Adapter, c.Operation).Observe(c.Duration.Seconds())
	if c.Upstream > 0 {
		m.adapterUpstream.WithLabelValues(c.Adapter, c.Operation).Observe(c.Upstream.Seconds())
	}
	m.adapterBytes.WithLabelValues(c.Adapter).Add(float64(c.Bytes))
	if c.Gate != "" {
		m.adapterGates.WithLabelValues(c.Adapter, c.Operation, c.Gate).Inc()
	}
	if c.Cache != "" {
		m.adapterCache.WithLabelValues(c.Adapter, c.Operation, c.Cache).Inc()
	}
}
