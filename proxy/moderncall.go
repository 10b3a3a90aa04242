package proxy

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/dragoman-proxy/dragoman/proxy/clienterror"
	"github.com/dragoman-proxy/dragoman/proxy/era"
	"github.com/dragoman-proxy/dragoman/proxy/large"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/mcpheader"
	"github.com/dragoman-proxy/dragoman/proxy/report"
	"github.com/dragoman-proxy/dragoman/proxy/requests"
	"github.com/dragoman-proxy/dragoman/proxy/server"
	"github.com/dragoman-proxy/dragoman/proxy/sse"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// How often a server without sessions may ask before it answers, and how often and
// when a call is sent again that it does not take at once.
const (
	maxRounds    = 10
	maxQuestions = 64 // of one round
	maxSheds     = 3
	firstShed    = 250 * time.Millisecond
)

// bridgedCall is one request of a client with a session, at a server that has none:
// the stream of what the server says about it. Questions become requests on that
// stream, and their answers a further request, as long as the server asks; see
// https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr.
//
// A goroutine leads it, since it goes on when the client lets go of the stream:
// towards such a server the end of a stream cancels, and clients with a session do
// not mean that.
type bridgedCall struct {
	c      *modernConn
	ctx    context.Context // ends when the call is cancelled, or the session ends
	cancel context.CancelCauseFunc
	stream upstream.Outgoing // its Body is as it was sent first
	id     []byte            // the client's
	key    string
	method wire.Method
	target string // the name or the URI that the request is about, "" for none
	note   []byte
	wish   []byte            // for a task: what the client said of it; nil for none
	from   []upstream.Header // the client's, that go along; the stream's headers begin with them

	// The client's side. want is a call of Next, and got what it returns.
	client   context.Context
	want     chan struct{}
	got      chan nextResult
	gone     chan struct{} // closed when the stream is
	once     sync.Once
	released atomic.Bool
	lost     atomic.Bool // the answer is an error of ours

	// For the goroutine only.
	sent      []byte // the id that the server knows it by
	st        upstream.Stream
	msg       wire.Message
	ready     [][]byte // for the client, before all else
	over      bool
	detached  bool // the client's stream has ended
	asking    []*ask
	heard     chan receivedAnswer // of those; there is room for one of each
	state     string              // requestState as JSON, "" for none
	rounds    int
	sheds     int
	refreshed bool
	retitled  bool
	asked     bool     // whether the server is still what it was
	answers   []*ask   // that were sent last
	opened    [][]byte // elicitationIds of what the client has accepted to open
}

// ask is a question of the server that waits for the client's answer.
type ask struct {
	heard  chan<- receivedAnswer
	name   string // in inputRequests, as JSON
	id     []byte // ours
	method wire.Method
	note   []byte
	opens  []byte           // elicitationId, nil for none
	again  []byte           // the question as the client got it, while it may be asked once more; else nil
	answer []byte           // the result as the server gets it
	by     *answeringClient // nil where the answer is ours, or has not come
}

type receivedAnswer struct {
	to     *ask
	raw    []byte
	header []upstream.Header // of the client's POST that brought it
}

// call sends a request of the client to the server. scratch is where it is rewritten; it
// and the memory of msg are the call's.
func (c *modernConn) call(ctx context.Context, m *upstream.Outgoing, msg *wire.Message, scratch []byte) (upstream.Stream, error) {
	b := &bridgedCall{
		c: c, client: ctx, method: msg.Method, id: bytes.Clone(msg.ID()), sent: c.nextID(),
		want: make(chan struct{}), got: make(chan nextResult, 1), gone: make(chan struct{}),
	}
	b.key = string(wire.AppendIDKey(nil, b.id))
	b.ctx, b.cancel = context.WithCancelCause(c.life)
	params := gjson.Parse(wire.View(msg.Params()))
	switch b.method {
	case wire.ToolsCall, wire.PromptsGet:
		b.target = strings.Clone(params.Get("name").String())
	case wire.ResourcesRead:
		b.target = strings.Clone(params.Get("uri").String())
	case wire.TasksGet:
		b.target = strings.Clone(params.Get("taskId").String())
	}
	b.wish = c.wish(b.method, params)
	arguments := wire.Bytes(params.Get("arguments").Raw)
	e := c.enquire(msg, b.target, m.Header)
	msg.Facts = c.facts
	msg.Stamp = &wire.Stamp{ID: b.sent, ClientInfo: c.client, Capabilities: c.can, LogLevel: c.logLevel(), Task: b.wish}
	if b.wish != nil || b.method == wire.TasksGet {
		msg.Stamp.Capabilities = c.canTasks()
	}
	out, v, err := c.up.Rewrite(scratch, msg)
	c.srv.host.Losses.Note(c.up.From(), c.up.To(), b.method, msg.Losses, m.Header)
	switch {
	case err != nil:
		b.cancel(nil)
		return nil, err
	case v == wire.Answer:
		b.cancel(nil)
		answer, err := sjson.SetRawBytes(out, "id", b.id)
		return answerHere(ctx, func(context.Context) ([]byte, error) { return answer, err }), nil
	case v != wire.Forward:
		b.cancel(nil)
		return nil, mcp.Saying(mcp.CodeMethodNotFound, "Method not found: "+b.method.String())
	}
	b.note = bytes.Clone(msg.Note)
	b.stream = upstream.Outgoing{Body: out, Request: true, FirstByte: m.FirstByte, Silence: m.Silence, Stale: m.Stale, Logs: msg.Stamp.LogLevel != nil}
	b.from = slices.Clone(m.Header)
	c.mu.Lock()
	c.running[b.key] = b
	c.mu.Unlock()
	if err = b.setHeaders(ctx, arguments); err == nil {
		b.st, err = e.Open(b.ctx, b.sent, func() (upstream.Stream, error) {
			o := b.stream
			return c.conn.Send(b.ctx, &o)
		})
	}
	b.stream.Stale = nil
	if e, as := server.RefusalOf(err, b.sent); err != nil && as == nil {
		b.st, err = answerHere(b.ctx, func(context.Context) ([]byte, error) { return e.Data, nil }), nil
	}
	if err != nil {
		b.over = true // the server has nothing to be told of
		b.finish()
		if c.srv.eras.Changed(ctx, b.from, true, err) {
			err = era.Outlived()
		}
		return nil, err
	}
	again := func() error {
		c.tools.Forget()
		return b.setHeaders(b.ctx, arguments)
	}
	c.srv.host.Spawn(func() { b.run(again) })
	return b, nil
}

// head sets the headers of the request. The schemas of tools say which arguments
// are among them.
func (b *bridgedCall) setHeaders(ctx context.Context, arguments []byte) error {
	c := b.c
	h := c.headers(b.from, gjson.GetBytes(b.stream.Body, "method").String(), b.target)
	if b.method == wire.ToolsCall && c.web {
		params, err := c.paramHeaders(ctx, b.target, arguments, b.from)
		if err != nil {
			return err
		}
		h = append(h, params...)
	}
	b.stream.Header = h
	return nil
}

// run leads the call to its end. again finds out what headers a tool wants.
func (b *bridgedCall) run(again func() error) {
	wanted := false
	left := func() bool { return true } // or lets go of the end of us all
	defer func() { left() }()
	defer b.finish()
	defer func() {
		if p := recover(); p != nil {
			b.c.srv.host.Report.Panicked(p)
			b.reply(nextResult{err: mcp.Fail(mcp.Panicked, "")}, wanted)
		}
	}()
	for {
		wanted = false
		select {
		case <-b.want:
			wanted = true
		case <-b.gone:
			if b.over {
				return
			}
			if !b.detached {
				b.detached, left = true, context.AfterFunc(b.c.srv.host.Draining, func() { b.cancel(nil) })
			}
		case <-b.ctx.Done():
		}
		e, err := b.next(again)
		if err != nil && b.recalled() {
			err = requests.ErrCancelled
		}
		b.reply(nextResult{e, err}, wanted)
		if err != nil {
			return
		}
	}
}

// give answers a call of Next.
func (b *bridgedCall) reply(n nextResult, wanted bool) {
	if !wanted {
		return
	}
	select {
	case b.got <- n:
	case <-b.gone:
	}
}

// finish lets go of everything.
func (b *bridgedCall) finish() {
	c := b.c
	c.mu.Lock()
	if c.running[b.key] == b {
		delete(c.running, b.key)
	}
	c.mu.Unlock()
	c.forget(b.asking)
	if !b.over && b.ctx.Err() != nil {
		c.sendCancelled(b.sent)
	}
	b.closeServerStream()
	b.cancel(nil)
}

// let gives the server's stream up.
func (b *bridgedCall) closeServerStream() {
	if b.st == nil {
		return
	}
	if st, ok := b.st.(upstream.Releaser); ok && b.released.Load() {
		st.Release()
	}
	b.st.Close()
	b.st = nil
}

// Next is the next message for the client.
func (b *bridgedCall) Next() (sse.Event, error) {
	select {
	case b.want <- struct{}{}:
	case <-b.ctx.Done():
		return sse.Event{}, b.cause()
	case <-b.gone:
		return sse.Event{}, upstream.ErrClosed
	case <-b.client.Done():
		return sse.Event{}, context.Cause(b.client)
	}
	select {
	case n := <-b.got:
		return n.event, n.err
	case <-b.gone:
		return sse.Event{}, upstream.ErrClosed
	case <-b.client.Done():
		return sse.Event{}, context.Cause(b.client)
	}
}

// recalled reports whether the client has cancelled the call.
func (b *bridgedCall) recalled() bool { return context.Cause(b.ctx) == requests.ErrCancelled }

// why is why there is no answer.
func (b *bridgedCall) cause() error {
	if b.recalled() {
		return requests.ErrCancelled
	}
	if err := context.Cause(b.client); err != nil {
		return err
	}
	return upstream.ErrClosed
}

// Release says that the last event is needed no more.
func (b *bridgedCall) Release() { b.released.Store(true) }

// Close closes the client's stream. The call to the server goes on.
func (b *bridgedCall) Close() error {
	b.once.Do(func() { close(b.gone) })
	return nil
}

// next is the next message for the client, valid until the next call.
func (b *bridgedCall) next(again func() error) (sse.Event, error) {
	for {
		switch {
		case len(b.ready) > 0:
			out := b.ready[0]
			b.ready = b.ready[1:]
			return sse.Event{Data: out}, nil
		case b.over:
			return sse.Event{}, io.EOF
		case b.asking != nil:
			if err := b.await(); err != nil {
				return sse.Event{}, err
			}
			continue
		}
		e, err := b.st.Next()
		if err != nil {
			refusal := err
			if e, err = server.RefusalOf(err, b.sent); err != nil || !era.IsUnsupported(e.Data) {
				if b.c.srv.eras.Changed(b.ctx, b.stream.Header, true, refusal) {
					return sse.Event{}, era.Outlived()
				}
			}
			if err != nil {
				return sse.Event{}, err
			}
		}
		if len(bytes.TrimSpace(e.Data)) == 0 {
			continue
		}
		out, err := b.toClient(e.Data, again)
		switch {
		case err != nil && (b.ctx.Err() != nil || clienterror.Of(err).Cause == mcp.SessionUnknown):
			return sse.Event{}, err
		case err != nil:
			b.conclude(b.failed(err))
		case out != nil && !b.over:
			return sse.Event{Data: out}, nil
		}
	}
}

// take makes of one message of the server what the client gets; nil where that is
// nothing, or ready.
func (b *bridgedCall) toClient(raw []byte, again func() error) ([]byte, error) {
	c, m := b.c, &b.msg
	if err := m.Scan(raw, c.down.Shape()); err != nil {
		_ = c.srv.host.Report.Malformed(err, raw, b.from)
		return nil, nil
	}
	m.Facts, m.Stamp = c.facts, nil
	if !m.Kind.Response() {
		return c.passDown(m, b.stream.Header), nil
	}
	if id := m.ID(); !bytes.Equal(id, b.sent) && (m.Kind != wire.Error || id != nil && string(id) != "null") {
		c.srv.host.Report.Dropped("unknown_id")
		return nil, nil
	}
	if m.Kind == wire.Error && c.web && gjson.Get(wire.View(m.Error()), "code").Int() == int64(mcp.HeaderMismatch.Code()) {
		refresh := b.method == wire.ToolsCall && !b.refreshed
		if refresh || b.retitle() {
			b.refreshed = true
			if err := again(); err != nil {
				return nil, err
			}
			return nil, b.send(b.answers)
		}
	}
	if m.Kind == wire.Error && !b.asked && era.IsUnsupported(raw) {
		b.asked = true
		switch still, err := c.isModern(b.ctx, b.stream.Header); {
		case err == nil && !still:
			return nil, era.Outlived()
		case err == nil:
			return nil, b.send(b.answers)
		}
	}
	if m.Kind == wire.Result && b.method == wire.ToolsList && c.web {
		if less, changed := c.tools.Learn(raw, c.srv.host.Log); changed {
			if err := m.Scan(less, c.down.Shape()); err != nil {
				return nil, err
			}
		}
	}
	m.Method, m.Note, m.Facts, m.Stamp = b.method, b.note, c.facts, &wire.Stamp{ID: b.id, Task: b.wish}
	if len(m.Raw) > large.Size {
		m.Room = cap(m.Raw) - len(m.Raw)
	}
	out, v, err := c.down.Rewrite(nil, m)
	c.srv.host.Losses.Note(c.down.From(), c.down.To(), b.method, m.Losses, b.stream.Header)
	switch {
	case err != nil:
		return nil, err
	case v == wire.Local:
		return nil, b.questions(gjson.GetBytes(out, "result"))
	}
	if m.Kind == wire.Error {
		if out, err = sjson.SetRawBytes(out, "id", b.id); err != nil { // it may have had none
			return nil, err
		}
	}
	if b.wish != nil {
		out = b.asTask(out)
	}
	b.conclude(out)
	return nil, nil
}

// passDown is a notification of the server as the client gets it; nil for nothing.
func (c *modernConn) passDown(m *wire.Message, header []upstream.Header) []byte {
	if m.Kind != wire.Notification {
		c.srv.host.Report.Dropped("request") // servers of this revision have none
		return nil
	}
	if m.Method == wire.ToolsListChanged {
		c.tools.Forget()
	}
	c.srv.results.Heard(m)
	method := m.Method
	m.Facts = c.facts
	out, v, err := c.down.Rewrite(nil, m)
	c.srv.host.Losses.Note(c.down.From(), c.down.To(), method, m.Losses, header)
	if err != nil {
		c.srv.host.Report.Untranslated(err, header)
		return nil
	}
	if v != wire.Forward {
		return nil
	}
	return out
}

// conclude makes answer the last thing that the client gets.
func (b *bridgedCall) conclude(answer []byte) {
	c := b.c
	b.over = true
	for _, a := range c.forget(b.asking) {
		b.ready = append(b.ready, mcp.Cancelled(a.id, ""))
	}
	b.asking = nil
	b.ready = append(c.appendOpened(b.ready, b.opened, b.stream.Header), answer)
}

// appendOpened appends to list what tells the client that it is over with URLs that
// it has opened, by their elicitationIds.
func (c *modernConn) appendOpened(list, opened [][]byte, header []upstream.Header) [][]byte {
	for _, id := range opened {
		var m wire.Message
		body := mcp.Notification(wire.ElicitationCompleted, `{"elicitationId":`+wire.View(id)+`}`)
		if m.Scan(body, c.down.Shape()) == nil {
			if out := c.passDown(&m, header); out != nil {
				list = append(list, out)
			}
		}
	}
	return list
}

// fail ends the call since its client cannot or will not answer: the server could
// not be told.
func (b *bridgedCall) fail(text string) {
	if b.method != wire.ToolsCall {
		b.conclude(mcp.Saying(mcp.CodeInternal, text).About(b.id).Body())
		return
	}
	result := append([]byte(`{"content":[{"type":"text","text":`), mcp.AppendString(nil, text)...)
	b.conclude(mcp.AppendResult(nil, b.id, string(append(result, `}],"isError":true}`...))))
}

// send asks the server once more, with what it wanted to know.
func (b *bridgedCall) send(answers []*ask) error {
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
	b.st, err = b.c.conn.Send(b.ctx, &o)
	if e, as := server.RefusalOf(err, b.sent); err != nil && as == nil {
		b.st, err = answerHere(b.ctx, func(context.Context) ([]byte, error) { return e.Data, nil }), nil
	}
	return err
}

// failed is the answer to a call that err ended.
func (b *bridgedCall) failed(err error) []byte {
	at := report.At{Method: b.method.String(), Client: b.c.up.From(), Server: b.c.up.To(), Header: b.from}
	b.lost.Store(true)
	return b.c.srv.host.Report.Failed(err, at).WithID(b.id).Body()
}

// retitle decides how the name of a call is said from now on, where the server has
// refused it as it was said: in base64, or as plain text. false says that there is
// only one way.
func (b *bridgedCall) retitle() bool {
	if b.retitled || mcpheader.Encode(b.target) == b.target {
		return false
	}
	for i := range len(b.target) {
		if b.target[i] < 0x20 || b.target[i] == 0x7F {
			return false
		}
	}
	b.retitled = true
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	if b.c.rawNames = !b.c.rawNames; b.c.rawNames {
		b.c.srv.host.Report.Quirk(report.RawNameWanted)
	}
	return true
}
