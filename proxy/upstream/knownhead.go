package upstream

import (
	"bufio"
	"bytes"

	"github.com/dragoman-proxy/dragoman/proxy/samehead"
	"github.com/dragoman-proxy/dragoman/proxy/sse"
)

// meaning is what the head of a response to a call says, except for its length.
type meaning struct {
	phase   phase // object or events
	session string
}

// readKnownHead reads the head of the response to a call if it is the same as that of the call before on the connection. If it is
// not, the phase of the exchange stays as it is.
func (x *exchange) readKnownHead(c *conn) error {
	if x.kind != call {
		return nil
	}
	c.readErr = nil
	if _, err := c.in.Peek(1); err != nil {
		return x.noHead(c, c.headError())
	}
	in, _ := c.in.Peek(c.in.Buffered())
	size, length, ok := c.known.Match(in)
	if !ok {
		return nil
	}
	_, _ = c.in.Discard(size) // it is buffered
	x.body = newBody(c.in, length)
	c.reusable = x.writeErr == nil
	c.silence = x.silence
	x.session = c.means.session
	x.begin(c.means.phase)
	return nil
}

// begin begins to read a body.
func (x *exchange) begin(p phase) {
	x.phase = p
	if p == events {
		x.reader = x.http.readers.Get().(*sse.Reader)
		x.reader.ResetIn(&x.memory, &x.body)
	}
}

// newHead returns the head that is buffered in r, or nil if it has not come completely. It is valid until r reads on.
func newHead(r *bufio.Reader) []byte {
	in, _ := r.Peek(r.Buffered())
	if end := bytes.Index(in, []byte("\r\n\r\n")); end >= 0 {
		return in[:end+4]
	}
	return nil
}

// keepHead keeps the head of a response to a call, of which judge has approved. raw is what newHead has returned before
// the head was parsed, and length what the parser has found.
func (x *exchange) keepHead(c *conn, raw []byte, length int) {
	if x.kind != call || !c.reusable || len(raw) == 0 {
		return
	}
	c.known.Forget()
	at, ok := samehead.Find(raw, func([]byte, []byte) bool { return true })
	if !ok {
		return
	}
	if n, ok := at.Length(raw); ok && n == length && bytes.HasPrefix(raw, []byte("HTTP/1.1 200 ")) {
		c.known.Keep(raw, at)
		c.means = meaning{x.phase, x.session}
	}
}
