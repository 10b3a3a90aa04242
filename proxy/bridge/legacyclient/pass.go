package legacyclient

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/callctx"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/ops/telemetry"
	"github.com/dragoman-proxy/dragoman/proxy/origin/era"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/requests"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Send implements [upstream.Conn].
func (c *Conn) Send(ctx context.Context, m *upstream.Outgoing) (upstream.Stream, error) {
	st, more, err := c.Pass(ctx, m)
	if b, is := more.(*reading); is {
		b.alone = false
	}
	return st, err
}

// Answering tells more of the last message of a stream that Pass has returned.
type Answering interface {
	// Scanned returns what was scanned and translated last: if that is the message, there is no need to scan it again. It may
	// return nil.
	Scanned() *wire.Message
	// Told returns the headers of the server's response to the request, for the client; after the first message. They do not change.
	Told() []mcp.Header
	// Failed reports whether the message is dragoman's own error and not the server's response.
	Failed() bool
}

// Pass is Send for a caller that closes the stream once, and does not use it after that. more is nil if the message does
// not go to the server.
func (c *Conn) Pass(ctx context.Context, m *upstream.Outgoing) (st upstream.Stream, more Answering, err error) {
	if c.life.Err() != nil {
		return nil, nil, upstream.ErrClosed
	}
	if c.shared.stale.Load() {
		c.refresh(ctx)
	}
	both := messagesPool.Get().(*messages)
	msg := &both.up
	if err := msg.ScanLike(m.Scanned, m.Body, c.up.Shape()); err != nil {
		return nil, nil, err
	}
	switch {
	case msg.Kind.Response():
		if err := c.keep(ctx, msg); err != nil {
			return nil, nil, err
		}
		c.receiveAnswer(msg, m.Header)
		return nil, nil, nil
	case msg.Kind == wire.Notification && msg.Method == wire.Cancelled:
		c.cancel(cancelledKey(msg))
		return nil, nil, nil
	case msg.Kind == wire.Notification:
		return nil, nil, nil // modern revisions have none of these notifications
	}
	switch msg.Method {
	case wire.LoggingSetLevel, wire.ResourcesSubscribe, wire.ResourcesUnsubscribe:
		st, err = c.remember(ctx, msg, m.Header)
		return st, nil, err
	case wire.TasksGet, wire.TasksResult, wire.TasksCancel, wire.TasksUpdate:
		if st := c.task(ctx, msg, m.Header); st != nil {
			return st, nil, nil
		}
	}
	return c.begin(ctx, m, both)
}

// Awaits reports whether msg is about something that is open in this process: an answer to a question that was asked here, or the
// cancellation of a request that runs here.
func (c *Conn) Awaits(msg *wire.Message) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case msg.Kind.Response():
		return c.asked[string(wire.AppendIDKey(nil, msg.ID()))] != nil
	case msg.Kind == wire.Notification && msg.Method == wire.Cancelled:
		return c.running[string(cancelledKey(msg))] != nil
	}
	return false
}

// MayConcern reports whether a text may be a message about something that is open in another process which serves the session as well: an
// answer or a cancellation. It is cheap, and false for nearly all requests.
func (c *Conn) MayConcern(text []byte) bool {
	return bytes.Contains(text, []byte(`"`+askPrefix)) || bytes.Contains(text, []byte("notifications/cancelled"))
}

// IsElsewhere reports whether msg is an answer or a cancellation that Awaits does not know.
func (c *Conn) IsElsewhere(msg *wire.Message) bool {
	about := msg.Kind.Response() || msg.Kind == wire.Notification && msg.Method == wire.Cancelled
	return about && !c.Awaits(msg)
}

// cancelledKey returns the key of the request that a cancellation names.
func cancelledKey(msg *wire.Message) []byte {
	return wire.AppendIDKey(nil, []byte(gjson.Get(wire.View(msg.Params()), "requestId").Raw))
}

// keep makes msg, which was scanned in the caller's memory, own its text.
func (c *Conn) keep(ctx context.Context, msg *wire.Message) (err error) {
	msg.Raw, err = c.host.Memory().Clone(ctx, large.RequestWait, large.RequestCopy, msg.Raw)
	return err
}

// remember answers a request that only changes the state of the session.
func (c *Conn) remember(ctx context.Context, msg *wire.Message, header []mcp.Header) (upstream.Stream, error) {
	if err := c.keep(ctx, msg); err != nil {
		return nil, err
	}
	id, method := msg.ID(), msg.Method
	level := gjson.Get(wire.View(msg.Params()), "level")
	uri := gjson.Get(wire.View(msg.Params()), "uri")
	header = append([]mcp.Header(nil), header...)
	return answerHere(ctx, id, func(ctx context.Context) ([]byte, error) {
		var err error
		switch {
		case method == wire.LoggingSetLevel:
			err = c.setLevel(ctx, level, header)
		case uri.Type != gjson.String:
			err = mcp.Saying(mcp.CodeInvalidParams, "params.uri must be a string")
		case method == wire.ResourcesSubscribe:
			err = c.subscribe(ctx, uri.String(), header)
		default:
			c.unsubscribe(uri.String())
		}
		if err == nil {
			c.save(ctx)
		}
		return mcp.AppendResult(nil, id, "{}"), err
	}), nil
}

func (c *Conn) setLevel(ctx context.Context, level gjson.Result, header []mcp.Header) error {
	if err := c.mustOffer(ctx, "logging", wire.LoggingSetLevel, header); err != nil {
		return err
	}
	if level.Type != gjson.String || mcp.LogLevelOf(level.String()) == mcp.NoLogLevel {
		return mcp.Saying(mcp.CodeInvalidParams, fmt.Sprintf("Invalid log level: %.64s", level.String()))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.level = wire.AppendQuoted(nil, level.String())
	return nil
}

// cancel ends the request with this key, which the client has cancelled.
func (c *Conn) cancel(key []byte) {
	c.mu.Lock()
	ctx := c.running[string(key)]
	c.mu.Unlock()
	if ctx != nil {
		ctx.End(requests.ErrCancelled)
	}
}

// Close ends the session. The server is not notified, because it has no sessions.
func (c *Conn) Close(ctx context.Context) error {
	c.end()
	c.forgetState(ctx)
	c.bridge.finished.end(&c.done)
	if c.reach == ByOwnProcess {
		c.bridge.results.Unheard(c.realm)
	}
	return c.conn.Close(ctx)
}

// begin sends a request of the client to the server, which was scanned into both.up. both belongs to the call from now
// on.
func (c *Conn) begin(ctx context.Context, m *upstream.Outgoing, both *messages) (upstream.Stream, Answering, error) {
	msg := &both.up
	b := readings.Get().(*reading)
	scratch, size := b.scratch, len(msg.Raw)+len(c.client)+len(c.can)+headroom
	if cap(scratch) < size {
		var err error
		if scratch, err = c.host.Memory().Alloc(ctx, large.RequestWait, large.RequestCopy, size); err != nil {
			return nil, nil, err
		}
	}
	msg.Room = -1 // the message is the caller's, and the call keeps what it becomes
	b.client, b.c, b.seen, b.span, b.method, b.msgs = ctx, c, observe.Of(ctx), telemetry.In(ctx), msg.Method, both
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
	b.alone = c.reach == ByHTTP && e == nil && b.wish == nil
	msg.Facts = c.facts
	both.upStamp = wire.Stamp{ID: b.sent, ClientInfo: c.client, Capabilities: c.can, LogLevel: c.logLevel(), Task: b.wish}
	msg.Stamp = &both.upStamp
	if b.wish != nil || b.method == wire.TasksGet {
		msg.Stamp.Capabilities = c.canTasks()
	}
	out, v, err := c.up.Rewrite(scratch, msg)
	c.host.Losses.Note(c.lossPeers(c.up), b.method, msg.Losses, m.Header)
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
		return upstream.Answered(answer), nil, err
	case v != wire.Forward:
		b.ctx.End(nil)
		return nil, nil, mcp.Saying(mcp.CodeMethodNotFound, "Method not found: "+b.method.String())
	}
	b.note = bytes.Clone(msg.Note)
	b.request = upstream.Outgoing{Body: out, Request: true, Repeats: b.method.Reads(), FirstByte: m.FirstByte, Silence: m.Silence, Stale: m.Stale, Waits: m.Waits, Logs: msg.Stamp.LogLevel != nil}
	b.from = slices.Clone(m.Header)
	c.mu.Lock()
	c.running[b.key] = b.ctx
	c.mu.Unlock()
	if err = b.setHeaders(ctx); err == nil && m.Stale != nil && m.Stale() {
		err = pipes.ErrRecalled // cancel has not found the call
	}
	var st upstream.Stream
	if err == nil {
		st, err = b.sendFirst(e)
	}
	b.request.Stale = nil
	if err = b.hears(st, err); err != nil {
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

// Listen opens the client's standing stream. It carries updates of the resources that the client has
// subscribed to and, while it is open, list_changed notifications. It replaces an older stream. The
// error is upstream.ErrNoStream when the server offers no notifications.
func (c *Conn) Listen(ctx context.Context, o upstream.ListenOptions) (upstream.Stream, error) {
	if c.life.Err() != nil {
		return nil, upstream.ErrClosed
	}
	if c.shared.stale.Load() {
		c.refresh(ctx)
	}
	header := append([]mcp.Header(nil), o.Header...)
	offers, err := c.offers(ctx, header)
	if err != nil {
		return nil, err
	}
	what := ""
	var missed [][]byte
	for _, of := range [...]struct {
		capability, filter string
		changed            wire.Method
	}{
		{"tools", "toolsListChanged", wire.ToolsListChanged}, {"prompts", "promptsListChanged", wire.PromptsListChanged},
		{"resources", "resourcesListChanged", wire.ResourcesListChanged},
	} {
		if gjson.GetBytes(offers, of.capability+".listChanged").Bool() {
			if what != "" {
				what += ","
			}
			what += `"` + of.filter + `":true`
			missed = append(missed, mcp.Notification(of.changed, ""))
		}
	}
	if what == "" && c.reach == ByHTTP && !c.hasTasks() && !gjson.GetBytes(offers, "resources.subscribe").Bool() {
		return nil, upstream.ErrNoStream
	}
	n := &standingStream{of: &c.news, client: ctx, header: header, signal: make(chan struct{}, 1)}
	n.ctx, n.end = context.WithCancel(c.life)
	if c.reach != ByHTTP { // its end is that of the process
		st, err := c.conn.Listen(n.ctx, upstream.ListenOptions{})
		if err != nil {
			n.end()
			return nil, err
		}
		c.host.Spawn(func() { c.copy(st, n) })
	}
	if what != "" {
		l := &listenRequest{c: c, ctx: n.ctx, what: `"notifications":{` + what + `}`, can: c.can, header: header, missed: missed}
		c.host.Spawn(l.run)
	}
	c.news.move(n)
	c.watchNoted()
	c.mu.Lock()
	c.restore()
	c.mu.Unlock()
	if c.shared.stale.Load() {
		c.outdated()
	}
	return n, nil
}

// copy forwards the messages of a server on a pipe that belong to no request, until its process ends.
func (c *Conn) copy(st upstream.Stream, to *standingStream) {
	defer st.Close()
	for e, err := range st.Events {
		if err != nil {
			to.end()
			return
		}
		c.enqueue(e.Data, to.header)
	}
}
