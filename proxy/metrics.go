package proxy

import (
	"cmp"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/dragoman-proxy/dragoman/proxy/failures"
	"github.com/dragoman-proxy/dragoman/proxy/trace"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// outcome is how a request of a client ended.
type outcome string

const (
	succeeded outcome = "ok"         // answered by the server, with a result
	toolError outcome = "tool_error" // with a result that says isError
	errored   outcome = "error"      // with a JSON-RPC error
	local     outcome = "local"      // by us, on the server's behalf
	refused   outcome = "refused"    // it could not be sent on
	failed    outcome = "failed"     // the server gave no answer
	cancelled outcome = "cancelled"  // none was owed any more
	left      outcome = "left"       // the client went away first

	// inputRequired is the result that asks for the call to be made again, with answers: the
	// last round of a call counts.
	inputRequired outcome = "input_required"
)

// outcomeOf is how a request ended that m answers.
func outcomeOf(m *wire.Message) outcome {
	switch {
	case m.Kind == wire.Error:
		return errored
	case m.InputRequired:
		return inputRequired
	case m.ToolError:
		return toolError
	}
	return succeeded
}

// metrics are the counters of one server, on a registry of their own.
type metrics struct {
	registry  *prometheus.Registry
	requests  *prometheus.CounterVec
	seconds   *prometheus.HistogramVec
	rewrite   prometheus.Histogram
	waiting   prometheus.Histogram
	losses    *prometheus.CounterVec
	shakes    *prometheus.CounterVec
	dropped   *prometheus.CounterVec
	failures  *prometheus.CounterVec
	restarts  prometheus.Counter
	shadowed  *prometheus.CounterVec
	gates     *prometheus.CounterVec
	forwarded *prometheus.CounterVec
	quirks    *prometheus.CounterVec
	toolsList prometheus.Gauge
	adapterMetrics
	pairs sync.Map // of pair to *meters
}

// pair is the revisions of a client and of its server.
type pair struct{ vc, vu *translate.Revision }

// meters are what most requests of a pair are counted by, found once and not for
// each request. What nobody asked for yet is nil, so that it stands in no list.
type meters struct {
	succeeded [wire.NumMethods]atomic.Pointer[prometheus.Counter]
	seconds   [wire.NumMethods]atomic.Pointer[prometheus.Observer]
}

func newMetrics(openSessions, openStreams func() float64) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dragoman_requests_total",
			Help: "Calls of clients, by the revisions of client and server, method and outcome. A call that is sent again or answered in several rounds counts once.",
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
		shakes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dragoman_handshakes_total",
			Help: "Sessions begun, and attempts to begin one that failed, by the revisions of client and server, outcome and cause.",
		}, []string{"client", "server", "outcome", "cause"}),
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dragoman_messages_dropped_total",
			Help: "JSON-RPC messages dropped, by reason.",
		}, []string{"reason"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dragoman_upstream_failures_total",
			Help: "Requests that failed at the server, or at a limit or a defect of dragoman, by cause.",
		}, []string{"cause"}),
		restarts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "dragoman_upstream_restarts_total",
			Help: "Attempts to start a server's process again that had ended by itself.",
		}),
		shadowed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dragoman_shadowed_tools_total",
			Help: "Tools taken out of the server's lists because one of ours has the same name.",
		}, []string{"tool"}),
		gates: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dragoman_gates_total",
			Help: "Capability gates on the server's tools that were asked, by what came of it.",
		}, []string{"tool", "verdict"}),
		forwarded: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dragoman_forwarded_total",
			Help: "Requests that another replica holds the session or the call of, by whether it served them, was lost or was nowhere.",
		}, []string{"outcome"}),
		quirks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dragoman_quirks_total",
			Help: "Peculiarities of published clients and servers that were dealt with, by name.",
		}, []string{"quirk"}),
		adapterMetrics: newAdapterMetrics(),
	}
	m.adapterMetrics.register(m.registry)
	m.toolsList = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "dragoman_tools_list_bytes",
		Help: "Size of the list of tools that the last client got first, as compact JSON.",
	})
	m.registry.MustRegister(m.toolsList, m.requests, m.seconds, m.rewrite, m.waiting, m.losses, m.shakes, m.dropped, m.failures, m.restarts, m.shadowed, m.gates, m.forwarded, m.quirks,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "dragoman_sessions",
			Help: "Sessions of HTTP clients that are held.",
		}, openSessions),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "dragoman_streams",
			Help: "Open event streams of HTTP clients over Streamable HTTP.",
		}, openStreams),
		buildInfo(),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

// unknownRevision is the revision in labels of a server that has not named it.
const unknownRevision = "unknown"

// request counts one request of a client that has ended.
func (m *metrics) request(vc, vu *translate.Revision, method wire.Method, how outcome, began time.Time) {
	client, server := vc.Name, vu.Name
	at := m.of(pair{vc, vu})
	switch how {
	case inputRequired:
		return
	case succeeded:
		(*once(&at.succeeded[method], func() prometheus.Counter {
			return m.requests.WithLabelValues(client, server, method.String(), string(succeeded))
		})).Inc()
	default:
		m.requests.WithLabelValues(client, server, method.String(), string(how)).Inc()
	}
	(*once(&at.seconds[method], func() prometheus.Observer {
		return m.seconds.WithLabelValues(client, server, method.String())
	})).Observe(time.Since(began).Seconds())
}

// unserved counts one request that has ended before the server's revision was known.
func (m *metrics) unserved(client *translate.Revision, method wire.Method, how outcome) {
	m.requests.WithLabelValues(client.Name, unknownRevision, method.String(), string(how)).Inc()
}

// handshake counts a session begun, or an attempt to begin one. The revisions may be nil.
func (m *metrics) handshake(client, server *translate.Revision, how outcome, c failures.Cause) {
	name := func(r *translate.Revision) string { return cmp.Or(nameOf(r), unknownRevision) }
	m.shakes.WithLabelValues(name(client), name(server), string(how), string(c)).Inc()
}

func (m *metrics) of(p pair) *meters {
	at, ok := m.pairs.Load(p)
	if !ok {
		at, _ = m.pairs.LoadOrStore(p, new(meters))
	}
	return at.(*meters)
}

// buildInfo is a gauge that is always 1, with the build in its labels.
func buildInfo() prometheus.Gauge {
	commit := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				commit = s.Value
			}
		}
	}
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "dragoman_build_info",
		Help:        "Always 1; version, commit and Go version are in the labels.",
		ConstLabels: prometheus.Labels{"version": ownVersion(), "commit": commit, "goversion": runtime.Version()},
	})
	g.Set(1)
	return g
}

// once is what is at p, found where there is nothing yet. That others find the
// same at the same time does no harm.
func once[T any](p *atomic.Pointer[T], find func() T) *T {
	if v := p.Load(); v != nil {
		return v
	}
	v := find()
	p.Store(&v)
	return &v
}

// spent takes down where the time of such a request went.
func (m *metrics) spent(w *trace.Stopwatch) {
	m.rewrite.Observe((w.Parse + w.Translate).Seconds())
	m.waiting.Observe(w.Upstream.Seconds())
}

// Register adds a collector of the caller's to those of /metrics, before the server serves.
func (srv *Server) Register(c prometheus.Collector) { srv.metrics.registry.MustRegister(c) }
