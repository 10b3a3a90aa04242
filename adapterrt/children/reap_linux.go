package children

import (
	"os"
	"os/exec"
	"os/signal"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// idleTime is how long nothing is looked for without a SIGCHLD.
	idleTime = 10 * time.Second
	// ownerTime is how long a process of this program that has ended is left to its owner, while it hides others.
	ownerTime = 64 * time.Millisecond
	// maxPid is above each pid of Linux (PID_MAX_LIMIT).
	maxPid = 1 << 22
	// perHold is how many pids are looked at while no process can be started.
	perHold = 1024
	// searchPause is how many times as long as a search by pid the time to the next one is.
	searchPause = 50
)

// ReapOrphans reaps the processes that others have left to this program, if this program is PID 1, and does not return then.
// Otherwise it returns at once.
func ReapOrphans() {
	if os.Getpid() != 1 {
		return
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	var r reaper
	for {
		select {
		case <-ended:
		case <-time.After(r.reap()):
		}
	}
}

// reaper reaps the zombies that are not this program's own.
type reaper struct {
	notBefore time.Time // the next search by pid
}

// reap reaps all, and returns when it is to be called again without a SIGCHLD.
func (r *reaper) reap() time.Duration {
	for wait := time.Millisecond; ; {
		hidden, more, ok := reapNamed()
		switch {
		case !ok:
			return startTime
		case more:
			continue
		case hidden == nil:
			return idleTime
		case wait > ownerTime:
			return r.search(hidden)
		}
		time.Sleep(wait) // its owner is about to take it
		wait *= 2
	}
}

// reapNamed reaps the zombies that the system names, in its order. That ends before a process of this program, which the system
// names for ever until its owner takes it: then behind, this process, is returned. more says that there may be more to
// reap. ok is false if a start hangs.
func reapNamed() (behind *exec.Cmd, more, ok bool) {
	ok = alone(func() {
		for range perHold {
			pid := zombie()
			if pid == 0 {
				return
			}
			if behind = owned(pid); behind != nil {
				return
			}
			unix.Wait4(pid, nil, unix.WNOHANG, nil) //nolint:errcheck // the system names it again
		}
		more = true
	})
	return behind, more, ok
}

// search reaps the zombies that are named after first, which has an owner that does not take it. The system names no more than
// one, so each pid is tried, which takes two seconds; this is not done often.
func (r *reaper) search(first *exec.Cmd) time.Duration {
	began := time.Now()
	if wait := r.notBefore.Sub(began); wait > 0 {
		return min(wait, idleTime)
	}
	for from := 0; from < maxPid; from += perHold {
		taken := false
		ok := alone(func() {
			if taken = owned(zombie()) != first; taken {
				return
			}
			for pid := max(from, 2); pid < from+perHold; pid++ {
				if owned(pid) == nil {
					unix.Wait4(pid, nil, unix.WNOHANG, nil) //nolint:errcheck // most pids are of no child
				}
			}
		})
		if !ok || taken {
			return startTime
		}
	}
	pause := searchPause * time.Since(began)
	r.notBefore = began.Add(pause)
	return min(pause, idleTime)
}

// zombie returns the pid of a child that has ended and was not waited for, and leaves it so; 0 if there is none. While it is
// there, the answer may stay the same.
func zombie() int {
	var info unix.Siginfo
	for {
		err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return 0
		}
		// The pid follows three numbers of 32 bits, at the next multiple of a word.
		const word = unsafe.Sizeof(uintptr(0))
		return int(*(*int32)(unsafe.Add(unsafe.Pointer(&info), (12+word-1)/word*word))) //nolint:gosec // as the system lays it out
	}
}
