package downstream

import (
	"context"
	"errors"
	"io"

	"github.com/valyala/fasthttp"
)

// prefetched is how much of a body of known length fasthttp reads before it
// calls the handler. Not more is read without asking the budget.
const prefetched = 8 << 10

// body is that of a request, and what it took of the budget.
type body struct {
	data []byte
	held int64
}

// readBody reads a request's body into buf where there is room, and into memory
// of its own otherwise. Without a refusal the caller gives back what it holds of
// the budget, with [HTTP.release].
func (h *HTTP) readBody(ctx *fasthttp.RequestCtx, buf []byte) (b body, r *refusal) {
	b.data = buf[:0]
	if h.cfg.Memory.Budget.Overdrawn() { // no request can be so small that it may begin now
		if r := h.hold(&b, 0); r != nil {
			return b, r
		}
	}
	stream := ctx.RequestBodyStream()
	if stream == nil {
		return b, nil
	}
	if n := ctx.Request.Header.ContentLength(); n >= 0 {
		r = h.readSized(&b, stream, n)
	} else {
		r = h.readChunks(&b, stream)
	}
	c := ctx.Conn().(*conn)
	if r == nil && c.ended {
		r = shortBody // fasthttp does not mind when the last chunk is missing
	}
	if r != nil {
		h.release(&b)
		return b, r
	}
	c.bodyRead = true
	return b, nil
}

func (h *HTTP) readSized(b *body, stream io.Reader, n int) *refusal {
	if n > h.cfg.MaxBody {
		return bodyTooLarge.with(h.cfg.MaxBody)
	}
	if n > prefetched {
		if r := h.hold(b, int64(n)); r != nil {
			return r
		}
	}
	b.data = h.room(b.data, n)[:n]
	if _, err := io.ReadFull(stream, b.data); err != nil {
		return h.unreadBody(err)
	}
	return nil
}

func (h *HTTP) readChunks(b *body, stream io.Reader) *refusal {
	for {
		if len(b.data) == cap(b.data) {
			// One byte more than the limit tells that there are more.
			size := min(max(prefetched, 2*cap(b.data)), h.cfg.MaxBody+1)
			if size > prefetched {
				if r := h.hold(b, int64(size)-b.held); r != nil {
					return r
				}
			}
			b.data = h.room(b.data, size)
		}
		n, err := stream.Read(b.data[len(b.data):cap(b.data)])
		b.data = b.data[:len(b.data)+n]
		switch {
		case len(b.data) > h.cfg.MaxBody:
			return bodyTooLarge.with(h.cfg.MaxBody)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return h.unreadBody(err)
		}
	}
}

// room returns a buffer for n bytes that begins with b, in whose place it is.
func (h *HTTP) room(b []byte, n int) []byte {
	if n <= cap(b) {
		return b
	}
	var next []byte
	if n > keepBuffer {
		next = h.cfg.Memory.Buffers.Take(n)
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
		h.cfg.Memory.Buffers.Put(b)
	}
}

// hold takes n more bytes of the budget for b.
func (h *HTTP) hold(b *body, n int64) *refusal {
	if h.cfg.Memory.Budget.Try(n) {
		b.held += n
		return nil
	}
	ctx, cancel := context.WithTimeout(h.hard, h.cfg.BudgetWait)
	defer cancel()
	if h.cfg.Memory.Budget.Acquire(ctx, n) != nil {
		return noBudget
	}
	b.held += n
	return nil
}

// release gives back what b holds of the budget.
func (h *HTTP) release(b *body) {
	if b.held > 0 {
		h.cfg.Memory.Budget.Release(b.held)
		b.held = 0
	}
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
