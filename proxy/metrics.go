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
	losses   *prometheus.CounterVec
	peers    *prometheus.CounterVec
	unwanted *prometheus.CounterVec
}

func newMetrics(openSessions func() float64) *metrics {
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
	}
	m.registry.MustRegister(m.requests, m.seconds, m.losses, m.peers, m.unwanted,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "dragoman_sessions",
			Help: "Open sessions of HTTP clients.",
		}, openSessions),
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
