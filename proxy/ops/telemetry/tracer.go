package telemetry

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// Tracer makes spans. Its methods may be called on nil, which makes none.
type Tracer struct {
	sampler  sampler
	queue    *queue
	exporter *exporter
	o        Options
}

// Options is what a Tracer asks of the rest of the proxy.
type Options struct {
	Version string
	Quote   func(text string) string // returns a peer's text without secrets
	Named   func(name string) string // returns a name that a peer has chosen without secrets; nil for no change
	Cause   func(err error) string   // returns why a request of dragoman's own has failed; "" if that is not known
	Address func() string            // returns the server's host and port; "" for a process
	// Payload returns arguments or a result of a tool without secrets, and nothing if spans do not show them; nil for never.
	Payload func(method, tool string, raw []byte) []byte
}

// New returns the Tracer that the OTEL_ variables ask for: nil if they name no endpoint. The caller ends it with Close.
func New(getenv func(string) string, o Options, log *zap.Logger) (*Tracer, error) {
	s, err := read(getenv)
	if err != nil || s.endpoint == "" {
		return nil, err
	}
	x := newExporter(s, log)
	x.describe(s.resource, o.Version)
	t := &Tracer{sampler: s.sampler, exporter: x, o: o}
	t.queue = newQueue(s.batching, x.room(), func(ctx context.Context, spans []byte, n int) {
		x.export(ctx, spans, n, t.queue.lost())
	})
	if s.ignored != "" {
		log.Warn(s.ignored)
	}
	log.Info("traces are sent", zap.String("endpoint", config.SafeURL(s.endpoint)))
	return t, nil
}

// closeTime is how long Close waits for the collector.
const closeTime = 3 * time.Second

// Close sends the spans that have ended.
func (t *Tracer) Close() {
	if t != nil {
		t.queue.close(closeTime)
		t.exporter.client.CloseIdleConnections()
	}
}
