package observe

import (
	"runtime"
	"strings"
	"testing"
)

// TestForgottenCallsAreFreed: what the ring has forgotten is not in memory any more. 4,000 calls have 190 MB of messages.
func TestForgottenCallsAreFreed(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	answer := `{"jsonrpc":"2.0","id":1,"result":{"text":"` + strings.Repeat("x", 48<<10) + `"}}`
	r := NewRing(plain{})
	var o Observer
	for range 40 { // each time until the queue is empty, so that it drops nothing
		detach := o.Attach("ring", r)
		for range 100 {
			one(&o, Peers{Session: "s"}, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}`, answer)
		}
		detach()
	}
	if first, last := r.Bounds(); last < 4000 || first < 3000 {
		t.Errorf("calls %d to %d are kept", first, last)
	}
	if grown := int64(heap()) - int64(before); grown > maxBytes+maxBytes/2 {
		t.Errorf("%d MB are in memory", grown>>20)
	}
	runtime.KeepAlive(r)
}
