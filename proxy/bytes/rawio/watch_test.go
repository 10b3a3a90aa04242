package rawio

import (
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// noticed counts the calls of Notice.
type noticed struct {
	times atomic.Int32
	last  chan struct{}
}

func (n *noticed) Notice() {
	n.times.Add(1)
	n.last <- struct{}{}
}

func (n *noticed) await(t *testing.T) {
	t.Helper()
	select {
	case <-n.last:
	case <-time.After(patience):
		t.Fatal("nothing was noticed")
	}
}

func newNoticed() *noticed { return &noticed{last: make(chan struct{}, 10)} }

func watch(t *testing.T) *Watch {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("no watch on this system")
	}
	w := new(Watch)
	t.Cleanup(w.Close)
	return w
}

// TestReadableIsNoticedOnce for each Add, also if something has come before it; Remove is heeded.
func TestReadableIsNoticedOnce(t *testing.T) {
	w := watch(t)
	c, peer := pair(t)
	say := func(what string) {
		t.Helper()
		if _, err := io.WriteString(peer, what); err != nil {
			t.Fatal(err)
		}
	}
	first, removed, again, end := newNoticed(), newNoticed(), newNoticed(), newNoticed()
	add := func(by Watcher) uint64 {
		t.Helper()
		id, ok := w.Add(c, Readable, by)
		if !ok {
			t.Fatal("not added")
		}
		return id
	}
	add(first)
	say("a")
	first.await(t)
	say("b")
	w.Remove(add(removed))
	add(again)
	again.await(t)
	got := make([]byte, 2)
	if _, err := io.ReadFull(c, got); err != nil || string(got) != "ab" {
		t.Fatalf("%q, %v", got, err)
	}
	add(end)
	if err := peer.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	end.await(t)
	if first.times.Load() != 1 || again.times.Load() != 1 || end.times.Load() != 1 {
		t.Errorf("noticed %d, %d and %d times", first.times.Load(), again.times.Load(), end.times.Load())
	}
}

// TestLeavingIsNoticed even if something else was not read.
func TestLeavingIsNoticed(t *testing.T) {
	w := watch(t)
	c, peer := pair(t)
	n := newNoticed()
	if _, ok := w.Add(c, Leaving, n); !ok {
		t.Fatal("not added")
	}
	if _, err := io.WriteString(peer, "unread"); err != nil {
		t.Fatal(err)
	}
	if err := peer.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	n.await(t)
}

// TestCloseNotifies those that wait for something to read.
func TestCloseNotifies(t *testing.T) {
	w := watch(t)
	c, _ := pair(t)
	other, _ := pair(t)
	n, leaves := newNoticed(), newNoticed()
	if _, ok := w.Add(c, Readable, n); !ok {
		t.Fatal("not added")
	}
	if _, ok := w.Add(other, Leaving, leaves); !ok {
		t.Fatal("not added")
	}
	w.Close()
	n.await(t)
	if leaves.times.Load() > 0 {
		t.Error("a peer that stays was said to leave")
	}
}

// TestNoWatchWithoutASocket: Add says so.
func TestNoWatchWithoutASocket(t *testing.T) {
	w := watch(t)
	c, _ := net.Pipe()
	if _, ok := w.Add(c, Readable, newNoticed()); ok {
		t.Error("a pipe is watched")
	}
}

// telling is a connection that tells by itself. happen says that something has happened.
type telling struct {
	net.Conn

	mu      sync.Mutex
	waiting map[*Watcher]Watched
	stopped int
}

func (c *telling) Tell(what Watched, by Watcher) (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting == nil {
		c.waiting = make(map[*Watcher]Watched)
	}
	c.waiting[&by] = what
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.stopped++
		delete(c.waiting, &by)
	}
}

func (c *telling) happen(what Watched) {
	c.mu.Lock()
	var all []Watcher
	for by, waits := range c.waiting {
		if waits == what {
			all = append(all, *by)
		}
	}
	c.mu.Unlock()
	for _, by := range all {
		by.Notice()
	}
}

// TestTellersAreWatchedInABubble: without a socket, nothing waits in the system's poller, which would keep a bubble from being idle.
func TestTellersAreWatchedInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w Watch
		c := new(telling)
		add := func(what Watched) (*noticed, uint64) {
			n := newNoticed()
			id, ok := w.Add(c, what, n)
			if !ok {
				t.Fatal("not added")
			}
			return n, id
		}
		expect := func(when string, n *noticed, times int32) {
			t.Helper()
			if got := n.times.Load(); got != times {
				t.Errorf("%s: noticed %d times, want %d", when, got, times)
			}
		}
		readable, _ := add(Readable)
		leaving, left := add(Leaving)
		removed, id := add(Readable)
		w.Remove(id)
		c.happen(Readable)
		c.happen(Readable)
		expect("readable", readable, 1)
		expect("removed", removed, 0)
		expect("not leaving", leaving, 0)
		c.happen(Leaving)
		expect("leaving", leaving, 1)
		w.Remove(left)
		again, _ := add(Readable)
		stays, _ := add(Leaving)
		time.Sleep(time.Hour) // only if the bubble is idle
		w.Close()
		expect("readable at the end", again, 1)
		expect("staying at the end", stays, 0)
		if c.stopped != 5 || len(c.waiting) > 0 {
			t.Errorf("stopped %d of 5, %d left", c.stopped, len(c.waiting))
		}
		if _, ok := w.Add(c, Readable, again); ok {
			t.Error("added after the end")
		}
	})
}

// TestATellerMayNotifyAtOnce, before Add returns.
func TestATellerMayNotifyAtOnce(t *testing.T) {
	var w Watch
	defer w.Close()
	n, stopped := newNoticed(), 0
	if _, ok := w.Add(atOnce{stop: func() { stopped++ }}, Readable, n); !ok {
		t.Fatal("not added")
	}
	if n.times.Load() != 1 || stopped != 1 {
		t.Errorf("noticed %d times, stopped %d times", n.times.Load(), stopped)
	}
}

type atOnce struct {
	net.Conn
	stop func()
}

func (c atOnce) Tell(_ Watched, by Watcher) (stop func()) {
	done := make(chan struct{})
	go func() {
		by.Notice()
		close(done)
	}()
	<-done
	return c.stop
}
