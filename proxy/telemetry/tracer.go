package telemetry

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
)

// Tracer makes spans. Its methods may be called on nil, which makes none.
type Tracer struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	sampler  sampler
	o        Options
}

// Options is what a Tracer asks of the rest of the proxy.
type Options struct {
	Version string
	Quote   func(text string) string // returns a peer's text without secrets
	Cause   func(err error) string   // returns why a request of dragoman's own has failed; "" if that is not known
	Address func() string            // returns the server's host and port; "" for a process
}

// New returns the Tracer that the OTEL_ variables ask for: nil if they name no endpoint. The caller ends it with Close.
func New(getenv func(string) string, o Options, log *zap.Logger) (*Tracer, error) {
	s, err := read(getenv)
	if err != nil || s.endpoint == "" {
		return nil, err
	}
	about, err := resource.New(context.Background(),
		resource.WithAttributes(attribute.String("service.name", "dragoman"), attribute.String("service.version", o.Version)),
		resource.WithTelemetrySDK(), resource.WithHost(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	p := sdk.NewTracerProvider(sdk.WithResource(about), sdk.WithSampler(sdk.AlwaysSample()), sdk.WithBatcher(newExporter(s, log)))
	log.Info("traces are sent", zap.String("endpoint", s.endpoint))
	return &Tracer{provider: p, tracer: p.Tracer("dragoman", trace.WithInstrumentationVersion(o.Version)), sampler: s.sampler, o: o}, nil
}

// closeTime is how long Close waits for the collector.
const closeTime = 3 * time.Second

// Close sends the spans that have ended.
func (t *Tracer) Close() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	_ = t.provider.Shutdown(ctx) // the exporter reports its failures itself
}
