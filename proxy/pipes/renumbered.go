package pipes

import (
	"context"
	"sync"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/idmap"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// renaming is one message on its way to a server on a pipe.
type renaming struct {
	msg wire.Message
	buf []byte
	out upstream.Outgoing
}

var renamings = sync.Pool{New: func() any { return new(renaming) }}

// outgoing returns m with the renamed body. It is valid until done.
func (r *renaming) outgoing(ctx context.Context, memory *large.Memory, m *upstream.Outgoing) (_ *upstream.Outgoing, err error) {
	r.out = *m
	if !r.msg.Edited() {
		return &r.out, nil
	}
	if len(m.Body) > large.Size {
		if r.buf, err = memory.Alloc(ctx, large.RequestWait, large.RequestCopy, len(m.Body)+r.msg.Growth()); err != nil {
			return nil, err
		}
	}
	r.buf = r.msg.AppendTo(r.buf[:0])
	r.out.Body = r.buf
	return &r.out, nil
}

func (r *renaming) done() {
	r.out = upstream.Outgoing{}
	r.msg.Trim()
	if cap(r.buf) > large.Size {
		r.buf = nil
	}
	renamings.Put(r)
}

// Renumbered is the connection of one client on a pipe to one server on a pipe. It replaces request
// ids and progress tokens towards the server and restores the client's own in the server's messages,
// which keep their order. The open requests of a client have different ids: a new request ends an
// older one with the same id.
type Renumbered struct {
	upstream.Conn
	owner Owner
	batch int // most messages in an array from the server

	mu    sync.Mutex
	table idmap.Table[Sending]
	byKey map[string]*idmap.Entry[Sending]
}

// Renumber returns such a connection over conn, and the stream of all messages for the client. st has all messages of the server behind
// conn, on which an initialize with the id begun was sent; nil for none.
func Renumber(conn upstream.Conn, st upstream.Stream, begun []byte, cfg config.Limits, o Owner) (*Renumbered, upstream.Stream) {
	c := &Renumbered{Conn: conn, owner: o, batch: cfg.Batch, byKey: make(map[string]*idmap.Entry[Sending])}
	c.table.Taken(begun)
	return c, &renumberedStream{Stream: st, of: c}
}

// Send writes one message. The error is an [*upstream.Handed] for a request that waits for the server.
func (c *Renumbered) Send(ctx context.Context, m *upstream.Outgoing) (upstream.Stream, error) {
	r := renamings.Get().(*renaming)
	defer r.done()
	if err := r.msg.Scan(m.Body, idmap.Shape); err != nil {
		return nil, err
	}
	e, send := c.enter(&r.msg, m.Header)
	if !send {
		return nil, nil // the cancelled request is not open, or is being sent
	}
	var st upstream.Stream
	out, err := r.outgoing(ctx, c.owner.Memory(), m)
	if err == nil && e != nil && m.Stale != nil && m.Stale() {
		err = ErrRecalled
	}
	if err == nil {
		if e != nil {
			out.Again = &e.Progress.Again
		}
		st, err = c.Conn.Send(ctx, out)
	}
	h, waits := err.(*upstream.Handed) //nolint:errorlint // a Conn returns it as it is
	switch {
	case waits && e == nil:
		return nil, nil
	case waits:
		c.mu.Lock()
		e.Of.Waits(h)
		c.mu.Unlock()
		h.Then(func(err error) { c.sent(e, err) })
	case e != nil:
		c.sent(e, err)
	}
	return st, err
}

// sent notes that a request was sent, or will not be because of err.
func (c *Renumbered) sent(e *idmap.Entry[Sending], err error) {
	c.mu.Lock()
	recall := e.Of.End()
	if err != nil {
		c.leave(e)
	}
	c.mu.Unlock()
	if recall != nil && err == nil {
		SendRecall(c.owner, c.Conn, recall)
	}
}

// enter gives m the ids that the server is to see. e is nil if m is not a request. A cancelled
// request is removed, so that an answer to it counts as late.
func (c *Renumbered) enter(m *wire.Message, header []mcp.Header) (e *idmap.Entry[Sending], send bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.Kind != wire.Request {
		key := ""
		if m.Method == wire.Cancelled {
			key = idmap.Cancelled(m)
		}
		send = renameCancelled(&c.table, m, header, wayOfEntry)
		if e := c.byKey[key]; e != nil {
			c.leave(e)
		}
		return nil, send
	}
	e = c.table.Enter(m, Sending{})
	if old := c.byKey[e.Key]; old != nil {
		c.leave(old)
	}
	c.byKey[e.Key] = e
	return e, true
}

// leave removes e. Called with c.mu held.
func (c *Renumbered) leave(e *idmap.Entry[Sending]) {
	c.table.Leave(e)
	if c.byKey[e.Key] == e {
		delete(c.byKey, e.Key)
	}
}

// Recall removes the newest open request with this id, to cancel it: it returns the id by which the server knows the request,
// and the connection on which to send the cancellation. The connection is nil if there is nothing to send: the request is not
// open, or is still being sent, and is then followed by its cancellation.
func (c *Renumbered) Recall(id, reason string, header []mcp.Header) (given string, on upstream.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byKey[string(wire.AppendIDKey(nil, []byte(id)))]
	if e == nil {
		return "", nil
	}
	c.leave(e)
	if !e.Of.Cancel(mcp.Cancelled(e.Given, reason), header) {
		return "", nil
	}
	return e.Given, c.Conn
}

func wayOfEntry(e *idmap.Entry[Sending]) *Sending { return &e.Of }

// hear restores the client's ids in a message of the server. It returns false if the client is not to
// get the message.
func (c *Renumbered) hear(m *wire.Message) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case m.Kind.Response():
		e := c.table.Answered(m)
		if e == nil {
			break
		}
		if idmap.AsText(m) {
			c.owner.Quirk(mcp.TextID)
		}
		c.leave(e)
		return true
	case m.Kind == wire.Notification:
		if _, known := c.table.About(m); known {
			return true
		}
		c.owner.Dropped("unattributed")
		return false
	default:
		return true
	}
	if id := m.ID(); m.Kind == wire.Error && (id == nil || string(id) == "null") {
		return true // it is about no request, and will be logged
	}
	c.owner.Dropped("late_answer")
	return false
}

// forget ends the requests that err leaves without an answer: the process that had them is gone, or
// the message that could not be read may have been the answer to any of them.
func (c *Renumbered) forget(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.table.Each(func(e *idmap.Entry[Sending]) {
		if !Spares(err, e.GivenKey) {
			c.leave(e)
		}
	})
}

// GivenKey returns the key of the id by which the server knows the open request with this key, or ""
// if there is none. See [wire.AppendIDKey].
func (c *Renumbered) GivenKey(key string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.byKey[key]; e != nil {
		return e.GivenKey
	}
	return ""
}

// asked returns the server's id of the open request that a response with this id answers, and for nil that of the only open
// request; "" for none.
func (c *Renumbered) asked(id []byte) (given string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.table.Only()
	if id != nil {
		e = c.table.Asked(id)
	}
	if e != nil {
		given = e.Given
	}
	return given
}

// renumberedStream has all messages of a server on a pipe.
type renumberedStream struct {
	upstream.Stream
	of  *Renumbered
	msg wire.Message
	buf []byte
	all [][]byte
}

// Events gives the events that have something for the client.
func (st *renumberedStream) Events(yield func(sse.Event, error) bool) {
	for e, err := range st.Stream.Events {
		e, err, ok := Replaced(e, err, st.of.owner)
		if ok && err == nil {
			e.Data = st.restored(e.Data)
			ok = e.Data != nil
		}
		if Restarts(err) || Skipped(err) != nil {
			st.of.forget(err)
		}
		if ok && !yield(e, err) {
			return
		}
	}
}

// restored returns what the client gets of an event's data, or nil if it gets nothing.
func (st *renumberedStream) restored(data []byte) []byte {
	if cap(st.buf) > large.Size {
		st.msg, st.buf = wire.Message{}, nil
	}
	switch {
	case wire.IsArray(data):
		return st.array(data)
	case Scan(&st.msg, data, st.of.owner, st.of.asked) != nil:
		return data // the caller reads it again and reports the error
	case !st.of.hear(&st.msg):
		return nil
	case !st.msg.Edited():
		return st.msg.Raw
	}
	if len(st.msg.Raw) > large.Size {
		st.msg.Room = cap(data) - len(data)
		if out := st.msg.InPlace(); out != nil {
			return out
		}
	}
	st.buf = st.msg.AppendTo(st.buf[:0])
	return st.buf
}

// array returns an array of those messages in raw that are for the client, or nil if there are none.
func (st *renumberedStream) array(raw []byte) []byte {
	all, err := wire.AppendElements(st.all[:0], raw, st.of.batch)
	if st.all = all; err != nil {
		return raw // the caller reads it again and reports the error
	}
	out := append(st.buf[:0], '[')
	for _, piece := range all {
		read := Scan(&st.msg, piece, st.of.owner, st.of.asked) == nil
		if read && !st.of.hear(&st.msg) {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		if read {
			out = st.msg.AppendTo(out)
		} else {
			out = append(out, piece...) // the caller reads it again and reports the error
		}
	}
	st.buf = append(out, ']')
	clear(st.all)
	if len(out) == 1 {
		return nil
	}
	return st.buf
}
