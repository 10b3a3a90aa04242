//go:build !race

package upstream

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/peertest"
)

// TestQuietStreamsTakeLittleMemory holds a thousand streams open, each with its listener, and
// measures their memory, without the system's own buffers.
func TestQuietStreamsTakeLittleMemory(t *testing.T) {
	const streams = 1000
	child := start(t, role("serves quiet streams"))
	e, err := First(hear(t, child))
	if err != nil {
		t.Fatal(err)
	}
	url := strings.TrimSuffix(strings.TrimPrefix(string(e.Data), `{"url":"`), `"}`)
	for _, c := range []struct {
		path string // says what comes
		sse  bool
		most int // bytes a stream
	}{
		{"nothing", false, 8 << 10},
		{"comment", false, 11 << 10},
		{"endpoint", true, 16 << 10}, // has a goroutine of its own
	} {
		t.Run(c.path, func(t *testing.T) {
			h := newHTTP(t, HTTPConfig{URL: url + c.path})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			before := inUse()
			var listening sync.WaitGroup
			var waiting atomic.Int32
			for range streams {
				var conn Conn = h.Session("6b1c", "2025-06-18")
				if c.sse {
					conn = h.SSESession()
				}
				st, err := conn.Listen(ctx, ListenOptions{})
				if err != nil {
					t.Fatal(err)
				}
				listening.Go(func() {
					defer st.Close()
					waiting.Add(1)
					if _, err := First(st); err != context.Canceled {
						t.Errorf("ended with %v", err)
					}
				})
			}
			peertest.Eventually(t, "all listen", func() bool { return waiting.Load() == streams })
			each := int(inUse()-before) / streams
			t.Logf("%d bytes a stream", each)
			if each > c.most {
				t.Errorf("%d bytes a stream, of which there may be %d", each, c.most)
			}
			cancel()
			listening.Wait()
		})
	}
}

// inUse returns the memory of heap and stacks.
func inUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
