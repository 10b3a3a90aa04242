//go:build !race

package transform

import (
	"runtime"
	"strings"
	"testing"
)

func TestAMillionBlocksTakeLittleMemory(t *testing.T) {
	e := engine(t, "transform: {}")
	if err := e.Load(); err != nil {
		t.Fatal(err)
	}
	in := textResult(strings.Split(strings.Repeat("x", 1_000_000), "")...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	out, _ := e.Apply(nil, in, &Call{Tool: "x", Schemas: None})
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 16<<20 {
		t.Errorf("%d bytes for a result of %d", took, len(in))
	}
	if len(out) > 1<<20 {
		t.Errorf("%d bytes", len(out))
	}
}
