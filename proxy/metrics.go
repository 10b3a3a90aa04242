package proxy

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// outcome is how a request of a client ended.
type outcome string

const (
	answered  outcome = "answered"  // by the server, with a result or an error
	local     outcome = "local"     // by us, on the server's behalf
	refused   outcome = "refused"   // it could not be sent on
	failed    outcome = "failed"    // the server gave no answer
	cancelled outcome = "cancelled" // none was owed any more
	left      outcome = "left"      // the client went away first
)

// metrics are the counters of one server, on a registry of their own.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	rewrite  prometheus.Histogram
	waiting  prometheus.Histogram
	losses   *prometheus.CounterVec
	peers    *prometheus.CounterVec
	unwanted *prometheus.CounterVec
	restarts prometheus.Counter
	shadowed *prometheus.CounterVec
}

func newMetrics(openSessions, openStreams func() float64) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dragoman_requests_total",
			Help: "Requests of clients, by the revisions of client and server, method and outcome.",
		}, []string{"client", "server", "method", "outcome"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "dragoman_request_seconds",
			Help:    "Time from a client's request to the end of its answer.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
		}, []string{"client", "server", "method"}),
		rewrite: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "dragoman_translate_seconds",
			Help:    "Time spent looking at and rewriting the messages of one request.",
			Buckets: []float64{.000005, .00001, .000025, .00005, .0001, .00025, .0005, .001, .0025, .005, .01, .1},
		}),
		waiting: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "dragoman_upstream_seconds",
			Help:    "Time spent waiting for the server with one request.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
		}),
		losses: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dragoman_losses_total",
			Help: "What translation removed or changed, by rule.",
		}, []string{"from", "to", "rule", "level"}),
		peers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dragoman_handshakes_total",
			Help: "Finished handshakes, by the revisions of client and server; deprecated names the side that speaks a deprecated one.",
		}, []string{"client", "server", "deprecated"}),
		unwanted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dragoman_unwanted_messages_total",
			Help: "Messages that went to nobody or could not be read, by reason.",
		}, []string{"reason"}),
		restarts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "dragoman_upstream_restarts_total",
			Help: "Attempts to start a server's process again that had ended by itself.",
		}),
		shadowed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dragoman_shadowed_tools_total",
			Help: "Tools taken out of the server's lists because one of ours has the same name.",
		}, []string{"tool"}),
	}
	m.registry.MustRegister(m.requests, m.seconds, m.rewrite, m.waiting, m.losses, m.peers, m.unwanted, m.restarts, m.shadowed,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "dragoman_sessions",
			Help: "Sessions of HTTP clients that are held.",
		}, openSessions),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "dragoman_streams",
			Help: "Open event streams of HTTP clients over Streamable HTTP.",
		}, openStreams),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

// request counts one request of a client that has ended.
func (m *metrics) request(s *session, method wire.Method, how outcome, began time.Time) {
	m.requests.WithLabelValues(s.vc.Name, s.vu.Name, method.String(), string(how)).Inc()
	m.seconds.WithLabelValues(s.vc.Name, s.vu.Name, method.String()).Observe(time.Since(began).Seconds())
}

// spent takes down where the time of such a request went.
func (m *metrics) spent(w *stopwatch) {
	m.rewrite.Observe((w.parse + w.translate).Seconds())
	m.waiting.Observe(w.upstream.Seconds())
}
