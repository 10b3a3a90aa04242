package downstream

import (
	"time"

	"github.com/valyala/fasthttp"
)

// minRate is how many bytes of a body have to come in per second.
const minRate = 1 << 10

// pace sets the deadlines for reading a body: all of it within ReadTimeout, and in every
// UploadTime as much as minRate says.
type pace struct {
	c      *conn
	by     time.Time     // the end of all
	window time.Duration // UploadTime
	from   int           // how much there was when the window began
}

func (h *HTTP) newPace(c *conn) pace {
	return pace{c: c, by: time.Now().Add(h.cfg.ReadTimeout), window: h.cfg.UploadTime}
}

// begin begins a window, where n bytes are there.
func (p *pace) begin(n int) {
	by := time.Now().Add(p.window)
	if by.After(p.by) {
		by = p.by
	}
	p.from = n
	_ = p.c.SetReadDeadline(by) // Read sets it, and tells
}

// keep begins the next window when enough has come in this one, where n bytes are there.
func (p *pace) keep(n int) {
	if float64(n-p.from) >= minRate*p.window.Seconds() {
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
