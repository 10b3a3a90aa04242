package peertest

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// Deafen makes the system drop each packet that comes on nc, so that nothing is acknowledged: to the peer it looks as if what lies
// between had forgotten the connection. The returned function ends that.
func Deafen(t testing.TB, nc net.Conn) (hear func()) {
	t.Helper()
	raw, err := nc.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	drop := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K}
	set := func(option int, program *unix.SockFprog) {
		if err := raw.Control(func(fd uintptr) {
			if err := unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, option, program); err != nil {
				t.Errorf("a filter of a socket: %v", err)
			}
		}); err != nil {
			t.Error(err)
		}
	}
	set(unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &drop})
	return func() { set(unix.SO_DETACH_FILTER, &unix.SockFprog{Len: 1, Filter: &drop}) }
}
