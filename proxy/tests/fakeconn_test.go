package tests

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// A fakeServer is a server of peertest without a transport: its connections are those of the proxy under test. It is for tests in
// a bubble of testing/synctest, which cannot wait for sockets, and for failures that no server causes at will. Its messages may
// have ids of events, as "id:7 {…}".
type fakeServer struct {
	*peertest.Server
	piped bool // its connections are like pipes: all messages come on one stream
	asked bool // the proxy asks for its era

	mu       sync.Mutex
	standing *queue // of the newest connection, or for the first one
	opened   int
	closed   int
	listened []upstream.ListenOptions
}

func newFake(script func(*peertest.Turn)) *fakeServer {
	return &fakeServer{Server: peertest.NewLocal(script), standing: newQueue()}
}

// conn opens a connection. On a pipe the script runs while a message is sent, and must not wait.
func (f *fakeServer) conn() upstream.Conn {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.opened++; f.opened > 1 {
		f.standing = newQueue()
	}
	return &fakeConn{f: f, piped: f.piped, standing: f.standing}
}

func (f *fakeServer) newest() *queue {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.standing
}

// Unasked sends a message on the standing stream.
func (f *fakeServer) Unasked(m string) { f.newest().Say(m) }

// panics makes what reads the standing stream panic.
func (f *fakeServer) panics() { f.newest().Reads(func() { panic(boom) }) }

// lose ends the newest connection with this error, as a process does that exits.
func (f *fakeServer) lose(err error) { f.newest().end(err) }

// ends returns how many connections the proxy has closed.
func (f *fakeServer) ends() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closed
}

func (f *fakeServer) ended() bool { return f.ends() > 0 }

// listens returns how the proxy has opened standing streams.
func (f *fakeServer) listens() []upstream.ListenOptions {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.listened
}

// fakeConn is a connection to a fakeServer.
type fakeConn struct {
	f        *fakeServer
	piped    bool
	standing *queue
	once     sync.Once
}

// fakeResponse is where the messages about one message go.
type fakeResponse struct {
	*queue
	failed error
}

func (r *fakeResponse) Fail(err error) { r.failed = err }

func (r *fakeResponse) Answer(status int, body string) {
	if status < http.StatusMultipleChoices {
		r.Say(body)
		return
	}
	r.Fail(&upstream.StatusError{Code: status, Body: []byte(body)})
}

func (c *fakeConn) Send(ctx context.Context, m *upstream.Outgoing) (upstream.Stream, error) {
	in := peertest.Message{Text: string(m.Body), Header: http.Header{}}
	for _, h := range m.Header {
		in.Header.Add(h.Name, h.Value)
	}
	out := &fakeResponse{queue: c.standing}
	if !c.piped {
		out.queue = newQueue()
	}
	life, left := context.WithCancel(ctx)
	if c.piped || !m.Request {
		left() // the script does not wait
	}
	u := c.f.Turn(life, in, out)
	if out.failed != nil {
		left()
		return nil, out.failed
	}
	c.f.Got(in)
	if c.piped {
		left()
		c.f.Script(u)
		return nil, out.failed
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.f.Script(u)
		out.end(out.failed)
	}()
	if !m.Request {
		left()
		select {
		case <-done:
			return nil, out.failed
		case <-ctx.Done():
			return nil, nil
		}
	}
	return &fakeStream{ctx: ctx, of: out.queue, id: c.f.SessionID, halt: make(chan struct{}, 1), open: life, leave: left}, nil
}

func (c *fakeConn) Listen(ctx context.Context, o upstream.ListenOptions) (upstream.Stream, error) {
	c.f.mu.Lock()
	c.f.listened = append(c.f.listened, o)
	c.f.mu.Unlock()
	if c.f.NoGet && !c.piped {
		return nil, upstream.ErrNoStream
	}
	life, left := context.WithCancel(ctx)
	return &fakeStream{ctx: ctx, of: c.standing, open: life, leave: left}, nil
}

func (c *fakeConn) Close(context.Context) error {
	c.once.Do(func() {
		c.standing.end(nil)
		c.f.mu.Lock()
		defer c.f.mu.Unlock()
		c.f.closed++
	})
	return nil
}

// item is what comes on a stream.
type item struct {
	text string
	do   func() // called instead, if not nil
}

// queue is what the server has sent on a stream.
type queue struct {
	items chan item

	mu   sync.Mutex
	over bool
	err  error // with which the stream ends
}

func newQueue() *queue { return &queue{items: make(chan item, 1000), err: io.EOF} }

func (q *queue) Say(m string) { q.put(item{text: m}) }

func (q *queue) Reads(do func()) { q.put(item{do: do}) }

func (q *queue) put(i item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.over {
		q.items <- i
	}
}

// end ends the stream after what was put.
func (q *queue) end(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.over {
		return
	}
	if err != nil {
		q.err = err
	}
	q.over = true
	close(q.items)
}

// fakeStream is what a fakeServer sends, on its standing stream or as a response.
type fakeStream struct {
	upstream.Plain
	ctx   context.Context // of the exchange
	of    *queue
	id    string
	halt  chan struct{}   // nil if Events cannot be interrupted
	open  context.Context // until the stream is closed
	leave context.CancelFunc
}

func (st *fakeStream) Events(yield func(sse.Event, error) bool) {
	for {
		if e, err := st.next(); !yield(e, err) || err != nil {
			return
		}
	}
}

func (st *fakeStream) next() (sse.Event, error) {
	var i item
	ok := false
	select {
	case i, ok = <-st.of.items:
	default:
		select {
		case i, ok = <-st.of.items:
		case <-st.halt:
			return sse.Event{}, sse.ErrInterrupted
		case <-st.open.Done():
		}
	}
	switch {
	case ok && i.do != nil:
		i.do()
		return st.next()
	case ok:
		return event(i.text), nil
	case st.ctx.Err() != nil:
		return sse.Event{}, st.ctx.Err()
	case st.open.Err() != nil:
		return sse.Event{}, upstream.ErrClosed
	}
	return sse.Event{}, st.of.err
}

func event(text string) (e sse.Event) {
	if rest, ok := strings.CutPrefix(text, "id:"); ok {
		id, data, _ := strings.Cut(rest, " ")
		e.ID, e.HasID, text = []byte(id), true, data
		e.Retry = time.Millisecond // which the client waits before it resumes
	}
	e.Data = []byte(text)
	return e
}

func (st *fakeStream) CanInterrupt() bool { return st.halt != nil }

func (st *fakeStream) Interrupt() {
	select {
	case st.halt <- struct{}{}:
	default:
	}
}

func (st *fakeStream) SessionID() string { return st.id }

func (st *fakeStream) Close() error {
	st.leave()
	return nil
}
