package nodetest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// A Driver is a process of Node.js that runs programs of ../peers one after another (driver.mjs). In a process for each run,
// the start of Node.js and loading an SDK would take most of the time.
type Driver struct {
	process *exec.Cmd
	stdin   io.WriteCloser
	stdout  *bufio.Reader
	stderr  said
}

// Drivers holds those that are idle. Its methods may be called at once.
type Drivers struct {
	Folder string // that of driver.mjs

	mu   sync.Mutex
	idle []*Driver
}

// Take returns an idle driver, or starts one.
func (p *Drivers) Take() (*Driver, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last := len(p.idle) - 1; last >= 0 {
		d := p.idle[last]
		p.idle = p.idle[:last]
		return d, nil
	}
	d := &Driver{process: exec.Command("node", filepath.Join(p.Folder, "driver.mjs"))}
	d.process.Stderr = &d.stderr
	d.process.WaitDelay = 5 * time.Second
	stdout, err := d.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	d.stdout = bufio.NewReader(stdout)
	if d.stdin, err = d.process.StdinPipe(); err != nil {
		return nil, err
	}
	return d, d.process.Start()
}

// Give takes back a driver whose runs had no error.
func (p *Drivers) Give(d *Driver) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, d)
}

// End ends those that are idle.
func (p *Drivers) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range p.idle {
		d.End()
	}
	p.idle = nil
}

// Run runs a program, and returns the JSON values that it prints, one a line. After an error the driver cannot be used again.
func (d *Driver) Run(ctx context.Context, program string, config map[string]any) (printed []byte, err error) {
	job, err := json.Marshal(map[string]any{"program": program, "config": config})
	if err != nil {
		return nil, err
	}
	killed := context.AfterFunc(ctx, func() { _ = d.process.Process.Kill() })
	defer func() {
		if !killed() && err == nil {
			err = ctx.Err()
		}
	}()
	if _, err := d.stdin.Write(append(job, '\n')); err != nil {
		return nil, fmt.Errorf("cannot send driver.mjs the job %s: %w", program, err)
	}
	for {
		line, err := d.stdout.ReadBytes('\n')
		if err != nil {
			return printed, fmt.Errorf("driver.mjs ended during %s: %w", program, err)
		}
		var said struct {
			Printed json.RawMessage
			Ended   *string
		}
		if err := json.Unmarshal(line, &said); err != nil {
			return printed, fmt.Errorf("%q of %s: %w", line, program, err)
		}
		switch {
		case said.Ended == nil:
			printed = append(append(printed, said.Printed...), '\n')
		case *said.Ended != "":
			return printed, fmt.Errorf("%s: %s", program, *said.Ended)
		default:
			return printed, nil
		}
	}
}

// Said returns what the process has written to stderr.
func (d *Driver) Said() string { return d.stderr.String() }

// End ends the process, and waits until it has ended.
func (d *Driver) End() {
	d.stdin.Close()
	late := time.AfterFunc(10*time.Second, func() { _ = d.process.Process.Kill() })
	defer late.Stop()
	_ = d.process.Wait()
}

// said keeps what is written to it.
type said struct {
	mu   sync.Mutex
	text []byte
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = append(s.text, b...)
	return len(b), nil
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.text)
}
