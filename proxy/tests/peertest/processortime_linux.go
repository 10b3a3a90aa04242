package peertest

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// ProcessorTime returns how long do used a processor. Other than the time that it took, that is the same on a machine with many other
// things to do. It does not count other goroutines. On systems other than Linux it is the time that do took.
func ProcessorTime(do func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var began, ended unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &began); err != nil {
		panic(err)
	}
	do()
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ended); err != nil {
		panic(err)
	}
	return time.Duration(ended.Nano() - began.Nano())
}
