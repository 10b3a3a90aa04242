package proxy

import (
	"context"
	"io"
	"runtime/debug"
	"sync"

	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/sse"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// alone is the server behind us where there is none: it initializes, and has
// nothing. What clients come for are our own tools. It remembers nothing, so that
// its sessions can be taken up anywhere.
type noUpstream struct{}

func noUpstreamOrigin() origin {
	o := opened(false, func(context.Context) (upstream.Conn, error) { return noUpstream{}, nil })
	o.resume = func(string, string) upstream.Conn { return noUpstream{} }
	return o
}

// Send answers each request in this process, without a server: initialize and ping with a result, all
// others with "Method not found". It drops notifications and responses.
func (noUpstream) Send(ctx context.Context, out *upstream.Outgoing) (upstream.Stream, error) {
	if !out.Request {
		return nil, nil
	}
	var m wire.Message
	if err := m.Scan(out.Body, nil); err != nil {
		return nil, err
	}
	return &silentStream{ctx: ctx, first: noUpstream{}.answerTo(m.Method, m.ID())}, nil
}

func (noUpstream) answerTo(method wire.Method, id []byte) []byte {
	switch method {
	case wire.Initialize:
		return mcp.AppendResult(nil, id, `{"protocolVersion":"`+translate.Latest().Name+
			`","capabilities":{},"serverInfo":{"name":"dragoman","version":`+string(mcp.AppendString(nil, ownVersion()))+`}}`)
	case wire.Ping:
		return mcp.AppendResult(nil, id, `{}`)
	}
	return mcp.AppendError(nil, id, mcp.CodeMethodNotFound, "Method not found", nil)
}

// ownVersion is the version of this program, as it was built.
func ownVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

// Listen returns a stream that has no messages and stays open until ctx ends or the stream is closed.
func (noUpstream) Listen(ctx context.Context, _ upstream.ListenOptions) (upstream.Stream, error) {
	return newSilentStream(ctx), nil
}

// Close has nothing to end.
func (noUpstream) Close(context.Context) error { return nil }

// silence is a stream that says first, if anything, and then nothing until it ends.
type silentStream struct {
	ctx   context.Context
	first []byte // of an answer, which is all that there is

	once   sync.Once
	closed chan struct{} // nil behind an answer
}

func newSilentStream(ctx context.Context) *silentStream {
	return &silentStream{ctx: ctx, closed: make(chan struct{})}
}

// Next returns the answer, if there is one, and then io.EOF. On a standing stream it blocks until the
// context ends or the stream is closed.
func (s *silentStream) Next() (sse.Event, error) {
	if m := s.first; m != nil {
		s.first = nil
		return sse.Event{Data: m}, nil
	}
	if s.closed == nil {
		return sse.Event{}, io.EOF
	}
	select {
	case <-s.ctx.Done():
		return sse.Event{}, context.Cause(s.ctx)
	case <-s.closed:
		return sse.Event{}, upstream.ErrClosed
	}
}

// Close ends the silence.
func (s *silentStream) Close() error {
	if s.closed != nil {
		s.once.Do(func() { close(s.closed) })
	}
	return nil
}
