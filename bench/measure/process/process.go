// Package process starts commands that are to be measured and reads how much of the
// system's resources they use.
//
// A command reports that it is ready as dragoman does: by a line of JSON on stdout or
// stderr with "msg":"serving" and the "url" that it serves at.
package process

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

const (
	startTime = 30 * time.Second // until a command is ready
	stopTime  = 15 * time.Second // from SIGTERM until it is killed
	maxLine   = 64 << 10
)

// Usage is what a process uses of the system.
type Usage struct {
	CPU      time.Duration // since its start, without its children
	Resident int64         // bytes in memory
	Peak     int64         // the most bytes that were in memory
	Files    int           // open file descriptors
	Children int           // its child processes, including dead ones that it has not waited for
}

// Process is a running command.
type Process struct {
	cmd  *exec.Cmd
	url  string
	done chan struct{} // closed when it has ended
}

// Build compiles the command in package pkg into folder dir and returns its path.
func Build(ctx context.Context, dir, pkg string) (string, error) {
	file := filepath.Join(dir, filepath.Base(pkg))
	if runtime.GOOS == "windows" {
		file += ".exe"
	}
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", file, pkg).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return file, nil
}

// Start starts cmd, reads its output, and waits until the command reports the URL that
// it serves at. The caller must call Stop.
func Start(ctx context.Context, cmd *exec.Cmd) (*Process, error) {
	return StartWith(ctx, cmd, func(out io.Reader) { io.Copy(io.Discard, out) }) // a full pipe would block the command
}

// StartWith is Start, and leaves what the command writes after it serves to rest.
func StartWith(ctx context.Context, cmd *exec.Cmd, rest func(out io.Reader)) (*Process, error) {
	ready := make(chan error, 1)
	p := &Process{cmd: cmd, done: make(chan struct{})}
	err := p.start(func(out io.Reader) {
		url, err := serving(out)
		p.url = url
		ready <- err
		rest(out)
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	select {
	case err = <-ready:
	case <-ctx.Done():
		err = ctx.Err()
	}
	return p.orKill(err)
}

// StartSilent starts cmd, which does not report when it is ready, and waits until
// something listens at addr. url is the URL that the process serves at.
func StartSilent(ctx context.Context, cmd *exec.Cmd, url, addr string) (*Process, error) {
	p := &Process{cmd: cmd, url: url, done: make(chan struct{})}
	var said tail
	if err := p.start(func(out io.Reader) { io.Copy(&said, out) }); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	var d net.Dialer
	for {
		c, err := d.DialContext(ctx, "tcp", addr)
		if err == nil {
			c.Close()
			return p, nil
		}
		select {
		case <-again.C:
		case <-p.done:
			return nil, fmt.Errorf("start %s: ended: %s", cmd.Path, said)
		case <-ctx.Done():
			return p.orKill(err)
		}
	}
}

// start starts the command, and calls read with its output in a new goroutine.
func (p *Process) start(read func(io.Reader)) error {
	out, in, err := os.Pipe()
	if err != nil {
		return err
	}
	p.cmd.Stdout, p.cmd.Stderr = in, in
	err = p.cmd.Start()
	in.Close()
	if err != nil {
		out.Close()
		return err
	}
	go func() {
		defer close(p.done)
		defer out.Close()
		read(out)
		p.cmd.Wait()
	}()
	return nil
}

// orKill returns p. If err is not nil, it kills the process and returns the error instead.
func (p *Process) orKill(err error) (*Process, error) {
	if err == nil {
		return p, nil
	}
	p.cmd.Process.Kill()
	<-p.done
	return nil, fmt.Errorf("start %s: %w", p.cmd.Path, err)
}

// tail keeps the last 1024 bytes that are written to it.
type tail []byte

func (t *tail) Write(b []byte) (int, error) {
	*t = append(*t, b...)
	*t = (*t)[max(0, len(*t)-1024):]
	return len(b), nil
}

// serving reads lines until one has the URL that the command serves at. Its error is
// the last line of the output.
func serving(r io.Reader) (string, error) {
	last := "no output"
	s := bufio.NewScanner(io.LimitReader(r, 1<<20))
	s.Buffer(nil, maxLine)
	for s.Scan() {
		var line struct{ Msg, URL string }
		if json.Unmarshal(s.Bytes(), &line) == nil && line.Msg == "serving" {
			return line.URL, nil
		}
		last = s.Text()
	}
	return "", errors.New(last)
}

// Announce reports to the parent process that this process serves at url.
func Announce(url string) {
	line, _ := json.Marshal(map[string]string{"msg": "serving", "url": url}) // cannot fail for strings
	fmt.Println(string(line))
}

// URL returns the URL that the command serves at.
func (p *Process) URL() string { return p.url }

// PID returns the number that the system knows the process by.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done returns a channel that is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Usage reads what the process has used so far. The error is
// [errors.ErrUnsupported] on systems other than Linux.
func (p *Process) Usage() (Usage, error) { return usage(p.cmd.Process.Pid) }

// Kill kills the process, and returns when it has ended.
func (p *Process) Kill() {
	p.cmd.Process.Kill()
	<-p.done
}

// ProcessorTimeOf reads how much processor time the process with this id has used, without its children. The error is
// [errors.ErrUnsupported] on systems other than Linux.
func ProcessorTimeOf(pid int) (time.Duration, error) { return processorTime(pid) }

// UsageOf is [Process.Usage] of the process with this id.
func UsageOf(pid int) (Usage, error) { return usage(pid) }

// Stop sends SIGTERM to the process, kills it if it does not end within stopTime, and returns when it
// has ended.
func (p *Process) Stop() {
	if p.cmd.Process.Signal(syscall.SIGTERM) != nil {
		p.cmd.Process.Kill()
	}
	timer := time.AfterFunc(stopTime, func() { p.cmd.Process.Kill() })
	<-p.done
	timer.Stop()
}
