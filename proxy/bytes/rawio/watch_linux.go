package rawio

import (
	"net"
	"os"
	"sync"
	"syscall"
)

// Watch notifies Watchers of what happens on connections, on which no goroutine needs to wait meanwhile. The kernel
// reports the end of a peer's sending even if bytes before it are still unread, so that pipelined and encrypted bytes do
// not hide it. One epoll instance, and one goroutine that waits for it without holding a thread, serve all connections.
type Watch struct {
	epoll *os.File
	raw   syscall.RawConn
	done  chan struct{}

	mu       sync.Mutex
	watchers map[uint64]watching // by id; unlike a file descriptor, an id is never used twice
	last     uint64
}

// watching is a Watcher, and what it waits for.
type watching struct {
	Watcher
	what Watched
}

// NewWatch returns a running Watch, which Close ends.
func NewWatch() (*Watch, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	// The runtime's poller can wait for an epoll instance that is non-blocking, and
	// Close ends the wait.
	if err := syscall.SetNonblock(fd, true); err != nil {
		_ = syscall.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	w := &Watch{
		epoll:    os.NewFile(uintptr(fd), "epoll"),
		done:     make(chan struct{}),
		watchers: make(map[uint64]watching),
	}
	if w.raw, err = w.epoll.SyscallConn(); err != nil {
		_ = w.epoll.Close()
		return nil, err
	}
	go w.run()
	return w, nil
}

// Add makes the Watch notify by of what happens on nc. It returns false if the system cannot do that. id is for Remove. Another
// Add for the same connection replaces the one before, which must have notified its Watcher or been removed.
func (w *Watch) Add(nc net.Conn, what Watched, by Watcher) (id uint64, ok bool) {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return 0, false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return 0, false
	}
	w.mu.Lock()
	w.last++
	id = w.last
	w.watchers[id] = watching{by, what}
	w.mu.Unlock()

	ev := syscall.EpollEvent{
		Events: syscall.EPOLLRDHUP | epollET,
		Fd:     int32(uint32(id)),
		Pad:    int32(uint32(id >> 32)),
	}
	if what == Readable {
		ev.Events = syscall.EPOLLIN | syscall.EPOLLRDHUP | syscall.EPOLLONESHOT
	}
	ctlErr := syscall.EINVAL
	err = w.raw.Control(func(epoll uintptr) {
		_ = raw.Control(func(fd uintptr) {
			ctlErr, _ = syscall.EpollCtl(int(epoll), syscall.EPOLL_CTL_ADD, int(fd), &ev).(syscall.Errno)
			if ctlErr == syscall.EEXIST {
				ctlErr, _ = syscall.EpollCtl(int(epoll), syscall.EPOLL_CTL_MOD, int(fd), &ev).(syscall.Errno)
			}
		})
	})
	if err != nil || ctlErr != 0 {
		w.Remove(id)
		return 0, false
	}
	return id, true
}

// epollET is EPOLLET without the sign that package syscall gives it.
const epollET = 1 << 31

// Remove undoes Add. The Watcher may just be being notified. Closing its file descriptor ends the kernel's watch for a connection.
func (w *Watch) Remove(id uint64) {
	w.mu.Lock()
	delete(w.watchers, id)
	w.mu.Unlock()
}

func (w *Watch) run() {
	defer close(w.done)
	events := make([]syscall.EpollEvent, 128)
	for {
		n := 0
		err := w.raw.Read(func(fd uintptr) bool {
			err := syscall.EINTR
			for err == syscall.EINTR {
				n, err = wait(int(fd), events)
			}
			return n != 0
		})
		if err != nil || n < 0 {
			return // closed
		}
		for _, ev := range events[:n] {
			w.notify(uint64(uint32(ev.Pad))<<32 | uint64(uint32(ev.Fd)))
		}
	}
}

// wait returns pending events without blocking. n is negative if that failed.
func wait(epoll int, events []syscall.EpollEvent) (n int, errno syscall.Errno) {
	n, err := syscall.EpollWait(epoll, events, 0)
	errno, _ = err.(syscall.Errno)
	return n, errno
}

func (w *Watch) notify(id uint64) {
	w.mu.Lock()
	by, ok := w.watchers[id]
	if by.what == Readable {
		delete(w.watchers, id)
	}
	w.mu.Unlock()
	if ok {
		by.Notice()
	}
}

// Close ends the Watch. It notifies the Watchers that wait until their connections are readable, since nothing else will. Add
// must not be called after it.
func (w *Watch) Close() {
	_ = w.epoll.Close()
	<-w.done
	w.mu.Lock()
	left := w.watchers
	w.watchers = nil
	w.mu.Unlock()
	for _, by := range left {
		if by.what == Readable {
			by.Notice()
		}
	}
}
