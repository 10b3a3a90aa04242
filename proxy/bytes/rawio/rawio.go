// Package rawio reads and writes TCP connections at less cost for the scheduler, and watches them without a goroutine for each
// ([Watch]). [WhenHungUp] does the latter for a pipe or a socket that is only written to.
//
// The standard library tells the scheduler of each system call, so that one that blocks keeps no other goroutine from running. If
// the call takes longer than usual, another thread takes over, and one of the two has to sleep soon. That costs more than most
// calls, and the calls on a socket do not block: with EAGAIN, the scheduler waits for the socket without a thread.
package rawio

import (
	"net"
	"sync"
)

// most is how many bytes are read or written so at once. That takes a tenth of a millisecond, copying, in which the collector has to
// wait for the goroutine. With more, the scheduler should know of it.
const most = 1 << 20

// WriteBoth writes a and then b to nc, with one system call if the system and nc can do that.
func WriteBoth(nc net.Conn, a, b []byte) (int, error) {
	if c, ok := nc.(interface {
		writeBoth(a, b []byte) (int, error)
	}); ok {
		return c.writeBoth(a, b)
	}
	return writeVector(nc, a, b)
}

// vector is what the standard library needs for two parts.
type vector struct {
	parts [2][]byte
	left  net.Buffers
}

var vectors = sync.Pool{New: func() any { return new(vector) }}

func writeVector(nc net.Conn, a, b []byte) (int, error) {
	v := vectors.Get().(*vector)
	defer vectors.Put(v)
	v.parts = [2][]byte{a, b}
	v.left = v.parts[:]
	n, err := v.left.WriteTo(nc)
	*v = vector{}
	return int(n), err
}
