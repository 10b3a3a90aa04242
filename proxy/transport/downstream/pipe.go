package downstream

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/callctx"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Why a pipe ended, beside ErrClientLeft and ErrStopped.
var (
	ErrClosed  = errors.New("the pipe was closed")
	ErrNotRead = errors.New("the client does not read its messages")
)

// maxPosted is how many messages of one client may wait to be taken.
const maxPosted = 256

// pipe is a [Pipe]. It needs no goroutine while no message is under way: a message that is to be written or taken
// starts one, which ends when there are no more.
type pipe struct {
	cfg       *HTTPConfig
	buffers   *buffers
	heartbeat *heartbeat

	conn    *conn
	id      string // in the URI of its POSTs
	ctx     callctx.Context
	session PipeSession
	plain   bool // the response has no chunks

	tasks sync.WaitGroup // goroutines of write and take

	mu      sync.Mutex
	started bool
	closing bool // Close was called
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

func (p *pipe) Context() context.Context { return &p.ctx }

func (p *pipe) Write(msg []byte) error {
	held := 0
	if len(msg) > large.Size {
		held = len(msg)
		if err := p.cfg.Memory.Hold(&p.ctx, p.cfg.WriteTimeout, large.Copy, held); err != nil {
			p.ctx.End(err)
			return fmt.Errorf("write to client: %w", err)
		}
	}
	if err := p.send(sse.Event{Name: []byte(sse.Message), Data: msg}, held); err != nil {
		return fmt.Errorf("write to client: %w", err)
	}
	return nil
}

func (p *pipe) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing || p.over || p.ctx.Err() != nil {
		return
	}
	p.closing = true
	if p.started {
		p.takeRest()
	}
}

// takeRest makes take end the pipe. Callers hold mu.
func (p *pipe) takeRest() {
	if !p.taking {
		p.taking = true
		p.tasks.Go(p.take)
	}
}

// send appends an event to what is to be written. held bytes are held for it.
func (p *pipe) send(e sse.Event, held int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over || p.ctx.Err() != nil {
		p.drop(held)
		return context.Cause(&p.ctx)
	}
	waiting := max(p.writing, 0)
	if p.out != nil {
		waiting += len(*p.out)
	}
	if waiting > p.cfg.MaxQueue {
		p.cfg.Log("pipe", fmt.Errorf("%w: %d bytes are unread", ErrNotRead, waiting))
		p.ctx.End(ErrNotRead)
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
func (p *pipe) drop(held int) {
	if held > 0 {
		p.cfg.Memory.Drop(large.Copy, held)
	}
}

// append appends what add appends to what is to be written. Callers hold mu.
func (p *pipe) append(add func([]byte) []byte) {
	if p.out == nil {
		p.out = p.buffers.get()
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
func (p *pipe) write() {
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
		p.buffers.put(buf)
		buf = nil
		p.drop(held)
		if err != nil {
			p.ctx.End(p.broken(err))
			return // p.writing stays set, so that no goroutine writes again; finish drops the rest
		}
	}
}

// broken returns why the pipe ends after a write failed with err.
func (p *pipe) broken(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		p.cfg.Log("pipe", fmt.Errorf("%w: nothing was read for %v", ErrNotRead, p.cfg.WriteTimeout))
		return ErrNotRead
	}
	return fmt.Errorf("write to client: %w", err)
}

// beat writes a comment if nothing else was written for long enough.
func (p *pipe) beat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return
	}
	next := p.heartbeat.after()
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
func (p *pipe) put(m *posted) *refusal {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.over, p.closing:
		return noPipe
	case len(p.in) == maxPosted, len(p.in) > 0 && p.inBytes+len(m.data) > p.cfg.MaxBody:
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

// take passes messages to the session until there are none. Then it ends a pipe that is to be closed.
func (p *pipe) take() {
	for {
		p.mu.Lock()
		if len(p.in) == 0 {
			ends := p.closing && !p.over
			p.in, p.taking = nil, ends
			p.mu.Unlock()
			if ends {
				p.cfg.guard(p.session.Ending)
				p.ctx.End(ErrClosed)
			}
			return
		}
		m, over := p.in[0], p.over
		p.in[0] = nil
		p.in = p.in[1:]
		p.inBytes -= len(m.data)
		p.mu.Unlock()
		if !over {
			p.cfg.guard(func() { p.session.Take(wire.Trim(m.data), m.get) })
		}
		m.share.Release()
	}
}

// begin puts the head of the response before what is to be written.
func (p *pipe) begin(head []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*p.out = append(head, *p.out...)
}

// start begins the work of the pipe on a connection that was taken over.
func (p *pipe) start() {
	p.mu.Lock()
	p.last = time.Now()
	if every := p.heartbeat.after(); every > 0 {
		p.beats = time.AfterFunc(every, p.beat)
	}
	p.tasks.Go(p.write)
	if p.started = true; p.closing {
		p.takeRest()
	}
	p.mu.Unlock()
}

// stop ends the work of the pipe.
func (p *pipe) stop() {
	p.mu.Lock()
	p.over = true
	if p.beats != nil {
		p.beats.Stop()
	}
	p.mu.Unlock()
}

// finish closes the connection of a pipe that was stopped because of why.
func (p *pipe) finish(why error) {
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
}

// end writes the end of the body, if all of the body was written.
func (p *pipe) end() error {
	if p.writing >= 0 {
		return errors.New("a write has failed")
	}
	if p.plain {
		return nil
	}
	return p.conn.write([]byte(lastChunk))
}
