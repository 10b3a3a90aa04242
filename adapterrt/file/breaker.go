package file

import (
	"time"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Breaker says when an API that fails is not called for a while.
type Breaker struct {
	Failures int           // in a row
	Open     time.Duration // until the API is tried again
}

// breaker reads the breaker of a file. It returns nil if there is none.
func (c *checker) breaker(root *node) *Breaker {
	n := c.get(root, "", "breaker", wire.Object)
	if n == nil {
		return nil
	}
	c.only(n, "breaker", "failures", "open_ms")
	return &Breaker{
		Failures: c.whole(n, "breaker", "failures", 5, 1, 1000),
		Open:     c.millis(n, "breaker", "open_ms", 10_000, 100, 60_000),
	}
}
