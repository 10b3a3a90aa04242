//go:build !linux && !darwin

package unixsocket

import (
	"io/fs"
	"net"
)

// Listen returns an error: unix sockets are used on Linux and macOS only.
func Listen(string, fs.FileMode) (net.Listener, error) { return nil, errUnsupported }

// Free returns an error, as Listen does.
func Free(string) error { return errUnsupported }

// Peer returns "".
func Peer(*net.UnixConn) string { return "" }
