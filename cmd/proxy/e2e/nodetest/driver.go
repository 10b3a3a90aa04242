package nodetest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// A Driver is a process of Node.js that runs programs of ../peers, one after another or several at once (driver.mjs). In a process for
// each run, the start of Node.js and loading an SDK would take most of the time.
type Driver struct {
	process *exec.Cmd
	stderr  said
	ended   chan struct{} // closed when nothing more can come from it
	why     error         // then

	mu    sync.Mutex
	stdin io.WriteCloser
	runs  map[int]*run // by their numbers
	last  int          // of these numbers

	// What follows is under the lock of its Drivers.
	takers int
	failed bool
}

type run struct {
	lines chan line
	over  chan struct{} // closed when it takes no more lines
}

// line is one of driver.mjs, which is about one run.
type line struct {
	Run     int
	Printed json.RawMessage
	Ended   *string // "", or why the program failed
}

// Drivers holds those that have not ended. Its methods may be called at once.
type Drivers struct {
	Folder string // that of driver.mjs
	AtOnce int    // how many may have the same one; 0: one

	mu  sync.Mutex
	all []*Driver
}

// Take returns a driver that can be had, or starts one.
func (p *Drivers) Take() (*Driver, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range p.all {
		if !d.failed && d.takers < max(p.AtOnce, 1) {
			d.takers++
			return d, nil
		}
	}
	d := &Driver{process: exec.Command("node", filepath.Join(p.Folder, "driver.mjs")), ended: make(chan struct{}), runs: map[int]*run{}, takers: 1}
	d.process.Stderr = &d.stderr
	d.process.WaitDelay = 5 * time.Second
	stdout, err := d.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if d.stdin, err = d.process.StdinPipe(); err != nil {
		return nil, err
	}
	if err := d.process.Start(); err != nil {
		return nil, err
	}
	go d.read(stdout)
	p.all = append(p.all, d)
	return d, nil
}

// Give takes back a driver whose runs had no error.
func (p *Drivers) Give(d *Driver) { p.back(d, false) }

// Fail takes back a driver after a run with an error. Nothing else gets it, and it ends when all have given it back, with what
// the run has left open.
func (p *Drivers) Fail(d *Driver) { p.back(d, true) }

func (p *Drivers) back(d *Driver, failed bool) {
	p.mu.Lock()
	d.takers--
	d.failed = d.failed || failed
	over := d.failed && d.takers == 0
	if over {
		p.all = slices.DeleteFunc(p.all, func(one *Driver) bool { return one == d })
	}
	p.mu.Unlock()
	if over {
		d.end()
	}
}

// End ends all.
func (p *Drivers) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range p.all {
		d.end()
	}
	p.all = nil
}

// read hands each line to its run, until there are no more.
func (d *Driver) read(stdout io.Reader) {
	defer close(d.ended)
	for r := bufio.NewReader(stdout); ; {
		text, err := r.ReadBytes('\n')
		if err != nil {
			d.why = fmt.Errorf("driver.mjs ended: %w", err)
			return
		}
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			d.why = fmt.Errorf("driver.mjs said %q: %w", text, err)
			return
		}
		d.mu.Lock()
		to := d.runs[l.Run]
		d.mu.Unlock()
		if to == nil {
			continue
		}
		select {
		case to.lines <- l:
		case <-to.over:
		}
	}
}

// Run runs a program, and returns the JSON values that it prints, one a line. After an error the driver has to be failed.
func (d *Driver) Run(ctx context.Context, program string, config map[string]any) (printed []byte, err error) {
	r := &run{lines: make(chan line), over: make(chan struct{})}
	defer close(r.over)
	number, err := d.begin(r, program, config)
	if err != nil {
		return nil, err
	}
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.runs, number)
	}()
	for {
		select {
		case l := <-r.lines:
			switch {
			case l.Ended == nil:
				printed = append(append(printed, l.Printed...), '\n')
			case *l.Ended != "":
				return printed, fmt.Errorf("%s: %s", program, *l.Ended)
			default:
				return printed, nil
			}
		case <-d.ended:
			return printed, fmt.Errorf("%s: %w", program, d.why)
		case <-ctx.Done():
			return printed, fmt.Errorf("%s: %w", program, ctx.Err())
		}
	}
}

// begin sends the job of a run, and returns the run's number.
func (d *Driver) begin(r *run, program string, config map[string]any) (number int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last++
	job, err := json.Marshal(map[string]any{"run": d.last, "program": program, "config": config})
	if err != nil {
		return 0, err
	}
	d.runs[d.last] = r
	if _, err := d.stdin.Write(append(job, '\n')); err != nil {
		delete(d.runs, d.last)
		return 0, fmt.Errorf("cannot send driver.mjs the job %s: %w", program, err)
	}
	return d.last, nil
}

// Said returns what the process has written to stderr.
func (d *Driver) Said() string { return d.stderr.String() }

// end ends the process, and waits until it has ended.
func (d *Driver) end() {
	d.stdin.Close()
	late := time.AfterFunc(10*time.Second, func() { _ = d.process.Process.Kill() })
	defer late.Stop()
	<-d.ended
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
