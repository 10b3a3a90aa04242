//go:build !linux

package rawio

import "net"

// Watch does nothing on systems other than Linux: a goroutine has to wait on each connection.
type Watch struct{}

// NewWatch returns a Watch.
func NewWatch() (*Watch, error) { return &Watch{}, nil }

// Add returns false.
func (*Watch) Add(net.Conn, Watched, Watcher) (id uint64, ok bool) { return 0, false }

// Remove does nothing.
func (*Watch) Remove(uint64) {}

// Close does nothing.
func (*Watch) Close() {}
