//go:build !linux

package downstream

// watch does nothing on systems other than Linux. Every connection gets a [peeker]
// instead: a goroutine for each exchange. If a client has sent the beginning of its
// next request, its leaving is not noticed until something is written to it.
type watch struct{}

func newWatch() (*watch, error) { return &watch{}, nil }

func (*watch) add(*conn) bool { return false }
func (*watch) remove(*conn)   {}
func (*watch) close()         {}
