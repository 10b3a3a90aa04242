//go:build unix

package orphans

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// start starts a process in a group of its own, with Start.
func start(name string, args ...string) (*exec.Cmd, error) {
	cmd := exec.Command(name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd, Start(func() (int, error) {
		if err := cmd.Start(); err != nil {
			return 0, err
		}
		return cmd.Process.Pid, nil
	})
}

func group(t *testing.T) (pid int, ended chan error) {
	t.Helper()
	cmd, err := start("sleep", "1000")
	if err != nil {
		t.Fatal(err)
	}
	ended = make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { cmd.Process.Kill() })
	return cmd.Process.Pid, ended
}

func TestGroupsEndWithThePipe(t *testing.T) {
	one, oneEnded := group(t)
	two, twoEnded := group(t)
	Forget(two) // no call needs it any more
	watched.mu.Lock()
	watched.pipe.Close() // as the end of this process does
	watched.mu.Unlock()
	select {
	case <-oneEnded:
	case <-time.After(peertest.Patience):
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

// TestTheWatchingProcessIsStartedAgain checks that it is after it was killed.
func TestTheWatchingProcessIsStartedAgain(t *testing.T) {
	one, oneEnded := group(t)
	watched.mu.Lock()
	first := watched.cmd
	first.Process.Kill()
	<-watched.ended
	watched.mu.Unlock()
	two, twoEnded := group(t)
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

// TestNothingIsWatchedWhereNothingStarts checks that a program that does not exist leaves no watching
// process.
func TestNothingIsWatchedWhereNothingStarts(t *testing.T) {
	if _, err := start("/nowhere"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if watched.cmd != nil {
		t.Error("there is a watching process")
	}
}

// TestGroupsEndThoughTheirStarterIsKilledAtOnce checks that no process is left of a group whose Start
// has returned.
func TestGroupsEndThoughTheirStarterIsKilledAtOnce(t *testing.T) {
	for range 20 {
		r, w, err := os.Pipe() // ends with the last process of the group
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), killed+"=1")
		cmd.Stdout, cmd.Stderr = w, os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		w.Close()
		if err := cmd.Wait(); err == nil || err.Error() != "signal: killed" {
			t.Fatal(err)
		}
		r.SetReadDeadline(time.Now().Add(peertest.Patience))
		if _, err := io.ReadAll(r); err != nil {
			t.Fatalf("its group lives on: %v", err)
		}
		r.Close()
	}
}

// killed is set if the test binary is the process that is killed.
const killed = "DRAGOMAN_KILLED"

func TestMain(m *testing.M) {
	if os.Getenv(killed) == "" {
		os.Exit(m.Run())
	}
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stdout = os.Stdout
	Start(func() (int, error) { err := cmd.Start(); return cmd.Process.Pid, err })
	syscall.Kill(os.Getpid(), syscall.SIGKILL)
}

func TestGroupsAreReadFromThePipe(t *testing.T) {
	groups := listen(strings.NewReader("+7\n+8\n-7\n+1\n+0\n+-5\n\nx\n+\n+9"))
	if got := slices.Sorted(maps.Keys(groups)); !slices.Equal(got, []int{8, 9}) {
		t.Errorf("%v", got)
	}
}
