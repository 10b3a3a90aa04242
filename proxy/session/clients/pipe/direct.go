package pipe

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/bridge/stateless"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/mcpheader"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/toolindex"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/proxy/session/clients"
	"github.com/dragoman-proxy/dragoman/proxy/session/handshake"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// openDirect returns a second pipe of the same client, for the requests that need no session at a
// modern server. If the server is a process, this client has it alone, and request ids are not
// changed.
func (p *pipe) openDirect(q *stateless.Request) (*pipe, error) {
	known, err := p.proxy.Eras.Of(p.ctx, p.from)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(p.ctx, p.proxy.Now().Config.Upstream.HandshakeTimeout)
	defer cancel()
	h := &handshake.Handshake{Opener: p.proxy.Opener, Pipe: true, Sender: p.sender, Opening: pipes.Opening{Of: p.proxy.Host, Header: p.from}}
	s, err := h.Directly(ctx, q.WithoutMessage(), known)
	if err != nil {
		return nil, err
	}
	s.Principal = "modern " // dragoman's own tools keep their state under this owner
	s.Ended = nil
	half := &pipe{proxy: p.proxy}
	half.client, half.ctx, half.fail, half.from, half.sender = p.client, p.ctx, p.fail, p.from, p.sender
	half.s, half.first = s, slices.Clone(p.from)
	half.begun.Store(s)
	if s.Direct.Web {
		s.Conn, s.Bare = &headerConn{Conn: s.Conn, proxy: p.proxy, s: s}, s.Conn
	} else {
		var standing upstream.Stream
		half.called = make(chan struct{}, 1)
		half.given, standing = pipes.Renumber(s.Conn, h.Standing, nil, p.proxy.Now().Config.Limits, p.proxy.Host)
		s.Conn, s.Recall = half.given, half.given.Recall
		x := half.exchange()
		x.Stream = standing
		half.spawn(func() { half.bring(x) })
		half.spawn(half.watch)
	}
	return half, nil
}

// Send sends one message. If the server refuses the headers of a tool call, the call is sent once
// more, after the list of tools was read again.
func (c *headerConn) Send(ctx context.Context, m *upstream.Outgoing) (upstream.Stream, error) {
	var msg wire.Message
	if err := msg.Scan(m.Body, nil); err != nil {
		return nil, err
	}
	if msg.Kind.Response() || msg.Method == wire.Cancelled {
		return nil, nil // a modern client sends no responses, and closing the stream cancels a request
	}
	call := &headerCall{c: c, ctx: ctx, out: *m, from: m.Header, method: gjson.GetBytes(m.Body, "method").String()}
	if msg.Kind == wire.Request {
		params := gjson.Parse(wire.View(msg.Params()))
		if target := stateless.TargetOf(msg.Method); target != "" {
			call.target = strings.Clone(params.Get(target).String()) // the call may be sent once more, when the client's bytes are gone
		}
		if msg.Method == wire.ToolsCall {
			body, err := c.proxy.Host.Memory().Clone(ctx, large.RequestWait, large.RequestCopy, m.Body)
			if err != nil {
				return nil, err
			}
			call.arguments = wire.Moved(wire.Bytes(params.Get("arguments").Raw), m.Body, body)
			call.out.Body = body
		}
	}
	if err := call.setHeaders(); err != nil {
		return nil, err
	}
	st, err := c.Conn.Send(ctx, &call.out)
	if err != nil || st == nil || msg.Method != wire.ToolsCall {
		return st, err
	}
	call.out.Stale, call.st = nil, st
	return call, nil
}

// headerCall is a tool call, and the stream of the server's messages about it.
type headerCall struct {
	upstream.Plain
	c              *headerConn
	ctx            context.Context
	out            upstream.Outgoing
	from           []mcp.Header
	method, target string
	arguments      []byte
	spoke          bool

	mu     sync.Mutex // guards st against Close
	st     upstream.Stream
	closed bool
}

// setHeaders sets the headers of the request.
func (h *headerCall) setHeaders() error {
	d := h.c.s.Direct
	h.out.Header = d.Headers(h.from, h.method, h.target)
	if h.method != wire.ToolsCall.String() {
		return nil
	}
	t, err := h.c.s.Tools.Look(h.ctx, h.target, toolindex.Ask{Of: h.c.s.ServerRevision, Page: func(params string) ([]byte, error) {
		return h.c.s.Inquire(h.ctx, wire.ToolsList, params, h.from)
	}})
	if err != nil && h.ctx.Err() != nil {
		return err
	}
	params, err := mcpheader.Params(t.Arguments, h.arguments)
	h.out.Header = append(h.out.Header, params...)
	return err
}

// Events gives the server's messages. If the first one refuses the headers, Events sends the call
// once more.
func (h *headerCall) Events(yield func(sse.Event, error) bool) {
	again := false
	for e, err := range h.stream().Events {
		again = !h.spoke && h.isMismatch(e, err) && h.learn()
		h.spoke = true
		if again {
			break
		}
		if !yield(e, err) {
			return
		}
	}
	if !again {
		return
	}
	if err := h.resend(); err != nil {
		yield(sse.Event{}, err)
		return
	}
	h.stream().Events(yield)
}

// learn sets the headers by a new list of tools, and reports whether that was possible.
func (h *headerCall) learn() bool {
	h.c.s.Tools.Forget()
	return h.setHeaders() == nil
}

// resend sends the call again.
func (h *headerCall) resend() error {
	st, err := h.c.Conn.Send(h.ctx, &h.out)
	if err != nil {
		return err
	}
	h.mu.Lock()
	old := h.st
	if h.st = st; h.closed {
		st.Close()
	}
	h.mu.Unlock()
	return old.Close()
}

// isMismatch reports whether the server has refused the headers.
func (h *headerCall) isMismatch(e sse.Event, err error) bool {
	if err != nil {
		if e, err = pipes.RefusalOf(err, []byte("0")); err != nil {
			return false
		}
	}
	var m wire.Message
	return m.Scan(e.Data, nil) == nil && m.Kind == wire.Error &&
		gjson.Get(wire.View(m.Error()), "code").Int() == int64(mcp.HeaderMismatch.Code())
}

func (h *headerCall) stream() upstream.Stream {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.st
}

// Release releases the last event.
func (h *headerCall) Release() { h.stream().Release() }

// Close closes the stream, which cancels the call.
func (h *headerCall) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	return h.st.Close()
}

// headerConn adds to the requests of a client on a pipe the headers that a server over HTTP
// requires. See
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#standard-request-headers.
type headerConn struct {
	upstream.Conn
	proxy *clients.Proxy
	s     *session.Session
}
