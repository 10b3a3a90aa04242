package cost

import (
	"time"

	"golang.org/x/sys/unix"
)

// sleepUntil sleeps in the system: time.Sleep of an idle process is up to a millisecond late, because the runtime waits
// in epoll, which counts milliseconds.
func sleepUntil(t time.Time) {
	for {
		d := time.Until(t)
		if d <= 0 {
			return
		}
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // of this thread, which may be another one each time; the default is 50 µs
		ts := unix.NsecToTimespec(d.Nanoseconds())
		_ = unix.Nanosleep(&ts, nil) // a signal ends it early
	}
}
