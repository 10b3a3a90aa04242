package pipes

import (
	"context"
	"sync"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/idmap"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Renamed gives the requests of several clients in one session over HTTP ids and progress tokens of dragoman's own: each request
// has a stream of its own there, but many servers tell the requests of a session apart by their ids alone. Its methods are safe for
// concurrent use.
type Renamed struct {
	Of Owner

	mu    sync.Mutex
	table idmap.Table[struct{}]
}

// RenamedCall is one request. Given is the id by which the server knows it.
type RenamedCall = idmap.Entry[struct{}]

// Request returns the request in body as the server gets it, in memory of its own. The caller calls Leave when it has ended.
func (c *Renamed) Request(ctx context.Context, body []byte) (call *RenamedCall, out []byte, err error) {
	r := renamings.Get().(*renaming)
	defer r.done()
	if err := r.msg.Scan(body, idmap.Shape); err != nil {
		return nil, nil, err
	}
	c.mu.Lock()
	call = c.table.Enter(&r.msg, struct{}{})
	c.mu.Unlock()
	if out, err = c.Of.Memory().Alloc(ctx, large.RequestWait, large.RequestCopy, len(body)+r.msg.Growth()); err != nil {
		c.Leave(call)
		return nil, nil, err
	}
	return call, r.msg.AppendTo(out), nil
}

// Leave ends a request. call may be nil.
func (c *Renamed) Leave(call *RenamedCall) {
	if call != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.table.Leave(call)
	}
}

// Restored returns a message on the stream of the request of, with the id or the progress token of its client, or nil if its client gets
// nothing: what is about another request is for another client. It may rewrite raw in place.
func (c *Renamed) Restored(ctx context.Context, of *RenamedCall, raw []byte) []byte {
	r := renamings.Get().(*renaming)
	defer r.done()
	m := &r.msg
	if Scan(m, raw, c.Of, c.asked) != nil {
		return raw // the caller reads it again and reports the error
	}
	var call *RenamedCall
	c.mu.Lock()
	if m.Kind.Response() {
		if call = c.table.Asked(m.ID()); call == of && call != nil {
			c.table.Answered(m)
		} else if id := m.ID(); id != nil && string(id) != "null" {
			raw = nil
		}
	} else if m.Kind == wire.Notification {
		if about, known := c.table.About(m); !known || about != nil && about != of {
			raw = nil
		}
	}
	c.mu.Unlock()
	if raw == nil {
		c.Of.Dropped("unattributed")
		return nil
	}
	if call != nil && idmap.AsText(m) {
		c.Of.Quirk(mcp.TextID)
	}
	if !m.Edited() {
		return m.Raw
	}
	m.Room = cap(raw) - len(raw)
	if out := m.InPlace(); out != nil {
		return out
	}
	out, err := c.Of.Memory().Alloc(ctx, large.AnswerWait, large.Copy, len(m.Raw)+m.Growth())
	switch {
	case err == nil:
		return m.AppendTo(out)
	case call != nil:
		return mcp.Fail(mcp.NoRoom, "").About([]byte(call.ID)).Body()
	}
	return nil
}

// asked returns the id that the server has of the open request that a response with this id answers; "" for none.
func (c *Renamed) asked(id []byte) (given string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if call := c.table.Asked(id); id != nil && call != nil {
		given = call.Given
	}
	return given
}
