package tests

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// allTogether is set when the tests that run alone have ended.
var allTogether atomic.Bool

// together lets t run beside the others that call it, when the tests that run alone have ended: most of the time, each of them waits. It
// must be the first call of a test, which must not look at what belongs to the whole process, such as its memory. Goroutines that these
// tests leave fail the package, in TestMain. With the race detector they run one by one.
func together(t *testing.T) {
	t.Helper()
	if oneByOne {
		return
	}
	t.Parallel()
	allTogether.Store(true)
}

// runTogether runs a subtest of t beside others of t that were run by this function: most of the time, each of them
// waits. t fails if any goroutine is left when the last one has ended.
func runTogether(t *testing.T, name string, do func(t *testing.T)) {
	t.Helper()
	leavesNothing(t)
	t.Run(name, func(t *testing.T) {
		goroutinesCounted.Store(t, true) // with those of the others
		t.Cleanup(func() { goroutinesCounted.Delete(t) })
		t.Parallel()
		do(t)
	})
}

// inBubble runs a subtest of t in a bubble, in which no time is spent on waiting. It must not use sockets or processes.
func inBubble(t *testing.T, name string, do func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { bubble(t, do) })
}

// bubble runs do in a bubble. That waits for the goroutines in it, and leavesNothing, whose time would be over at once there, does not
// wait for others: those of earlier tests may still run.
func bubble(t *testing.T, do func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		goroutinesCounted.Store(t, true)
		t.Cleanup(func() { goroutinesCounted.Delete(t) })
		do(t)
	})
}
