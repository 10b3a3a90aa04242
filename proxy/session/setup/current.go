package setup

import "sync/atomic"

// Current is the setup in force. It is safe for concurrent use.
type Current struct{ p atomic.Pointer[Setup] }

// Now returns the setup in force. A caller that needs several of its fields to be consistent calls Now once.
func (c *Current) Now() *Setup { return c.p.Load() }

// Replace makes next the setup in force and returns the one before, or nil.
func (c *Current) Replace(next *Setup) (was *Setup) { return c.p.Swap(next) }
