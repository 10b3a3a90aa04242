//go:build !linux

package peertest

import (
	"net"
	"testing"
)

// Port returns an address for a listener that begins later, or again. Another process may take it before.
func Port(t testing.TB) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
