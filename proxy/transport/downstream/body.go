package downstream

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
)

// prefetched is how many bytes of a body of known length fasthttp reads before it calls
// the handler. More is only read after the budget was asked.
const prefetched = 8 << 10

// firstStep is how many bytes of a longer body are read before more memory is taken for
// it. After that, it gets four times as much memory each time.
const firstStep = 64 << 10

// body is the body of a request, and its share of the budget.
type body struct {
	data  []byte
	share large.Share
}

// readBody reads a request's body into b.data if there is room, and into memory of its own
// otherwise. If it returns no refusal, the caller gives back the share of the
// budget.
func (h *HTTP) readBody(ctx *fasthttp.RequestCtx, b *body, owner string) *refusal {
	*b = body{data: b.data[:0]}
	c := ctx.Conn().(*conn)
	length := ctx.Request.Header.ContentLength()
	if length > h.cfg.MaxBody {
		return bodyTooLarge.with(h.cfg.MaxBody)
	}
	most := length
	if length < 0 {
		most = h.cfg.MaxBody + 1 // one byte over the limit shows that there is more
	}
	overdrawn := h.cfg.Memory.Budget.Overdrawn()
	if most > prefetched || overdrawn {
		b.share = h.cfg.Memory.Budget.Share(owner, int64(large.Room(most)))
	}
	if overdrawn { // even a small request must not begin now
		if r := h.hold(b, 1); r != nil {
			return r
		}
	}
	stream := ctx.RequestBodyStream()
	if stream == nil {
		return nil
	}
	if length < 0 {
		defer withoutTrailers(&ctx.Request.Header)()
	}
	var p *pace // needs none: fasthttp has read a short body
	if length < 0 || length > prefetched {
		p = h.newPace(c)
	}
	r := h.read(b, stream, p, most)
	if r == nil && (c.ended || len(b.data) < length) {
		r = shortBody // fasthttp accepts a body whose last chunk is missing
	}
	if r != nil {
		b.share.Release()
		return r
	}
	c.bodyRead = true
	return nil
}

// heads has memory for the heads of requests.
var heads = sync.Pool{New: func() any { return new(fasthttp.RequestHeader) }}

// withoutTrailers returns a function that makes header what it is now: fasthttp adds to it the fields that come behind a body in chunks,
// which nothing has checked (https://www.rfc-editor.org/rfc/rfc9110#section-6.5.1).
func withoutTrailers(header *fasthttp.RequestHeader) func() {
	head := heads.Get().(*fasthttp.RequestHeader)
	header.CopyTo(head)
	return func() {
		head.CopyTo(header)
		head.Reset()
		heads.Put(head)
	}
}

// read reads a body of at most most bytes, and takes memory for it as its bytes come. p may be nil.
func (h *HTTP) read(b *body, stream io.Reader, p *pace, most int) *refusal {
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
		case errors.Is(err, io.ErrUnexpectedEOF):
			return shortBody
		case err != nil:
			return h.unread(err)
		}
		p.keep(len(b.data))
	}
}

// more makes room for the next bytes of a body of at most most bytes, and returns the
// size of the buffer.
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

// room returns a buffer for n bytes that begins with b. It drops b if that is too
// small.
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

// dropBuffer releases a buffer. A large one is kept for the next large body.
func (h *HTTP) dropBuffer(b []byte) {
	if cap(b) > keepBuffer {
		h.cfg.Memory.Return(b)
	}
}

// hold takes n more bytes from the budget for b.
func (h *HTTP) hold(b *body, n int64) *refusal {
	ctx, cancel := context.WithTimeout(h.hard, h.cfg.BudgetWait)
	defer cancel()
	if b.share.Grow(ctx, n) != nil {
		return noBudget
	}
	return nil
}

// owner returns the name of the client whose share of the limits a request uses: its token of the listener, with the header that tells
// principals apart, or its address if it has neither.
func (c *conn) owner(header *fasthttp.RequestHeader) string {
	name := c.cfg.Principal()
	if name == "" && !c.known {
		return c.peer
	}
	value := header.Peek(name)
	if c.hasToken != c.known || c.token != c.guest || string(c.user) != string(value) || c.owned == "" {
		c.hasToken, c.token, c.user = c.known, c.guest, string(value)
		if c.owned = c.peer; c.known || len(value) > 0 {
			sum := sha256.Sum256(append(c.guest[:], value...))
			c.owned = string(sum[:])
		}
	}
	return c.owned
}

// hasRest reports whether a request's body has more bytes than fasthttp has read before
// it called the handler.
func (h *HTTP) hasRest(ctx *fasthttp.RequestCtx) bool {
	n := ctx.Request.Header.ContentLength()
	return ctx.RequestBodyStream() != nil && (n < 0 || n > min(prefetched, h.cfg.MaxBody))
}

// leaveBody closes the connection after the response if the body was not read, so that
// its rest is not taken for the next request.
func (h *HTTP) leaveBody(ctx *fasthttp.RequestCtx, c *conn) {
	if h.hasRest(ctx) {
		ctx.SetConnectionClose()
		c.linger = ctx.Response.StatusCode() != fasthttp.StatusRequestTimeout
	}
}

// minRate is how many bytes of a body must come per second.
const minRate = 1 << 10

// pace sets the deadlines for reading a body: all of it must come within ReadTimeout,
// and in every UploadTime as much as minRate requires.
type pace struct {
	c      *conn
	by     time.Time     // the deadline for the whole body
	window time.Duration // UploadTime
	from   int           // how many bytes there were when the window began
}

func (h *HTTP) newPace(c *conn) *pace {
	return &pace{c: c, by: time.Now().Add(h.cfg.ReadTimeout), window: h.cfg.UploadTime}
}

// begin begins a window when n bytes have come.
func (p *pace) begin(n int) {
	if p == nil {
		return
	}
	by := time.Now().Add(p.window)
	if by.After(p.by) {
		by = p.by
	}
	p.from = n
	_ = p.c.SetReadDeadline(by) // the next Read sets it, and returns the error
}

// keep begins the next window if enough bytes have come in this one. n is how many have
// come in all.
func (p *pace) keep(n int) {
	if p != nil && float64(n-p.from) >= minRate*p.window.Seconds() {
		p.begin(n)
	}
}

// headReceived bounds the time for the beginning of a body, which fasthttp reads before
// it calls the handler.
func (h *HTTP) headReceived(header *fasthttp.RequestHeader) (c fasthttp.RequestConfig) {
	if header.ContentLength() > 0 {
		c.ReadTimeout = min(h.cfg.ReadTimeout, h.cfg.UploadTime)
	}
	return c
}
