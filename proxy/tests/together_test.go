package tests

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

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

// waits runs t beside other tests that were marked so, when all others have ended: it waits for what no bubble has, such as processes and
// the kernel's timers. TestMain fails if any goroutine is left when the last one has ended.
func waits(t *testing.T) {
	waiting.Store(t.Name(), true)
	t.Parallel()
}

// waiting holds the names of the tests that were marked by waits.
var waiting sync.Map

// inBubble runs a subtest of t in a bubble, in which no time is spent on waiting. Its peers are those of peertest,
// which meet in memory: it must not use sockets or processes.
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
		peertest.InMemory(t)
		do(t)
	})
}
