// Package metrics counts what the proxy does, under the names that /metrics has.
//
//   - metrics.go counts requests, handshakes, and what goes wrong;
//   - results.go counts and logs what package transform does with results;
//   - adapters.go counts calls of adapters.
//
// Labels have bounded values: names come from files and from lists of the server, never
// from what clients send.
package metrics

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

// Outcome is how a request of a client ended.
type Outcome string

const (
	Succeeded Outcome = "ok"         // answered by the server, with a result
	ToolError Outcome = "tool_error" // with a result that says isError
	Errored   Outcome = "error"      // with a JSON-RPC error
	Local     Outcome = "local"      // by us, on the server's behalf
	Refused   Outcome = "refused"    // it could not be sent on
	Failed    Outcome = "failed"     // the server gave no answer
	Cancelled Outcome = "cancelled"  // none was owed any more
	Left      Outcome = "left"       // the client went away first

	// inputRequired is the result that asks for the call to be made again, with answers: the
	// last round of a call counts.
	inputRequired Outcome = "input_required"
)

// OutcomeOf is how a request ended that m answers.
func OutcomeOf(m *wire.Message) Outcome {
	switch {
	case m.Kind == wire.Error:
		return Errored
	case m.InputRequired:
		return inputRequired
	case m.ToolError:
		return ToolError
	}
	return Succeeded
}

// Metrics are the counters of one server, on a registry of their own. Those that are not
// exported are counted by methods.
type Metrics struct {
	Registry  *prometheus.Registry
	requests  *prometheus.CounterVec
	seconds   *prometheus.HistogramVec
	rewrite   prometheus.Histogram
	waiting   prometheus.Histogram
	Losses    *prometheus.CounterVec
	shakes    *prometheus.CounterVec
	Dropped   *prometheus.CounterVec
	Failures  *prometheus.CounterVec
	Restarts  prometheus.Counter
	Shadowed  *prometheus.CounterVec
	Gates     *prometheus.CounterVec
	Forwarded *prometheus.CounterVec
	Quirks    *prometheus.CounterVec
	ToolsList prometheus.Gauge
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

// New registers all of them. openSessions and openStreams are read when the metrics are;
// version is that of the build.
func New(version string, openSessions, openStreams func() float64) *Metrics {
	m := &Metrics{
		Registry: prometheus.NewRegistry(),
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
		Losses: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dragoman_losses_total",
			Help: "What translation removed or changed, by rule.",
		}, []string{"from", "to", "rule", "level"}),
		shakes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dragoman_handshakes_total",
			Help: "Sessions begun, and attempts to begin one that failed, by the revisions of client and server, outcome and cause.",
		}, []string{"client", "server", "outcome", "cause"}),
		Dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dragoman_messages_dropped_total",
			Help: "JSON-RPC messages dropped, by reason.",
		}, []string{"reason"}),
		Failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dragoman_upstream_failures_total",
			Help: "Requests that failed at the server, or at a limit or a defect of dragoman, by cause.",
		}, []string{"cause"}),
		Restarts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "dragoman_upstream_restarts_total",
			Help: "Attempts to start a server's process again that had ended by itself.",
		}),
		Shadowed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dragoman_shadowed_tools_total",
			Help: "Tools taken out of the server's lists because one of ours has the same name.",
		}, []string{"tool"}),
		Gates: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dragoman_gates_total",
			Help: "Capability gates on the server's tools that were asked, by what came of it.",
		}, []string{"tool", "verdict"}),
		Forwarded: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dragoman_forwarded_total",
			Help: "Requests that another replica holds the session or the call of, by whether it served them, was lost or was nowhere.",
		}, []string{"outcome"}),
		Quirks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dragoman_quirks_total",
			Help: "Peculiarities of published clients and servers that were dealt with, by name.",
		}, []string{"quirk"}),
		adapterMetrics: newAdapterMetrics(),
	}
	m.adapterMetrics.register(m.Registry)
	m.ToolsList = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "dragoman_tools_list_bytes",
		Help: "Size of the list of tools that the last client got first, as compact JSON.",
	})
	m.Registry.MustRegister(m.ToolsList, m.requests, m.seconds, m.rewrite, m.waiting, m.Losses, m.shakes, m.Dropped, m.Failures, m.Restarts, m.Shadowed, m.Gates, m.Forwarded, m.Quirks,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "dragoman_sessions",
			Help: "Sessions of HTTP clients that are held.",
		}, openSessions),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "dragoman_streams",
			Help: "Open event streams of HTTP clients over Streamable HTTP.",
		}, openStreams),
		buildInfo(version),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

// unknownRevision is the revision in labels of a server that has not named it.
const unknownRevision = "unknown"

// Request counts one request of a client that has ended.
func (m *Metrics) Request(vc, vu *translate.Revision, method wire.Method, how Outcome, began time.Time) {
	client, server := vc.Name, vu.Name
	at := m.of(pair{vc, vu})
	switch how {
	case inputRequired:
		return
	case Succeeded:
		(*once(&at.succeeded[method], func() prometheus.Counter {
			return m.requests.WithLabelValues(client, server, method.String(), string(Succeeded))
		})).Inc()
	default:
		m.requests.WithLabelValues(client, server, method.String(), string(how)).Inc()
	}
	(*once(&at.seconds[method], func() prometheus.Observer {
		return m.seconds.WithLabelValues(client, server, method.String())
	})).Observe(time.Since(began).Seconds())
}

// Unserved counts one request that has ended before the server's revision was known.
func (m *Metrics) Unserved(client *translate.Revision, method wire.Method, how Outcome) {
	m.requests.WithLabelValues(client.Name, unknownRevision, method.String(), string(how)).Inc()
}

// Handshake counts a session begun, or an attempt to begin one. The revisions may be nil.
func (m *Metrics) Handshake(client, server *translate.Revision, how Outcome, c failures.Cause) {
	name := func(r *translate.Revision) string {
		if r == nil {
			return unknownRevision
		}
		return cmp.Or(r.Name, unknownRevision)
	}
	m.shakes.WithLabelValues(name(client), name(server), string(how), string(c)).Inc()
}

func (m *Metrics) of(p pair) *meters {
	at, ok := m.pairs.Load(p)
	if !ok {
		at, _ = m.pairs.LoadOrStore(p, new(meters))
	}
	return at.(*meters)
}

// buildInfo is a gauge that is always 1, with the build in its labels.
func buildInfo(version string) prometheus.Gauge {
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
		ConstLabels: prometheus.Labels{"version": version, "commit": commit, "goversion": runtime.Version()},
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

// Spent takes down where the time of such a request went.
func (m *Metrics) Spent(w *trace.Stopwatch) {
	m.rewrite.Observe((w.Parse + w.Translate).Seconds())
	m.waiting.Observe(w.Upstream.Seconds())
}
