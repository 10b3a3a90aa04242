package large

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"
)

const (
	// step is how much the process may grow before what is garbage is given back, and
	// rest how much of it may stay when no large message is in hand.
	step = 48 << 20
	rest = 16 << 20
	tick = 100 * time.Millisecond
	// slowTick is how often is looked whether copies are still in use, when there is
	// nothing else in hand.
	slowTick = time.Second
	// quiet is how many ticks without a large message end a burst.
	quiet = 5
)

// reclaim gives memory back to the system while large messages come and go. The garbage
// collector alone would let as much garbage lie around as there is in use, and large
// messages make much of both.
type reclaim struct {
	memory  *Memory
	running atomic.Bool

	// Of tick.
	sample [2]metrics.Sample
	before uint64 // what the process had when this burst began
	after  uint64 // what it had after the last collection
	idle   int    // ticks without a large message
}

// start returns what is to be called when a large message comes.
func (r *reclaim) start(m *Memory) func() {
	r.memory = m
	r.sample[0].Name, r.sample[1].Name = "/memory/classes/total:bytes", "/memory/classes/heap/released:bytes"
	return func() {
		if !r.running.Load() && r.running.CompareAndSwap(false, true) {
			r.before, r.idle = r.resident(), 0
			r.after = r.before
			time.AfterFunc(tick, r.tick)
		}
	}
}

// resident is about what the process has of the system's memory.
func (r *reclaim) resident() uint64 {
	metrics.Read(r.sample[:])
	return r.sample[0].Value.Uint64() - r.sample[1].Value.Uint64()
}

func (r *reclaim) tick() {
	now := r.resident()
	r.before, r.after = min(r.before, now), min(r.after, now)
	budget, referred := r.memory.Budget, r.memory.referred.Load()
	waiting := budget.Waiting() > 0
	if r.idle++; budget.Taken() > referred || waiting {
		r.idle = 0
	}
	over := r.idle >= quiet
	switch {
	case now > r.after+step || over && now > r.before+rest:
		debug.FreeOSMemory()
		r.after = r.resident()
	case referred > 0 && (over || waiting):
		runtime.GC() // which finds out what of it is no longer in use
	}
	switch {
	case !over:
		time.AfterFunc(tick, r.tick)
	case referred > 0: // by a client that is slow to take its answer, perhaps
		time.AfterFunc(slowTick, r.tick)
	default:
		r.running.Store(false)
	}
}
