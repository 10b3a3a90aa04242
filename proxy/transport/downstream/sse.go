package downstream

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"

	"github.com/valyala/fasthttp"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// The transport of the first revision: a GET opens a stream, whose first event names
// the URI that the client POSTs its messages to. All messages of the server come on the
// stream.
//
// See https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse.

// What the Log of a configuration is called with when a client seems to use one transport at the path of the other. A client of
// Streamable HTTP that gets a refusal may go on with HTTP+SSE.
const (
	SSEAtStreamable = "a client uses HTTP+SSE at the path of Streamable HTTP"
	StreamableAtSSE = "a client uses Streamable HTTP at the path of HTTP+SSE"
)

// openPipe serves a GET of the stream.
func (h *HTTP) openPipe(ctx *fasthttp.RequestCtx, c *conn) *refusal {
	header := &ctx.Request.Header
	if !ctx.IsGet() {
		ctx.Response.Header.Set(fasthttp.HeaderAllow, "GET")
		if ctx.IsPost() {
			h.cfg.Log(StreamableAtSSE, fmt.Errorf("a client at %s has sent a POST to %s", c.peer, h.cfg.SSEPath))
		}
		return onlyGet.with(h.cfg.Path)
	}
	if r := checkGet(header); r != nil {
		return r
	}
	if h.draining.Load() {
		return drained
	}
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	p := &pipe{cfg: &h.cfg, buffers: &h.buffers, heartbeat: &h.heartbeat, conn: c, id: base64.RawURLEncoding.EncodeToString(random[:]), plain: !header.IsHTTP11()}
	c.begin(p.ctx.End)

	// Nothing is sent yet, but what the handler writes follows this.
	p.append(func(dst []byte) []byte {
		return sse.Append(dst, sse.Event{Name: []byte("endpoint"), Data: []byte(h.cfg.MessagesURI() + "?session=" + p.id)})
	})

	req := Request{
		Ctx:         &p.ctx,
		Guest:       c.guestName(),
		Peer:        c.peer,
		Version:     string(header.Peek("Mcp-Protocol-Version")),
		LastEventID: string(header.Peek("Last-Event-Id")),
		Header:      func(name string) string { return headerOf(header, name) },
	}
	var resp Response
	if !h.cfg.guard(func() { p.session = h.cfg.Pipes.OpenPipe(p, &req, &resp) }) {
		p.session, resp = nil, Response{Status: panicked.status}
	}
	if p.session == nil {
		p.refuse(ctx, &resp)
		return nil
	}
	streamHead(&ctx.Response.Header)
	p.begin(bytes.Clone(takeOver(ctx)))
	h.mu.Lock()
	h.pipes[p.id] = p
	h.mu.Unlock()
	c.takenOver = func() { h.startPipe(p) }
	return nil
}

// startPipe begins the work of a pipe, until its context ends.
func (h *HTTP) startPipe(p *pipe) {
	h.serving.Add(1)
	p.start()
	p.ctx.Await(&pipeEnd{h, p})
}

// pipeEnd waits for the end of a pipe's context.
type pipeEnd struct {
	face *HTTP
	pipe *pipe
}

// ContextEnded implements [callctx.Waiter].
func (e *pipeEnd) ContextEnded() { e.face.endPipe(e.pipe, context.Cause(&e.pipe.ctx)) }

// endPipe ends what startPipe began.
func (h *HTTP) endPipe(p *pipe, why error) {
	p.stop()
	h.mu.Lock()
	delete(h.pipes, p.id)
	h.mu.Unlock()
	p.finish(why)
	h.dropConn(p.conn)
	h.cfg.guard(func() { p.session.Left(why) })
	h.serving.Done()
}

// refuse answers with resp instead of a stream.
func (p *pipe) refuse(ctx *fasthttp.RequestCtx, resp *Response) {
	p.conn.finish()
	p.ctx.End(ErrOver)
	if resp.Status < fasthttp.StatusBadRequest {
		resp.Status = fasthttp.StatusServiceUnavailable // there is no stream
	}
	if len(resp.Body) == 0 {
		refuse(ctx, &refusal{status: resp.Status, words: fasthttp.StatusMessage(resp.Status)}, p.cfg.WithoutID)
	} else {
		ctx.SetContentType("application/json")
		ctx.SetBody(resp.Body)
	}
	resp.fill(&ctx.Response)
}

// postMessage serves a POST of one message. It answers before the message is handled:
// errors about the message come on the stream.
func (h *HTTP) postMessage(ctx *fasthttp.RequestCtx, c *conn) *refusal {
	if !ctx.IsPost() {
		ctx.Response.Header.Set(fasthttp.HeaderAllow, "POST")
		return onlyPost
	}
	header := &ctx.Request.Header
	if r := checkContent(header); r != nil {
		return r
	}
	id := ctx.QueryArgs().Peek("session")
	if len(id) == 0 || len(ctx.QueryArgs().PeekMulti("session")) > 1 {
		return unnamedPipe
	}
	h.mu.Lock()
	p := h.pipes[string(id)]
	h.mu.Unlock()
	owns := false
	if p != nil {
		guest, get := c.guestName(), func(name string) string { return headerOf(header, name) }
		if !h.cfg.guard(func() { owns = p.session.Owns(guest, get) }) {
			return panicked
		}
	}
	if !owns {
		return noPipe
	}
	who := c.owner(header)
	if !h.admit(who) {
		return tooManyPost
	}
	defer h.dismiss(who)
	m := &posted{}
	if r := h.readBody(ctx, &m.body, who); r != nil {
		return r
	}
	header.CopyTo(&m.header)
	r := checkMessage(m.data)
	if r == nil && !c.keep() {
		r = drained
	}
	if r == nil {
		r = p.put(m)
	}
	if r != nil {
		m.share.Release()
		return r
	}
	ctx.SetStatusCode(fasthttp.StatusAccepted)
	return nil
}

// checkMessage returns a refusal unless data is a message, or an array that may hold
// messages.
func checkMessage(data []byte) *refusal {
	if wire.IsArray(data) && wire.Valid(data) {
		return nil
	}
	var m wire.Message
	err := m.Scan(data, nil)
	if err == nil {
		return nil
	}
	r := &refusal{status: fasthttp.StatusBadRequest, words: err.Error()}
	if e, ok := err.(*wire.EnvelopeError); ok {
		r.code, r.id, r.words = e.Code, e.ID, e.Why
	}
	return r
}
