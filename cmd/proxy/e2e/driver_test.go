package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// A driver is a process of Node.js that runs programs in peers/ one after another. In a process for each run, the start
// of Node.js and loading an SDK would take most of the time.
type driver struct {
	process *exec.Cmd
	stdin   io.WriteCloser
	stdout  *bufio.Reader
	stderr  *output
}

// driverPool holds the idle drivers.
type driverPool struct {
	mu   sync.Mutex
	idle []*driver
}

var drivers driverPool

// runNode runs one of the programs in peers/ with a client that goes to an endpoint, and returns the JSON values that it
// printed, one a line.
func runNode(ctx context.Context, program string, to endpoint, config map[string]any) ([]byte, error) {
	config = withAll(config, map[string]any{"transport": to.over, "url": to.url})
	if to.over == stdio {
		log, err := os.CreateTemp(binaries, "stderr-")
		if err != nil {
			return nil, err
		}
		defer func() {
			_, _ = io.Copy(to.stderr, log)
			log.Close()
			os.Remove(log.Name())
		}()
		config["command"], config["args"], config["stderr"] = to.command[0], to.command[1:], log.Name()
	}
	d, err := drivers.take()
	if err != nil {
		return nil, err
	}
	printed, err := d.run(ctx, program, config)
	if err != nil {
		d.end()
		to.stderr.Write([]byte(d.stderr.String()))
		return printed, errors.Join(context.Cause(ctx), err)
	}
	drivers.give(d)
	return printed, nil
}

func (p *driverPool) take() (*driver, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last := len(p.idle) - 1; last >= 0 {
		d := p.idle[last]
		p.idle = p.idle[:last]
		return d, nil
	}
	d := &driver{process: exec.Command("node", filepath.Join("peers", "driver.mjs")), stderr: &output{}}
	d.process.Stderr = d.stderr
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

func (p *driverPool) give(d *driver) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, d)
}

// end ends the idle drivers.
func (p *driverPool) end() {
	for _, d := range p.idle {
		d.end()
	}
}

// run runs a program. After an error the driver cannot be used again.
func (d *driver) run(ctx context.Context, program string, config map[string]any) (printed []byte, err error) {
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

// end ends the process, and waits until it has ended.
func (d *driver) end() {
	d.stdin.Close()
	late := time.AfterFunc(10*time.Second, func() { _ = d.process.Process.Kill() })
	defer late.Stop()
	_ = d.process.Wait()
}
