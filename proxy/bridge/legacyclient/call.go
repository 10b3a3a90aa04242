package legacyclient

import (
	"bytes"
	"context"
	"io"
	"sync"
	"sync/atomic"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/dragoman-proxy/dragoman/proxy/callctx"
	"github.com/dragoman-proxy/dragoman/proxy/clienterror"
	"github.com/dragoman-proxy/dragoman/proxy/era"
	"github.com/dragoman-proxy/dragoman/proxy/large"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/mcpheader"
	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/report"
	"github.com/dragoman-proxy/dragoman/proxy/requests"
	"github.com/dragoman-proxy/dragoman/proxy/server"
	"github.com/dragoman-proxy/dragoman/proxy/sse"
	"github.com/dragoman-proxy/dragoman/proxy/telemetry"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

const (
	maxRounds = 10 // rounds of questions in one call
	maxSheds  = 3  // times that a call is sent again because the server asked for a later attempt
)

// call is one request of the client, and the stream of what the server sends about it. Questions of the server
// become requests on the stream, and their answers another request to the server, as often as the server asks; see
// https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr.
//
// The call continues when the client closes the stream: a modern server would take that as a cancellation, and a
// client with a session does not mean it so. See reading for the goroutine that runs it.
type call struct {
	c      *Conn
	ctx    *callctx.Context  // ends when the call is cancelled, or the session ends
	stream upstream.Outgoing // the first request; later ones differ in id, answers and requestState
	id     []byte            // the client's
	key    string
	method wire.Method
	target string // the name or the URI that the request is about, "" for none
	note   []byte
	wish   []byte            // the client's params.task; nil for none
	seen   *observe.Call     // nil if the call is not observed
	span   *telemetry.Call   // nil for none
	from   []upstream.Header // the client's headers; the stream's headers begin with them

	names []byte    // the memory of id, key, target and the first sent, one behind the other
	room  [128]byte // the memory of names, unless they are long

	reading
	lost atomic.Bool // the answer is an error of dragoman's own

	// For the goroutine that runs the call: that of Next, or the call's own.
	sent      []byte // the id of the request to the server
	st        upstream.Stream
	msgs      *messages
	first     upstream.Outgoing
	ready     [][]byte  // messages for the client that come first
	one       [1][]byte // memory for ready
	over      bool
	broken    error // why the server's stream has ended; nil if it has not
	asking    []*ask
	heard     chan receivedAnswer // answers to asking; it has room for all of them
	state     string              // requestState as JSON, "" for none
	rounds    int
	sheds     int
	refreshed bool
	retitled  bool
	asked     bool     // the server was asked whether it is still modern
	answers   []*ask   // sent last
	opened    [][]byte // elicitationIds of the URLs that the client has accepted to open
}

// headroom is by how much requests to a modern server are longer than those of the client, besides what they say of the
// client.
const headroom = 256

// messages are the two messages that a call works on. They keep their memory for other calls.
type messages struct {
	up, down           wire.Message
	upStamp, downStamp wire.Stamp

	event  sse.Event                   // the last one of the server
	failed error                       // what came instead
	keep   func(sse.Event, error) bool // sets both, and ends Events
}

// release lets other calls use both.
func (both *messages) release() {
	both.up.Trim()
	both.down.Trim()
	both.up.Stamp, both.down.Stamp = nil, nil
	both.upStamp, both.downStamp = wire.Stamp{}, wire.Stamp{}
	both.event, both.failed = sse.Event{}, nil
	messagesPool.Put(both)
}

var messagesPool = sync.Pool{New: func() any {
	both := new(messages)
	both.keep = func(e sse.Event, err error) bool {
		both.event, both.failed = e, err
		return false
	}
	return both
}}

// ask is a question of the server to the client.
type ask struct {
	heard  chan<- receivedAnswer
	name   string // in inputRequests, as JSON
	id     []byte // of the request to the client
	method wire.Method
	note   []byte
	opens  []byte           // elicitationId, nil for none
	again  []byte           // the request to the client if it may be sent once more; else nil
	answer []byte           // the result for the server
	by     *answeringClient // nil if the answer is dragoman's own or has not come
}

type receivedAnswer struct {
	to     *ask
	raw    []byte
	header []upstream.Header // of the client's POST with the answer
}

// finish ends the call and frees what it holds.
func (b *call) finish() {
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
	b.ctx.End(nil)
	b.watch.Stop()
	b.msgs.release()
	b.msgs = nil
}

// closeServerStream closes the server's stream.
func (b *call) closeServerStream() {
	if b.st == nil {
		return
	}
	if st, ok := b.st.(upstream.Releaser); ok && b.released.Load() {
		st.Release()
	}
	b.st.Close()
	b.st = nil
}

// recalled reports whether the client has cancelled the call.
func (b *call) recalled() bool { return context.Cause(b.ctx) == requests.ErrCancelled }

// cause returns the reason for which there is no answer.
func (b *call) cause() error {
	if b.recalled() {
		return requests.ErrCancelled
	}
	if err := context.Cause(b.client); err != nil {
		return err
	}
	return upstream.ErrClosed
}

// next returns the next message for the client, which is valid until the next call. It first does then, unless that is
// nil.
func (b *call) next(then func() error) (sse.Event, error) {
	for {
		if then != nil {
			if err := b.judge(then()); err != nil {
				return sse.Event{}, err
			}
			then = nil
		}
		if e, ok, err := b.waiting(); ok || err != nil {
			return e, err
		}
		if b.asking != nil {
			if err := b.await(); err != nil {
				return sse.Event{}, err
			}
			continue
		}
		out, more, err := b.read()
		if err = b.judge(err); err != nil {
			return sse.Event{}, err
		}
		if out != nil && !b.over {
			return sse.Event{Data: out}, nil
		}
		then = more
	}
}

// waiting returns the next message that is ready for the client, if there is one, or the error with which the stream
// ends.
func (b *call) waiting() (e sse.Event, ok bool, err error) {
	switch {
	case len(b.ready) > 0:
		e.Data = b.ready[0]
		b.ready = b.ready[1:]
		return e, true, nil
	case b.over:
		return e, false, io.EOF
	}
	return e, false, b.broken
}

// judge ends the call because of err, which is nil for none, with an answer. If the client cannot get one, judge returns err.
func (b *call) judge(err error) error {
	if err == nil || b.ctx.Err() != nil || clienterror.Of(err).Cause == mcp.SessionUnknown {
		return err
	}
	b.conclude(b.failed(err))
	return nil
}

// read reads one message of the server, and translates it. out is nil if the client gets nothing, or what is in b.ready.
// If the message requires more than that, such as another request to the server, then does it.
func (b *call) read() (out []byte, then func() error, err error) {
	b.st.Events(b.msgs.keep)
	e, failed := b.msgs.event, b.msgs.failed
	switch {
	case failed == sse.ErrInterrupted:
		return nil, nil, nil
	case failed != nil:
		return nil, func() error { return b.refused(failed) }, nil
	case len(bytes.TrimSpace(e.Data)) == 0:
		return nil, nil, nil
	}
	return b.toClient(e.Data)
}

// refused handles the error that the server's stream has ended with. A refusal may have an answer in its body.
func (b *call) refused(refusal error) error {
	e, err := server.RefusalOf(refusal, b.sent)
	if (err != nil || !era.IsUnsupported(e.Data)) && b.c.bridge.eras.Changed(b.ctx, b.stream.Header, true, refusal) {
		err = era.Outlived()
	}
	if err != nil {
		b.broken = err
		return nil
	}
	_, then, err := b.toClient(e.Data)
	switch {
	case then != nil:
		return then()
	case err == nil && !b.over:
		b.broken = refusal // it was no answer
	}
	return err
}

// toClient translates one message of the server. It returns what read returns.
func (b *call) toClient(raw []byte) (out []byte, then func() error, err error) {
	c, m := b.c, &b.msgs.down
	b.seen.Came(observe.Message{Edge: observe.ServerEdge, Direction: observe.ToClient, Copy: b.seen.KeepAnswer(raw), Method: b.method.String()})
	if err := m.Scan(raw, c.down.Shape()); err != nil {
		_ = c.host.Report.Malformed(err, raw, b.from)
		return nil, nil, nil
	}
	m.Facts, m.Stamp = c.facts, nil
	if !m.Kind.Response() {
		out := c.passDown(m, b.stream.Header)
		b.seen.Because(observe.ToClient, observe.Why{Translator: c.down, Known: translate.Known{Facts: m.Facts}}, m.Losses)
		return out, nil, nil
	}
	if id := m.ID(); !bytes.Equal(id, b.sent) && (m.Kind != wire.Error || id != nil && string(id) != "null") {
		c.host.Report.Dropped("unknown_id")
		return nil, nil, nil
	}
	if m.Kind == wire.Error && c.web && gjson.Get(wire.View(m.Error()), "code").Int() == int64(mcp.HeaderMismatch.Code()) {
		refresh := b.method == wire.ToolsCall && !b.refreshed
		if refresh || b.retitle() {
			b.refreshed = true
			return nil, b.sendRefreshed, nil
		}
	}
	if m.Kind == wire.Error && !b.asked && era.IsUnsupported(raw) {
		b.asked = true
		refusal := bytes.Clone(raw)
		return nil, func() error { return b.sendIfModern(refusal) }, nil
	}
	if m.Kind == wire.Result && b.method == wire.ToolsList && c.web {
		if less, changed := c.tools.Learn(raw, c.host.Log); changed {
			if err := m.Scan(less, c.down.Shape()); err != nil {
				return nil, nil, err
			}
		}
	}
	b.msgs.downStamp = wire.Stamp{ID: b.id, Task: b.wish}
	m.Method, m.Note, m.Facts, m.Stamp = b.method, b.note, c.facts, &b.msgs.downStamp
	if len(m.Raw) > large.Size {
		m.Room = cap(m.Raw) - len(m.Raw)
	}
	m.Follow = true // see Scanned
	out, v, err := c.down.Rewrite(nil, m)
	c.host.Losses.Note(c.down.From(), c.down.To(), b.method, m.Losses, b.stream.Header)
	b.seen.Because(observe.ToClient, observe.Why{Translator: c.down, Known: translate.Known{Method: m.Method, Note: m.Note, Facts: m.Facts, Stamp: m.Stamp}}, m.Losses)
	switch {
	case err != nil:
		return nil, nil, err
	case v == wire.Local:
		result := gjson.GetBytes(out, "result")
		return nil, func() error { return b.questions(result) }, nil
	}
	if m.Kind == wire.Error {
		if out, err = sjson.SetRawBytes(out, "id", b.id); err != nil { // it may have had none
			return nil, nil, err
		}
	}
	if b.wish != nil {
		out = b.asTask(out)
	}
	b.conclude(out)
	return nil, nil, nil
}

// passDown translates a notification of the server. It returns nil if the client gets nothing.
func (c *Conn) passDown(m *wire.Message, header []upstream.Header) []byte {
	if m.Kind != wire.Notification {
		c.host.Report.Dropped("request") // servers of this revision have none
		return nil
	}
	if m.Method == wire.ToolsListChanged {
		c.tools.Forget()
	}
	c.bridge.results.Heard(m)
	method := m.Method
	m.Facts = c.facts
	out, v, err := c.down.Rewrite(nil, m)
	c.host.Losses.Note(c.down.From(), c.down.To(), method, m.Losses, header)
	if err != nil {
		c.host.Report.Untranslated(err, header)
		return nil
	}
	if v != wire.Forward {
		return nil
	}
	return out
}

// conclude ends the call with this answer.
func (b *call) conclude(answer []byte) {
	c := b.c
	b.over = true
	if b.ready == nil {
		b.ready = b.one[:0]
	}
	for _, a := range c.forget(b.asking) {
		b.ready = append(b.ready, mcp.Cancelled(a.id, ""))
	}
	b.asking = nil
	b.ready = append(c.appendOpened(b.ready, b.opened, b.stream.Header), answer)
}

// appendOpened appends to list the notifications that end the URL elicitations with these ids.
func (c *Conn) appendOpened(list, opened [][]byte, header []upstream.Header) [][]byte {
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

// fail ends the call because the client cannot or does not answer: modern revisions have no way to tell the server.
func (b *call) fail(text string) {
	if b.method != wire.ToolsCall {
		b.conclude(mcp.Saying(mcp.CodeInternal, text).About(b.id).Body())
		return
	}
	result := append([]byte(`{"content":[{"type":"text","text":`), mcp.AppendString(nil, text)...)
	b.conclude(mcp.AppendResult(nil, b.id, string(append(result, `}],"isError":true}`...))))
}

// failed returns the error for a call that err has ended.
func (b *call) failed(err error) []byte {
	at := report.At{Method: b.method.String(), Client: b.c.up.From(), Server: b.c.up.To(), Header: b.from}
	b.lost.Store(true)
	return b.c.host.Report.Failed(err, at).WithID(b.id).Body()
}

// retitle changes the form of Mcp-Name, base64 or plain text, after the server has refused the other one. It reports
// false if the name has only one form.
func (b *call) retitle() bool {
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
		b.c.host.Report.Quirk(report.RawNameWanted)
	}
	return true
}

// Scanned implements [Answering].
func (b *call) Scanned() *wire.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.entered || b.ended {
		return nil
	}
	return &b.msgs.down
}

// Failed implements [Answering].
func (b *call) Failed() bool { return b.lost.Load() }
