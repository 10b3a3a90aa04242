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

	"github.com/dragoman-proxy/dragoman/adapterrt/children"
)

const (
	// name is the name of the watching process.
	name = "dragoman-orphans"
	// grace is how long a group has from SIGTERM to SIGKILL.
	grace = 3 * time.Second
)

// init turns this program into the watching process, if it was started as that. It runs
// before main, so that every program that uses this package, such as a test, can be the
// watching process.
func init() {
	if len(os.Args) == 1 && os.Args[0] == name {
		signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM) // it ends with the process that it watches
		end(listen(os.Stdin))
		syscall.Exit(0)
	}
}

// watched has the groups, and the process that watches over them.
var watched struct {
	mu       sync.Mutex
	groups   map[int]bool
	starting int       // number of Start calls that have no group yet
	cmd      *exec.Cmd // nil while there is none
	pipe     *os.File
	ended    chan struct{} // closed when cmd has ended
}

// Start calls start, which starts a process that leads a group of its own and returns the
// group's id. If this process is killed before Forget is called, the watching process ends
// the group. If there can be no watching process, Start only calls start. The error is
// that of start.
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

// Forget is called when a group has ended. The system may then give its id to another
// group.
func Forget(group int) {
	w := &watched
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.groups, group)
	tell('-', group)
	rest()
}

// tell sends the watching process a group. If that process has ended, tell starts another
// one and sends it all groups. Called with watched.mu held.
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

// rest ends the watching process if there is nothing to watch over. Called with watched.mu
// held.
func rest() {
	if w := &watched; w.cmd != nil && w.starting+len(w.groups) == 0 {
		stop()
	}
}

// begin starts the watching process and sends it all groups. Called with watched.mu held.
func begin() {
	program := "/proc/self/exe" // works although the file may have been replaced
	if runtime.GOOS != "linux" {
		var err error
		if program, err = os.Executable(); err != nil {
			return
		}
	}
	r, pipe, err := os.Pipe() // children do not inherit the writing end
	if err != nil {
		return
	}
	defer r.Close()
	cmd := &exec.Cmd{
		Path: program, Args: []string{name}, Env: []string{}, Dir: "/", Stdin: r,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true}, // it gets no signals for this process's group
	}
	if children.Start(cmd) != nil {
		pipe.Close()
		return
	}
	w := &watched
	w.cmd, w.pipe, w.ended = cmd, pipe, make(chan struct{})
	go func(ended chan<- struct{}) { // at once, so that it is no zombie if it is killed
		children.Wait(cmd) //nolint:errcheck // the error is that of the kill
		close(ended)
	}(w.ended)
	for group := range w.groups {
		fmt.Fprintf(pipe, "+%d\n", group) //nolint:errcheck // the next write fails as well, and begins anew
	}
}

// stop kills the watching process, which then ends no groups. Called with watched.mu held.
func stop() {
	w := &watched
	w.cmd.Process.Kill() //nolint:errcheck // it may be gone
	w.pipe.Close()
	<-w.ended
	w.cmd, w.pipe = nil, nil
}

// listen reads groups until the pipe ends, and returns those that are left.
func listen(in io.Reader) map[int]bool {
	groups := make(map[int]bool)
	for lines := bufio.NewScanner(in); lines.Scan(); {
		line := lines.Text()
		group, err := strconv.Atoi(line[min(1, len(line)):])
		switch {
		case err != nil || group <= 1: // kill takes 1 and less for other processes
		case line[0] == '+':
			groups[group] = true
		case line[0] == '-':
			delete(groups, group)
		}
	}
	return groups
}

// end ends groups: it sends SIGTERM, and after grace SIGKILL.
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
