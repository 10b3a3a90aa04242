package origin

import (
	"context"
	"sync"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// NoServer is the connection of a session without a server: it answers initialize and offers
// nothing, so that the client gets only dragoman's own tools. It has no state: any replica can
// resume the session.
type NoServer struct{}

// None returns an origin without a server.
func None() Origin {
	o := Opened(false, func(context.Context) (upstream.Conn, error) { return NoServer{}, nil })
	o.Resume = func(string, string) *upstream.Begun { return &upstream.Begun{Conn: NoServer{}} }
	return o
}

// Send answers each request in this process, without a server: initialize and ping with a result, all
// others with "Method not found". It drops notifications and responses.
func (NoServer) Send(ctx context.Context, out *upstream.Outgoing) (upstream.Stream, error) {
	if !out.Request {
		return nil, nil
	}
	var m wire.Message
	if err := m.Scan(out.Body, nil); err != nil {
		return nil, err
	}
	return upstream.Answered(NoServer{}.AnswerTo(m.Method, m.ID())), nil
}

// AnswerTo returns the response to a request.
func (NoServer) AnswerTo(method wire.Method, id []byte) []byte {
	switch method {
	case wire.Initialize:
		return mcp.AppendResult(nil, id, `{"protocolVersion":"`+translate.Latest().Name+
			`","capabilities":{},"serverInfo":{"name":"dragoman","version":`+string(wire.AppendQuoted(nil, mcp.Version()))+`}}`)
	case wire.Ping:
		return mcp.AppendResult(nil, id, `{}`)
	}
	return mcp.AppendError(nil, id, mcp.CodeMethodNotFound, "Method not found", nil)
}

// Listen returns a stream that has no messages and stays open until ctx ends or the stream is closed.
func (NoServer) Listen(ctx context.Context, _ upstream.ListenOptions) (upstream.Stream, error) {
	return &silentStream{ctx: ctx, closed: make(chan struct{})}, nil
}

// Close does nothing.
func (NoServer) Close(context.Context) error { return nil }

// silentStream is a stream without messages.
type silentStream struct {
	upstream.Plain
	ctx    context.Context
	once   sync.Once
	closed chan struct{} // closed by Close
}

// Events blocks until the context ends or the stream is closed.
func (s *silentStream) Events(yield func(sse.Event, error) bool) {
	select {
	case <-s.ctx.Done():
		yield(sse.Event{}, context.Cause(s.ctx))
	case <-s.closed:
		yield(sse.Event{}, upstream.ErrClosed)
	}
}

// Close ends the stream.
func (s *silentStream) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}
