package telemetry

import (
	"context"

	"go.uber.org/zap"
)

// Collector is the collector that the OTEL_ variables name.
type Collector struct{ s settings }

// CollectorOf returns the collector that the OTEL_ variables name; nil if they name none.
func CollectorOf(getenv func(string) string) (*Collector, error) {
	s, err := read(getenv)
	if err != nil || s.endpoint == "" {
		return nil, err
	}
	return &Collector{s}, nil
}

// URL is where spans are sent. It may have a password.
func (c *Collector) URL() string { return c.s.endpoint }

// Secrets returns the values of the headers that are sent along.
func (c *Collector) Secrets() (all []string) {
	for _, values := range c.s.header {
		all = append(all, values...)
	}
	return all
}

// Try sends an export without spans, once. The error is a *StatusError if the collector refuses it.
func (c *Collector) Try(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.s.timeout)
	defer cancel()
	x := newExporter(c.s, zap.NewNop())
	defer x.client.CloseIdleConnections()
	_, err := x.post(ctx, x.encoded(nil))
	return err
}
