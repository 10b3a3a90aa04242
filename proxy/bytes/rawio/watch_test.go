package rawio

import (
	"io"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
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
	w, err := NewWatch()
	if err != nil {
		t.Fatal(err)
	}
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
