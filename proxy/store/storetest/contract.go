// Package storetest has the contract that every engine of package store fulfils, and a store that counts its uses, for tests.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/store"
)

// ctx is the context of operations that have no other one.
var ctx = context.Background()

// Keys returns n keys for Options.Keys, the same ones each time.
func Keys(n int) (keys [][]byte) {
	for i := range n {
		keys = append(keys, bytes.Repeat([]byte{byte(i + 1)}, 32))
	}
	return keys
}

// Contract checks an engine. connect returns another connection to the same engine each time, which has no keys yet.
func Contract(t *testing.T, connect func(t *testing.T) store.Engine) {
	contract(t, connect, func(t *testing.T, name string, do func(t *testing.T)) { t.Run(name, do) })
}

// ContractInBubbles is Contract for an engine without sockets, of which connect makes one for each t: no
// time is spent on waiting.
func ContractInBubbles(t *testing.T, connect func(t *testing.T) store.Engine) {
	contract(t, connect, func(t *testing.T, name string, do func(t *testing.T)) {
		t.Run(name, func(t *testing.T) { synctest.Test(t, do) })
	})
}

func contract(t *testing.T, connect func(t *testing.T) store.Engine, run func(t *testing.T, name string, do func(t *testing.T))) {
	open := func(t *testing.T, keys ...[]byte) *store.Store {
		t.Helper()
		s := store.New(connect(t), store.Options{Keys: keys, Prefix: t.Name() + ":", MaxValue: 1 << 20, Timeout: 5 * time.Second})
		t.Cleanup(func() { s.Close() })
		return s
	}
	keys := Keys(2)
	for _, c := range []struct {
		name string
		run  func(t *testing.T, a, b *store.Store)
	}{
		{"values", values}, {"expiry", expiry}, {"bounds", bounds}, {"once", once}, {"swap", swap}, {"count", count},
		{"charge", charge}, {"charge exactly", chargeExactly}, {"corrections", corrections}, {"lock", lock}, {"members", members},
		{"publish", publish}, {"mistakes", mistakes},
	} {
		run(t, c.name, func(t *testing.T) { c.run(t, open(t, keys[0]), open(t, keys[0])) })
		run(t, c.name+", with two keys", func(t *testing.T) {
			c.run(t, open(t, keys[0], keys[1]), open(t, keys[0], keys[1]))
		})
	}
	for _, c := range []struct {
		name string
		run  func(t *testing.T, a, b *store.Store)
	}{{"values", values}, {"once", once}, {"swap", swap}, {"lock", lock}, {"members", members}, {"publish", publish}} {
		run(t, "while keys change: "+c.name, func(t *testing.T) {
			c.run(t, open(t, keys[0], keys[1]), open(t, keys[1], keys[0]))
		})
	}
	run(t, "crowded", func(t *testing.T) { crowded(t, connect(t)) })
	run(t, "another key", func(t *testing.T) { strangers(t, open(t, keys[0]), open(t, keys[1])) })
}

func key(name string) store.Key { return store.Key{Kind: "test", Name: name} }

// ugly are names and values that are easily taken for something else.
var ugly = []string{"", " ", "\x00", "a\r\nb", "$5\r\nhello", "*", "{a}", "ключ", "\xff\xfe", strings.Repeat("x", 4096), "a:b", "%00", "nil"}

func values(t *testing.T, a, b *store.Store) {
	if _, err := a.Get(ctx, key("none")); !errors.Is(err, store.ErrAbsent) {
		t.Errorf("nothing there: %v", err)
	}
	for i, name := range ugly {
		value := []byte(ugly[len(ugly)-1-i])
		must(t, a.Set(ctx, key(name), value, time.Minute))
		if got, err := b.Get(ctx, key(name)); err != nil || !bytes.Equal(got, value) {
			t.Errorf("%q: %q, %v", name, got, err)
		}
		if _, err := b.Get(ctx, store.Key{Kind: "other", Name: name}); !errors.Is(err, store.ErrAbsent) {
			t.Errorf("%q under another kind: %v", name, err)
		}
	}
	must(t, b.Set(ctx, key(""), []byte("second"), time.Minute))
	if got, err := a.Get(ctx, key("")); err != nil || string(got) != "second" {
		t.Errorf("replaced: %q, %v", got, err)
	}
	got, err := b.Take(ctx, key(""))
	if err != nil || string(got) != "second" {
		t.Errorf("taken: %q, %v", got, err)
	}
	if _, err := a.Get(ctx, key("")); !errors.Is(err, store.ErrAbsent) {
		t.Errorf("after it was taken: %v", err)
	}
	must(t, a.Set(ctx, key("gone"), nil, time.Minute))
	must(t, b.Delete(ctx, key("gone")))
	must(t, b.Delete(ctx, key("gone")))
	if _, err := a.Get(ctx, key("gone")); !errors.Is(err, store.ErrAbsent) {
		t.Errorf("after it was deleted: %v", err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := a.Set(ended, key("late"), nil, time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of its context: %v", err)
	}
}

// eventually waits until ok returns true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 20 s", what)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func expiry(t *testing.T, a, b *store.Store) {
	must(t, a.Set(ctx, key("short"), []byte("x"), 50*time.Millisecond))
	must(t, a.Set(ctx, key("long"), []byte("x"), time.Hour))
	if ok, err := a.Add(ctx, key("added"), []byte("x"), 50*time.Millisecond); !ok || err != nil {
		t.Fatal(ok, err)
	}
	for _, name := range []string{"short", "added"} {
		eventually(t, name+" expires", func() bool {
			_, err := b.Get(ctx, key(name))
			return errors.Is(err, store.ErrAbsent)
		})
	}
	if _, err := b.Get(ctx, key("long")); err != nil {
		t.Error(err)
	}
	if ok, err := a.Swap(ctx, key("long"), []byte("x"), []byte("y"), 50*time.Millisecond); !ok || err != nil {
		t.Error(ok, err)
	}
	eventually(t, "what was swapped expires", func() bool {
		_, err := b.Get(ctx, key("long"))
		return errors.Is(err, store.ErrAbsent)
	})
}

func bounds(t *testing.T, a, _ *store.Store) {
	must(t, a.Set(ctx, key("largest"), make([]byte, 1<<20), time.Minute))
	if got, err := a.Get(ctx, key("largest")); err != nil || len(got) != 1<<20 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	large := make([]byte, 1<<20+1)
	_, addErr := a.Add(ctx, key("large"), large, time.Minute)
	_, swapErr := a.Swap(ctx, key("largest"), nil, large, time.Minute)
	for _, err := range []error{
		a.Set(ctx, key("large"), large, time.Minute), addErr, swapErr,
		a.Set(ctx, key(strings.Repeat("x", 5000)), nil, time.Minute),
		a.Join(ctx, key("set"), large, time.Minute), a.Publish(ctx, "channel", large),
	} {
		if !errors.Is(err, store.ErrTooLarge) {
			t.Errorf("%v", err)
		}
	}
}

// race runs do in several goroutines of both stores, and returns how often it returned true.
func race(t *testing.T, a, b *store.Store, do func(s *store.Store) (bool, error)) int {
	t.Helper()
	var won atomic.Int32
	var all sync.WaitGroup
	for i := range 16 {
		s := a
		if i%2 == 1 {
			s = b
		}
		all.Go(func() {
			ok, err := do(s)
			if err != nil {
				t.Error(err)
			}
			if ok {
				won.Add(1)
			}
		})
	}
	all.Wait()
	return int(won.Load())
}

// once checks that of several goroutines that do the same at once, one succeeds.
func once(t *testing.T, a, b *store.Store) {
	for range 10 {
		must(t, a.Set(ctx, key("token"), []byte("x"), time.Minute))
		if n := race(t, a, b, func(s *store.Store) (bool, error) {
			_, err := s.Take(ctx, key("token"))
			if errors.Is(err, store.ErrAbsent) {
				return false, nil
			}
			return true, err
		}); n != 1 {
			t.Fatalf("taken %d times", n)
		}
		if n := race(t, a, a, func(s *store.Store) (bool, error) { return s.Add(ctx, key("first"), []byte("x"), time.Minute) }); n != 1 {
			t.Fatalf("added %d times", n)
		}
		if ok, err := b.Add(ctx, key("first"), []byte("y"), time.Minute); ok || err != nil {
			t.Fatalf("added where something is: %v, %v", ok, err)
		}
		if n := race(t, a, b, func(s *store.Store) (bool, error) {
			return s.Swap(ctx, key("first"), []byte("x"), []byte("y"), time.Minute)
		}); n != 1 {
			t.Fatalf("swapped %d times", n)
		}
		if n := race(t, a, b, func(s *store.Store) (bool, error) { return s.Drop(ctx, key("first"), []byte("y")) }); n != 1 {
			t.Fatalf("dropped %d times", n)
		}
	}
}

func swap(t *testing.T, a, b *store.Store) {
	if ok, err := a.Swap(ctx, key("v"), nil, []byte("1"), time.Minute); ok || err != nil {
		t.Errorf("where nothing is: %v, %v", ok, err)
	}
	must(t, a.Set(ctx, key("v"), []byte("1"), time.Minute))
	for _, c := range []struct {
		old, new string
		ok       bool
	}{{"2", "3", false}, {"", "3", false}, {"1", "", true}, {"1", "2", false}, {"", "4", true}, {"4", "4", true}} {
		if ok, err := b.Swap(ctx, key("v"), []byte(c.old), []byte(c.new), time.Minute); ok != c.ok || err != nil {
			t.Errorf("%+v: %v, %v", c, ok, err)
		}
	}
	if got, err := a.Get(ctx, key("v")); err != nil || string(got) != "4" {
		t.Errorf("%q, %v", got, err)
	}
	if ok, err := a.Drop(ctx, key("v"), []byte("5")); ok || err != nil {
		t.Errorf("dropped another value: %v, %v", ok, err)
	}
}

func count(t *testing.T, a, b *store.Store) {
	if n, err := a.Count(ctx, key("n"), 5, time.Minute); n != 5 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	race(t, a, b, func(s *store.Store) (bool, error) {
		_, err := s.Count(ctx, key("n"), 2, time.Minute)
		return false, err
	})
	if n, err := b.Count(ctx, key("n"), -7, time.Minute); n != 30 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := a.Count(ctx, key("short"), 5, 50*time.Millisecond); err != nil {
		t.Error(err)
	}
	eventually(t, "a window ends", func() bool {
		n, err := b.Count(ctx, key("short"), 1, 50*time.Millisecond)
		return err == nil && n == 1
	})
}

func charge(t *testing.T, a, b *store.Store) {
	bucket := store.Limit{ID: "bucket", Rate: 1.0 / 3600, Burst: 3}
	day := store.Limit{ID: "day", Window: 24 * time.Hour, Most: 5}
	counts := store.Limit{ID: "counts", Window: 24 * time.Hour, Most: -1}
	one := func(s *store.Store, n int64, limits ...store.Limit) store.Charged {
		t.Helper()
		out, err := s.Charge(ctx, key("c"), n, limits...)
		must(t, err)
		return out
	}
	for i, s := range []*store.Store{a, b, a} {
		out := one(s, 1, bucket, day, counts)
		if !out.OK || out.Wait() != 0 || out.States[1].Used != int64(i+1) || out.States[1].Left != float64(4-i) || out.States[2].Used != int64(i+1) {
			t.Fatalf("call %d: %+v", i, out)
		}
	}
	out := one(b, 1, bucket, day, counts)
	if out.OK || out.States[0].Wait < 59*time.Minute || out.States[0].Wait > time.Hour || out.States[1].Wait != 0 || out.States[1].Used != 3 {
		t.Errorf("the bucket is empty: %+v", out)
	}
	if out.States[1].Reset <= 0 || out.States[1].Reset > 24*time.Hour {
		t.Errorf("the day ends in %s", out.States[1].Reset)
	}
	if out := one(a, 2, day, counts); !out.OK || out.States[0].Used != 5 {
		t.Errorf("the day: %+v", out)
	}
	if out := one(b, 1, day); out.OK || out.States[0].Wait <= 0 || out.States[0].Wait != out.States[0].Reset {
		t.Errorf("the day is full: %+v", out)
	}
	if out, err := b.Adjust(ctx, key("c"), 3, day, bucket); err != nil || !out.OK || out.States[0].Used != 8 || out.States[1].Left > -2.9 {
		t.Errorf("counted nevertheless: %+v, %v", out, err)
	}
	if out, err := a.Adjust(ctx, key("c"), -8, day, bucket); err != nil || out.States[0].Used != 0 || out.States[1].Left != 3 {
		t.Errorf("given back: %+v, %v", out, err)
	}
	if out := one(a, 0, day, bucket); !out.OK || out.States[0].Used != 0 {
		t.Errorf("asked only: %+v", out)
	}
	bucket.Ahead = 2
	if out := one(a, 1, bucket); !out.OK {
		t.Errorf("two are ahead, and three tokens there: %+v", out)
	}
	if out := one(a, 1, bucket); out.OK {
		t.Errorf("two are ahead, and two tokens there: %+v", out)
	}
	quick := store.Limit{ID: "quick", Rate: 20, Burst: 1}
	if out := one(a, 1, quick); !out.OK {
		t.Errorf("%+v", out)
	}
	eventually(t, "a bucket fills", func() bool { return one(b, 1, quick).OK })
	first := store.Limit{ID: "first", Window: 50 * time.Millisecond, Most: 1}
	eventually(t, "a window is full", func() bool { return !one(a, 1, first).OK })
	eventually(t, "a window begins", func() bool { return one(b, 1, first).OK })
}

// chargeExactly checks that of many calls at once as many are charged as there is room for.
func chargeExactly(t *testing.T, a, b *store.Store) {
	for round := range 5 {
		k := key(fmt.Sprint("exact", round))
		limits := []store.Limit{{ID: "a", Rate: 1e-6, Burst: 11}, {ID: "b", Window: 200 * time.Hour * 24, Most: 7}}
		if n := race(t, a, b, func(s *store.Store) (bool, error) {
			out, err := s.Charge(ctx, k, 1, limits...)
			return out.OK, err
		}); n != 7 {
			t.Errorf("%d calls were charged, want 7", n)
		}
	}
}

func corrections(t *testing.T, a, b *store.Store) {
	limits := []store.Limit{{ID: "b", Rate: 1e-6, Burst: 100}}
	can := func(want bool) store.Charged {
		t.Helper()
		out, err := b.Charge(ctx, key("c"), 1, limits...)
		if err != nil || out.OK != want {
			t.Errorf("%+v, %v; want %v", out, err, want)
		}
		return out
	}
	can(true)
	must(t, a.Correct(ctx, key("c"), limits, store.Correction{ID: "b", AtMost: 2, For: time.Hour}))
	if out := can(true); out.States[0].Left != 1 {
		t.Errorf("%+v", out)
	}
	must(t, a.Correct(ctx, key("c"), limits, store.Correction{ID: "b", AtMost: 5, For: time.Hour})) // an older answer
	can(true)
	if out := can(false); !out.States[0].Told || out.States[0].Wait < 59*time.Minute || out.States[0].Wait > time.Hour {
		t.Errorf("%+v", out)
	}
	must(t, a.Correct(ctx, key("c"), limits, store.Correction{ID: "b", AtMost: 5, For: 100 * time.Millisecond}))
	can(true)
	must(t, a.Correct(ctx, key("c"), limits, store.Correction{ID: "b", AtMost: 0}))
	if out := can(false); out.States[0].Told {
		t.Errorf("%+v", out)
	}
}

// lock tries locks that last longer, while locks are lost: a process that gets no processor in time does not renew its locks.
func lock(t *testing.T, a, b *store.Store) {
	for ttl := 300 * time.Millisecond; ; ttl *= 2 {
		lost := locks(t, a, b, ttl)
		if lost == "" {
			return
		}
		if ttl > 10*time.Second {
			t.Fatalf("with a lock of %s: %s", ttl, lost)
		}
		must(t, a.Delete(ctx, key("l")))
	}
}

// locks returns "" or which lock was lost while it was held.
func locks(t *testing.T, a, b *store.Store, ttl time.Duration) (lost string) {
	t.Helper()
	held, err := a.TryLock(ctx, key("l"), ttl)
	must(t, err)
	defer held.Unlock()
	refused := func(s *store.Store) bool {
		l, err := s.TryLock(ctx, key("l"), ttl)
		switch {
		case errors.Is(err, store.ErrHeld):
			return true
		case err != nil:
			t.Fatal(err)
		}
		l.Unlock()
		return false
	}
	if !refused(a) || !refused(b) {
		return "taken twice"
	}
	time.Sleep(3 * ttl / 2)
	if !refused(b) || held.Context().Err() != nil {
		return "it was not renewed"
	}
	short, cancel := context.WithTimeout(ctx, 30*time.Millisecond)
	defer cancel()
	if l, err := b.Lock(short, key("l"), ttl); err == nil {
		l.Unlock()
		return "taken twice after it was renewed"
	} else if !errors.Is(err, store.ErrHeld) && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waited in vain: %v", err)
	}
	next := make(chan *store.Lock)
	go func() {
		l, err := b.Lock(ctx, key("l"), 3*ttl)
		if err != nil {
			t.Error(err)
		}
		next <- l
	}()
	held.Unlock()
	got := <-next
	if got == nil {
		return ""
	}
	defer got.Unlock()
	held.Unlock() // again, when another one holds it
	if held.Context().Err() == nil {
		t.Error("the context of a lock goes on after Unlock")
	}
	if !refused(a) || got.Context().Err() != nil {
		return "unlocked by one that does not hold it"
	}
	must(t, a.Delete(ctx, key("l"))) // as an engine that was restarted empty
	select {
	case <-got.Context().Done():
		if context.Cause(got.Context()) != store.ErrLost {
			t.Error(context.Cause(got.Context()))
		}
	case <-time.After(20*time.Second + 3*ttl):
		t.Error("the loss of a lock is not noticed")
	}
	return ""
}

func members(t *testing.T, a, b *store.Store) {
	list := func(s *store.Store) (names []string) {
		t.Helper()
		must(t, s.Members(ctx, key("s"), func(m store.Member) bool {
			if !m.Expires.After(time.Now().Add(-time.Minute)) {
				t.Errorf("%q has expired at %s", m.Name, m.Expires)
			}
			names = append(names, string(m.Name))
			return true
		}))
		slices.Sort(names)
		return slices.Compact(names)
	}
	if got := list(a); got != nil {
		t.Errorf("%q", got)
	}
	for _, name := range ugly[:9] {
		must(t, a.Join(ctx, key("s"), []byte(name), time.Minute))
		must(t, b.Join(ctx, key("s"), []byte(name), time.Minute))
	}
	must(t, b.Join(ctx, key("s"), []byte("short"), 50*time.Millisecond))
	must(t, b.Leave(ctx, key("s"), []byte("*")))
	must(t, b.Leave(ctx, key("s"), []byte("never there")))
	want := slices.DeleteFunc(slices.Sorted(slices.Values(ugly[:9])), func(name string) bool { return name == "*" })
	eventually(t, "a member expires", func() bool { return slices.Equal(list(a), want) })
	for i := range 2500 {
		must(t, a.Join(ctx, key("s"), fmt.Append(nil, "member ", i), time.Hour))
	}
	if got := list(b); len(got) != 2508 {
		t.Errorf("%d members", len(got))
	}
	n := 0
	must(t, b.Members(ctx, key("s"), func(m store.Member) bool { n++; return n < 10 }))
	if n != 10 {
		t.Errorf("%d members, want the first 10", n)
	}
}

func publish(t *testing.T, a, b *store.Store) {
	var got, missed atomic.Int32
	stop := b.Subscribe("news", func(text []byte) {
		if string(text) != "\x00it\r\n" {
			t.Errorf("%q", text)
		}
		got.Add(1)
	}, func() { missed.Add(1) })
	other := a.Subscribe("other", func([]byte) { t.Error("a message of another channel") }, func() {})
	eventually(t, "it listens", func() bool { return missed.Load() > 0 })
	before := got.Load()
	eventually(t, "a message arrives", func() bool {
		must(t, a.Publish(ctx, "news", []byte("\x00it\r\n")))
		return got.Load() > before
	})
	stop()
	n := got.Load()
	must(t, a.Publish(ctx, "news", []byte("\x00it\r\n")))
	time.Sleep(20 * time.Millisecond)
	if got.Load() != n {
		t.Error("a message after the end")
	}
	other()
}

// mistakes are those of the program, which no engine sees.
func mistakes(t *testing.T, a, _ *store.Store) {
	good := store.Limit{ID: "a", Rate: 1, Burst: 1}
	_, countErr := a.Count(ctx, key("x"), 1, 0)
	_, lockErr := a.TryLock(ctx, key("x"), -1)
	errs := []error{
		a.Set(ctx, store.Key{Kind: "UPPER"}, nil, time.Minute), a.Set(ctx, store.Key{}, nil, time.Minute),
		a.Set(ctx, key("x"), nil, 0), a.Set(ctx, key("x"), nil, 2*store.MaxTTL), countErr, lockErr,
		a.Correct(ctx, key("x"), []store.Limit{good}, store.Correction{ID: "b"}),
	}
	for _, limits := range [][]store.Limit{nil, {good, good}, {{ID: "a b", Rate: 1, Burst: 1}}, {{ID: "a"}}, {{ID: "a", Rate: -1, Burst: 1}}, {{ID: "a", Window: 1}}, {{}}} {
		_, err := a.Charge(ctx, key("x"), 1, limits...)
		errs = append(errs, err)
	}
	for i, err := range errs {
		if err == nil {
			t.Errorf("mistake %d is none", i)
		}
	}
	bad, until := store.Key{Kind: "UPPER"}, time.Minute
	for op, do := range map[string]func() error{
		"get":              func() error { _, err := a.Get(ctx, bad); return err },
		"take":             func() error { _, err := a.Take(ctx, bad); return err },
		"add":              func() error { _, err := a.Add(ctx, bad, nil, until); return err },
		"swap":             func() error { _, err := a.Swap(ctx, bad, nil, nil, until); return err },
		"drop":             func() error { _, err := a.Drop(ctx, bad, nil); return err },
		"delete":           func() error { return a.Delete(ctx, bad) },
		"count":            func() error { _, err := a.Count(ctx, bad, 1, until); return err },
		"lock":             func() error { _, err := a.TryLock(ctx, bad, until); return err },
		"charge":           func() error { _, err := a.Charge(ctx, bad, 1, good); return err },
		"correct":          func() error { return a.Correct(ctx, bad, []store.Limit{good}) },
		"join":             func() error { return a.Join(ctx, bad, nil, until) },
		"leave":            func() error { return a.Leave(ctx, bad, nil) },
		"members":          func() error { return a.Members(ctx, bad, func(store.Member) bool { return true }) },
		"publish":          func() error { return a.Publish(ctx, strings.Repeat("x", 5000), nil) },
		"correct nothing":  func() error { return a.Correct(ctx, key("x"), nil) },
		"join for no time": func() error { return a.Join(ctx, key("x"), nil, 0) },
	} {
		if err := do(); err == nil || errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrAbsent) {
			t.Errorf("%s: %v", op, err)
		}
	}
	if err := a.Join(ctx, key("x"), make([]byte, store.MaxMember+1), until); !errors.Is(err, store.ErrTooLarge) {
		t.Errorf("a long member: %v", err)
	}
}

// crowded checks that a set has no more members than it may, and that those leave that would expire first.
func crowded(t *testing.T, e store.Engine) {
	const set = "crowded"
	for i, left := range []time.Duration{3, 1, 4, 2, 5} {
		must(t, e.Join(ctx, set, []byte{byte('a' + i)}, left*time.Minute, 3))
	}
	all, err := e.Members(ctx, set, 0, 10)
	must(t, err)
	names := ""
	for _, m := range all {
		names += string(m.Name)
	}
	if names != "eca" {
		t.Errorf("members %s", names)
	}
	must(t, e.Leave(ctx, set, []byte("e"), []byte("c"), []byte("a")))
	if all, err := e.Members(ctx, set, 0, 10); err != nil || len(all) != 0 {
		t.Errorf("%v, %v after all have left", all, err)
	}
}

// strangers have different keys, and see nothing of each other.
func strangers(t *testing.T, a, b *store.Store) {
	must(t, a.Set(ctx, key("v"), []byte("a"), time.Minute))
	must(t, a.Join(ctx, key("s"), []byte("a"), time.Minute))
	if _, err := b.Get(ctx, key("v")); !errors.Is(err, store.ErrAbsent) {
		t.Errorf("%v", err)
	}
	must(t, b.Members(ctx, key("s"), func(m store.Member) bool { t.Errorf("%q", m.Name); return true }))
	if n, err := a.Count(ctx, key("n"), 1, time.Minute); n != 1 || err != nil {
		t.Error(n, err)
	}
	if n, err := b.Count(ctx, key("n"), 1, time.Minute); n != 1 || err != nil {
		t.Error(n, err)
	}
}
