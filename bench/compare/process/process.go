// Package process starts commands that are to be measured and reads what they
// cost the system.
//
// A command says that it is ready as dragoman does: by a line of JSON on stdout or
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
	stopTime  = 15 * time.Second // from asking it to end until it is killed
	maxLine   = 64 << 10
)

// Usage is what a process has taken of the system.
type Usage struct {
	CPU      time.Duration // since its start, in user and system mode, without its children
	Resident int64         // bytes in memory
	Files    int           // open file descriptors
	Children int           // processes that it has started and that are still listed, dead ones too
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
	if out, err := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", file, pkg).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return file, nil
}

// Start starts cmd, whose output it takes, and waits until the command says where
// it serves. The caller must Stop what it gets.
func Start(ctx context.Context, cmd *exec.Cmd) (*Process, error) {
	return start(ctx, cmd, func(out io.Reader) { io.Copy(io.Discard, out) }) // a full pipe would hold the command up
}

// StartUnread is Start without reading what the command writes once it serves.
func StartUnread(ctx context.Context, cmd *exec.Cmd) (*Process, error) {
	return start(ctx, cmd, func(io.Reader) {})
}

func start(ctx context.Context, cmd *exec.Cmd, rest func(out io.Reader)) (*Process, error) {
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

// StartSilent starts cmd, which does not say when it is ready, and waits until
// something listens at addr. The result serves at url.
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

// start starts the command and has its output read, as far as read does.
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

// orKill is p, unless err says that it did not come up.
func (p *Process) orKill(err error) (*Process, error) {
	if err == nil {
		return p, nil
	}
	p.cmd.Process.Kill()
	<-p.done
	return nil, fmt.Errorf("start %s: %w", p.cmd.Path, err)
}

// tail keeps the end of what is written to it.
type tail []byte

func (t *tail) Write(b []byte) (int, error) {
	*t = append(*t, b...)
	*t = (*t)[max(0, len(*t)-1024):]
	return len(b), nil
}

// serving reads lines until one says where the command serves. The error repeats
// the last line before the end.
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

// Announce tells who started this process that it serves at url.
func Announce(url string) {
	line, _ := json.Marshal(map[string]string{"msg": "serving", "url": url}) // text always can
	fmt.Println(string(line))
}

// URL is where the command serves.
func (p *Process) URL() string { return p.url }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Peak reads the most that the process has had in memory, in bytes.
func (p *Process) Peak() (int64, error) { return peak(p.cmd.Process.Pid) }

// Usage reads what the process has taken so far. The error is
// [errors.ErrUnsupported] on systems that are not Linux.
func (p *Process) Usage() (Usage, error) { return usage(p.cmd.Process.Pid) }

// Stop asks the process to end, kills it when it does not, and returns when it has
// ended.
func (p *Process) Stop() {
	if p.cmd.Process.Signal(syscall.SIGTERM) != nil {
		p.cmd.Process.Kill()
	}
	timer := time.AfterFunc(stopTime, func() { p.cmd.Process.Kill() })
	<-p.done
	timer.Stop()
}
