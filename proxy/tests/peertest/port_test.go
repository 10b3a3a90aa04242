package peertest

import (
	"net"
	"testing"
)

// TestPortCanBeListenedAtAgain, after connections to it too.
func TestPortCanBeListenedAtAgain(t *testing.T) {
	at := Port(t)
	for range 3 {
		if c, err := net.Dial("tcp", at); err == nil {
			c.Close()
			t.Fatalf("something listens at %s", at)
		}
		l, err := net.Listen("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		client, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		server, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		server.Close() // first: its side waits for late packets
		client.Close()
		l.Close()
	}
}
