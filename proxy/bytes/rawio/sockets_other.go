//go:build !linux

package rawio

import "net"

// sockets does nothing on systems other than Linux.
type sockets struct{}

func (*sockets) add(net.Conn, uint64, bool, interface{ notify(id uint64) }) bool { return false }

func (*sockets) close() {}
