//go:build !race

package downstream

import "testing"

// TestIdleStreamsAreSmall checks that a stream without events keeps neither buffers nor
// two goroutines, and on HTTP+SSE not even one.
func TestIdleStreamsAreSmall(t *testing.T) {
	for _, c := range []struct {
		name, request string
		limit         float64
	}{{"HTTP+SSE", sseHead + "\r\n", 6 << 10}, {"GET", getHead + "\r\n", 10 << 10}} {
		t.Run(c.name, func(t *testing.T) {
			if each := idleStreams(t, c.request, 500); each > c.limit {
				t.Errorf("an idle stream takes %.0f bytes, want at most %.0f", each, c.limit)
			}
		})
	}
}
