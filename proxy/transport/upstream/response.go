package upstream

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/url"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/samehead"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/unpack"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

const (
	// maxInterim is how many 1xx responses may come before the final one.
	maxInterim = 8
	// maxErrorBody is how much of a refusal's body is kept.
	maxErrorBody = 64 << 10
	// errorBodyTime is how long the body of a refusal may take to come.
	errorBodyTime = 5 * time.Second
	// maxSessionID is the longest id that is accepted, in bytes.
	maxSessionID = 4 << 10
)

var (
	errNoBody  = errors.New("response without a body")
	errSession = errors.New("response with a malformed Mcp-Session-Id")
)

// readOneHead reads the response up to its body, and decides whether the body has
// messages.
func (x *exchange) readOneHead(c *conn) error {
	if c == nil {
		return ErrClosed
	}
	h := x.http
	c.silence = 0
	if err := x.await(c, x.firstByte); err != nil {
		return err
	}
	if err := x.readKnownHead(c); err != nil || x.phase != awaiting {
		return err
	}
	head := h.parsed.Get().(*fasthttp.ResponseHeader)
	defer h.parsed.Put(head)
	head.SetNoDefaultContentType(true)
	var raw []byte
	for interim := 0; ; interim++ {
		raw = newHead(c.in)
		if err := x.parseHead(c, head); err != nil {
			return x.noHead(c, err)
		}
		if code := head.StatusCode(); code < 100 || interim == maxInterim {
			return errHead
		} else if code >= 200 || code == fasthttp.StatusSwitchingProtocols {
			break
		}
	}

	length := head.ContentLength()
	if code := head.StatusCode(); code == fasthttp.StatusNoContent || code == fasthttp.StatusNotModified {
		length = 0
	}
	x.unpacked()
	x.body = newBody(c.in, length)
	c.keep = keepAlive(head)
	c.reusable = length != -2 && x.writeErr == nil && !wantsClose(head, raw)
	c.silence = x.silence
	cookies, passed := x.learnCookies(head), x.http.passed(head)
	x.tell(passed)
	err := x.judge(c, head)
	if refusal, ok := err.(*StatusError); ok { //nolint:errorlint // judge returns it as it is
		refusal.Passed = passed
	}
	if err == nil && !cookies {
		x.keepHead(c, raw, length, passed)
	}
	return err
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
	c.keep = c.means.keep
	c.reusable = x.writeErr == nil
	c.silence = x.silence
	x.session = c.means.session
	x.tell(c.means.passed)
	x.begin(c.means.phase)
	return nil
}

// tell tells the caller of the headers that are passed.
func (x *exchange) tell(passed []mcp.Header) {
	if x.told != nil {
		*x.told = passed
	}
}

// What is passed of the headers of a response; what is larger is left out, since a part of a value says something else.
const (
	maxPassed      = 2 << 10 // bytes of one value
	maxPassedBytes = 8 << 10 // bytes of all, with their names
)

// passed returns those headers of a response that are passed to clients.
func (h *HTTP) passed(head *fasthttp.ResponseHeader) (list []mcp.Header) {
	size := 0
	for _, name := range h.pass {
		if len(head.Peek(name)) == 0 {
			continue
		}
		for _, value := range head.PeekAll(name) {
			if n := len(name) + len(value); len(value) > 0 && len(value) <= maxPassed && size+n <= maxPassedBytes && validValue(string(value)) {
				size += n
				list = append(list, mcp.Header{Name: name, Value: string(value)})
			}
		}
	}
	return list
}

// begin begins to read a body.
func (x *exchange) begin(p phase) {
	x.phase = p
	if p == events {
		x.reader = x.http.readers.Get().(*sse.Reader)
		x.reader.ResetIn(&x.memory, x.content())
	}
}

// content returns the body without its coding.
func (x *exchange) content() io.Reader {
	if x.packed != nil {
		return x.packed
	}
	return &x.body
}

// unpack decodes the body if the server has compressed it, although identity was asked for. The decoder waits for memory for at
// most wait.
func (x *exchange) unpack(head *fasthttp.ResponseHeader, wait time.Duration) error {
	coding, err := unpack.Of(head.ContentEncoding())
	if err == nil && coding != unpack.Identity {
		x.packed = unpack.NewReader(&x.body, coding, large.Windows{Lender: x.http.memory.Lender(x.ctx, wait)})
	}
	return err
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
// the head was parsed, and length and passed what the parser has found.
func (x *exchange) keepHead(c *conn, raw []byte, length int, passed []mcp.Header) {
	if x.kind != call || !c.reusable || len(raw) == 0 || x.packed != nil {
		return
	}
	c.known.Forget()
	at, ok := samehead.Find(raw, func([]byte, []byte) bool { return true })
	if !ok {
		return
	}
	if n, ok := at.Length(raw); ok && n == length && bytes.HasPrefix(raw, []byte("HTTP/1.1 200 ")) {
		c.known.Keep(raw, at)
		c.means = meaning{x.phase, x.session, passed, c.keep}
	}
}

// noHead returns err, with which reading a head has ended.
func (x *exchange) noHead(c *conn, err error) error {
	if c.idle > 0 && c.readErr != nil && err != sse.ErrInterrupted && !isTimeout(err) && !errors.Is(err, net.ErrClosed) && !c.guard.Dead() {
		x.http.pool.learn(c.idle) // the server closed the connection when it was taken
	}
	return err
}

// headError returns the error for a head that could not be read.
func (c *conn) headError() error {
	switch {
	case c.readErr == io.EOF:
		return io.ErrUnexpectedEOF
	case c.readErr != nil:
		return c.readErr
	}
	return errHead
}

// parseHead reads one head. An error of fasthttp quotes a malformed head, with its
// secrets, and so is not returned.
func (x *exchange) parseHead(c *conn, head *fasthttp.ResponseHeader) error {
	c.readErr = nil
	err := head.Read(c.in)
	if err == nil {
		return nil
	}
	if _, small := errors.AsType[*fasthttp.ErrSmallBuffer](err); small && c.in.Size() < maxHead {
		c.resize(maxHead)
		err = head.Read(c.in)
	}
	if err == nil {
		return nil
	}
	return c.headError()
}

// judge decides by status and content type how the response is read.
//
// See https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#sending-messages-to-the-server.
func (x *exchange) judge(c *conn, head *fasthttp.ResponseHeader) error {
	code := head.StatusCode()
	switch {
	case x.kind == listen && code == fasthttp.StatusMethodNotAllowed:
		return ErrNoStream
	case code == fasthttp.StatusProxyAuthRequired:
		return &ProxyError{Code: code} // comes from the proxy, not from the server, and is not for the client
	case (x.kind == notice || x.kind == end) && code >= 200 && code < 300:
		x.phase = over
		return nil
	case x.kind == post && code >= 200 && code < 300:
		x.phase = over
		if code == fasthttp.StatusOK && !x.body.ended && isJSON(head) && x.unpack(head, x.kind.patience(x.silence)) == nil {
			x.phase = object
		}
		return nil
	case code != fasthttp.StatusOK:
		return x.refusal(c, head)
	}
	if err := x.unpack(head, x.kind.patience(x.silence)); err != nil {
		return err
	}
	if err := x.learnSession(head.Peek("Mcp-Session-Id")); err != nil {
		return err
	}
	switch {
	case x.kind.standing() && isType(head, "text/event-stream"):
		return x.stand(c)
	case isType(head, "text/event-stream"):
		x.begin(events)
	case x.kind == call && isJSON(head):
		x.begin(object)
	default:
		return &ContentTypeError{Type: cut(head.ContentType(), 100), Stream: x.kind != call}
	}
	return nil
}

// stand prepares for a stream on which little or nothing may come for hours: it sets no
// limit on silence, and uses no more memory than needed. A deadline of the exchange
// still applies.
func (x *exchange) stand(c *conn) error {
	x.phase = events
	c.reusable = false // the new buffer is too small for most heads
	c.probe = nil
	x.resize(c, restBuffer)
	c.known = samehead.Head{}
	if x.packed != nil {
		x.parks = false // what the decoder has read ahead would not wake it
	}
	if c.silence = 0; x.parks {
		c.silence = x.http.parkAfter
	}
	return c.SetReadDeadline(x.deadline)
}

// isType reports whether a body has this media type, with any parameters.
func isType(head *fasthttp.ResponseHeader, want string) bool {
	mediaType, _, _ := bytes.Cut(head.ContentType(), []byte{';'})
	return bytes.EqualFold(bytes.TrimSpace(mediaType), []byte(want))
}

func isJSON(head *fasthttp.ResponseHeader) bool { return isType(head, "application/json") }

// learnSession stores the session id that the server gave, which must be visible ASCII.
func (x *exchange) learnSession(id []byte) error {
	if string(id) == x.session {
		return nil
	}
	for _, c := range id {
		if c < '!' || c > '~' {
			return errSession
		}
	}
	if len(id) > maxSessionID {
		return errSession
	}
	x.session = string(id)
	return nil
}

// refusal returns a *StatusError with the body of the response, as far as it comes in
// time.
func (x *exchange) refusal(c *conn, head *fasthttp.ResponseHeader) error {
	e := &StatusError{Code: head.StatusCode()}
	if to, err := url.Parse(string(head.Peek("Location"))); err == nil && e.Code < 400 {
		e.Target = cut((&url.URL{Scheme: to.Scheme, Host: to.Host, Path: to.Path}).String(), 200)
	}
	for _, name := range [...]string{"WWW-Authenticate", "Retry-After", "Content-Type"} {
		for _, value := range head.PeekAll(name) {
			if len(value) > 0 {
				e.Header = append(e.Header, mcp.Header{Name: name, Value: string(value)})
			}
		}
	}
	c.silence, c.reader = 0, nil
	if x.await(c, errorBodyTime) != nil || x.unpack(head, errorBodyTime) != nil {
		return e
	}
	body, _ := io.ReadAll(io.LimitReader(x.content(), maxErrorBody))
	x.unpacked()
	if len(body) == maxErrorBody {
		body = append(body, ellipsis...)
	}
	e.Body = wire.Trim(body)
	return e
}

// readObject reads the whole body. The bytes are valid until the exchange is closed.
func (x *exchange) readObject() ([]byte, error) {
	limit := int64(x.http.maxMessage)
	known := x.body.framing == byLength && x.packed == nil
	if known && x.body.left > limit {
		return nil, &TooLargeError{Limit: int(limit)}
	}
	b := x.part
	var err error
	if x.buf == nil {
		x.buf = x.http.buffer()
		b = x.buf.b
		if known {
			more := x.body.left
			if more > keepBuffer { // else translation, which may add a few bytes, would need another large buffer
				more += large.Growth
			}
			if b, err = x.room(b, more); err != nil {
				return nil, err
			}
		}
	}
	content, ended := x.content(), x.body.ended && x.packed == nil
	for !ended {
		if len(b) == cap(b) {
			more := int64(max(cap(b), smallBuffer))
			switch have := int64(cap(b)); {
			case known:
				more = x.body.left
			case have >= large.First: // buffers that grow step by step could wait for each other's memory
				more = limit + 1 - have
			case have >= keepBuffer:
				more = large.First - have
			}
			if b, err = x.room(b, more); err != nil {
				return nil, err
			}
		}
		n, err := content.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		ended = x.body.ended && x.packed == nil || err == io.EOF
		if err == sse.ErrInterrupted {
			x.part = b
			return nil, err
		}
		if int64(len(b)) > limit {
			return nil, &TooLargeError{Limit: int(limit)}
		}
		if err != nil && !ended {
			return nil, err
		}
	}
	if len(b) == 0 {
		return nil, errNoBody
	}
	return b, nil
}

// room returns b, the buffer of x, with room for at least n further bytes.
func (x *exchange) room(b []byte, n int64) ([]byte, error) {
	size := len(b) + int(n)
	switch {
	case size <= cap(b):
	case size <= keepBuffer:
		b = append(make([]byte, 0, size), b...)
		x.buf.b = b
	default:
		more, err := x.memory.Take(size)
		if err != nil {
			return nil, err
		}
		b = append(more, b...)
		if x.large != nil {
			x.memory.Put(x.large)
		}
		x.large = b
	}
	return b, nil
}

// wantsClose reports whether the server takes no further request on this connection. raw is the same head, or nil if it came
// in pieces. fasthttp forgets a header that says "close" if another Connection header follows; in a head in pieces, one that
// says more than "keep-alive" counts as such.
//
// See https://www.rfc-editor.org/rfc/rfc9112#section-9.6.
func wantsClose(head *fasthttp.ResponseHeader, raw []byte) bool {
	if head.ConnectionClose() {
		return true
	}
	for _, value := range head.PeekAll("Connection") {
		if samehead.Lists(value, "close") || raw == nil && !bytes.EqualFold(value, []byte("keep-alive")) {
			return true
		}
	}
	for line := range bytes.Lines(raw) {
		name, value, _ := bytes.Cut(line, []byte{':'})
		if bytes.EqualFold(name, []byte("Connection")) && samehead.Lists(value, "close") {
			return true
		}
	}
	return false
}

// keepAlive returns how long the server says that it keeps an idle connection open, and
// 0 if it does not say. Node says it.
func keepAlive(head *fasthttp.ResponseHeader) time.Duration {
	for param := range bytes.SplitSeq(head.Peek("Keep-Alive"), []byte{','}) {
		name, value, _ := bytes.Cut(bytes.TrimSpace(param), []byte{'='})
		if !bytes.EqualFold(name, []byte("timeout")) {
			continue
		}
		if seconds, err := strconv.ParseUint(string(value), 10, 16); err == nil {
			return time.Duration(seconds) * time.Second
		}
	}
	return 0
}
