package ended

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
)

// fakeStore is an engine whose faults a test chooses.
type fakeStore struct {
	mu      sync.Mutex
	down    bool // every call fails
	full    bool // nothing can be written
	deaf    bool // messages are lost
	values  map[string][]byte
	ears    map[int]fakeEar
	ids     int
	calls   int
	biggest int
}

type fakeEar struct {
	receive func([]byte)
	missed  func()
}

var errDown = errors.New("connection refused")

func newFakeStore() *fakeStore {
	return &fakeStore{values: map[string][]byte{}, ears: map[int]fakeEar{}}
}

func (f *fakeStore) access(write bool) error {
	f.calls++
	if f.down || f.full && write {
		return errDown
	}
	return nil
}

func (f *fakeStore) Get(_ context.Context, key string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.values[key], f.access(false)
}

func (f *fakeStore) Set(_ context.Context, key string, value []byte, _ time.Duration) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.access(true); err != nil {
		return err
	}
	f.values[key] = bytes.Clone(value)
	f.biggest = max(f.biggest, len(value))
	return nil
}

func (f *fakeStore) CompareAndSet(_ context.Context, key string, old, value []byte, _ time.Duration) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.access(true); err != nil {
		return false, err
	}
	if !bytes.Equal(f.values[key], old) {
		return false, nil
	}
	f.values[key] = bytes.Clone(value)
	f.biggest = max(f.biggest, len(value))
	return true, nil
}

func (f *fakeStore) Publish(_ context.Context, _ string, message []byte) error {
	f.mu.Lock()
	err, deaf := f.access(false), f.deaf
	all := slices.Collect(maps.Values(f.ears))
	f.mu.Unlock()
	if err == nil && !deaf {
		for _, e := range all {
			e.receive(bytes.Clone(message))
		}
	}
	return err
}

func (f *fakeStore) Subscribe(_ string, receive func([]byte), missed func()) (stop func()) {
	f.mu.Lock()
	f.ids++
	id := f.ids
	f.ears[id] = fakeEar{receive, missed}
	f.mu.Unlock()
	missed()
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.ears, id)
	}
}

// set changes the faults.
func (f *fakeStore) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// reconnect tells all subscribers that they may have missed something.
func (f *fakeStore) reconnect() {
	f.mu.Lock()
	all := slices.Collect(maps.Values(f.ears))
	f.mu.Unlock()
	for _, e := range all {
		e.missed()
	}
}

// replica runs a Shared until the test ends, or stop is called.
func (f *fakeStore) replica(t *testing.T) (s *Shared, stop func()) {
	t.Helper()
	s = NewShared(New(DefaultBlocks), f, func() time.Duration { return time.Hour }, zap.NewNop())
	s.retry = time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx, time.Second) }()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(stop)
	return s, stop
}

// eventually waits until other goroutines of the bubble have made the condition true.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never: " + what)
		}
	}
}

func (s *Shared) settled() bool {
	p, _ := s.dirty()
	s.mu.Lock()
	defer s.mu.Unlock()
	return p == nil && len(s.news) == 0 && !s.lost
}

func TestDeletedSessionsAreDeadInEveryReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStore()
		a, stopA := f.replica(t)
		b, _ := f.replica(t)
		now := time.Now()
		for n := range uint64(5000) {
			a.Add(Serial{1, 2 * n}, now)
		}
		b.Add(Serial{2, 7}, now)
		has := func(s *Shared) func() bool {
			return func() bool {
				return s.set.Has(Serial{1, 0}) && s.set.Has(Serial{1, 9998}) && s.set.Has(Serial{2, 7}) && !s.set.Has(Serial{1, 9})
			}
		}
		eventually(t, "b knows", has(b))
		eventually(t, "a knows", has(a))
		stopA()
		eventually(t, "all is written", b.settled)
		c, _ := f.replica(t)
		eventually(t, "a replica that starts later knows", has(c))
		if f.biggest > pageBytes+64 {
			t.Errorf("a value of %d bytes", f.biggest)
		}
	})
}

func TestNoLookUpWaitsForTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStore()
		a, _ := f.replica(t)
		eventually(t, "it has started", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return f.calls > 1 && len(f.ears) == 1 })
		eventually(t, "it is quiet", func() bool {
			f.mu.Lock()
			before := f.calls
			f.mu.Unlock()
			time.Sleep(20 * time.Millisecond)
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.calls == before
		})
		f.mu.Lock()
		before := f.calls
		f.mu.Unlock()
		for n := range uint64(10_000) {
			a.set.Has(Serial{1, n})
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.calls != before {
			t.Errorf("%d calls", f.calls-before)
		}
	})
}

// TestFaultsOfTheEngine: what was deleted while the engine was away, full or silent is dead everywhere once it is back.
func TestFaultsOfTheEngine(t *testing.T) {
	for name, fault := range map[string]func(f *fakeStore, on bool){
		"down":             func(f *fakeStore, on bool) { f.down = on },
		"full":             func(f *fakeStore, on bool) { f.full = on },
		"messages lost":    func(f *fakeStore, on bool) { f.deaf = on },
		"restarted, empty": func(f *fakeStore, on bool) { f.down = on; clear(f.values) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeStore()
				a, stopA := f.replica(t)
				b, _ := f.replica(t)
				now := time.Now()
				a.Add(Serial{1, 1}, now)
				eventually(t, "b knows the first", func() bool { return b.set.Has(Serial{1, 1}) })
				eventually(t, "the first is written", a.settled)
				f.set(func() { fault(f, true) })
				for n := range uint64(maxNews + 3000) {
					a.Add(Serial{1, 2 + 2*n}, now)
				}
				f.set(func() { fault(f, false) })
				f.reconnect()
				last := Serial{1, 2 + 2*(maxNews+2999)}
				eventually(t, "b knows all", func() bool { return b.set.Has(Serial{1, 2}) && b.set.Has(last) })
				eventually(t, "all is written", a.settled)
				stopA()
				c, _ := f.replica(t)
				eventually(t, "a new replica knows all", func() bool { return c.set.Has(Serial{1, 1}) && c.set.Has(Serial{1, 2}) && c.set.Has(last) })
			})
		})
	}
}

// TestAnEmptyEngineGetsTheMarksOfReplicasThatAreGone: the replicas that run write what they know of the others.
func TestAnEmptyEngineGetsTheMarksOfReplicasThatAreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStore()
		a, stopA := f.replica(t)
		b, _ := f.replica(t)
		a.Add(Serial{1, 1}, time.Now())
		eventually(t, "b knows", func() bool { return b.set.Has(Serial{1, 1}) })
		stopA()
		f.set(func() { clear(f.values) })
		f.reconnect()
		eventually(t, "the index is back", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return f.values[indexKey] != nil })
		c, _ := f.replica(t)
		eventually(t, "a new replica knows", func() bool { return c.set.Has(Serial{1, 1}) })
	})
}

// TestDamagedValuesAreReplaced: a value that no replica can read stops nothing.
func TestDamagedValuesAreReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStore()
		f.values[indexKey] = []byte("\xff\xff\xff")
		a, _ := f.replica(t)
		a.Add(Serial{1, 1}, time.Now())
		eventually(t, "it is written", a.settled)
		b, _ := f.replica(t)
		eventually(t, "b knows", func() bool { return b.set.Has(Serial{1, 1}) })
	})
}

// TestTheIndexIsBounded: beyond the bound, the sessions of the oldest pages count as over with all older ones of
// their processes.
func TestTheIndexIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStore()
		x := index{}
		for i := range uint64(maxPages) {
			w := writer{}
			w.append(mark{Serial: Serial{i % 7, i}, made: time.Now()})
			f.values[keyOf(i)] = w.text
			x.entries = append(x.entries, entry{id: i, until: time.Now().Add(time.Hour), closed: true})
		}
		f.values[indexKey] = x.text()
		a, stopA := f.replica(t)
		for n := range uint64(3) {
			a.Add(Serial{100, n}, time.Now())
			eventually(t, "it is written", a.settled)
			a.mu.Lock()
			a.pages[len(a.pages)-1].opened = time.Now().Add(-2 * time.Hour) // begin another
			a.mu.Unlock()
		}
		stopA()
		got, err := readIndex(f.values[indexKey])
		if err != nil || len(got.entries) != maxPages || len(got.floors) == 0 {
			t.Fatalf("%d entries, %d bytes of floors, %v", len(got.entries), len(got.floors), err)
		}
		b, _ := f.replica(t)
		eventually(t, "all are over", func() bool {
			for i := range uint64(maxPages) {
				if !b.set.Has(Serial{i % 7, i}) {
					return false
				}
			}
			return true
		})
	})
}

func TestMarksReadBack(t *testing.T) {
	var want []mark
	w := writer{}
	for range 1000 {
		m := mark{Serial: Serial{rand.Uint64N(3) * 1e18, rand.Uint64N(1 << rand.IntN(63))}, made: time.Unix(rand.Int64N(1<<33), 0), below: rand.IntN(9) == 0}
		want = append(want, m)
		w.append(m)
	}
	var got []mark
	if err := readMarks(w.text, func(m mark) { got = append(got, m) }); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v: %d of %d", err, len(got), len(want))
	}
}

func FuzzPages(f *testing.F) {
	w := writer{}
	w.append(mark{Serial: Serial{1, 2}, made: time.Unix(9, 0)})
	w.append(mark{Serial: Serial{1, 0}, made: time.Unix(1, 0), below: true})
	f.Add(w.text)
	f.Add((&index{entries: []entry{{id: 1, until: time.Unix(5, 0), closed: true}}, floors: w.text}).text())
	f.Add([]byte(strings.Repeat("\xff", 40)))
	f.Add([]byte{0, 0, 0})
	f.Fuzz(func(t *testing.T, text []byte) {
		n := 0
		_ = readMarks(text, func(mark) { n++ })
		if n > len(text) {
			t.Errorf("%d marks of %d bytes", n, len(text))
		}
		x, err := readIndex(text)
		if err != nil {
			return
		}
		if again, err := readIndex(x.text()); err != nil || !slices.Equal(again.entries, x.entries) || !bytes.Equal(again.floors, x.floors) {
			t.Errorf("%q: %v", text, err)
		}
	})
}
