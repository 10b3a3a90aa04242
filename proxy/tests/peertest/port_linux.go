package peertest

import (
	"net"
	"os"
	"strconv"
	"syscall"
	"testing"
)

// Port returns an address for a listener that begins later, or again. The kernel gives its port to no other socket that takes
// any port: a socket is bound to it until the test ends, but does not listen, and both have SO_REUSEADDR.
func Port(t testing.TB) (address string) {
	t.Helper()
	s, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(os.NewSyscallError("socket", err))
	}
	t.Cleanup(func() { syscall.Close(s) })
	if err := syscall.SetsockoptInt(s, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		t.Fatal(os.NewSyscallError("setsockopt", err))
	}
	if err := syscall.Bind(s, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(os.NewSyscallError("bind", err))
	}
	at, err := syscall.Getsockname(s)
	if err != nil {
		t.Fatal(os.NewSyscallError("getsockname", err))
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(at.(*syscall.SockaddrInet4).Port))
}
