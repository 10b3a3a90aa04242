package metrics

import (
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/config/setting"
	"github.com/dragoman-proxy/dragoman/transform"
)

// Results counts and logs what was done with results. It reports sizes and steps, and never
// the content of a result.
type Results struct {
	results   *prometheus.CounterVec
	reduction prometheus.Histogram
	tokens    *prometheus.CounterVec
	seconds   prometheus.Histogram
	over      prometheus.Counter

	tools  *Tools
	mu     sync.Mutex
	warned map[string]bool // tools whose rule and schema exclude one another
}

// NewResults registers the metrics of results.
func NewResults(m *Metrics) *Results {
	f := on(m.Registry)
	return &Results{
		results: f.counters("dragoman_transform_results_total",
			"Results of calls that a transform was configured for, by tool and outcome: passthrough, transformed, capped, error.", "tool", "result"),
		reduction: f.histogram("dragoman_transform_reduction_ratio",
			"Size of a transformed result in bytes, divided by its size before.", []float64{.001, .01, .05, .1, .2, .3, .4, .5, .6, .7, .8, .9, 1}),
		tokens: f.counters("dragoman_transform_tokens_total",
			"Tokens of transformed results, by tool, before and after.", "tool", "stage"),
		seconds: f.histogram("dragoman_transform_seconds", "Time to transform one result.", ofResults),
		over: f.counter("dragoman_transform_over_budget_total",
			"Results that exceed their budget, because the tool's outputSchema allows nothing shorter."),
		tools:  &m.Tools,
		warned: make(map[string]bool),
	}
}

// label returns the name of a tool in metrics. listed says that a tool list contains it.
func (l *Results) label(tool string, listed bool) string {
	switch {
	case tool == "":
		return ""
	case !listed:
		return unknownTools
	}
	return l.tools.Listed(tool).Label()
}

// Note counts and logs what was done with one result of a tool. listed says that a tool list
// contains it.
func (l *Results) Note(log *zap.Logger, tool string, listed bool, r *transform.Report, took time.Duration) {
	l.seconds.Observe(took.Seconds())
	label := l.label(tool, listed)
	l.results.WithLabelValues(label, r.Outcome.String()).Inc()
	if r.OverBudget {
		l.over.Inc()
	}
	if paths := misspelt(r.Missed); len(paths) > 0 {
		log.Warn("paths of a rule match nothing in the tool's results", zap.String("tool", tool),
			zap.String("rule", "transform."+r.Rule), zap.Strings("paths", paths))
	}
	if r.Outcome == transform.Passed && !r.OverBudget && r.Err == nil {
		return
	}
	if r.BytesBefore > 0 {
		l.reduction.Observe(float64(r.BytesAfter) / float64(r.BytesBefore))
	}
	l.tokens.WithLabelValues(label, "before").Add(float64(r.TokensBefore))
	l.tokens.WithLabelValues(label, "after").Add(float64(r.TokensAfter))
	fields := []zap.Field{
		zap.String("tool", tool), zap.Stringer("outcome", r.Outcome), zap.Strings("steps", r.Steps),
		zap.Int("bytes_before", r.BytesBefore), zap.Int("bytes_after", r.BytesAfter),
		zap.Int("tokens_before", r.TokensBefore), zap.Int("tokens_after", r.TokensAfter), zap.Int("budget", r.Budget),
		zap.String("sha256", r.SHA256),
	}
	if r.Source != "" {
		fields = append(fields, zap.String("adapter", r.Source), zap.Bool("detected", r.Detected))
	}
	switch {
	case r.Err != nil:
		log.Warn("transform failed: the result is as the server sent it, cut to its budget", append(fields, zap.Error(r.Err))...)
	case r.OverBudget:
		log.Warn("result exceeds its budget: the tool's outputSchema allows no shorter one", fields...)
	default:
		log.Info("result transformed", fields...)
	}
}

// misspelt returns the paths that may be misspelt, with the probable name. A path that is not
// in include_fields need not match the results of every tool.
func misspelt(missed []transform.Missed) (paths []string) {
	for _, m := range missed {
		path := m.Setting + ": " + m.Path
		switch near := setting.Nearest(m.Step, m.Names); {
		case near != "":
			paths = append(paths, path+"; did you mean "+near+"?")
		case m.Setting == "include_fields":
			paths = append(paths, path)
		}
	}
	return paths
}

// Conflict logs a warning, once for each tool, if err is a *transform.SchemaError: the tool's
// outputSchema does not allow all that a rule does. It ignores other errors.
func (l *Results) Conflict(log *zap.Logger, err error) {
	bad, ok := errors.AsType[*transform.SchemaError](err)
	if !ok {
		return
	}
	l.mu.Lock()
	again := l.warned[bad.Tool] || len(l.warned) >= maxToolLabels
	l.warned[bad.Tool] = true
	l.mu.Unlock()
	if !again {
		log.Warn("rule applied in part: the tool's outputSchema does not allow the rest", zap.Error(err))
	}
}
