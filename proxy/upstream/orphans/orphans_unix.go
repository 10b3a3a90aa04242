//go:build unix

package orphans

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	// name is what the watching process is called.
	name = "dragoman-orphans"
	// grace is how long a group has from SIGTERM to SIGKILL.
	grace = 3 * time.Second
)

// init turns this program into the watching process, if it was started as that: before
// main, so that every program that uses this package, a test as well, can be it.
func init() {
	if len(os.Args) == 1 && os.Args[0] == name {
		signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM) // it ends with the other one
		end(listen(os.Stdin))
		syscall.Exit(0)
	}
}

// watched are the groups, and the process that watches over them.
var watched struct {
	mu       sync.Mutex
	groups   map[int]bool
	starting int       // calls of Start that have no group yet
	cmd      *exec.Cmd // nil while there is none
	pipe     *os.File
}

// Start calls start, which starts a process that leads a group of its own and returns the
// id of that. The group is ended, should this process be killed before Forget is called.
// Where that cannot be done Start only calls start. The error is that of start.
func Start(start func() (group int, err error)) error {
	w := &watched
	w.mu.Lock()
	w.starting++
	if w.cmd == nil {
		begin()
	}
	w.mu.Unlock()
	group, err := start()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.starting--
	if err != nil {
		rest()
		return err
	}
	if w.groups == nil {
		w.groups = make(map[int]bool)
	}
	w.groups[group] = true
	tell('+', group)
	return nil
}

// Forget is called when a group has ended, whose id may become another one's.
func Forget(group int) {
	w := &watched
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.groups, group)
	tell('-', group)
	rest()
}

// tell tells the watching process of a group, and another one of all, should somebody have
// ended it. Called with watched.mu held.
func tell(sign byte, group int) {
	w := &watched
	if w.cmd != nil {
		if _, err := fmt.Fprintf(w.pipe, "%c%d\n", sign, group); err == nil {
			return
		}
		stop()
	}
	begin()
}

// rest ends the watching process where there is nothing to watch over. Called with
// watched.mu held.
func rest() {
	if w := &watched; w.cmd != nil && w.starting+len(w.groups) == 0 {
		stop()
	}
}

// begin starts the watching process and tells it all groups. Called with watched.mu held.
func begin() {
	program := "/proc/self/exe" // also where the file has been replaced
	if runtime.GOOS != "linux" {
		var err error
		if program, err = os.Executable(); err != nil {
			return
		}
	}
	r, pipe, err := os.Pipe() // children do not inherit our end
	if err != nil {
		return
	}
	defer r.Close()
	cmd := &exec.Cmd{
		Path: program, Args: []string{name}, Env: []string{}, Dir: "/", Stdin: r,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true}, // signals for our group are not for it
	}
	if cmd.Start() != nil {
		pipe.Close()
		return
	}
	w := &watched
	w.cmd, w.pipe = cmd, pipe
	for group := range w.groups {
		fmt.Fprintf(pipe, "+%d\n", group) //nolint:errcheck // the next one finds out
	}
}

// stop ends the watching process, which knows of no group any more. Called with
// watched.mu held.
func stop() {
	w := &watched
	w.cmd.Process.Kill() //nolint:errcheck // it may be gone
	w.pipe.Close()
	w.cmd.Wait() //nolint:errcheck // so it ends
	w.cmd, w.pipe = nil, nil
}

// listen reads what groups there are until the pipe ends.
func listen(in io.Reader) map[int]bool {
	groups := make(map[int]bool)
	for lines := bufio.NewScanner(in); lines.Scan(); {
		line := lines.Text()
		group, err := strconv.Atoi(line[min(1, len(line)):])
		switch {
		case err != nil || group <= 1: // 1 and less would mean others
		case line[0] == '+':
			groups[group] = true
		case line[0] == '-':
			delete(groups, group)
		}
	}
	return groups
}

// end ends groups: it asks, and after a while it insists.
func end(groups map[int]bool) {
	const step = 10 * time.Millisecond
	for group := range groups {
		syscall.Kill(-group, syscall.SIGTERM) //nolint:errcheck // it may be gone
	}
	for waited := time.Duration(0); waited < grace && len(groups) > 0; waited += step {
		time.Sleep(step)
		for group := range groups {
			if syscall.Kill(-group, 0) == syscall.ESRCH {
				delete(groups, group)
			}
		}
	}
	for group := range groups {
		syscall.Kill(-group, syscall.SIGKILL) //nolint:errcheck // it may be gone
	}
}
