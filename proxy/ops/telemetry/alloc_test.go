//go:build !race

package telemetry

import (
	"testing"

	"go.uber.org/zap"
)

// TestTracedCallAllocatesLittle: the spans of a call, the message with their context and the headers with it, but nothing
// for the export.
func TestTracedCallAllocatesLittle(t *testing.T) {
	tr, err := New(environment("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1", "OTEL_BSP_MAX_QUEUE_SIZE", "1000"), options, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	one := tracedCall(t, tr)
	for range 600 { // a batch of 512 spans is more than those of 256 calls
		one()
	}
	const few = 7
	if n := testing.AllocsPerRun(500, one); n > few {
		t.Errorf("%v allocations, more than %d", n, few)
	}
}
