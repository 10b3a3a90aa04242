//go:build !race

package upstream

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
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
		name string
		path string // says what comes
		sse  bool
		park bool
		most int // bytes a stream
	}{
		{name: "nothing", path: "nothing", most: 8 << 10},
		{name: "parked", path: "nothing", park: true, most: 3 << 10},
		{name: "comment", path: "comment", most: 11 << 10},
		{name: "endpoint", path: "endpoint", sse: true, most: 16 << 10}, // has a goroutine of its own
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.park {
				needsWatch(t)
			}
			h := newHTTP(t, HTTPConfig{URL: url + c.path})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			before := inUse()
			var listening sync.WaitGroup
			var waiting atomic.Int32
			woken := make(wakes, streams)
			for range streams {
				var conn Conn = h.Session("6b1c", "2025-06-18")
				if c.sse {
					conn = h.SSESession()
				}
				st, err := conn.Listen(ctx, ListenOptions{Parks: c.park})
				if err != nil {
					t.Fatal(err)
				}
				if c.park {
					defer st.Close()
					if _, err := First(st); err != sse.ErrInterrupted || !st.Park(woken) {
						t.Fatalf("not parked: %v", err)
					}
					waiting.Add(1)
					continue
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
			for range streams {
				if c.park {
					<-woken
				}
			}
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
