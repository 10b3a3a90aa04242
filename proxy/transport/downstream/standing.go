package downstream

import (
	"context"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
)

// standing is the response to a GET, after the connection was taken over for it. It goes on without fasthttp and without the
// exchange: it may last for hours, most of the time without an event, and should not hold two buffers, a grown stack and all that a
// request needs meanwhile. While it is parked, it has no goroutine either.
type standing struct {
	eventWriter
	listen func(mcp.Peer, mcp.Waker) error // as in [Response], like done
	done   func()
	cancel context.CancelCauseFunc
}

// start begins the response, whose head the client waits for.
func (s *standing) start() {
	s.face.serving.Add(1)
	if err := s.writeHead(); err != nil {
		s.end(err)
		return
	}
	s.mu.Lock()
	s.head = nil // it was written, and the stream may last for hours
	s.mu.Unlock()
	s.run()
}

// run sends the client the events that come, until the stream ends or is parked.
func (s *standing) run() {
	err := errPanicked
	s.face.cfg.guard(func() { err = s.listen(s, s) })
	if err != ErrParked {
		s.end(err)
	}
}

// Send implements [mcp.Peer].
func (s *standing) Send(e sse.Event) error { return s.send(e, false) }

// Wake implements [mcp.Waker].
func (s *standing) Wake() { go s.run() }

// end ends the response because of err, and closes the connection.
func (s *standing) end(err error) {
	h, c := s.face, s.conn
	defer h.serving.Done()
	if err == nil {
		err = s.endBody(new(Response))
	}
	s.halt()
	if err == nil {
		err = c.Conn.Close()
	}
	if err != nil {
		c.hangUp()
	}
	h.dropConn(c)
	c.finish()
	if s.done != nil {
		h.cfg.guard(s.done)
	}
	s.cancel(ErrOver) // not earlier, or the connection to the server would be lost
}
