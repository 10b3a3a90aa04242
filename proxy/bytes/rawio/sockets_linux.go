package rawio

import (
	"net"
	"os"
	"sync"
	"syscall"
)

// sockets is an epoll instance, and the goroutine that waits for it. The zero value has none yet.
type sockets struct {
	mu    sync.Mutex // held while it is opened
	epoll *os.File
	raw   syscall.RawConn
	done  chan struct{}
}

// notifier is a Watch.
type notifier interface{ notify(id uint64) }

// open opens the epoll instance, unless it is open. The goroutine notifies by of each socket on which something happens.
func (s *sockets) open(by notifier) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoll != nil {
		return nil
	}
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
	s.epoll, s.raw, s.done = epoll, raw, make(chan struct{})
	go s.run(by)
	return nil
}

// add makes the kernel tell once when nc is readable, or else each time that its peer ends sending. It notifies by, which is the
// same for all sockets. add returns false if nc is no socket.
func (s *sockets) add(nc net.Conn, id uint64, readable bool, by notifier) bool {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil || s.open(by) != nil {
		return false
	}

	ev := syscall.EpollEvent{
		Events: syscall.EPOLLRDHUP | epollET,
		Fd:     int32(uint32(id)),
		Pad:    int32(uint32(id >> 32)),
	}
	if readable {
		ev.Events = syscall.EPOLLIN | syscall.EPOLLRDHUP | syscall.EPOLLONESHOT
	}
	ctlErr := syscall.EINVAL
	err = s.raw.Control(func(epoll uintptr) {
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

func (s *sockets) run(by notifier) {
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
			by.notify(uint64(uint32(ev.Pad))<<32 | uint64(uint32(ev.Fd)))
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
