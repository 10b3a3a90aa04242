package large

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"
)

const (
	// step is how many bytes the process may grow before its garbage is returned to the
	// system, and rest how many of them it may keep when no large message is in hand.
	step = 48 << 20
	rest = 16 << 20
	tick = 100 * time.Millisecond
	// slowTick is how often tick checks whether copies are still in use when nothing
	// else is in hand.
	slowTick = time.Second
	// quiet is how many ticks without a large message end a burst.
	quiet = 5
)

// reclaim returns memory to the system while large messages come and go. With the
// garbage collector alone there could be as much garbage as memory in use, and large
// messages make much of both.
type reclaim struct {
	budget   *Budget
	quieted  func()        // is called at every tick after a burst
	referred *atomic.Int64 // bytes of copies that only the garbage collector finds unused
	running  atomic.Bool

	// The state of a burst, for tick.
	sample [2]metrics.Sample
	before uint64 // memory of the process when this burst began
	after  uint64 // memory of the process after the last collection
	idle   int    // ticks without a large message
}

// start returns the function that the budget calls when a large message comes.
func (r *reclaim) start(budget *Budget, referred *atomic.Int64, quieted func()) func() {
	r.budget, r.referred, r.quieted = budget, referred, quieted
	r.sample[0].Name, r.sample[1].Name = "/memory/classes/total:bytes", "/memory/classes/heap/released:bytes"
	return func() {
		if !r.running.Load() && r.running.CompareAndSwap(false, true) {
			r.before, r.idle = r.resident(), 0
			r.after = r.before
			time.AfterFunc(tick, r.tick)
		}
	}
}

// resident returns about how many bytes of the system's memory the process has.
func (r *reclaim) resident() uint64 {
	metrics.Read(r.sample[:])
	return r.sample[0].Value.Uint64() - r.sample[1].Value.Uint64()
}

func (r *reclaim) tick() {
	now := r.resident()
	r.before, r.after = min(r.before, now), min(r.after, now)
	budget, referred := r.budget, r.referred.Load()
	waiting := budget.Waiting() > 0
	if r.idle++; budget.Taken() > referred || waiting {
		r.idle = 0
	}
	over := r.idle >= quiet
	if over {
		r.quieted()
	}
	switch {
	case now > r.after+step || over && now > r.before+rest:
		debug.FreeOSMemory()
		r.after = r.resident()
	case referred > 0 && (over || waiting):
		runtime.GC() // finds out which copies are no longer in use
	}
	switch {
	case !over:
		time.AfterFunc(tick, r.tick)
	case referred > 0: // perhaps by a client that is slow to read its answer
		time.AfterFunc(slowTick, r.tick)
	default:
		r.running.Store(false)
	}
}
