//go:build unix

package upstream

import (
	"errors"
	"syscall"
)

// errNotQuiet says that the peer of an idle socket has closed it, or has sent something.
var errNotQuiet = errors.New("the connection has ended, or has bytes that no request has asked for")

// quietProbe returns a function that returns nil if the peer of an idle socket has
// neither closed it nor sent anything, and else the error of the socket. It does not block. It discards a byte that it
// finds, which does no harm, because such a connection cannot be used.
func quietProbe(s syscall.Conn) func() error {
	raw, err := s.SyscallConn()
	if err != nil {
		return nil
	}
	var (
		b   [1]byte
		got error
	)
	look := func(fd uintptr) {
		switch got = lookAt(fd, &b); got { // sockets are non-blocking here
		case nil:
			got = errNotQuiet
		case syscall.EAGAIN:
			got = nil
		}
	}
	return func() error {
		if err := raw.Control(look); err != nil {
			return err
		}
		return got
	}
}
