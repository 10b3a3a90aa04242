package rawio

import (
	"net"
	"os"
	"syscall"
)

// sockets is an epoll instance, and the goroutine that waits for it. The zero value has none yet.
type sockets struct {
	epoll *os.File
	raw   syscall.RawConn
	done  chan struct{}
}

// openSockets opens the epoll instance. w.mu must be held.
func (w *Watch) openSockets() error {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	// The runtime's poller can wait for an epoll instance that is non-blocking, and
	// Close ends the wait.
	if err := syscall.SetNonblock(fd, true); err != nil {
		_ = syscall.Close(fd)
		return os.NewSyscallError("fcntl", err)
	}
	epoll := os.NewFile(uintptr(fd), "epoll")
	raw, err := epoll.SyscallConn()
	if err != nil {
		_ = epoll.Close()
		return err
	}
	w.sockets = sockets{epoll: epoll, raw: raw, done: make(chan struct{})}
	go w.run()
	return nil
}

// addSocket makes the kernel notify the Watcher id of what happens on nc. It returns false if nc is no socket.
func (w *Watch) addSocket(nc net.Conn, id uint64, what Watched) bool {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	w.mu.Lock()
	if w.sockets.epoll == nil {
		err = w.openSockets()
	}
	of := w.sockets.raw
	w.mu.Unlock()
	if err != nil {
		return false
	}

	ev := syscall.EpollEvent{
		Events: syscall.EPOLLRDHUP | epollET,
		Fd:     int32(uint32(id)),
		Pad:    int32(uint32(id >> 32)),
	}
	if what == Readable {
		ev.Events = syscall.EPOLLIN | syscall.EPOLLRDHUP | syscall.EPOLLONESHOT
	}
	ctlErr := syscall.EINVAL
	err = of.Control(func(epoll uintptr) {
		_ = raw.Control(func(fd uintptr) {
			ctlErr, _ = syscall.EpollCtl(int(epoll), syscall.EPOLL_CTL_ADD, int(fd), &ev).(syscall.Errno)
			if ctlErr == syscall.EEXIST {
				ctlErr, _ = syscall.EpollCtl(int(epoll), syscall.EPOLL_CTL_MOD, int(fd), &ev).(syscall.Errno)
			}
		})
	})
	return err == nil && ctlErr == 0
}

// epollET is EPOLLET without the sign that package syscall gives it.
const epollET = 1 << 31

func (w *Watch) run() {
	s := &w.sockets
	defer close(s.done)
	events := make([]syscall.EpollEvent, 128)
	for {
		n := 0
		err := s.raw.Read(func(fd uintptr) bool {
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

// close ends the goroutine, if there is one. No socket may be added meanwhile.
func (s *sockets) close() {
	if s.epoll != nil {
		_ = s.epoll.Close()
		<-s.done
	}
}
