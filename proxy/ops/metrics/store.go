package metrics

import "github.com/prometheus/client_golang/prometheus"

// Store are the metrics of the store that replicas share.
type Store struct {
	Operations *prometheus.CounterVec
	Seconds    *prometheus.HistogramVec
	Up         prometheus.Gauge
}

// ofStore are the bounds of the buckets of store operations: the time limit of one is among them by default.
var ofStore = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .2, .5}

// NewStore registers the metrics of a store. It is called once, and only if one is configured.
func (m *Metrics) NewStore() *Store {
	f := on(m.Registry)
	s := &Store{
		Operations: f.counters("dragoman_store_operations_total",
			"Operations on the store that replicas share, by operation, kind of what is kept, and outcome.", "operation", "kind", "outcome"),
		Seconds: f.histograms("dragoman_store_seconds",
			"Time that operations on the store took.", ofStore, "operation"),
		Up: f.NewGauge(prometheus.GaugeOpts{Name: "dragoman_store_up", Help: "1 while the store answers, else 0."}),
	}
	s.Up.Set(1)
	return s
}
