package children

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// scenario is set in a test binary that is started again, and names what it does. Its value may end with a number.
const scenario = "CHILDREN_SCENARIO"

var scenarios = map[string]func(n int) error{
	"beside": ownBesideOrphans,
	"behind": orphansBehindAnOwn,
	"group":  groupOfAnEndedLeader,
}

// init keeps the main goroutine on the first thread: there the system puts orphans, after the children that this thread has.
func init() {
	if os.Getenv(scenario) != "" {
		runtime.LockOSThread()
	}
}

func TestMain(m *testing.M) {
	name, n, _ := strings.Cut(os.Getenv(scenario), " ")
	if name == "" {
		os.Exit(m.Run())
	}
	count, _ := strconv.Atoi(n)
	if err := scenarios[name](count); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// again runs the test binary again for a scenario.
func again(t *testing.T, name string, attr *syscall.SysProcAttr) {
	t.Helper()
	var out bytes.Buffer
	ctx, stop := context.WithTimeout(t.Context(), 2*peertest.Patience)
	defer stop()
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Env = append(os.Environ(), scenario+"="+name)
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = &out, &out, attr
	err := cmd.Start()
	if attr != nil && (errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EINVAL)) {
		t.Skipf("no PID namespace can be made here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, out.Bytes())
	}
}

// firstProcess makes a process PID 1.
func firstProcess() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if os.Getuid() != 0 {
		a.Cloneflags |= syscall.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	return a
}

// TestOrphansAreReapedBesideProcessesOfOurOwn: each exit status arrives, and no zombie is left.
func TestOrphansAreReapedBesideProcessesOfOurOwn(t *testing.T) {
	n := 1000
	if testing.Short() {
		n = 100
	}
	again(t, fmt.Sprint("beside ", n), firstProcess())
}

func ownBesideOrphans(n int) error {
	if os.Getpid() != 1 {
		return errors.New("this is not PID 1")
	}
	go ReapOrphans()
	errs := make(chan error, n)
	var all sync.WaitGroup
	turns := make(chan struct{}, 8)
	for i := range n {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			status := i % 200
			// The shell in the background is not waited for; it ends before or after its parent.
			cmd := exec.Command("sh", "-c", fmt.Sprintf("(exit 201) & exit %d", status))
			if i%2 == 0 {
				cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			}
			err := Run(cmd)
			if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != status {
				errs <- fmt.Errorf("start %d: %v, want the exit status %d", i, err, status)
			}
			if i%2 == 0 {
				ReapGroup(cmd.Process.Pid)
			}
		})
	}
	all.Wait()
	close(errs)
	return cmp.Or(<-errs, childless())
}

// childless waits until this process has no children.
func childless() error {
	for limit := time.Now().Add(peertest.Patience); ; time.Sleep(time.Millisecond) {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if err == unix.ECHILD {
			return nil
		}
		if time.Now().After(limit) {
			return fmt.Errorf("there are children: %v, and %d is a zombie", err, zombie())
		}
	}
}

// TestAnOwnProcessHidesNoOrphans: one of ours that has ended, and is not waited for, is all that the system names.
func TestAnOwnProcessHidesNoOrphans(t *testing.T) { again(t, "behind", firstProcess()) }

func orphansBehindAnOwn(int) error {
	cmd := exec.Command("sh", "-c", "exit 7")
	if err := Start(cmd); err != nil {
		return err
	}
	if !Ended(cmd) {
		return errors.New("it has not ended")
	}
	var orphans []int
	for range 20 {
		sh := exec.Command("sh", "-c", "(exit 3) & echo $!")
		out, err := output(sh)
		if err != nil {
			return err
		}
		pid, err := strconv.Atoi(strings.TrimSpace(out))
		if err != nil {
			return err
		}
		orphans = append(orphans, pid)
	}
	if zombie() != cmd.Process.Pid {
		return errors.New("it hides nothing")
	}
	go ReapOrphans()
	limit := time.Now().Add(peertest.Patience)
	for _, pid := range orphans {
		for syscall.Kill(pid, 0) != syscall.ESRCH {
			if time.Now().After(limit) {
				return fmt.Errorf("%d is still there", pid)
			}
			time.Sleep(time.Millisecond)
		}
	}
	if err := Run(exec.Command("true")); err != nil { // while the search goes on
		return err
	}
	if err := Wait(cmd); err == nil || err.Error() != "exit status 7" {
		return fmt.Errorf("the status of the one that hid them: %v", err)
	}
	return childless()
}

func output(cmd *exec.Cmd) (string, error) {
	var out bytes.Buffer
	cmd.Stdout = &out
	err := Run(cmd)
	return out.String(), err
}

// TestTheGroupOfAnEndedLeaderIsReaped: that needs no PID 1, and takes no process of ours, whatever its group is.
func TestTheGroupOfAnEndedLeaderIsReaped(t *testing.T) { again(t, "group", nil) }

func groupOfAnEndedLeader(int) error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}
	other := exec.Command("sh", "-c", "exit 5")
	other.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := Start(other); err != nil {
		return err
	}
	leader := exec.Command("sh", "-c", "sleep 1000 & sleep 1000 & exit 6")
	leader.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := Start(leader); err != nil {
		return err
	}
	if !Ended(leader) || !Ended(other) {
		return errors.New("they have not ended")
	}
	syscall.Kill(-leader.Process.Pid, syscall.SIGKILL)
	if err := Wait(leader); err == nil || err.Error() != "exit status 6" {
		return fmt.Errorf("the status of the leader: %v", err)
	}
	ReapGroup(leader.Process.Pid)
	if err := syscall.Kill(-leader.Process.Pid, 0); err != syscall.ESRCH {
		return fmt.Errorf("there are processes in the group: %v", err)
	}
	ReapGroup(other.Process.Pid) // as if the system had given it the id of an earlier group
	if err := Wait(other); err == nil || err.Error() != "exit status 5" {
		return fmt.Errorf("the status of the other one: %v", err)
	}
	return childless()
}

// TestAStartThatHangsDelaysTheOthersLittle: nothing is reaped meanwhile, and the other starts go on.
func TestAStartThatHangsDelaysTheOthersLittle(t *testing.T) {
	starts.Acquire(t.Context(), 1)
	defer starts.Release(1)
	if alone(func() { t.Error("it was called") }) {
		t.Error("it says that it was alone")
	}
	if err := Run(exec.Command("true")); err != nil {
		t.Error(err)
	}
}

// TestOnlyPID1ReapsOrphans: elsewhere the call returns.
func TestOnlyPID1ReapsOrphans(*testing.T) { ReapOrphans() }
