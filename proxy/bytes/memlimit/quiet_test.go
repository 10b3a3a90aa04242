package memlimit

import (
	"context"
	"testing"
	"time"
)

func TestMemoryIsFreedWhenNothingPasses(t *testing.T) {
	var q quiet
	for i, c := range []struct {
		why       string
		allocated uint64
		live      uint64
		want      bool
	}{
		{"the start is not over", 3 << 20, 0, false},
		{"the start is over", 3<<20 + 1000, 0, true},
		{"nothing passes", 3<<20 + 2000, 1 << 20, false},
		{"a small call passes", 3<<20 + 30_000, 1 << 20, false},
		{"many pass", 90 << 20, 1 << 20, false},
		{"and go on", 95 << 20, 60 << 20, false},
		{"and end", 95<<20 + 10_000, 60 << 20, true},
		{"little passes, beside what is in use", 97 << 20, 60 << 20, false},
		{"and ends", 97 << 20, 60 << 20, false},
		{"more passes", 104 << 20, 60 << 20, false},
		{"and ends", 104 << 20, 60 << 20, true},
	} {
		got := q.comes(heap{c.allocated, c.live})
		if got != c.want {
			t.Errorf("%d, %s: %t", i, c.why, got)
		}
		if got {
			q.freed = c.allocated
		}
	}
}

func TestMemoryIsFreedAfterASmallStart(t *testing.T) {
	var q quiet
	if q.comes(heap{allocated: 500 << 10}) {
		t.Error("the start is not over")
	}
	if !q.comes(heap{allocated: 500<<10 + 1000}) {
		t.Error("the program's pages stay after a start that allocates little")
	}
	if q.freed = 500<<10 + 1000; q.comes(heap{allocated: 500<<10 + 2000}) {
		t.Error("freed again, though nothing has passed")
	}
	if q = (quiet{}); q.comes(heap{}) {
		t.Error("freed where the heap is not measured")
	}
}

func TestTheHeapIsMeasured(t *testing.T) {
	before := heapNow()
	kept = make([]byte, 1<<20)
	if after := heapNow(); after.allocated < before.allocated+1<<20 || before.allocated == 0 {
		t.Errorf("%+v, then %+v", before, after)
	}
}

var kept []byte

func TestWhileQuietEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		WhileQuiet(ctx)
	}()
	cancel()
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Fatal("it goes on")
	}
}
