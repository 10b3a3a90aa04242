package redisstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/store"
	"github.com/dragoman-proxy/dragoman/proxy/store/storetest"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

var ctx = context.Background()

func key(name string) store.Key { return store.Key{Kind: "test", Name: name} }

// watched is a store that has seen what a test waits for.
type watched struct {
	*store.Store
	ups, downs, skipped, missed atomic.Int32
	messages                    atomic.Int32
}

func open(t *testing.T, o Options, timeout time.Duration) *watched {
	t.Helper()
	w := new(watched)
	w.Store = store.New(New(o), store.Options{
		Keys: storetest.Keys(1), Prefix: "p:", Timeout: timeout,
		Observe: func(op store.Operation) {
			if op.Outcome == store.Skipped {
				w.skipped.Add(1)
			}
		},
		Changed: func(up bool, _ error) {
			if up {
				w.ups.Add(1)
			} else {
				w.downs.Add(1)
			}
		},
	})
	t.Cleanup(func() { w.Close() })
	w.Subscribe("news", func([]byte) { w.messages.Add(1) }, func() { w.missed.Add(1) })
	return w
}

func (w *watched) works(t *testing.T) {
	t.Helper()
	peertest.Eventually(t, "the store works", func() bool { return w.Set(ctx, key("works"), []byte("x"), time.Minute) == nil })
	before := w.messages.Load()
	peertest.Eventually(t, "messages arrive", func() bool {
		_ = w.Publish(ctx, "news", []byte("x"))
		return w.messages.Load() > before
	})
}

// fails checks that many operations at once fail, and that most of them do not wait.
func (w *watched) fails(t *testing.T) {
	t.Helper()
	peertest.Eventually(t, "the store is down", func() bool {
		err := w.Set(ctx, key("down"), []byte("x"), time.Minute)
		if err != nil && !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%v", err)
		}
		return w.downs.Load() > w.ups.Load()
	})
	var all sync.WaitGroup
	before := w.skipped.Load()
	for range 200 {
		all.Go(func() {
			if _, err := w.Get(ctx, key("down")); !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("%v", err)
			}
		})
	}
	all.Wait()
	if n := w.skipped.Load() - before; n != 200 {
		t.Errorf("%d of 200 operations were not tried while the server was known to be down", n)
	}
	if w.Up() {
		t.Error("it says that it is up")
	}
}

func TestServerIsStoppedAndStartedEmpty(t *testing.T) {
	r := storetest.StartRedis(t)
	w := open(t, Options{Network: "tcp", Addresses: []string{r.Address}}, time.Second)
	w.works(t)
	held, err := w.TryLock(ctx, key("lock"), 500*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	missed := w.missed.Load()
	r.Stop()
	w.fails(t)
	<-held.Context().Done() // it may be another one's by now
	held.Unlock()
	r.Start()
	w.works(t)
	if _, err := w.Get(ctx, key("before")); !errors.Is(err, store.ErrAbsent) {
		t.Errorf("%v", err)
	}
	peertest.Eventually(t, "the subscriber is told that it has missed something", func() bool { return w.missed.Load() > missed })
	if out, err := w.Charge(ctx, key("c"), 1, store.Limit{ID: "a", Rate: 1, Burst: 1}); err != nil || !out.OK { // its script is unknown to the new server
		t.Errorf("%+v, %v", out, err)
	}
}

func TestServerIsNotThereAtFirst(t *testing.T) {
	r := storetest.StartRedis(t)
	r.Stop()
	w := open(t, Options{Network: "unix", Addresses: []string{r.Socket}}, time.Second)
	w.fails(t)
	r.Start()
	w.works(t)
}

func TestServerIsPaused(t *testing.T) {
	t.Parallel() // it waits most of the time
	r := storetest.StartRedis(t)
	w := open(t, Options{Network: "tcp", Addresses: []string{r.Address}}, 100*time.Millisecond)
	w.works(t)
	r.Pause()
	w.fails(t)
	time.Sleep(silence + silence/2) // longer than connections are kept
	w.fails(t)
	r.Continue()
	w.works(t)
	r.Pause()
	w.fails(t)
	r.Continue() // at once
	w.works(t)
}

func TestServerIsFull(t *testing.T) {
	r := storetest.StartRedis(t, "maxmemory 3mb", "maxmemory-policy noeviction")
	w := open(t, Options{Network: "tcp", Addresses: []string{r.Address}}, 5*time.Second)
	if err := w.Set(ctx, key("first"), []byte("x"), time.Minute); err != nil {
		t.Fatal(err)
	}
	var err error
	n := 0
	for ; err == nil && n < 1000; n++ {
		err = w.Set(ctx, key(fmt.Sprint(n)), make([]byte, 64<<10), time.Minute)
	}
	if !errors.Is(err, store.ErrFull) {
		t.Fatalf("after %d values: %v", n, err)
	}
	if r.Ask("config set maxmemory 1") != "+OK" { // what the server frees of its buffers would be room for a small value
		t.Fatal("maxmemory cannot be set")
	}
	_, countErr := w.Count(ctx, key("n"), 1, time.Minute)
	_, chargeErr := w.Charge(ctx, key("c"), 1, store.Limit{ID: "a", Rate: 1, Burst: 1})
	for what, err := range map[string]error{"count": countErr, "charge": chargeErr, "join": w.Join(ctx, key("s"), nil, time.Minute)} {
		if !errors.Is(err, store.ErrFull) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if got, err := w.Take(ctx, key("first")); err != nil || string(got) != "x" {
		t.Errorf("what is there: %q, %v", got, err)
	}
	if !w.Up() {
		t.Error("a full server is down")
	}
	if r.Ask("config set maxmemory 3mb") != "+OK" {
		t.Fatal("maxmemory cannot be set")
	}
	for i := range n {
		if err := w.Delete(ctx, key(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	w.works(t)
}

// slow forwards connections to the server, and holds each answer back for a time.
func slow(t *testing.T, to string) (address string, hold *atomic.Int64) {
	t.Helper()
	hold = new(atomic.Int64)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				client.Close()
				continue
			}
			go func() {
				_, _ = io.Copy(server, client)
				server.Close()
			}()
			go func() {
				defer client.Close()
				buf := make([]byte, 64<<10)
				for {
					n, err := server.Read(buf)
					if err != nil {
						return
					}
					time.Sleep(time.Duration(hold.Load()))
					if _, err := client.Write(buf[:n]); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String(), hold
}

func TestServerIsSlow(t *testing.T) {
	t.Parallel() // it waits most of the time
	r := storetest.StartRedis(t)
	address, hold := slow(t, r.Address)
	w := open(t, Options{Network: "tcp", Addresses: []string{address}}, 300*time.Millisecond)
	w.works(t)
	hold.Store(int64(20 * time.Millisecond))
	w.works(t)
	hold.Store(int64(time.Second))
	w.fails(t)
	hold.Store(0)
	w.works(t)
}

func TestServerWantsAPassword(t *testing.T) {
	r := storetest.StartRedis(t, "requirepass right")
	for _, c := range []struct {
		password string
		ok       bool
	}{{"right", true}, {"wrong", false}, {"", false}} {
		o := Options{Network: "tcp", Addresses: []string{r.Address}}
		if c.password != "" {
			o.Password = func() (string, error) { return c.password, nil }
		}
		w := open(t, o, 5*time.Second)
		err := w.Set(ctx, key("x"), nil, time.Minute)
		if c.ok != (err == nil) || !c.ok && !errors.Is(err, store.ErrRejected) {
			t.Errorf("%q: %v", c.password, err)
		}
	}
}

// TestAValueOfAnotherTypeIsOneFailure: what somebody else has put under our name is no reason to give up the server.
func TestAValueOfAnotherTypeIsOneFailure(t *testing.T) {
	r := storetest.StartRedis(t)
	s := store.New(New(Options{Network: "tcp", Addresses: []string{r.Address}}), store.Options{Timeout: 5 * time.Second})
	defer s.Close()
	r.Ask("LPUSH test:x 1", "SET test:short 1")
	for range 5 {
		if _, err := s.Get(ctx, key("x")); !errors.Is(err, store.ErrRejected) {
			t.Errorf("%v", err)
		}
	}
	if _, err := s.Get(ctx, key("short")); !errors.Is(err, store.ErrAbsent) {
		t.Errorf("%v", err)
	}
	if !s.Up() {
		t.Error("it is down")
	}
}
