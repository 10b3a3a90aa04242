//go:build unix

package upstream

import "syscall"

// quietProbe returns a function that reports whether the peer of an idle socket has
// neither closed it nor sent anything. It does not block. It discards a byte that it
// finds, which does no harm, because such a connection cannot be used.
func quietProbe(s syscall.Conn) func() bool {
	raw, err := s.SyscallConn()
	if err != nil {
		return nil
	}
	var (
		b     [1]byte
		quiet bool
	)
	look := func(fd uintptr) {
		err := lookAt(fd, &b) // sockets are non-blocking here
		quiet = err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
	}
	return func() bool {
		quiet = false
		return raw.Control(look) == nil && quiet
	}
}
