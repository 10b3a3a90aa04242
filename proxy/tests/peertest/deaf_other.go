//go:build !linux

package peertest

import (
	"net"
	"testing"
)

// Deafen skips the test: only Linux can drop what comes on one connection.
func Deafen(t testing.TB, _ net.Conn) (hear func()) {
	t.Skip("only Linux can drop what comes on one connection")
	return nil
}
