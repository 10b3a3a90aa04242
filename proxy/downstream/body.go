package downstream

import (
	"context"
	"errors"
	"io"

	"github.com/valyala/fasthttp"

	"github.com/dragoman-proxy/dragoman/proxy/large"
)

// prefetched is how much of a body of known length fasthttp reads before it
// calls the handler. Not more is read without asking the budget.
const prefetched = 8 << 10

// Of a body that is longer, so much is read before more memory is taken for it, and
// then four times as much each time.
const firstStep = 64 << 10

// body is that of a request, and what it took of the budget.
type body struct {
	data  []byte
	share large.Share
}

// readBody reads a request's body into buf where there is room, and into memory
// of its own otherwise. Without a refusal the caller gives back what it holds of
// the budget, with [HTTP.release].
func (h *HTTP) readBody(ctx *fasthttp.RequestCtx, buf []byte) (b body, r *refusal) {
	b.data = buf[:0]
	c := ctx.Conn().(*conn)
	length := ctx.Request.Header.ContentLength()
	if length > h.cfg.MaxBody {
		return b, bodyTooLarge.with(h.cfg.MaxBody)
	}
	most := length
	if length < 0 {
		most = h.cfg.MaxBody + 1 // one byte more than the limit tells that there is more
	}
	overdrawn := h.cfg.Memory.Budget.Overdrawn()
	if most > prefetched || overdrawn {
		b.share = h.cfg.Memory.Budget.Share(c.owner(), int64(large.Room(most)))
	}
	if overdrawn { // no request can be so small that it may begin now
		if r := h.hold(&b, 1); r != nil {
			return b, r
		}
	}
	stream := ctx.RequestBodyStream()
	if stream == nil {
		return b, nil
	}
	r = h.read(&b, stream, c, most)
	if r == nil && (c.ended || len(b.data) < length) {
		r = shortBody // fasthttp does not mind when the last chunk is missing
	}
	if r != nil {
		h.release(&b)
		return b, r
	}
	c.bodyRead = true
	return b, nil
}

// read reads a body of at most most bytes, for which it takes memory as they come.
func (h *HTTP) read(b *body, stream io.Reader, c *conn, most int) *refusal {
	p := h.newPace(c)
	for room := 0; ; {
		if len(b.data) == room {
			var r *refusal
			if room, r = h.more(b, most); r != nil {
				return r
			}
			p.begin(len(b.data))
		}
		n, err := stream.Read(b.data[len(b.data):room])
		b.data = b.data[:len(b.data)+n]
		switch {
		case len(b.data) > h.cfg.MaxBody:
			return bodyTooLarge.with(h.cfg.MaxBody)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return h.unreadBody(err)
		}
		p.keep(len(b.data))
	}
}

// more makes room for the next bytes of a body of at most most, and returns how many
// there may be then.
func (h *HTTP) more(b *body, most int) (room int, r *refusal) {
	have := len(b.data)
	switch {
	case have >= firstStep:
		room = 4 * have
	case have >= prefetched || most <= firstStep:
		room = firstStep
	default:
		room = prefetched
	}
	room = large.Room(min(room, max(most, have+1))) // reading the end takes room, too
	if room > prefetched {
		if r := h.hold(b, int64(room)-b.share.Asked()); r != nil {
			return 0, r
		}
	}
	b.data = h.room(b.data, room)
	return room, nil
}

// room returns a buffer for n bytes that begins with b, in whose place it is.
func (h *HTTP) room(b []byte, n int) []byte {
	if n <= cap(b) {
		return b
	}
	var next []byte
	if n > keepBuffer {
		next = h.cfg.Memory.Lend(n)
	} else {
		next = make([]byte, 0, max(n, 1<<10))
	}
	next = append(next, b...)
	h.dropBuffer(b)
	return next
}

// dropBuffer lets go of a buffer, for the next large body where it is one.
func (h *HTTP) dropBuffer(b []byte) {
	if cap(b) > keepBuffer {
		h.cfg.Memory.Return(b)
	}
}

// hold takes n more bytes of the budget for b.
func (h *HTTP) hold(b *body, n int64) *refusal {
	ctx, cancel := context.WithTimeout(h.hard, h.cfg.BudgetWait)
	defer cancel()
	if b.share.Grow(ctx, n) != nil {
		return noBudget
	}
	return nil
}

// release gives back what b holds of the budget.
func (h *HTTP) release(b *body) { b.share.Release() }

// owner names the client for which memory is taken.
func (c *conn) owner() string {
	if c.known {
		return string(c.guest[:])
	}
	return c.peer
}

func (h *HTTP) unreadBody(err error) *refusal {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return shortBody
	}
	return h.unread(err)
}

// hasRest reports whether there is more of a request's body than fasthttp has
// read before it called the handler.
func (h *HTTP) hasRest(ctx *fasthttp.RequestCtx) bool {
	n := ctx.Request.Header.ContentLength()
	return ctx.RequestBodyStream() != nil && (n < 0 || n > min(prefetched, h.cfg.MaxBody))
}

// leaveBody sees to it that nobody takes the rest of a body that was not read for
// the next request.
func (h *HTTP) leaveBody(ctx *fasthttp.RequestCtx, c *conn) {
	if h.hasRest(ctx) {
		ctx.SetConnectionClose()
		c.linger = ctx.Response.StatusCode() != fasthttp.StatusRequestTimeout
	}
}
