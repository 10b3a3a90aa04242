package observe

import (
	"sync"
	"time"
)

// allowance is how much of something is kept a second. What was not used is there for the next burst. nil allows all.
type allowance struct {
	rate  int
	burst time.Duration // how long nothing is used until no more is saved

	mu   sync.Mutex
	left time.Duration // the time that it takes to allow what was not used
	at   time.Time
}

// What is allowed at once: bytes of long messages, and calls with their messages.
const (
	burst      = 250 * time.Millisecond
	callsBurst = 4 * time.Second
)

func newAllowance(rate int, burst time.Duration) *allowance {
	if rate <= 0 {
		return nil
	}
	return &allowance{rate: rate, burst: burst, left: burst}
}

// or returns the allowance of two readers.
func (a *allowance) or(b *allowance) *allowance {
	if a == nil || b == nil {
		return nil
	}
	if b.rate > a.rate {
		return b
	}
	return a
}

// take reports whether n more bytes are allowed. A message that is longer than a burst is allowed if nothing else was.
func (a *allowance) take(n int, now time.Time) bool {
	if a == nil {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if passed := now.Sub(a.at); passed > 0 {
		a.left, a.at = min(a.burst, a.left+min(passed, time.Hour)), now
	}
	if a.left < 0 {
		return false
	}
	a.left -= time.Duration(n) * time.Second / time.Duration(a.rate)
	return true
}
