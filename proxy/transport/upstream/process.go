package upstream

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/children"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream/orphans"
)

// Process is a child process that has started, as its Starter sees it.
type Process struct {
	// In, Out and Err are this process's ends of its standard input, output and error. In may have SetWriteDeadline and Out
	// SetReadDeadline, as pipes of the system have: without them, only Close ends a Write or Read that waits.
	In       io.WriteCloser
	Out, Err io.ReadCloser

	// Wait waits for the end of the child, ends what it has left behind, and returns an error that says how it has ended, nil for exit
	// status 0. It is called once, by the goroutine that has called the Starter.
	Wait func() error
	// Terminate asks the child to end. It returns false if it cannot.
	Terminate func() bool
	// Kill ends the child and what it has started.
	Kill func()
	// Release frees what is left. It is called once, after Wait, and nothing is called after it.
	Release func()
}

// startCommand starts a program of the operating system, in a group of its own. The goroutine that calls it keeps its thread until Wait returns, because the
// signal at the death of this process (Pdeathsig) is tied to the thread that has started the child.
func startCommand(cmd *exec.Cmd) (*Process, error) {
	ours, theirs, err := pipes()
	if err != nil {
		return nil, err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs[0], theirs[1], theirs[2]
	runtime.LockOSThread()
	var g group
	err = orphans.Start(func() (id int, err error) {
		if err := children.Start(cmd); err != nil {
			return 0, err
		}
		g = adopt(cmd.Process)
		return cmd.Process.Pid, nil
	})
	closeAll(theirs)
	if err != nil {
		runtime.UnlockOSThread()
		closeAll(ours)
		if _, none := os.Stat(cmd.Dir + "/"); cmd.Dir != "" && none != nil { // exec names the program in its place
			err = &fs.PathError{Op: "chdir", Path: cmd.Dir, Err: errors.Unwrap(none)}
		}
		return nil, err
	}
	reaped := make(chan struct{})
	return &Process{
		In: ours[0], Out: ours[1], Err: ours[2],
		Wait: func() error {
			defer runtime.UnlockOSThread()
			err := g.wait(cmd)
			go func() { // which may take a moment, while those who wait for the child go on
				defer close(reaped)
				g.reap()
				orphans.Forget(cmd.Process.Pid)
			}()
			return err
		},
		Terminate: g.terminate, Kill: g.kill,
		Release: func() {
			<-reaped
			g.release()
		},
	}, nil
}

// pipes makes the three pipes: our ends, and those for the child.
func pipes() (ours, theirs []*os.File, err error) {
	for range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(append(theirs, ours...))
			return nil, nil, err
		}
		if len(ours) == 0 {
			r, w = w, r
		}
		ours, theirs = append(ours, r), append(theirs, w)
	}
	return ours, theirs, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// setReadDeadline bounds reads from r, if it has deadlines.
func setReadDeadline(r io.Reader, t time.Time) {
	if d, ok := r.(interface{ SetReadDeadline(time.Time) error }); ok {
		d.SetReadDeadline(t) //nolint:errcheck // without deadlines, Close ends the read
	}
}

// setWriteDeadline bounds writes to w. It returns false if w has no deadlines.
func setWriteDeadline(w io.Writer, t time.Time) bool {
	d, ok := w.(interface{ SetWriteDeadline(time.Time) error })
	return ok && d.SetWriteDeadline(t) == nil
}
