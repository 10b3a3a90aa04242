package rawio

import (
	"net"
	"sync"
)

// Watched says of what a Watch notifies a Watcher.
type Watched int

const (
	// Leaving is the end of the peer's sending, even if bytes before it are still unread.
	Leaving Watched = iota
	// Readable is that a Read would not wait, at once if that is so already. The Watcher is notified once.
	Readable
)

// Watcher is notified by a Watch.
type Watcher interface {
	// Notice must not block: the Watch notifies no other Watcher meanwhile.
	Notice()
}

// Teller is a connection that is no socket and tells by itself what the kernel tells of sockets.
type Teller interface {
	// Tell notifies by of what happens from now on, and of what has happened already, until stop is called. It returns before by is
	// notified, and holds no lock while it notifies, since by may call stop. stop does not wait for a call of Notice.
	Tell(what Watched, by Watcher) (stop func())
}

// Watch notifies Watchers of what happens on connections, on which no goroutine needs to wait meanwhile. The zero value is ready
// to use.
//
// The kernel reports the end of a peer's sending even if bytes before it are still unread, so that pipelined and encrypted bytes do
// not hide it. One epoll instance, and one goroutine that waits for it without holding a thread, serve all sockets; there is none
// before the first socket. On systems other than Linux, a goroutine has to wait on each socket instead.
type Watch struct {
	sockets sockets

	mu       sync.Mutex
	watchers map[uint64]watching // by id; unlike a file descriptor, an id is never used twice
	last     uint64
	closed   bool
}

// watching is a Watcher, and what it waits for.
type watching struct {
	Watcher
	what Watched
	stop func() // of a Teller; nil for a socket
}

// Add makes the Watch notify by of what happens on nc. It returns false if neither nc nor the system can do that. id is for Remove.
// Another Add for the same connection replaces the one before, which must have notified its Watcher or been removed.
func (w *Watch) Add(nc net.Conn, what Watched, by Watcher) (id uint64, ok bool) {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return 0, false
	}
	if w.watchers == nil {
		w.watchers = make(map[uint64]watching)
	}
	w.last++
	id = w.last
	w.watchers[id] = watching{Watcher: by, what: what}
	w.mu.Unlock()

	if t, tells := nc.(Teller); tells {
		w.stopWith(id, t.Tell(what, told{w, id}))
		return id, true
	}
	if !w.sockets.add(nc, id, what == Readable, w) {
		w.Remove(id)
		return 0, false
	}
	return id, true
}

// told is notified by a Teller.
type told struct {
	watch *Watch
	id    uint64
}

// Notice implements Watcher.
func (t told) Notice() { t.watch.notify(t.id) }

// stopWith notes how to stop the Teller of id, which may have notified its Watcher already.
func (w *Watch) stopWith(id uint64, stop func()) {
	w.mu.Lock()
	by, waits := w.watchers[id]
	if waits {
		by.stop = stop
		w.watchers[id] = by
	}
	w.mu.Unlock()
	if !waits {
		stop()
	}
}

// Remove undoes Add. The Watcher may just be being notified. Closing its file descriptor ends the kernel's watch for a connection.
func (w *Watch) Remove(id uint64) {
	w.mu.Lock()
	stop := w.watchers[id].stop
	delete(w.watchers, id)
	w.mu.Unlock()
	if stop != nil {
		stop()
	}
}

func (w *Watch) notify(id uint64) {
	w.mu.Lock()
	by, ok := w.watchers[id]
	if by.what == Readable {
		delete(w.watchers, id)
	}
	w.mu.Unlock()
	if !ok {
		return
	}
	if by.what == Readable && by.stop != nil {
		by.stop()
	}
	by.Notice()
}

// Close ends the Watch. It notifies the Watchers that wait until their connections are readable, since nothing else will. Add
// must not be called meanwhile, and returns false after it.
func (w *Watch) Close() {
	w.sockets.close()
	w.mu.Lock()
	left := w.watchers
	w.watchers, w.closed = nil, true
	w.mu.Unlock()
	for _, by := range left {
		if by.stop != nil {
			by.stop()
		}
		if by.what == Readable {
			by.Notice()
		}
	}
}
