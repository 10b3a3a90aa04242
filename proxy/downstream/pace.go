package downstream

import (
	"time"

	"github.com/valyala/fasthttp"
)

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
