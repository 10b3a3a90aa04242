package downstream

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/sse"
)

// firstBeat is how long the head of an answer waits for the first event.
const firstBeat = 20 * time.Millisecond

// largeData is the size above which data is written without a copy, in chunks of its
// own.
const largeData = 32 << 10

// eventWriter writes the events of a stream as they come, and a comment if none came
// for a while. The serving goroutine waits in the stream's Next; a timer starts the
// comments.
type eventWriter struct {
	face   *HTTP
	conn   *conn
	stream Stream

	mu    sync.Mutex // held while something is written
	w     io.Writer
	last  time.Time     // time of the last write
	quiet time.Duration // silence after which the next comment is due; 0 for none
	over  bool
	err   error // error of writing a comment

	timer   *time.Timer
	started sync.WaitGroup // calls of beat and leave that are due or running
}

func (e *eventWriter) init(h *HTTP) {
	e.face = h
	e.timer = time.AfterFunc(time.Hour, e.beat)
	e.timer.Stop()
}

// begin prepares for a stream. headSent says that the response's head is sent before
// the first event.
func (e *eventWriter) begin(c *conn, s Stream, headSent bool) {
	e.conn, e.stream, e.over, e.err = c, s, false, nil
	e.quiet = firstBeat
	if headSent {
		e.quiet = e.face.beat()
	}
}

// run writes events to w until the stream ends. It closes the stream when ctx ends. A
// nil error means that the stream ended regularly.
func (e *eventWriter) run(ctx context.Context, w io.Writer) error {
	e.started.Add(1)
	stop := context.AfterFunc(ctx, e.leave)
	defer func() {
		if stop() {
			e.started.Done()
		}
		e.halt()
	}()
	e.mu.Lock()
	e.w, e.last = w, time.Now()
	e.arm(e.quiet)
	e.mu.Unlock()
	for {
		event, err := e.stream.Next()
		if err != nil {
			return e.verdict(err)
		}
		if err := e.event(event); err != nil {
			return err
		}
	}
}

// verdict returns the error of run after Next has returned err.
func (e *eventWriter) verdict(err error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil {
		return e.err // the failed comment has closed the stream
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func (e *eventWriter) event(event sse.Event) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil {
		return e.err
	}
	buf := e.face.buffer()
	defer e.face.giveBack(buf)
	if len(event.Data) > largeData && sse.SingleLine(event.Data) {
		*buf = sse.AppendHead(*buf, event)
		return e.write(*buf, event.Data, []byte(sse.Tail))
	}
	*buf = sse.Append(*buf, event)
	return e.write(*buf)
}

// write writes the parts in pieces, each of which has the full time. Callers hold mu.
func (e *eventWriter) write(parts ...[]byte) error {
	for _, b := range parts {
		for len(b) > 0 {
			e.last = time.Now()
			if err := e.conn.SetWriteDeadline(e.last.Add(e.face.cfg.WriteTimeout)); err != nil {
				return err
			}
			n, err := e.w.Write(b[:min(len(b), piece)])
			if err != nil {
				return err
			}
			b = b[n:]
		}
	}
	e.quiet = e.face.beat()
	return nil
}

// arm schedules beat, unless after is 0. Callers hold mu.
func (e *eventWriter) arm(after time.Duration) {
	if after > 0 {
		e.started.Add(1)
		e.timer.Reset(after)
	}
}

// beat writes a comment if nothing else was written for long enough. It runs in a
// goroutine of its own, so that a client that reads nothing blocks only its own stream.
func (e *eventWriter) beat() {
	defer e.started.Done()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over || e.err != nil || e.quiet == 0 {
		return
	}
	if left := e.quiet - time.Since(e.last); left > 0 {
		e.arm(left)
		return
	}
	if e.err = e.write([]byte(sse.Heartbeat)); e.err == nil {
		e.arm(e.quiet)
		return
	}
	e.closeStream()
}

// leave ends a stream whose client has left.
func (e *eventWriter) leave() {
	defer e.started.Done()
	e.closeStream()
}

func (e *eventWriter) closeStream() {
	e.face.guard(func() { _ = e.stream.Close() })
}

// halt ends the comments and waits for calls of beat and leave.
func (e *eventWriter) halt() {
	e.mu.Lock()
	e.over = true
	if e.timer.Stop() {
		e.started.Done()
	}
	e.mu.Unlock()
	e.started.Wait()
}

// finish drops the references to the stream.
func (e *eventWriter) finish() {
	e.conn, e.stream, e.w = nil, nil, nil
}
