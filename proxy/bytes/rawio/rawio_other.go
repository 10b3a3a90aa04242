//go:build !linux

package rawio

import "net"

// Wrap returns nc: only on Linux does it make a difference.
func Wrap(nc net.Conn) net.Conn { return nc }
