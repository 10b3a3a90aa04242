package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/store"
	"github.com/dragoman-proxy/dragoman/proxy/store/storetest"
)

func opened(t *testing.T, e store.Engine, o store.Options) *store.Store {
	t.Helper()
	s := store.New(e, o)
	t.Cleanup(func() { s.Close() })
	return s
}

// TestKeysAreReplaced while the store is in use: first a key is added, in front, and later the old one is left out.
func TestKeysAreReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, engine, keys := t.Context(), store.NewMemory(store.Bounds{}), storetest.Keys(2)
		before, after := keys[:1], [][]byte{keys[1], keys[0]}
		a, b := opened(t, engine, store.Options{Keys: before}), opened(t, engine, store.Options{Keys: before})
		var begins atomic.Int32
		heard := make(chan string, 10)
		defer a.Subscribe("news", func(m []byte) { heard <- string(m) }, func() { begins.Add(1) })()
		key := func(name string) store.Key { return store.Key{Kind: "test", Name: name} }
		set := func(s *store.Store, name string) {
			t.Helper()
			if err := s.Set(ctx, key(name), []byte(name), time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		sees := func(s *store.Store, want map[string]bool) {
			t.Helper()
			for name, there := range want {
				if got, err := s.Get(ctx, key(name)); there && string(got) != name || !there && !errors.Is(err, store.ErrAbsent) {
					t.Errorf("%s: %q, %v", name, got, err)
				}
			}
		}
		renew := func(s *store.Store, keys [][]byte) {
			t.Helper()
			s.Renew(keys)
		}
		set(a, "old")
		synctest.Wait()
		renew(a, before) // a reload that changes something else
		synctest.Wait()
		if n := begins.Load(); n != 1 {
			t.Errorf("it listens %d times with the same keys", n)
		}

		renew(a, after)
		synctest.Wait()
		if n := begins.Load(); n < 2 {
			t.Error("it does not listen again with the new keys")
		}
		set(a, "new")
		sees(a, map[string]bool{"old": true, "new": true})
		sees(b, map[string]bool{"old": true, "new": false})
		renew(b, after)
		sees(b, map[string]bool{"old": true, "new": true})
		if err := b.Publish(ctx, "news", []byte("hello")); err != nil {
			t.Error(err)
		}
		if got := <-heard; got != "hello" {
			t.Error(got)
		}
		renew(b, keys[1:])
		sees(b, map[string]bool{"old": false, "new": true})
	})
}

// stolen is an engine that remembers what it was told to keep, as one does in which another program writes.
type stolen struct {
	*store.Memory
	names []string
	value []byte
}

func (e *stolen) Set(ctx context.Context, name string, value []byte, ttl time.Duration) error {
	e.names, e.value = append(e.names, name), value
	return e.Memory.Set(ctx, name, value, ttl)
}

func (e *stolen) Join(ctx context.Context, set string, member []byte, ttl time.Duration, most int) error {
	e.names, e.value = append(e.names, set), member
	return e.Memory.Join(ctx, set, member, ttl, most)
}

// TestForgedValuesAreNotRead: what another program writes into the engine, or moves to another name, is as if it were not there.
func TestForgedValuesAreNotRead(t *testing.T) {
	ctx := t.Context()
	e := &stolen{Memory: store.NewMemory(store.Bounds{})}
	var outcomes []store.Outcome
	s := opened(t, e, store.Options{Keys: storetest.Keys(2), Observe: func(op store.Operation) {
		if op.Name == "get" {
			outcomes = append(outcomes, op.Outcome)
		}
	}})
	key := store.Key{Kind: "test", Name: "victim"}
	for _, name := range []string{"victim", "other"} {
		if err := s.Set(ctx, store.Key{Kind: "test", Name: name}, []byte(name), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	flipped := slices.Clone(e.value)
	flipped[len(flipped)-1] ^= 1
	other := e.value
	for what, forged := range map[string][]byte{"of another name": other, "changed": flipped, "short": other[:3], "only a tag": other[:20], "empty": {}, "plain": []byte(fmt.Sprintf("%050d", 7))} {
		if err := e.Memory.Set(ctx, e.names[0], forged, time.Minute); err != nil {
			t.Fatal(err)
		}
		outcomes = nil
		if got, err := s.Get(ctx, key); !errors.Is(err, store.ErrAbsent) || !slices.Contains(outcomes, store.Unreadable) {
			t.Errorf("%s: %q, %v, %v", what, got, err, outcomes)
		}
	}

	sets := [2]store.Key{{Kind: "test", Name: "set"}, {Kind: "test", Name: "other set"}}
	for _, set := range sets {
		if err := s.Join(ctx, set, []byte("good"), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	at := e.names[len(e.names)-2]
	for _, forged := range [][]byte{e.value, []byte("short"), []byte("long enough for a nonce, and nothing")} {
		if err := e.Memory.Join(ctx, at, forged, time.Hour, 10); err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	if err := s.Members(ctx, sets[0], func(m store.Member) bool { names = append(names, string(m.Name)); return true }); err != nil || len(names) != 1 || names[0] != "good" {
		t.Errorf("members %q, %v", names, err)
	}
}

// TestSubscriberThatIsTooSlowIsTold that it has missed messages, so that it loads what they were about.
func TestSubscriberThatIsTooSlowIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := opened(t, store.NewMemory(store.Bounds{}), store.Options{})
		release := make(chan struct{})
		var messages, missed atomic.Int32
		defer s.Subscribe("news", func([]byte) { messages.Add(1); <-release }, func() { missed.Add(1) })()
		synctest.Wait()
		for range 1000 {
			if err := s.Publish(t.Context(), "news", []byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		close(release)
		synctest.Wait()
		if m, n := missed.Load(), messages.Load(); m != 2 || n == 0 || n == 1000 {
			t.Errorf("told %d times, after %d messages", m, n)
		}
	})
}

// TestClosedStoreLeavesNoLock: a lock that was taken while the store was closed does not keep other processes waiting.
func TestClosedStoreLeavesNoLock(t *testing.T) {
	engine := store.NewMemory(store.Bounds{})
	closed, other := opened(t, engine, store.Options{Keys: storetest.Keys(1)}), opened(t, engine, store.Options{Keys: storetest.Keys(1)})
	closed.Close()
	key := store.Key{Kind: "test", Name: "lock"}
	if _, err := closed.TryLock(t.Context(), key, time.Minute); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("locked with %v", err)
	}
	l, err := other.TryLock(t.Context(), key, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	l.Unlock()
}
