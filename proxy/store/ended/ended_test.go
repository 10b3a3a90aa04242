package ended

import (
	"math/rand/v2"
	"runtime"
	"testing"
	"time"
)

func TestEndedSessionsStayEnded(t *testing.T) {
	s, now := New(DefaultBlocks), time.Now()
	dead := map[Serial]bool{}
	for range 20_000 {
		of := Serial{Process: rand.Uint64N(3), Number: rand.Uint64N(40_000)}
		s.Add(of, now)
		dead[of] = true
	}
	for p := range uint64(3) {
		for n := range uint64(50_000) {
			of := Serial{p, n}
			if s.Has(of) != dead[of] {
				t.Fatalf("%v: %v", of, s.Has(of))
			}
		}
	}
}

// TestManyEndedSessionsTakeLittleMemory: a loop that begins and ends sessions leaves nothing but an entry for each
// block.
func TestManyEndedSessionsTakeLittleMemory(t *testing.T) {
	s, now := New(DefaultBlocks), time.Now()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	const n = 10_000_000
	for i := range uint64(n) {
		s.Add(Serial{1, i}, now)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 2<<20 {
		t.Errorf("%d bytes for %d sessions", grown, n)
	}
	for _, i := range []uint64{0, 1, n / 2, n - 1} {
		if !s.Has(Serial{1, i}) {
			t.Errorf("%d is back", i)
		}
	}
}

// TestMarksAreBounded: beyond the bound, sessions end early, and no ended session comes back.
func TestMarksAreBounded(t *testing.T) {
	s, now := New(4), time.Now()
	var dead []Serial
	for i := range uint64(40) {
		of := Serial{i % 2, i * blockSize / 2}
		s.Add(of, now)
		dead = append(dead, of)
		if s.blocks > 4 {
			t.Fatalf("%d blocks", s.blocks)
		}
	}
	for _, of := range dead {
		if !s.Has(of) {
			t.Errorf("%v is back", of)
		}
	}
}

func TestMarksOfExpiredIDsAreRemoved(t *testing.T) {
	s, now := New(DefaultBlocks), time.Now()
	s.Add(Serial{1, 5}, now.Add(-2*time.Hour))
	s.Add(Serial{1, 3 * blockSize}, now)
	s.Sweep(now.Add(-time.Hour))
	if s.blocks != 1 || !s.Has(Serial{1, 3 * blockSize}) {
		t.Errorf("%d blocks", s.blocks)
	}
	if !s.Has(Serial{1, 5}) || s.Has(Serial{1, 6}) {
		t.Error("what has ended comes back when ids live longer from now on")
	}
}
