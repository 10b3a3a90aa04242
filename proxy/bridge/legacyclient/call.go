package legacyclient

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/callctx"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/ops/telemetry"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/idmap"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/requests"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// call is one request of the client, and what the server sends about it. Questions of the server become requests to the
// client, and their answers another request to the server, as often as the server asks; see
// https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr. See reading for the goroutine that runs it.
type call struct {
	c       *Conn
	ctx     *callctx.Context  // ends when the call is cancelled, or the session ends
	request upstream.Outgoing // the first one; later ones differ in id, answers and requestState
	id      []byte            // the client's
	key     string
	method  wire.Method
	target  string // the name or the URI that the request is about, "" for none
	note    []byte
	wish    []byte          // the client's params.task; nil for none
	seen    *observe.Call   // nil if the call is not observed
	span    *telemetry.Call // nil for none
	from    []mcp.Header    // the client's headers; those of the request begin with them

	names []byte    // the memory of id, key, target and the first sent, one behind the other
	room  [128]byte // the memory of names, unless they are long

	scratch []byte // memory for the first request

	gone     chan struct{} // closed when the client has left; nil while the client's goroutine runs the call
	released atomic.Bool   // the memory of the last event is no longer needed
	lost     atomic.Bool   // the answer is an error of dragoman's own

	// For the goroutine that runs the call: that of Events, or the call's own.
	sent      []byte // the id of the request to the server
	st        upstream.Stream
	msgs      *messages
	first     upstream.Outgoing
	told      []mcp.Header // of the response to first, written before its first message
	ready     [][]byte     // messages for the client that come first
	one       [1][]byte    // memory for ready
	over      bool
	progress  idmap.Progress
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

// finish ends the call and frees what it holds.
func (b *call) finish() {
	c := b.c
	c.mu.Lock()
	if c.running[b.key] == b.ctx {
		delete(c.running, b.key)
	}
	c.mu.Unlock()
	c.forget(b.asking)
	if !b.over && b.ctx.Err() != nil {
		c.sendCancelled(b.sent)
	}
	b.closeServerStream()
	b.ctx.End(nil)
	b.msgs.release()
	b.msgs = nil
}

// closeServerStream closes the server's stream.
func (b *call) closeServerStream() {
	if b.st == nil {
		return
	}
	if b.released.Load() {
		b.st.Release()
	}
	b.st.Close()
	b.st = nil
}

// recalled reports whether the client has cancelled the call.
func (b *call) recalled() bool { return context.Cause(b.ctx) == requests.ErrCancelled }

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
	b.ready = append(c.appendOpened(b.ready, b.opened, b.request.Header), answer)
}

// fail ends the call because the client cannot or does not answer: modern revisions have no way to tell the server.
func (b *call) fail(text string) {
	if b.method != wire.ToolsCall {
		b.conclude(mcp.Saying(mcp.CodeInternal, text).About(b.id).Body())
		return
	}
	result := append([]byte(`{"content":[{"type":"text","text":`), wire.AppendQuoted(nil, text)...)
	b.conclude(mcp.AppendResult(nil, b.id, string(append(result, `}],"isError":true}`...))))
}

// failed returns the error for a call that err has ended.
func (b *call) failed(err error) []byte {
	at := report.At{Method: b.method.String(), Client: b.c.up.From(), Server: b.c.up.To(), Header: b.from}
	b.lost.Store(true)
	return b.c.host.Report.Failed(err, at).WithID(b.id).Body()
}
