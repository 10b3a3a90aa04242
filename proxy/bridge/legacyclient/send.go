package legacyclient

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/dragoman-proxy/dragoman/proxy/bridge"
	"github.com/dragoman-proxy/dragoman/proxy/callctx"
	"github.com/dragoman-proxy/dragoman/proxy/era"
	"github.com/dragoman-proxy/dragoman/proxy/large"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/requests"
	"github.com/dragoman-proxy/dragoman/proxy/results"
	"github.com/dragoman-proxy/dragoman/proxy/server"
	"github.com/dragoman-proxy/dragoman/proxy/telemetry"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// begin sends a request of the client to the server, which was scanned into both.up. both belongs to the call from now
// on.
func (c *Conn) begin(ctx context.Context, m *upstream.Outgoing, both *messages) (upstream.Stream, Answering, error) {
	msg := &both.up
	scratch, err := c.host.Memory().Alloc(ctx, large.RequestWait, large.RequestCopy, len(msg.Raw)+len(c.client)+len(c.can)+headroom)
	if err != nil {
		return nil, nil, err
	}
	msg.Room = -1 // the message is the caller's, and the call keeps what it becomes
	b := &call{c: c, seen: observe.Of(ctx), span: telemetry.In(ctx), method: msg.Method, msgs: both}
	b.client = ctx
	b.names = b.room[:0]
	b.id = b.keep(func(dst []byte) []byte { return append(dst, msg.ID()...) })
	b.key = wire.View(b.keep(func(dst []byte) []byte { return wire.AppendIDKey(dst, b.id) }))
	b.sent = b.keep(c.appendNextID)
	b.ctx = callctx.Under(c.life)
	params := gjson.Parse(wire.View(msg.Params()))
	switch b.method {
	case wire.ToolsCall, wire.PromptsGet:
		b.target = b.keepText(params.Get("name").String())
	case wire.ResourcesRead:
		b.target = b.keepText(params.Get("uri").String())
	case wire.TasksGet:
		b.target = b.keepText(params.Get("taskId").String())
	}
	b.wish = c.wish(b.method, params)
	e := c.enquire(msg, b.target, m.Header)
	msg.Facts = c.facts
	both.upStamp = wire.Stamp{ID: b.sent, ClientInfo: c.client, Capabilities: c.can, LogLevel: c.logLevel(), Task: b.wish}
	msg.Stamp = &both.upStamp
	if b.wish != nil || b.method == wire.TasksGet {
		msg.Stamp.Capabilities = c.canTasks()
	}
	out, v, err := c.up.Rewrite(scratch, msg)
	c.host.Losses.Note(c.up.From(), c.up.To(), b.method, msg.Losses, m.Header)
	b.seen.Because(observe.ToServer, observe.Why{Translator: c.up, Known: translate.Known{Facts: msg.Facts, Stamp: msg.Stamp}}, msg.Losses)
	switch {
	case err != nil:
		b.ctx.End(nil)
		return nil, nil, err
	case !msg.Edited():
		out = append(scratch, out...)
	}
	switch {
	case v == wire.Answer:
		b.ctx.End(nil)
		answer, err := sjson.SetRawBytes(out, "id", b.id)
		return bridge.AnswerHere(ctx, func(context.Context) ([]byte, error) { return answer, err }), nil, nil
	case v != wire.Forward:
		b.ctx.End(nil)
		return nil, nil, mcp.Saying(mcp.CodeMethodNotFound, "Method not found: "+b.method.String())
	}
	b.note = bytes.Clone(msg.Note)
	b.stream = upstream.Outgoing{Body: out, Request: true, FirstByte: m.FirstByte, Silence: m.Silence, Stale: m.Stale, Logs: msg.Stamp.LogLevel != nil}
	b.from = slices.Clone(m.Header)
	c.mu.Lock()
	c.running[b.key] = b
	c.mu.Unlock()
	if err = b.setHeaders(ctx); err == nil && m.Stale != nil && m.Stale() {
		err = server.ErrRecalled // cancel has not found the call
	}
	if err == nil {
		b.st, err = b.post(e)
	}
	b.stream.Stale = nil
	if e, as := server.RefusalOf(err, b.sent); err != nil && as == nil {
		b.st, err = bridge.AnswerHere(b.ctx, func(context.Context) ([]byte, error) { return e.Data, nil }), nil
	}
	if err != nil {
		if b.recalled() {
			err = requests.ErrCancelled
		}
		b.over = true // the server has no request to cancel
		b.finish()
		if c.bridge.eras.Changed(ctx, b.from, true, err) {
			err = era.Outlived()
		}
		return nil, nil, err
	}
	b.start()
	return b, b, nil
}

// keep returns what f appends, in memory of the call. Nothing writes to it again.
func (b *call) keep(f func(dst []byte) []byte) []byte {
	from := len(b.names)
	b.names = f(b.names)
	return b.names[from:len(b.names):len(b.names)]
}

// keepText returns a copy of text.
func (b *call) keepText(text string) string {
	return wire.View(b.keep(func(dst []byte) []byte { return append(dst, text...) }))
}

// post sends the first request, or takes the answer that e has found.
func (b *call) post(e *results.Enquiry) (upstream.Stream, error) {
	if e == nil {
		b.first = b.stream
		b.seen.Went(observe.ServerEdge, observe.ToServer, b.first.Body)
		return b.c.conn.Send(b.ctx, &b.first)
	}
	o := b.stream
	return e.Open(b.ctx, b.sent, func() (upstream.Stream, error) {
		b.seen.Went(observe.ServerEdge, observe.ToServer, o.Body)
		return b.c.conn.Send(b.ctx, &o)
	})
}

// setHeaders sets the headers of the request. The schema of a tool says which arguments become headers.
func (b *call) setHeaders(ctx context.Context) error {
	c := b.c
	h := c.headers(b.from, strings.Clone(gjson.Get(wire.View(b.stream.Body), "method").String()), b.target)
	if b.method == wire.ToolsCall && c.web {
		params, err := c.paramHeaders(ctx, b.target, b.stream.Body, b.from)
		if err != nil {
			return err
		}
		h = append(h, params...)
	}
	b.stream.Header = h
	return nil
}

// send sends the request again, with these answers.
func (b *call) send(answers []*ask) error {
	b.closeServerStream()
	b.sent, b.answers = b.c.nextID(), answers
	o := b.stream
	var err error
	if o.Body, err = sjson.SetRawBytes(o.Body, "id", b.sent); err != nil {
		return err
	}
	if len(answers) > 0 {
		inputs := []byte{'{'}
		for i, a := range answers {
			if i > 0 {
				inputs = append(inputs, ',')
			}
			inputs = append(append(append(inputs, a.name...), ':'), a.answer...)
		}
		if o.Body, err = sjson.SetRawBytes(o.Body, "params.inputResponses", append(inputs, '}')); err != nil {
			return err
		}
	}
	if b.state != "" {
		if o.Body, err = sjson.SetRawBytes(o.Body, "params.requestState", []byte(b.state)); err != nil {
			return err
		}
	}
	o.Body, o.Header = b.span.Again(o.Body, o.Header)
	b.seen.Note(observe.Note{By: observe.Bridge, What: "sent_again", To: observe.ToServer, Detail: "the request goes to the server once more, with the client's answers if it was asked something"})
	b.seen.Add(observe.Message{Edge: observe.ServerEdge, Direction: observe.ToServer, Copy: b.seen.Keep(o.Body)})
	b.st, err = b.c.conn.Send(b.ctx, &o)
	if e, as := server.RefusalOf(err, b.sent); err != nil && as == nil {
		b.st, err = bridge.AnswerHere(b.ctx, func(context.Context) ([]byte, error) { return e.Data, nil }), nil
	}
	return err
}

// sendRefreshed sends the request again, with headers that follow the tool's present schema.
func (b *call) sendRefreshed() error {
	b.c.tools.Forget()
	if err := b.setHeaders(b.span.Within(b.ctx)); err != nil {
		return err
	}
	return b.send(b.answers)
}

// sendIfModern sends the request again if the server, which has refused its revision, still has no handshake.
func (b *call) sendIfModern(refusal []byte) error {
	switch still, err := b.c.isModern(b.ctx, b.stream.Header); {
	case err == nil && !still:
		return era.Outlived()
	case err == nil:
		return b.send(b.answers)
	}
	_, then, err := b.toClient(refusal)
	if then != nil {
		err = then()
	}
	return err
}
