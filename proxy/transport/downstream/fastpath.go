package downstream

import (
	"bufio"
	"bytes"
	"errors"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/samehead"
)

// fastBuffer is how many bytes of a request, head and body, the fast path takes. A connection holds a buffer of this size
// while it is open.
const fastBuffer = 4 << 10

// fastPath serves a connection as long as each request is a POST to the endpoint that passes all checks, and is short, and has a
// Content-Length. fasthttp parses their heads. Requests of a client are alike: a head that differs from the one before it in nothing
// but the digits of its Content-Length means the same, and is neither parsed nor checked again.
//
// At the first request that is anything else, and in particular at one that is to be refused, [HTTP] hands the connection over to
// fasthttp's server for good, with the bytes that were read.
type fastPath struct {
	face *HTTP
	conn *conn
	in   []byte // what was read and is not served

	head      fasthttp.RequestHeader // of the last request
	known     samehead.Head          // its bytes
	guests    *guests                // by which it was admitted
	principal string                 // the header that identifies the client
	called    calledBy
	owner     string
	asked     []field // what handlers have asked for, of this head

	source bytes.Reader
}

// errHandOver says that fasthttp has to go on with a connection.
var errHandOver = errors.New("not on the fast path")

// serveFast serves the first requests of a connection, and reports whether it has served all and closed the connection.
func (h *HTTP) serveFast(c *conn) (closed bool) {
	if h.handler == nil {
		return false
	}
	f := h.fast.Get().(*fastPath)
	f.conn = c
	err := f.serve()
	if err == errHandOver {
		c.early = bytes.Clone(f.in)
	}
	f.release()
	if err == errHandOver {
		return false
	}
	if err != nil {
		h.cfg.Log("connection", err)
	}
	_ = c.Close()
	return true
}

// release makes f ready for another connection.
func (f *fastPath) release() {
	f.conn, f.guests, f.in = nil, nil, f.in[:0]
	f.called = calledBy{}
	clear(f.asked[:cap(f.asked)])
	f.known.Forget()
	f.face.fast.Put(f)
}

// serve returns errHandOver if f.in begins with what is not for the fast path, and another error, or nil, when the connection is
// to be closed.
func (f *fastPath) serve() error {
	h, c := f.face, f.conn
	c.readWithin(time.Now(), h.cfg.ReadTimeout)
	for first := true; ; first = false {
		for len(f.in) == 0 {
			n, err := c.Read(f.in[:cap(f.in)])
			f.in = f.in[:n]
			if n == 0 && err != nil {
				if first {
					c.earlyErr = err // fasthttp says that it waited in vain
					return errHandOver
				}
				return nil
			}
		}
		body, size, err := f.next()
		if err != nil {
			return err
		}
		if h.draining.Load() || !h.admit(f.owner) {
			return errHandOver
		}
		x := h.exchanges.Get().(*exchange)
		x.posted, x.owner = true, f.owner
		x.in.data = append(h.room(x.in.data[:0], len(body)), body...)
		f.in = f.in[:copy(f.in, f.in[size:])]
		c.bodyRead = true
		x.call(&f.head, nil, c, f.called, postTrimmed)
		now := time.Now()
		err = x.answer(now)
		_ = x.Close()
		if err != nil || c.closes {
			return err
		}
		c.rest(now)
		if h.draining.Load() {
			c.hangUpSoon()
		}
		c.readWithin(now, h.cfg.IdleTimeout)
	}
}

// next returns the body of the request that f.in begins with, once it has come, and the size of the request.
func (f *fastPath) next() (content []byte, size int, err error) {
	h, c := f.face, f.conn
	head, length, ok := f.known.Match(f.in)
	switch {
	case !ok || f.guests != h.guests.Load() || f.principal != h.cfg.Principal():
		if head, length = f.parse(); head == 0 {
			return nil, 0, errHandOver
		}
	case length != f.head.ContentLength():
		f.head.SetContentLength(length)
	}
	size = head + length
	if size > cap(f.in) || length > min(prefetched, h.cfg.MaxBody) || h.cfg.Memory.Budget.Overdrawn() {
		return nil, 0, errHandOver
	}
	for late := false; len(f.in) < size; {
		if !late {
			late = true
			c.readWithin(time.Now(), min(h.cfg.ReadTimeout, h.cfg.UploadTime))
		}
		n, err := c.Read(f.in[len(f.in):cap(f.in)])
		f.in = f.in[:len(f.in)+n]
		if n == 0 && err != nil {
			c.earlyErr = err
			return nil, 0, errHandOver
		}
	}
	return f.in[head:size], size, nil
}

// parse reads the head of the request that f.in begins with, and checks it as [HTTP.route] does. It returns 0 if the request is
// not for the fast path.
func (f *fastPath) parse() (size, length int) {
	h, c := f.face, f.conn
	f.known.Forget()
	f.guests = nil
	end := bytes.Index(f.in, []byte("\r\n\r\n"))
	if end < 0 || end+4 > h.cfg.MaxHeader {
		return 0, 0
	}
	raw := f.in[:end+4]
	at, ok := samehead.Find(raw, allowed)
	if !ok {
		return 0, 0
	}
	length, ok = at.Length(raw)
	if !ok || length == samehead.Chunked || !f.read(raw) || f.head.ContentLength() != length {
		return 0, 0
	}
	head := &f.head
	if !head.IsPost() || !head.IsHTTP11() || head.ConnectionClose() || string(head.RequestURI()) != h.cfg.Path {
		return 0, 0
	}
	guests, principal := h.guests.Load(), h.cfg.Principal()
	if h.checkPeer(head, c) != nil || h.twice(raw) != "" || h.readToken(head, c) != nil || checkPost(head, c) != nil {
		return 0, 0
	}
	f.called, f.owner = c.calledBy(head), c.owner(head)
	f.asked = f.asked[:0]
	f.called.asked = &f.asked
	f.guests, f.principal = guests, principal
	f.known.Keep(raw, at)
	return len(raw), length
}

// read makes fasthttp parse a head, and reports whether that is a whole head for it.
func (f *fastPath) read(raw []byte) bool {
	r := f.face.parsers.Get().(*bufio.Reader)
	defer f.face.parsers.Put(r)
	f.source.Reset(raw)
	r.Reset(&f.source)
	err := f.head.Read(r)
	rest := r.Buffered() + f.source.Len()
	f.source.Reset(nil)
	r.Reset(nil)
	return err == nil && rest == 0
}

// answer writes the response, unless its events were written before. now is about the time of the call.
func (x *exchange) answer(now time.Time) error {
	if x.events.open {
		x.endEvents()
		return x.failed
	}
	c, body := x.conn, x.resp.Body
	if err := c.SetWriteDeadline(now.Add(x.face.cfg.WriteTimeout)); err != nil {
		return err
	}
	buf := x.face.buffers.get()
	defer x.face.buffers.put(buf)
	b := x.appendHead(*buf, &x.resp, len(body))
	switch {
	case len(body) <= copied:
		b = append(b, body...)
		body = nil
	case len(body) > gathered:
		n := max(0, 4<<10-len(b)) // as much as the system takes at once
		b = append(b, body[:n]...)
		body = body[n:]
	}
	*buf = b
	if len(body) > 0 && len(body) <= gathered {
		return c.writeBoth(b, body)
	}
	if _, err := c.Conn.Write(b); err != nil {
		return err
	}
	return c.write(body)
}

// allowed reports whether a header may be in a request on the fast path: none that changes how the connection goes on, and none
// that the response depends on.
func allowed(name, value []byte) bool {
	if strings.EqualFold(string(name), fasthttp.HeaderConnection) {
		return strings.EqualFold(string(value), "keep-alive")
	}
	for _, other := range [...]string{fasthttp.HeaderTransferEncoding, fasthttp.HeaderExpect, fasthttp.HeaderUpgrade, fasthttp.HeaderOrigin, fasthttp.HeaderTrailer, fasthttp.HeaderTE, fasthttp.HeaderProxyConnection} {
		if strings.EqualFold(string(name), other) {
			return false
		}
	}
	return true
}
