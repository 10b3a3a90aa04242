package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dragoman-proxy/dragoman/adapterrt"
	"github.com/dragoman-proxy/dragoman/adapterrt/guard"
)

// adapterMetrics count calls of adapters. Names of adapters and operations come from
// files, outcomes from a fixed list: nothing that clients send becomes a label.
type adapterMetrics struct {
	adapterRequests *prometheus.CounterVec
	adapterSeconds  *prometheus.HistogramVec
	adapterUpstream *prometheus.HistogramVec
	adapterBytes    *prometheus.CounterVec
	adapterGates    *prometheus.CounterVec
	adapterCache    *prometheus.CounterVec
	adapterWaits    *prometheus.HistogramVec
	adapterBreaker  *prometheus.GaugeVec
	AdapterReloads  *prometheus.CounterVec
	AdapterAlone    *prometheus.CounterVec
}

func newAdapterMetrics(f factory) adapterMetrics {
	return adapterMetrics{
		adapterRequests: f.counters("dragoman_adapter_requests_total",
			"Calls of adapters' operations, by outcome: success, cancelled, or the code of the failure.", "adapter", "operation", "outcome"),
		adapterSeconds: f.histograms("dragoman_adapter_request_seconds",
			"Time from the call of an adapter's operation to its result.", ofCalls, "adapter", "operation"),
		adapterUpstream: f.histograms("dragoman_adapter_upstream_seconds",
			"Time from the request to the API to the end of its answer.", ofCalls, "adapter", "operation"),
		adapterBytes: f.counters("dragoman_adapter_response_bytes_total",
			"Bytes of response bodies from the APIs of adapters.", "adapter"),
		adapterGates: f.counters("dragoman_adapter_gates_total",
			"Checks of adapters' capability gates, by verdict.", "adapter", "operation", "verdict"),
		adapterCache: f.counters("dragoman_adapter_cache_total",
			"Look-ups in the cache of adapter results, by result.", "adapter", "operation", "result"),
		adapterWaits: f.histograms("dragoman_adapter_wait_seconds",
			"Time that calls of adapters waited for a rate limit; only those that waited.", ofCalls, "adapter"),
		adapterBreaker: f.NewGaugeVec(prometheus.GaugeOpts{Name: "dragoman_adapter_breaker_open",
			Help: "1 from when an adapter's breaker stops calls until its API works again, else 0. As of the last call."}, []string{"adapter"}),
		AdapterReloads: f.counters("dragoman_adapter_reloads_total",
			"Reloads of adapter files that had changed, by result.", "result"),
		AdapterAlone: f.counters("dragoman_adapter_limits_alone_total",
			"Calls of adapters whose limits this replica counted alone, because the store that replicas share could not be used."),
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
	if c.Waited > 0 {
		m.adapterWaits.WithLabelValues(c.Adapter).Observe(c.Waited.Seconds())
	}
	if c.Breaker != "" {
		open := 0.
		if c.Breaker != guard.BreakerClosed {
			open = 1
		}
		m.adapterBreaker.WithLabelValues(c.Adapter).Set(open)
	}
	if c.Cache != "" {
		m.adapterCache.WithLabelValues(c.Adapter, c.Operation, c.Cache).Inc()
	}
}
