package ended

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/store"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// fakeStore is a store whose faults a test chooses.
type fakeStore struct {
	mu      sync.Mutex
	down    bool // every call fails
	full    bool // nothing can be written
	deaf    bool // messages are lost
	values  map[store.Key][]byte
	members map[string]time.Time
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
	return &fakeStore{values: map[store.Key][]byte{}, members: map[string]time.Time{}, ears: map[int]fakeEar{}}
}

func (f *fakeStore) access(write bool) error {
	f.calls++
	if f.down || f.full && write {
		return errDown
	}
	return nil
}

// empty loses everything.
func (f *fakeStore) empty() {
	clear(f.values)
	clear(f.members)
}

// write makes a change.
func (f *fakeStore) write(change func()) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.access(true)
	if err == nil {
		change()
	}
	return err
}

func (f *fakeStore) Get(_ context.Context, key store.Key) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	value, there := f.values[key]
	if err := f.access(false); err != nil || there {
		return value, err
	}
	return nil, store.ErrAbsent
}

func (f *fakeStore) Set(_ context.Context, key store.Key, value []byte, _ time.Duration) error {
	return f.write(func() { f.values[key], f.biggest = bytes.Clone(value), max(f.biggest, len(value)) })
}

func (f *fakeStore) Delete(_ context.Context, key store.Key) error {
	return f.write(func() { delete(f.values, key) })
}

func (f *fakeStore) Join(_ context.Context, _ store.Key, name []byte, ttl time.Duration) error {
	return f.write(func() { f.members[string(name)] = time.Now().Add(ttl) })
}

func (f *fakeStore) Leave(_ context.Context, _ store.Key, name []byte) error {
	return f.write(func() { delete(f.members, string(name)) })
}

func (f *fakeStore) Members(_ context.Context, _ store.Key, each func(store.Member) bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.access(false); err != nil {
		return err
	}
	for _, id := range slices.SortedFunc(maps.Keys(f.members), func(a, b string) int { return f.members[b].Compare(f.members[a]) }) {
		if !each(store.Member{Name: []byte(id), Expires: f.members[id]}) {
			break
		}
	}
	return nil
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

func (s *Shared) settled() bool {
	p, _ := s.dirty()
	untold, _, _ := s.untold(true)
	return p == nil && untold == nil
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
		peertest.Eventually(t, "b knows", has(b))
		peertest.Eventually(t, "a knows", has(a))
		stopA()
		peertest.Eventually(t, "all is written", b.settled)
		c, _ := f.replica(t)
		peertest.Eventually(t, "a replica that starts later knows", has(c))
		if f.biggest > pageBytes+64 {
			t.Errorf("a value of %d bytes", f.biggest)
		}
	})
}

func TestNoLookUpWaitsForTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStore()
		a, _ := f.replica(t)
		peertest.Eventually(t, "it has started", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return f.calls > 1 && len(f.ears) == 1 })
		peertest.Eventually(t, "it is quiet", func() bool {
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

// many marks take several pages.
const many = 20_000

// TestFaultsOfTheEngine: what was deleted while the engine was away, full or silent is dead everywhere once it is back.
func TestFaultsOfTheEngine(t *testing.T) {
	for name, fault := range map[string]func(f *fakeStore, on bool){
		"down":             func(f *fakeStore, on bool) { f.down = on },
		"full":             func(f *fakeStore, on bool) { f.full = on },
		"messages lost":    func(f *fakeStore, on bool) { f.deaf = on },
		"restarted, empty": func(f *fakeStore, on bool) { f.down = on; f.empty() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeStore()
				a, stopA := f.replica(t)
				b, _ := f.replica(t)
				now := time.Now()
				a.Add(Serial{1, 1}, now)
				peertest.Eventually(t, "b knows the first", func() bool { return b.set.Has(Serial{1, 1}) })
				peertest.Eventually(t, "the first is written", a.settled)
				f.set(func() { fault(f, true) })
				for n := range uint64(many) {
					a.Add(Serial{1, 2 + 2*n}, now)
				}
				f.set(func() { fault(f, false) })
				f.reconnect()
				last := Serial{1, 2 + 2*(many-1)}
				peertest.Eventually(t, "b knows all", func() bool { return b.set.Has(Serial{1, 2}) && b.set.Has(last) })
				peertest.Eventually(t, "all is written", a.settled)
				stopA()
				c, _ := f.replica(t)
				peertest.Eventually(t, "a new replica knows all", func() bool { return c.set.Has(Serial{1, 1}) && c.set.Has(Serial{1, 2}) && c.set.Has(last) })
			})
		})
	}
}

// TestAReplicaStartsWhileTheStoreIsFull: what was only published then, before it listened, is published again.
func TestAReplicaStartsWhileTheStoreIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStore()
		a, _ := f.replica(t)
		b, _ := f.replica(t)
		listen := func(n int) func() bool {
			return func() bool { f.mu.Lock(); defer f.mu.Unlock(); return len(f.ears) == n }
		}
		peertest.Eventually(t, "both listen", listen(2))
		f.set(func() { f.full = true })
		a.Add(Serial{1, 1}, time.Now())
		peertest.Eventually(t, "b knows", func() bool { return b.set.Has(Serial{1, 1}) })
		c, _ := f.replica(t)
		peertest.Eventually(t, "c listens", listen(3))
		f.set(func() { f.full = false })
		peertest.Eventually(t, "c knows", func() bool { return c.set.Has(Serial{1, 1}) })
	})
}

// TestAnEmptyEngineGetsTheMarksOfReplicasThatAreGone: the replicas that run write what they know of the others.
func TestAnEmptyEngineGetsTheMarksOfReplicasThatAreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStore()
		a, stopA := f.replica(t)
		b, _ := f.replica(t)
		a.Add(Serial{1, 1}, time.Now())
		peertest.Eventually(t, "b knows", func() bool { return b.set.Has(Serial{1, 1}) })
		stopA()
		f.set(f.empty)
		f.reconnect()
		peertest.Eventually(t, "a page is back", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return len(f.members) > 0 })
		c, _ := f.replica(t)
		peertest.Eventually(t, "a new replica knows", func() bool { return c.set.Has(Serial{1, 1}) })
	})
}

// TestAPageThatHasLostItsText: its owner writes it again, soon after a reconnection, and otherwise with the next looks at the pages.
func TestAPageThatHasLostItsText(t *testing.T) {
	for _, reconnects := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			f := newFakeStore()
			a, stopA := f.replica(t)
			const pages = 2*checked + 1
			for n := range uint64(pages) { // each in a page of its own
				a.Add(Serial{n, 1}, time.Now())
				peertest.Eventually(t, "it is written", a.settled)
				a.mu.Lock()
				a.pages[len(a.pages)-1].opened = time.Now().Add(-2 * time.Hour)
				a.mu.Unlock()
			}
			f.set(func() { clear(f.values) })
			if reconnects {
				f.reconnect()
			} else {
				time.Sleep(4 * reloadTime)
			}
			peertest.Eventually(t, "the texts are back", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return len(f.values) == pages })
			stopA()
			b, _ := f.replica(t)
			peertest.Eventually(t, "a new replica knows all", func() bool {
				for n := range uint64(pages) {
					if !b.set.Has(Serial{n, 1}) {
						return false
					}
				}
				return true
			})
		})
	}
}

// TestDamagedPagesStopNothing: neither does a page that is gone.
func TestDamagedPagesStopNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStore()
		f.values[keyOf("damaged")] = []byte("\xff\xff\xff")
		f.members["damaged"], f.members["absent"] = time.Now().Add(time.Hour), time.Now().Add(time.Hour)
		a, _ := f.replica(t)
		a.Add(Serial{1, 1}, time.Now())
		peertest.Eventually(t, "it is written", a.settled)
		b, _ := f.replica(t)
		peertest.Eventually(t, "b knows", func() bool { return b.set.Has(Serial{1, 1}) })
	})
}

// TestPagesAreBounded: beyond the bound, the sessions of the oldest pages count as over with all older ones of their
// processes, also those of the replica's own page.
func TestPagesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStore()
		for i := range uint64(maxPages) {
			w, id := writer{}, fmt.Sprint("page ", i)
			w.append(mark{Serial: Serial{i % 7, i}, made: time.Now()})
			f.values[keyOf(id)] = w.text
			f.members[id] = time.Now().Add(time.Hour + time.Duration(i)*time.Second)
		}
		a, stopA := f.replica(t)
		for n := range uint64(3) {
			a.Add(Serial{100, n}, time.Now())
			peertest.Eventually(t, "it is written", a.settled)
			f.set(func() { f.members[a.pages[len(a.pages)-1].id] = time.Now() }) // the oldest
			a.mu.Lock()
			a.pages[len(a.pages)-1].opened = time.Now().Add(-2 * time.Hour) // begin another
			a.mu.Unlock()
		}
		a.Add(Serial{101, 1}, time.Now())
		peertest.Eventually(t, "it is written", a.settled)
		stopA()
		if len(f.members) > maxPages || len(f.values) != len(f.members) {
			t.Fatalf("%d pages, %d values", len(f.members), len(f.values))
		}
		b, _ := f.replica(t)
		peertest.Eventually(t, "all are over", func() bool {
			for i := range uint64(maxPages) {
				if !b.set.Has(Serial{i % 7, i}) {
					return false
				}
			}
			return b.set.Has(Serial{100, 0}) && b.set.Has(Serial{100, 1}) && b.set.Has(Serial{100, 2}) && b.set.Has(Serial{101, 1})
		})
		if b.set.Has(Serial{101, 2}) || b.set.Has(Serial{100, 3}) {
			t.Error("a session is over that has not ended")
		}
	})
}

// TestAnOwnPageIsTrimmed: marks that are not stored yet count as well.
func TestAnOwnPageIsTrimmed(t *testing.T) {
	f := newFakeStore()
	for i := range maxPages {
		f.members[fmt.Sprint("page ", i)] = time.Now().Add(time.Hour)
	}
	a := NewShared(New(DefaultBlocks), f, func() time.Duration { return time.Hour }, zap.NewNop())
	a.Add(Serial{1, 5}, time.Now())
	f.members[a.pages[0].id] = time.Now()
	if err := a.trim(t.Context()); err != nil {
		t.Fatal(err)
	}
	over := false
	_ = readMarks(f.values[keyOf(a.pages[0].id)], func(m mark) { over = over || m.below && m.Serial == Serial{1, 6} })
	if len(a.pages) != 1 || !over {
		t.Errorf("%d pages, %v", len(a.pages), over)
	}
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
	f.Add([]byte(strings.Repeat("\xff", 40)))
	f.Add([]byte{0, 0, 0})
	f.Fuzz(func(t *testing.T, text []byte) {
		var all, again []mark
		w := writer{}
		_ = readMarks(text, func(m mark) { all = append(all, m); w.append(m) })
		if len(all) > len(text) {
			t.Errorf("%d marks of %d bytes", len(all), len(text))
		}
		if err := readMarks(w.text, func(m mark) { again = append(again, m) }); err != nil || !slices.Equal(all, again) {
			t.Errorf("%q: %v", text, err)
		}
	})
}
