//go:build !race

package adapterrt

import (
	"context"
	"runtime"
	"testing"
)

func TestDispatchAllocatesLittle(t *testing.T) {
	rt := one(t, Options{}, "https://api.example.com/v1", tenParams)
	quick(rt, []byte(`{"id":1}`))
	ctx, req := context.Background(), &Request{Body: []byte(tenValues)}
	if n := testing.AllocsPerRun(100, func() { rt.Dispatch(ctx, Endpoint{}, req) }); n > 10 {
		t.Errorf("%v allocations", n)
	}
}

// TestAThousandAdaptersTakeLittleMemory: while the adapters are loaded, twice as much may be in use
// before it is collected.
func TestAThousandAdaptersTakeLittleMemory(t *testing.T) {
	const most = 80 << 20
	paths := thousand(t)
	rt, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	if _, err := rt.Load(paths); err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if kept := int64(after.HeapAlloc) - int64(before.HeapAlloc); kept > most {
		t.Errorf("%d MiB kept, want at most %d", kept>>20, most>>20)
	}
}
