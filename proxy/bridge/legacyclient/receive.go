package legacyclient

import (
	"bytes"
	"io"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/envelope"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/origin/era"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/mcpheader"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/memo"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// next returns the next message for the client, which is valid until the call ends. It first does then, unless that is nil.
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
			return sse.Event{Data: bytes.Clone(out)}, nil // out is the server's stream's
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
	if err == nil || b.ctx.Err() != nil || report.FailureOf(err).Cause == mcp.SessionUnknown {
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
	case len(bytes.TrimSpace(e.Data)) == 0, !pipes.CarriesMessages(&e):
		return nil, nil, nil
	}
	return b.toClient(e.Data)
}

// refused handles the error that the server's stream has ended with. A refusal may have an answer in its body.
func (b *call) refused(refusal error) error {
	e, err := pipes.RefusalOf(refusal, b.sent)
	if (err != nil || !era.IsUnsupported(e.Data)) && b.c.bridge.eras.Changed(b.ctx, b.request.Header, true, refusal) {
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
	list, listed := b.listKey()
	if listed && b.again(list, raw) {
		return nil, nil, nil
	}
	raw, marked := wire.TrimMark(raw)
	if marked {
		c.host.Quirk(mcp.ByteOrderMark)
	}
	err = m.Scan(raw, c.down.Shape())
	if err != nil && wire.Mend(raw) {
		c.host.Quirk(mcp.NullMember)
		err = m.Scan(raw, c.down.Shape())
	}
	if err != nil {
		bad := c.host.Report.Malformed(err, raw, b.from)
		if id, meant := envelope.BrokenAnswer(raw); meant && (id == nil || pipes.IsAnswer(id, b.sent)) {
			return nil, nil, bad
		}
		return nil, nil, nil
	}
	m.Facts, m.Stamp = c.facts, nil
	if !m.Kind.Response() {
		if m.Method == wire.Progress && !b.progress.Rises(m) {
			c.host.Report.Dropped("unattributed")
			return nil, nil, nil
		}
		out := c.passDown(m, b.request.Header)
		b.seen.Because(observe.ToClient, observe.Why{Translator: c.down, Known: translate.Known{Facts: m.Facts}}, m.Losses)
		return out, nil, nil
	}
	if id := m.ID(); len(id) > 0 && id[0] == '"' && pipes.IsAnswer(id, b.sent) {
		c.host.Quirk(mcp.TextID)
	} else if !bytes.Equal(id, b.sent) && (m.Kind != wire.Error || id != nil && string(id) != "null") {
		c.host.Report.Dropped("unknown_id")
		return nil, nil, nil
	}
	if m.Kind == wire.Error && c.reach == ByHTTP && gjson.Get(wire.View(m.Error()), "code").Int() == int64(mcp.HeaderMismatch.Code()) {
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
	if m.Kind == wire.Result && b.method == wire.ToolsList && c.reach == ByHTTP {
		if less, changed := c.tools.Learn(raw, c.host.Log); changed {
			if err := m.Scan(less, c.down.Shape()); err != nil {
				return nil, nil, err
			}
			listed = false // each session tells of the tools that are left out
		}
	}
	var watched *memo.Pending
	if listed && m.Kind == wire.Result {
		from, to := m.IDAt()
		watched = c.bridge.lists.Watch(list, raw, from, to)
	}
	b.msgs.downStamp = wire.Stamp{ID: b.id, Task: b.wish}
	m.Method, m.Note, m.Facts, m.Stamp = b.method, b.note, c.facts, &b.msgs.downStamp
	if len(m.Raw) > large.Size {
		m.Room = cap(m.Raw) - len(m.Raw)
	}
	m.Follow = true // see Scanned
	out, v, err := c.down.Rewrite(nil, m)
	c.host.Losses.Note(c.lossPeers(c.down), b.method, m.Losses, b.request.Header)
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
	if watched != nil {
		c.bridge.lists.Learn(watched, out, m.Losses)
	}
	b.conclude(out)
	return nil, nil, nil
}

// sendIfModern sends the request again if the server, which has refused its revision, still has no handshake.
func (b *call) sendIfModern(refusal []byte) error {
	switch still, err := b.c.isModern(b.ctx, b.request.Header); {
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
