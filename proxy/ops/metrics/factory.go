package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// A factory makes metrics that are registered.
type factory struct{ promauto.Factory }

func on(r prometheus.Registerer) factory { return factory{promauto.With(r)} }

// Upper bounds of the histograms' buckets, in seconds. Those of operations and sessions are the ones that
// OpenTelemetry's conventions advise, with three more for short operations. Operations towards the server
// have a few of them: with the native buckets beside them they are as exact.
var (
	ofServer   = append([]float64{.001, .0025, .005}, ofSessions...)
	ofClient   = []float64{.005, .05, .2, 1, 5, 30}
	ofSessions = []float64{.01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 120, 300}
	ofCalls    = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}
	ofRewrites = []float64{.000005, .00001, .000025, .00005, .0001, .00025, .0005, .001, .0025, .005, .01, .1}
	ofResults  = []float64{.000001, .00001, .0001, .0005, .001, .005, .01, .05, .1, .5, 1}
)

func (f factory) counter(name, help string) prometheus.Counter {
	return f.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

func (f factory) counters(name, help string, labels ...string) *prometheus.CounterVec {
	return f.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func (f factory) histogram(name, help string, buckets []float64) prometheus.Histogram {
	return f.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
}

func (f factory) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return f.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}

// durations returns a histogram of durations that Prometheus can also read as a native one.
func (f factory) durations(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return f.NewHistogramVec(prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramMinResetDuration: time.Hour,
	}, labels)
}
