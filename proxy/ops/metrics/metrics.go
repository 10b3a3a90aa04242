// Package metrics counts what the proxy does, under the names that /metrics has.
//
//   - metrics.go counts handshakes, and what goes wrong;
//   - operations.go counts and measures requests and sessions;
//   - tools.go knows which tools have a label of their own;
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

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/dragoman-proxy/dragoman/proxy/ops/trace"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/failures"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Metrics are the counters of one server, on a registry of their own. Those that are not
// exported are counted by methods.
type Metrics struct {
	Registry  *prometheus.Registry
	Tools     Tools
	rewrite   prometheus.Histogram
	Losses    *prometheus.CounterVec
	Changes   *prometheus.CounterVec
	shakes    *prometheus.CounterVec
	Dropped   *prometheus.CounterVec
	Failures  *prometheus.CounterVec
	Restarts  prometheus.Counter
	Shadowed  *prometheus.CounterVec
	Gates     *prometheus.CounterVec
	Forwarded *prometheus.CounterVec
	Quirks    *prometheus.CounterVec
	ToolsList prometheus.Gauge

	Unobserved        *prometheus.CounterVec
	RecordingFailures prometheus.Counter
	*operations
	adapterMetrics
}

// ofGo is the metrics of Go itself, which all registries of the process share: making them matches hundreds of names against patterns, and
// was most of New with the race detector, under which tests make thousands of servers.
var ofGo = sync.OnceValue(func() prometheus.Collector { return collectors.NewGoCollector() })

// New registers all metrics. It calls openSessions and openStreams whenever the metrics are
// read. version is the version of the build.
func New(version string, openSessions, openStreams func() float64) *Metrics {
	r := prometheus.NewRegistry()
	f := on(r)
	f.NewGaugeFunc(prometheus.GaugeOpts{Name: "dragoman_sessions", Help: "Open sessions of HTTP clients, and for requests without a session."}, openSessions)
	f.NewGaugeFunc(prometheus.GaugeOpts{Name: "dragoman_streams", Help: "Open event streams of HTTP clients over Streamable HTTP."}, openStreams)
	r.MustRegister(buildInfo(version), ofGo(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return &Metrics{
		Registry: r,
		rewrite: f.histogram("dragoman_translate_seconds",
			"Time to scan and rewrite the messages of one request.", ofRewrites),
		Losses: f.counters("dragoman_losses_total",
			"Values that translation removed without a replacement, by rule.", "from", "to", "rule", "level"),
		Changes: f.counters("dragoman_changes_total",
			"What translation added, moved or removed without a loss, by rule.", "from", "to", "rule"),
		shakes: f.counters("dragoman_handshakes_total",
			"Handshakes, by the revisions of client and server, outcome, and cause of the failure.",
			"client", "server", "outcome", "cause"),
		Dropped: f.counters("dragoman_messages_dropped_total",
			"JSON-RPC messages dropped, by reason.", "reason"),
		Failures: f.counters("dragoman_upstream_failures_total",
			"Failed requests, by cause: of the server, a limit or a defect of dragoman.", "cause"),
		Restarts: f.counter("dragoman_upstream_restarts_total",
			"Attempts to restart a server's process that exited by itself."),
		Shadowed: f.counters("dragoman_shadowed_tools_total",
			"Tools removed from the server's lists because an adapter tool has the same name.", "tool"),
		Gates: f.counters("dragoman_gates_total",
			"Gate checks before calls of the server's tools (rate limits, capabilities, confirmation), by verdict.", "tool", "verdict"),
		Forwarded: f.counters("dragoman_forwarded_total",
			"Requests that belong to a session or call of another replica, by outcome: served by that replica, lost with it, or replica not found.", "outcome"),
		Quirks: f.counters("dragoman_quirks_total",
			"Uses of a workaround for a published client or server, by quirk.", "quirk"),
		ToolsList: f.NewGauge(prometheus.GaugeOpts{
			Name: "dragoman_tools_list_bytes",
			Help: "Size of the last tool list sent to a client, as compact JSON.",
		}),
		Unobserved: f.counters("dragoman_observe_dropped_total",
			"Events that a reader of the messages (page, record) has missed, because it was too slow.", "reader"),
		RecordingFailures: f.counter("dragoman_recording_failures_total",
			"Recordings that ended because their file could not be written."),
		operations:     newOperations(f),
		adapterMetrics: newAdapterMetrics(f),
	}
}

// Unserved counts one request that has ended before the server's revision was known.
func (m *Metrics) Unserved(client *translate.Revision, method wire.Method, how Outcome) {
	m.requests.WithLabelValues(client.Name, unknownRevision, method.String(), string(how)).Inc()
}

// LogLinesDropped returns the metric of the log lines that were dropped so far.
func LogLinesDropped(sofar func() float64) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "dragoman_log_lines_dropped_total",
		Help: "Log lines that were dropped because no process read stderr, or writing to it failed.",
	}, sofar)
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

// buildInfo returns a gauge that is always 1, with the build in its labels.
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

// Spent records what the translation of a request took.
func (m *Metrics) Spent(w *trace.Stopwatch) {
	m.rewrite.Observe((w.Parse + w.Translate).Seconds())
}
