package downstream

import (
	"os"
	"sync"
	"syscall"
)

// watch reports to connections when their clients leave. The kernel reports the end of
// a peer's sending even if bytes before it are still unread, so that pipelined and
// encrypted bytes do not hide it. One epoll instance, and one goroutine that waits for
// it without holding a thread, serve all connections.
type watch struct {
	epoll *os.File
	raw   syscall.RawConn
	done  chan struct{}

	mu    sync.Mutex
	conns map[uint64]*conn // by id; unlike a file descriptor, an id is never used twice
	last  uint64
}

// newWatch returns a running watch, which close ends.
func newWatch() (*watch, error) {
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
	w := &watch{
		epoll: os.NewFile(uintptr(fd), "epoll"),
		done:  make(chan struct{}),
		conns: make(map[uint64]*conn),
	}
	if w.raw, err = w.epoll.SyscallConn(); err != nil {
		_ = w.epoll.Close()
		return nil, err
	}
	go w.run()
	return w, nil
}

// add starts the watch for c and reports whether it could.
func (w *watch) add(c *conn) bool {
	sc, ok := unwrap(c.Conn).(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	w.mu.Lock()
	w.last++
	c.id = w.last
	w.conns[c.id] = c
	w.mu.Unlock()

	ev := syscall.EpollEvent{
		Events: syscall.EPOLLRDHUP | epollET,
		Fd:     int32(uint32(c.id)),
		Pad:    int32(uint32(c.id >> 32)),
	}
	ctlErr := syscall.EINVAL
	err = w.raw.Control(func(epoll uintptr) {
		_ = raw.Control(func(fd uintptr) {
			ctlErr, _ = syscall.EpollCtl(int(epoll), syscall.EPOLL_CTL_ADD, int(fd), &ev).(syscall.Errno)
		})
	})
	if err != nil || ctlErr != 0 {
		w.remove(c)
		return false
	}
	return true
}

// epollET is EPOLLET without the sign that package syscall gives it.
const epollET = 1 << 31

// remove forgets c. Closing its file descriptor ends the watch for it.
func (w *watch) remove(c *conn) {
	w.mu.Lock()
	delete(w.conns, c.id)
	w.mu.Unlock()
}

func (w *watch) run() {
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
			w.leave(uint64(uint32(ev.Pad))<<32 | uint64(uint32(ev.Fd)))
		}
	}
}

// wait returns pending events without blocking. n is negative if that failed.
func wait(epoll int, events []syscall.EpollEvent) (n int, errno syscall.Errno) {
	n, err := syscall.EpollWait(epoll, events, 0)
	errno, _ = err.(syscall.Errno)
	return n, errno
}

func (w *watch) leave(id uint64) {
	w.mu.Lock()
	c := w.conns[id]
	w.mu.Unlock()
	if c != nil {
		c.end(ErrClientLeft)
	}
}

// close ends the watch. add must not be called after it.
func (w *watch) close() {
	_ = w.epoll.Close()
	<-w.done
}
