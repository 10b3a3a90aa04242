package downstream

import (
	"errors"
	"net"
	"sync"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
)

// largeData is the size above which data is written without a copy.
const largeData = 32 << 10

var errPanicked = errors.New("the response's stream panicked")

// eventWriter writes the head of an event stream, its events as they are sent, and a comment if none came for a while. A
// timer starts the comments, and the stream itself where its client has waited for the first event as long.
type eventWriter struct {
	face  *HTTP
	conn  *conn
	early func() // calls begin with a head that says nothing of the response; called with mu held. nil if events were open from the start

	mu    sync.Mutex // held while something is written
	open  bool       // begin was called, and finish was not
	plain bool       // the body has no chunks, and ends with the connection
	head  []byte     // what is to be written before the next event
	last  time.Time  // time of the last write
	over  bool
	err   error       // why nothing more can be written
	all   [][]byte    // the memory of left
	left  net.Buffers // what write has to write
	timer *time.Timer

	started sync.WaitGroup // calls of beat that are due or running
}

func (e *eventWriter) init(h *HTTP) {
	e.face = h
	e.timer = time.AfterFunc(time.Hour, e.beat)
	e.timer.Stop()
}

// begin prepares for a response with this head, of which it keeps a copy. Callers hold mu.
func (e *eventWriter) begin(c *conn, head []byte, plain bool) {
	e.conn, e.plain, e.open = c, plain, true
	e.head = append(e.head[:0], head...)
	e.over, e.err = false, nil
}

// writeHead writes the head before the first event comes.
func (e *eventWriter) writeHead() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	err := e.write(e.head)
	e.head = e.head[:0]
	e.beatLater()
	return err
}

// beatLater starts the time after which a comment is due. Callers hold mu.
func (e *eventWriter) beatLater() {
	if after := e.face.heartbeat.after(); after > 0 {
		e.arm(after)
	}
}

var messageName = []byte(sse.Message)

// send writes an event, under the name of events with a message if it has data and no name. If it is the last one, the end of the
// body follows it.
func (e *eventWriter) send(event sse.Event, last bool) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil {
		return e.err
	}
	if len(event.Name) == 0 && len(event.Data) > 0 {
		event.Name = messageName
	}
	buf := e.face.buffers.get()
	defer e.face.buffers.put(buf)
	first := len(e.head) > 0
	b := append(*buf, e.head...)
	e.head = e.head[:0]
	if !e.plain {
		b = append(b, chunkHead...)
	}
	from := len(b)
	var err error
	if len(event.Data) > largeData && sse.SingleLine(event.Data) {
		b = sse.AppendHead(b, event)
		if !e.plain {
			setChunkSize(b, from, len(b)-from+len(event.Data)+len(sse.Tail))
		}
		*buf = b
		err = e.write(b, event.Data, e.appendEnd([]byte(sse.Tail), last))
	} else {
		b = sse.Append(b, event)
		if !e.plain {
			setChunkSize(b, from, len(b)-from)
		}
		*buf = e.appendEnd(b, last)
		err = e.write(*buf)
	}
	if err == nil && first && !last {
		e.beatLater()
	}
	return err
}

// appendEnd appends the end of a chunk, and of the body if it is the last one.
func (e *eventWriter) appendEnd(dst []byte, last bool) []byte {
	if e.plain {
		return dst
	}
	dst = append(dst, chunkTail...)
	if last {
		dst = append(dst, lastChunk...)
	}
	return dst
}

// endBody writes the last event, if there is one, and the end of the body.
func (e *eventWriter) endBody(r *Response) error {
	switch {
	case len(r.Body) > 0:
		return e.send(sse.Event{Data: r.Body}, true)
	case len(r.Last.Data) > 0 || r.Last.HasID:
		return e.send(r.Last, true)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.err != nil:
		return e.err
	case e.plain:
		return nil
	}
	return e.write([]byte(lastChunk))
}

// write writes the parts, with one system call unless they are large. Callers hold mu.
func (e *eventWriter) write(parts ...[]byte) error {
	size := 0
	for _, b := range parts {
		size += len(b)
	}
	e.last = time.Now()
	if len(parts) > 1 && size <= gathered {
		if e.err = e.conn.SetWriteDeadline(e.last.Add(e.conn.cfg.WriteTimeout)); e.err != nil {
			return e.err
		}
		e.all = append(e.all[:0], parts...)
		e.left = e.all
		_, e.err = e.left.WriteTo(e.conn.Conn)
		clear(e.all)
		return e.err
	}
	for _, b := range parts {
		if e.err = e.conn.write(b); e.err != nil {
			return e.err
		}
		e.last = time.Now()
	}
	return nil
}

// arm schedules beat. Callers hold mu.
func (e *eventWriter) arm(after time.Duration) {
	if !e.timer.Stop() {
		e.started.Add(1)
	}
	e.timer.Reset(after)
}

// await lets the stream begin when its client has waited for the time between two comments. settle must follow.
func (e *eventWriter) await() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if after := e.face.heartbeat.after(); after > 0 && !e.open {
		e.over, e.err = false, nil
		e.arm(after)
	}
}

// settle reports whether the stream has begun. If not, it does not begin by itself any more.
func (e *eventWriter) settle() bool {
	e.mu.Lock()
	open := e.open
	if !open {
		e.over = true
		if e.timer.Stop() {
			e.started.Done()
		}
	}
	e.mu.Unlock()
	if !open {
		e.started.Wait() // for a beat that comes too late
	}
	return open
}

// beat writes a comment if nothing else was written for long enough. It runs in a goroutine of its own, so that a
// client that reads nothing blocks only its own stream.
func (e *eventWriter) beat() {
	defer e.started.Done()
	e.mu.Lock()
	defer e.mu.Unlock()
	quiet := e.face.heartbeat.after()
	if e.over || e.err != nil || quiet == 0 {
		return
	}
	if !e.open {
		e.early()
	} else if left := quiet - time.Since(e.last); left > 0 {
		e.arm(left)
		return
	}
	buf := e.face.buffers.get()
	defer e.face.buffers.put(buf)
	*buf = append(*buf, e.head...)
	e.head = e.head[:0]
	if e.plain {
		*buf = append(*buf, sse.Heartbeat...)
	} else {
		from := len(*buf) + len(chunkHead)
		*buf = closeChunk(append(append(*buf, chunkHead...), sse.Heartbeat...), from)
	}
	if e.write(*buf) != nil {
		e.conn.end(ErrClientLeft)
		return
	}
	e.arm(quiet)
}

// halt ends the comments and waits for calls of beat.
func (e *eventWriter) halt() {
	e.mu.Lock()
	e.over = true
	if e.timer.Stop() {
		e.started.Done()
	}
	e.mu.Unlock()
	e.started.Wait()
}

// finish drops the references to the connection.
func (e *eventWriter) finish() {
	e.conn, e.open = nil, false
	if cap(e.head) > 4<<10 {
		e.head = nil
	}
}
