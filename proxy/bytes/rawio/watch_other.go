//go:build !linux

package rawio

import "net"

// sockets does nothing on systems other than Linux.
type sockets struct{}

func (*Watch) addSocket(net.Conn, uint64, Watched) bool { return false }

func (*sockets) close() {}
