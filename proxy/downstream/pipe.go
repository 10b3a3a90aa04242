package downstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/dragoman-proxy/dragoman/proxy/large"
	"github.com/dragoman-proxy/dragoman/proxy/sse"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Why a pipe ended, beside ErrClientLeft and ErrStopped.
var (
	ErrClosed  = errors.New("the pipe was closed")
	ErrNotRead = errors.New("the client does not read its messages")
)

// maxPosted is how many messages of one client may wait to be taken.
const maxPosted = 256

// PipeHandler is the proxy as clients on HTTP+SSE see it. To the proxy such a client is a pipe, like a client on
// stdio.
type PipeHandler interface {
	// OpenPipe is called for a new client. It returns the session that takes the client's messages while the client
	// stays. It returns nil to refuse the client with resp, whose Stream and Done are not used. p may be written to
	// at once: the client gets the message after the address to POST to. req's Ctx is that of p and stays valid; the
	// rest of req is valid until OpenPipe returns.
	OpenPipe(p *Pipe, req *Request, resp *Response) PipeSession
}

// PipeSession is the proxy's session of one client on a pipe. A panic in it ends only the call.
type PipeSession interface {
	// Take receives one message of the client: well-formed JSON, and a message or an array. It is called for one
	// message after the other, in the order in which they came. The message is valid until Take returns and may be
	// changed in place. header returns the value of a header of the message's request, "" when absent; it is valid
	// until Take returns, too. Take must return soon after the pipe's context ends.
	Take(message []byte, header func(name string) string)
	// Owns reports whether a request with these headers, admitted by the token that guest identifies, may speak for
	// the client. It is called concurrently with the others.
	Owns(guest string, header func(name string) string) bool
	// Left is called once, when the pipe has ended and Take will not be called any more. why is ErrClientLeft,
	// ErrStopped, ErrClosed, ErrNotRead, or the error of a failed write. The server's Shutdown waits for Left to
	// return.
	Left(why error)
}

// Pipe is a client on HTTP+SSE, from its GET of the stream to the stream's end. It needs no goroutine while no
// message is under way: a message that is to be written or taken starts one, which ends when there are no more.
type Pipe struct {
	face    *HTTP
	conn    *conn
	id      string // in the URI of its POSTs
	ctx     context.Context
	cancel  context.CancelCauseFunc
	session PipeSession
	plain   bool // the response has no chunks

	tasks sync.WaitGroup // goroutines of write and take

	mu      sync.Mutex
	over    bool
	out     *[]byte // what is to be written next; nil for nothing
	held    int     // bytes of limits.in_hand that are held for out
	writing int     // bytes being written; -1 when no goroutine writes; 0 before start
	last    time.Time
	beats   *time.Timer // nil if heartbeats are off
	in      []*posted   // messages to be taken
	inBytes int
	taking  bool
}

// posted is one message of a client, with its request's headers.
type posted struct {
	body
	header fasthttp.RequestHeader
}

func (m *posted) get(name string) string { return headerOf(&m.header, name) }

// Context returns a context that ends with the pipe. Its cause is the reason that the session's Left gets.
func (p *Pipe) Context() context.Context { return p.ctx }

// Write sends one message to the client. It neither waits until that is done nor keeps msg, and is safe for
// concurrent use; messages go out in the order of their calls. For a large message it waits until there is room. If
// more than the configured number of bytes wait for the client, the pipe is closed. The error is the reason why the
// pipe has ended.
func (p *Pipe) Write(msg []byte) error {
	held := 0
	if len(msg) > large.Size {
		held = len(msg)
		if err := p.face.cfg.Memory.Hold(p.ctx, p.face.cfg.WriteTimeout, large.Copy, held); err != nil {
			p.cancel(err)
			return fmt.Errorf("write to client: %w", err)
		}
	}
	if err := p.send(sse.Event{Name: []byte("message"), Data: msg}, held); err != nil {
		return fmt.Errorf("write to client: %w", err)
	}
	return nil
}

// Close ends the pipe after all that was written to it has gone out. It does not wait for that. It may be called more
// than once.
func (p *Pipe) Close() { p.cancel(ErrClosed) }

// send appends an event to what is to be written. held bytes are held for it.
func (p *Pipe) send(e sse.Event, held int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over || p.ctx.Err() != nil {
		p.drop(held)
		return context.Cause(p.ctx)
	}
	if waiting := len(p.pending()) + max(p.writing, 0); waiting > p.face.cfg.MaxQueue {
		p.face.cfg.Log("pipe", fmt.Errorf("%w: %d bytes are unread", ErrNotRead, waiting))
		p.cancel(ErrNotRead)
		p.drop(held)
		return ErrNotRead
	}
	p.held += held
	p.append(func(dst []byte) []byte {
		if held > 0 {
			dst = slices.Grow(dst, len(e.Data)+eventOverhead)
		}
		return sse.Append(dst, e)
	})
	return nil
}

// eventOverhead is how many bytes an event with a message has at most besides its data.
const eventOverhead = 100

// drop gives bytes of limits.in_hand back.
func (p *Pipe) drop(held int) {
	if held > 0 {
		p.face.cfg.Memory.Drop(large.Copy, held)
	}
}

func (p *Pipe) pending() []byte {
	if p.out == nil {
		return nil
	}
	return *p.out
}

// append appends what add appends to what is to be written. Callers hold mu.
func (p *Pipe) append(add func([]byte) []byte) {
	if p.out == nil {
		p.out = p.face.buffer()
	}
	if p.plain {
		*p.out = add(*p.out)
	} else {
		b := append(*p.out, chunkHead...)
		*p.out = closeChunk(add(b), len(b))
	}
	if p.writing < 0 {
		p.writing = 0
		p.tasks.Go(p.write)
	}
}

// write writes until there is nothing to write.
func (p *Pipe) write() {
	for {
		p.mu.Lock()
		buf, held := p.out, p.held
		p.out, p.held = nil, 0
		if buf == nil {
			p.writing, p.last = -1, time.Now()
			p.mu.Unlock()
			return
		}
		p.writing = len(*buf)
		p.mu.Unlock()
		err := p.conn.write(*buf)
		p.face.giveBack(buf)
		buf = nil
		p.drop(held)
		if err != nil {
			p.cancel(p.broken(err))
			return // p.writing stays set, so that no goroutine writes again; finish drops the rest
		}
	}
}

// broken returns why the pipe ends after a write failed with err.
func (p *Pipe) broken(err error) error {
	if timeout, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err); ok && timeout.Timeout() {
		p.face.cfg.Log("pipe", fmt.Errorf("%w: nothing was read for %v", ErrNotRead, p.face.cfg.WriteTimeout))
		return ErrNotRead
	}
	return fmt.Errorf("write to client: %w", err)
}

// beat writes a comment if nothing else was written for long enough.
func (p *Pipe) beat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return
	}
	next := p.face.beat()
	if next <= 0 {
		return // heartbeats were switched off
	}
	if left := next - time.Since(p.last); left > 0 {
		next = left
	} else if p.writing < 0 {
		p.append(func(dst []byte) []byte { return append(dst, sse.Heartbeat...) })
	}
	p.beats.Reset(next)
}

// put queues a message for the session. It returns a refusal if it cannot.
func (p *Pipe) put(m *posted) *refusal {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.over:
		return noPipe
	case len(p.in) == maxPosted, len(p.in) > 0 && p.inBytes+len(m.data) > p.face.cfg.MaxBody:
		return tooManyPosted
	}
	p.in = append(p.in, m)
	p.inBytes += len(m.data)
	if !p.taking {
		p.taking = true
		p.tasks.Go(p.take)
	}
	return nil
}

// take passes messages to the session until there are none.
func (p *Pipe) take() {
	for {
		p.mu.Lock()
		if len(p.in) == 0 {
			p.in, p.taking = nil, false
			p.mu.Unlock()
			return
		}
		m, over := p.in[0], p.over
		p.in[0] = nil
		p.in = p.in[1:]
		p.inBytes -= len(m.data)
		p.mu.Unlock()
		if !over {
			p.face.guard(func() { p.session.Take(wire.Trim(m.data), m.get) })
		}
		p.face.release(&m.body)
	}
}

// begin puts the head of the response before what is to be written.
func (p *Pipe) begin(head []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*p.out = append(head, *p.out...)
}

// start begins the work of the pipe on a connection that was taken over.
func (p *Pipe) start() {
	p.face.serving.Add(1)
	p.mu.Lock()
	p.last = time.Now()
	if every := p.face.beat(); every > 0 {
		p.beats = time.AfterFunc(every, p.beat)
	}
	p.tasks.Go(p.write)
	p.mu.Unlock()
	context.AfterFunc(p.ctx, p.finish)
}

// finish ends what start began. It runs once the context has ended.
func (p *Pipe) finish() {
	h, why := p.face, context.Cause(p.ctx)
	p.mu.Lock()
	p.over = true
	if p.beats != nil {
		p.beats.Stop()
	}
	p.mu.Unlock()
	h.mu.Lock()
	delete(h.pipes, p.id)
	h.mu.Unlock()

	closed := errors.Is(why, ErrClosed)
	if !closed {
		p.conn.hangUp() // a write that is under way returns
	}
	p.tasks.Wait()
	p.mu.Lock()
	held := p.held
	p.out, p.held = nil, 0
	p.mu.Unlock()
	p.drop(held)
	if closed && p.end() == nil {
		_ = p.conn.Conn.Close()
	}
	p.conn.hangUp()
	p.conn.finish()
	h.dropConn(p.conn)
	h.guard(func() { p.session.Left(why) })
	h.serving.Done()
}

// end writes the end of the body, if all of the body was written.
func (p *Pipe) end() error {
	if p.writing >= 0 {
		return errors.New("a write has failed")
	}
	if p.plain {
		return nil
	}
	return p.conn.write([]byte(lastChunk))
}
