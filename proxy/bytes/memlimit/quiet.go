package memlimit

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	look    = 2 * time.Second // from one look to the next
	still   = 64 << 10        // bytes that are allocated from one look to the next while no messages pass
	garbage = 1 << 20         // fewer bytes are not worth a collection
	share   = 8               // nor is less than this part of what is in use
)

// WhileQuiet gives memory back to the system when no messages pass: what was needed to start, and what handshakes and
// calls have left. Without it that stays for two minutes, or until twice as much is in use. It returns when ctx ends.
func WhileQuiet(ctx context.Context) {
	q := quiet{last: heapNow().allocated}
	ticks := time.NewTicker(look)
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
			if q.comes(heapNow()) {
				debug.FreeOSMemory()
				releaseProgram()
				q.last = heapNow().allocated
				q.freed = q.last
			}
		case <-ctx.Done():
			return
		}
	}
}

// quiet decides when memory is freed. It holds how many bytes were ever allocated,
type quiet struct {
	last  uint64 // at the last look
	freed uint64 // when memory was last freed
}

// heap is the state of the memory that the runtime manages, in bytes.
type heap struct {
	allocated uint64 // ever
	live      uint64 // after the last collection
}

// comes reports whether memory is to be freed now: nothing has passed since the last look, and something had before, or
// the start has just ended, which needs little memory but much of the program.
func (q *quiet) comes(h heap) bool {
	passed := h.allocated - q.last
	q.last = h.allocated
	return passed < still && (q.freed == 0 && h.allocated > 0 || h.allocated-q.freed >= max(garbage, h.live/share))
}

func heapNow() heap {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	if s[0].Value.Kind() != metrics.KindUint64 || s[1].Value.Kind() != metrics.KindUint64 {
		return heap{} // another version of Go has no such values: nothing is freed
	}
	return heap{allocated: s[0].Value.Uint64(), live: s[1].Value.Uint64()}
}
