package telemetry

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestQueue: full batches are sent at once and the rest after the delay; what does not fit while the collector is slow is
// dropped and counted, and close sends what is left.
func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var mu sync.Mutex
		var sent []string
		q := newQueue(batching{delay: time.Second, queue: 4, batch: 2, timeout: time.Hour}, 1, func(_ context.Context, spans []byte, n int) {
			mu.Lock()
			sent = append(sent, string(spans[1:]))
			mu.Unlock()
			if len(spans) != n+1 {
				t.Errorf("%d spans in %q", n, spans)
			}
			<-release
		})
		put := func(names string) {
			for i := range names {
				q.put([]byte{names[i]}, 1)
			}
		}
		want := func(what string, lost int, batches ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if got := q.lost(); got != lost || len(sent) != len(batches) {
				t.Fatalf("%s: %q, %d lost", what, sent, got)
			}
			for i, b := range batches {
				if sent[i] != b {
					t.Fatalf("%s: %q", what, sent)
				}
			}
		}
		put("a")
		want("one", 0)
		time.Sleep(time.Second)
		want("after the delay", 0, "a")
		put("bcdefg") // the collector has not answered yet
		want("slow", 2, "a")
		release <- struct{}{}
		want("answered", 0, "a", "bc")
		release <- struct{}{}
		release <- struct{}{}
		want("empty", 0, "a", "bc", "de")
		put("h")
		close(release)
		q.close(time.Second)
		put("i")
		want("closed", 1, "a", "bc", "de", "h")
	})
}

// TestQueueEndsInTime: close does not wait for a collector that does not answer.
func TestQueueEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(batching{delay: time.Second, queue: 4, batch: 2, timeout: time.Hour}, 0, func(ctx context.Context, _ []byte, _ int) { <-ctx.Done() })
		q.put([]byte("x"), 1)
		began := time.Now()
		q.close(3 * time.Second)
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("took %v", took)
		}
	})
}
