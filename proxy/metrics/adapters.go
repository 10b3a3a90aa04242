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

func newAdapterMetrics(f factory) adapterMetrics {
	return adapterMetrics{
		adapterRequests: f.counters("dragoman_adapter_requests_total",
			"Calls of operations of adapters, by how they ended: success, cancelled, or the code of the failure.", "adapter", "operation", "outcome"),
		adapterSeconds: f.histograms("dragoman_adapter_request_seconds",
			"Time from such a call to its result.", ofCalls, "adapter", "operation"),
		adapterUpstream: f.histograms("dragoman_adapter_upstream_seconds",
			"Time spent waiting for the API with it.", ofCalls, "adapter", "operation"),
		adapterBytes: f.counters("dragoman_adapter_response_bytes_total",
			"Bytes of what APIs answered.", "adapter"),
		adapterGates: f.counters("dragoman_adapter_gates_total",
			"Capability gates that were asked, by what came of it.", "adapter", "operation", "verdict"),
		adapterCache: f.counters("dragoman_adapter_cache_total",
			"Looks into the cache, by what was found.", "adapter", "operation", "result"),
		AdapterReloads: f.counters("dragoman_adapter_reloads_total",
			"Times that adapter files were read anew and something had changed, or was wrong.", "result"),
	}
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
