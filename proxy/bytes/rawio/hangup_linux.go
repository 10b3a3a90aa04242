package rawio

import (
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// WhenHungUp calls do once the other end of out, a pipe, a socket or a terminal, is closed, so that nothing that is written to out is
// read any more. It needs no thread. stop ends that, and waits for a call of do. For other files, and on other systems than Linux,
// do is never called.
func WhenHungUp(out syscall.Conn, do func()) (stop func()) {
	never := func() {}
	raw, err := out.SyscallConn()
	if err != nil {
		return never
	}
	poll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return never
	}
	failed := raw.Control(func(fd uintptr) {
		err = unix.EpollCtl(poll, unix.EPOLL_CTL_ADD, int(fd), &unix.EpollEvent{}) // EPOLLHUP and EPOLLERR are always reported
	})
	if failed == nil && err == nil {
		err = unix.SetNonblock(poll, true) // so that Go waits for it as it waits for sockets
	}
	if failed != nil || err != nil {
		unix.Close(poll)
		return never
	}
	set := os.NewFile(uintptr(poll), "epoll")
	var waiting sync.WaitGroup
	waiting.Go(func() {
		events, err := set.SyscallConn()
		if err != nil {
			return
		}
		hungUp := false
		_ = events.Read(func(fd uintptr) bool { // fails when set is closed
			n, err := unix.EpollWait(int(fd), make([]unix.EpollEvent, 1), 0)
			hungUp = n > 0
			return n > 0 || err != nil && err != unix.EINTR
		})
		if hungUp {
			do()
		}
	})
	return func() {
		set.Close()
		waiting.Wait()
	}
}
