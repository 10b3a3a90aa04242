//go:build unix

package orphans

import (
	"maps"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// group starts a process in a group of its own.
func group(t *testing.T) (pid int, ended chan error) {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended = make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { cmd.Process.Kill() })
	return cmd.Process.Pid, ended
}

func TestGroupsEndWithThePipe(t *testing.T) {
	defer Forget(1 << 30)
	one, oneEnded := group(t)
	two, twoEnded := group(t)
	Watch(one)
	Watch(two)
	Forget(two) // no call needs it any more
	watched.mu.Lock()
	watched.pipe.Close() // as the end of this process does
	watched.mu.Unlock()
	select {
	case <-oneEnded:
	case <-time.After(20 * time.Second):
		t.Error("it lives on")
	}
	select {
	case err := <-twoEnded:
		t.Errorf("another one has ended: %v", err)
	default:
	}
	Forget(one)
	if watched.cmd != nil {
		t.Error("there is still a watching process")
	}
}

// TestTheWatchingProcessIsStartedAgain, should somebody end it.
func TestTheWatchingProcessIsStartedAgain(t *testing.T) {
	one, oneEnded := group(t)
	two, twoEnded := group(t)
	Watch(one)
	watched.mu.Lock()
	first := watched.cmd
	first.Process.Kill()
	first.Wait()
	watched.mu.Unlock()
	Watch(two)
	watched.mu.Lock()
	if watched.cmd == first {
		t.Error("it is not")
	}
	watched.pipe.Close()
	watched.mu.Unlock()
	<-oneEnded
	<-twoEnded
	Forget(one)
	Forget(two)
}

func TestWhatIsListenedTo(t *testing.T) {
	groups := listen(strings.NewReader("+7\n+8\n-7\n+1\n+0\n+-5\n\nx\n+\n+9"))
	if got := slices.Sorted(maps.Keys(groups)); !slices.Equal(got, []int{8, 9}) {
		t.Errorf("%v", got)
	}
}
