package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/tidwall/gjson"
)

// shim is a process of `dragoman stdio`, with the client's end of its pipes.
type shim struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	ended chan struct{}
	err   error // of the process, once it has ended

	begin sync.Mutex // held by the handshake
	begun bool

	mu      sync.Mutex
	last    int
	waiting map[int]chan gjson.Result // calls without an answer, by their ids
}

var errEnded = errors.New("the shim has ended")

func (s *stage) shim(env []string, arg ...string) (*shim, error) {
	c := &shim{cmd: exec.Command(s.binary, append([]string{"stdio"}, arg...)...), ended: make(chan struct{}), waiting: map[int]chan gjson.Result{}}
	c.cmd.Env = slices.Concat(os.Environ(), quick(), env)
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(c.ended)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, maxAnswer)
		for lines.Scan() {
			c.receive(gjson.Parse(lines.Text()))
		}
		c.err = errors.Join(lines.Err(), c.cmd.Wait())
	}()
	return c, nil
}

func (c *shim) receive(m gjson.Result) {
	if m.Get("method").Exists() || m.Get("id").Type != gjson.Number {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	id := int(m.Get("id").Int())
	if answer := c.waiting[id]; answer != nil {
		delete(c.waiting, id)
		answer <- m
	}
}

// next returns a new id.
func (c *shim) next() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	return c.last
}

func (c *shim) write(message string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := io.WriteString(c.in, message+"\n")
	return err
}

// call sends a request and waits for its answer, at most limit. After that it cancels the call, and the
// id may be used again.
func (c *shim) call(ctx context.Context, limit time.Duration, id int, message string) (gjson.Result, error) {
	answer := make(chan gjson.Result, 1)
	c.mu.Lock()
	c.waiting[id] = answer
	c.mu.Unlock()
	if err := c.write(message); err != nil {
		return gjson.Result{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	select {
	case m := <-answer:
		return m, nil
	case <-c.ended:
		return gjson.Result{}, errEnded
	case <-ctx.Done():
	}
	c.mu.Lock()
	delete(c.waiting, id)
	c.mu.Unlock()
	c.write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, id))
	return gjson.Result{}, ctx.Err()
}

// close closes the shim's stdin. The shim must then end without an error.
func (c *shim) close() error {
	c.in.Close()
	select {
	case <-c.ended:
		return c.err
	case <-time.After(callTime):
		c.cmd.Process.Kill()
		<-c.ended
		return fmt.Errorf("the shim did not end within %v of its stdin", callTime)
	}
}
