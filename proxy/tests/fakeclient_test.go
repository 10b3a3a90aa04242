package tests

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
)

// response is what a client over HTTP receives, while it receives it: as the transport does, it runs the handler until
// the response ends, and calls Done.
type response struct {
	downstream.Response
	Stream *received // nil if the response is not an event stream

	ended chan struct{} // closed when the handler has returned
	leave context.CancelCauseFunc
	once  sync.Once
}

// respond runs handle, and returns when it has returned or sent an event.
func respond(req *downstream.Request, handle func(*downstream.Request, *downstream.Response)) *response {
	r := &response{ended: make(chan struct{})}
	req.Ctx, r.leave = context.WithCancelCause(req.Ctx)
	c := &received{events: make(chan sse.Event), begun: make(chan struct{}), closed: make(chan struct{}), leave: r.leave}
	req.Client = c
	go func() {
		defer close(r.ended)
		defer close(c.events)
		handle(req, &r.Response)
		switch last := r.Last; {
		case r.Listen != nil:
			close(c.begun)
			w := make(woken, 1)
			err := r.Listen(c, w)
			for err == downstream.ErrParked {
				<-w
				err = r.Listen(c, w)
			}
			c.broken = err
		case !c.sent:
		case len(last.Data) > 0 || last.HasID:
			_ = c.Send(last)
		case r.Body != nil:
			_ = c.Send(sse.Event{Data: r.Body})
		}
		if r.Cut != nil {
			c.broken = r.Cut
		}
	}()
	select {
	case <-c.begun:
	case <-r.ended:
	}
	select {
	case <-c.begun:
		r.Stream = c
	default:
	}
	return r
}

// woken receives a value for each call of Wake.
type woken chan struct{}

func (w woken) Wake() { w <- struct{}{} }

// Done ends the response. If the handler has not returned, the client has left.
func (r *response) Done() {
	r.once.Do(func() {
		if r.Stream != nil {
			_ = r.Stream.Close()
		}
		<-r.ended
		if r.Response.Done != nil {
			r.Response.Done()
		}
		r.leave(downstream.ErrOver)
	})
}

// received is an event stream as a client receives it, event by event. It implements [mcp.Peer].
type received struct {
	events chan sse.Event
	begun  chan struct{}
	sent   bool  // an event was sent
	broken error // why the stream ended early

	closed chan struct{}
	once   sync.Once
	leave  context.CancelCauseFunc
}

func (c *received) Send(e sse.Event) error {
	if !c.sent {
		c.sent = true
		select {
		case <-c.begun:
		default:
			close(c.begun)
		}
	}
	e.Data, e.ID, e.Name = bytes.Clone(e.Data), bytes.Clone(e.ID), bytes.Clone(e.Name)
	select {
	case c.events <- e:
		return nil
	case <-c.closed:
		return errors.New("the client has left")
	}
}

// Next returns the next event, and io.EOF after the last one.
func (c *received) Next() (sse.Event, error) {
	select {
	case e, ok := <-c.events:
		switch {
		case ok:
			return e, nil
		case c.broken != nil:
			return e, c.broken
		}
		return e, io.EOF
	case <-c.closed:
		return sse.Event{}, io.EOF
	}
}

// Close is the client's leaving.
func (c *received) Close() error {
	c.once.Do(func() { close(c.closed); c.leave(downstream.ErrClientLeft) })
	return nil
}
