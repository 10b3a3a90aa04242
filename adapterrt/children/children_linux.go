package children

import (
	"context"
	"math"
	"os"
	"os/exec"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sync/semaphore"
	"golang.org/x/sys/unix"
)

// startTime is how long the starts in progress are waited for. One may hang, for example if its program is on a file system that
// does not answer.
const startTime = 100 * time.Millisecond

// starts is held by each start until the process is in own, in parts of 1, and wholly while other processes are reaped: then no
// pid can become that of a process of this program.
var starts = semaphore.NewWeighted(math.MaxInt64)

// own has the processes that Start has started and that were not waited for, by pid.
var own struct {
	mu   sync.Mutex
	cmds map[int]*exec.Cmd
}

// Start is cmd.Start. Wait must be called, and not cmd.Wait.
func Start(cmd *exec.Cmd) error {
	starts.Acquire(context.Background(), 1) //nolint:errcheck // this context does not end
	defer starts.Release(1)
	if err := cmd.Start(); err != nil {
		return err
	}
	own.mu.Lock()
	defer own.mu.Unlock()
	if own.cmds == nil {
		own.cmds = make(map[int]*exec.Cmd)
	}
	own.cmds[cmd.Process.Pid] = cmd
	return nil
}

// Wait is cmd.Wait.
func Wait(cmd *exec.Cmd) error {
	err := cmd.Wait()
	own.mu.Lock()
	defer own.mu.Unlock()
	if pid := cmd.Process.Pid; own.cmds[pid] == cmd { // a later process may have the same pid
		delete(own.cmds, pid)
	}
	return err
}

// Run is cmd.Run.
func Run(cmd *exec.Cmd) error {
	if err := Start(cmd); err != nil {
		return err
	}
	return Wait(cmd)
}

// owned returns this program's process with the pid, or nil.
func owned(pid int) *exec.Cmd {
	own.mu.Lock()
	defer own.mu.Unlock()
	return own.cmds[pid]
}

// alone calls f while no process is started, and reports whether it could: it does not wait long for a start that hangs.
func alone(f func()) bool {
	ctx, stop := context.WithTimeout(context.Background(), startTime)
	defer stop()
	if starts.Acquire(ctx, math.MaxInt64) != nil {
		return false
	}
	defer starts.Release(math.MaxInt64)
	f()
	return true
}

// Ended waits until a process that Start has started has ended, and leaves it to Wait: until then, no other process and no
// other group has its pid. It returns false if the system does not allow this.
func Ended(cmd *exec.Cmd) bool {
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return err == nil
		}
	}
}

// ReapGroup reaps what has become of the processes of a group that was killed, if they were left to this program. Its leader was
// a process of this program, for which Wait has returned. ReapGroup waits a short time for those that have not ended yet.
func ReapGroup(id int) {
	if !inherits() {
		return
	}
	const longest = 256 * time.Millisecond
	for wait := time.Millisecond; wait <= longest; wait *= 2 {
		left := true
		alone(func() { left = reapGroup(id) })
		if !left {
			return
		}
		time.Sleep(wait)
	}
}

// reapGroup is called by alone. It reports whether there are processes in the group that have not ended.
func reapGroup(id int) bool {
	for owned(id) == nil { // else the group is gone, and another one has its id
		pid, err := unix.Wait4(-id, nil, unix.WNOHANG, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return false
		case pid == 0:
			return true
		}
	}
	return false
}

// inherits reports whether processes whose parent has ended become children of this program.
func inherits() bool {
	if os.Getpid() == 1 {
		return true
	}
	var subreaper int32
	_, _, e := unix.RawSyscall(unix.SYS_PRCTL, unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&subreaper)), 0) //nolint:gosec // as the system requires
	return e == 0 && subreaper != 0
}
