package upstream

import (
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestWhatTheChildHasStartedBecomesNoZombie: a process that gets the children of its children, as PID 1 does, reaps them.
func TestWhatTheChildHasStartedBecomesNoZombie(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	defer unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
	c := start(t, role("has a child that stays"))
	pid := pidIn(t, hear(t, c))
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
		t.Errorf("%d is still there: %v", pid, err)
	}
}
