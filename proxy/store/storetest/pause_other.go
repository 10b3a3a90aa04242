//go:build !unix

package storetest

// Pause is not possible on this system: the test is skipped.
func (r *Redis) Pause() { r.t.Skip("a process cannot be paused here") }

// Continue ends a Pause.
func (r *Redis) Continue() {}
