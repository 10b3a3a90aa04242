package downstream

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/rawio"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/unixsocket"
)

// conn is a connection of a client, and what is known of it.
type conn struct {
	net.Conn
	cfg     *HTTPConfig
	watched uint64  // its id in the watch
	late    bool    // accepted while draining
	peek    *peeker // nil if the watch reports that the client leaves

	busy    atomic.Bool  // a request is coming in or being answered
	since   atomic.Int64 // when it was accepted, or the last response was written: a [time.Duration] since started
	whole   atomic.Bool  // its head has come in, or it has taken the connection over
	closing bool         // it gives way; guarded by the mutex of HTTP
	probe   bool         // over the limit of connections: only probes are answered

	mu     sync.Mutex
	cancel context.CancelCauseFunc // cancels the exchange under way
	gone   error                   // why no exchange on the connection can go on
	kept   bool                    // keep was called

	peer string // the address at the other end, without a port, or its user

	// The rest is for the serving goroutine alone.

	readBy, readSet time.Time // the deadline for reading: the one asked for, and the one that is set
	writeSet        time.Time // the deadline for writing
	muted           bool      // the response was written without fasthttp, whose own is dropped
	// takenOver goes on with the connection, for a stream, after fasthttp has released it. It is
	// set once.
	takenOver func()
	*serving
}

// serving is what a connection has while it serves requests, and not while it has a stream.
type serving struct {
	early    []byte // what Read returns first: what the fast path has read, and the error of its last Read
	earlyErr error
	first    headEnd // of the first request
	linger   bool
	closes   bool              // the response says that the connection is closed behind it
	bodyRead bool              // the body of the request under way was read
	ended    bool              // Read has returned io.EOF
	behind   []byte            // what the next Write writes as well, behind its own bytes
	held     bool              // fasthttp may hold back a response until it has answered the pipelined request after it
	guests   *guests           // by which host and origin were allowed
	guest    [sha256.Size]byte // hash of the token of the request under way
	known    bool              // guest is set
	twice    string            // see [Request.Twice]
	// owned is the owner of the last request, which had this token and this user.
	owned    string
	token    [sha256.Size]byte
	hasToken bool
	user     string
	// Header values that clients repeat with every request, as they were last sent.
	host, origin, accept, session, version recent
	others                                 []namedValue // those that the handler asks for
}

func newConn(nc net.Conn, cfg *HTTPConfig) *conn {
	c := &conn{Conn: nc, cfg: cfg, peer: addressOf(nc), serving: new(serving)}
	c.rest(time.Now())
	return c
}

// namedValue is the value of a header that was last asked for.
type namedValue struct {
	name  string
	value recent
}

// maxOthers is the number of headers whose values a connection keeps for its next request.
const maxOthers = 12

// valueOf returns value, the value of the header with this name, as a string.
func (c *conn) valueOf(name string, value []byte) string {
	if len(value) == 0 {
		return ""
	}
	for i := range c.others {
		if at := &c.others[i]; at.name == name {
			return at.value.string(value)
		}
	}
	if len(c.others) == maxOthers {
		return string(value)
	}
	c.others = append(c.others, namedValue{name, recent(value)})
	return string(c.others[len(c.others)-1].value)
}

// named returns the name and the value of a header as strings.
func (c *conn) named(name, value []byte) (string, string) {
	for i := range c.others {
		if at := &c.others[i]; at.name == string(name) {
			return at.name, at.value.string(value)
		}
	}
	s := string(name)
	return s, c.valueOf(s, value)
}

// addressOf returns the address at the other end of a connection without its port, "uid 1000" if that is a process of this machine at
// a unix socket, or "" if nothing is known.
func addressOf(nc net.Conn) string {
	if tcp, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap().String()
	}
	if local, ok := nc.(*net.UnixConn); ok {
		return unixsocket.Peer(local)
	}
	return ""
}

// recent converts byte slices to strings, and returns the same string as long as they are equal.
type recent string

func (r *recent) string(b []byte) string {
	if string(*r) != string(b) {
		*r = recent(b)
	}
	return string(*r)
}

// begin makes end call cancel. If the client has left already, begin calls it at once.
func (c *conn) begin(cancel context.CancelCauseFunc) {
	c.whole.Store(true)
	c.busy.Store(true) // Read does not see a pipelined request, which came with the one before
	c.mu.Lock()
	c.cancel = cancel
	gone := c.gone
	c.mu.Unlock()
	if gone != nil {
		cancel(gone)
	}
	if c.peek != nil {
		c.peek.start(c)
	}
}

// finish ends what begin began.
func (c *conn) finish() {
	if c.peek != nil {
		c.peek.stop(c)
	}
	c.mu.Lock()
	c.cancel = nil
	c.mu.Unlock()
}

// end cancels the exchange under way and every later one. It does not block.
func (c *conn) end(why error) {
	c.mu.Lock()
	if c.gone == nil {
		c.gone = why
	}
	cancel := c.cancel
	c.mu.Unlock()
	if cancel != nil {
		cancel(why)
	}
}

// Notice implements [rawio.Watcher]: the client leaves.
func (c *conn) Notice() { c.end(ErrClientLeft) }

// hangUpIdle closes the connection if nothing is lost by that, and then lets no request begin that has just come. A request that
// has begun to come in counts if c is from before the shutdown: its client may not know of that.
func (c *conn) hangUpIdle() {
	c.mu.Lock()
	idle := c.cancel == nil
	if c.late {
		idle = idle && !c.kept
	} else {
		idle = idle && !c.busy.Load()
	}
	if idle && c.gone == nil {
		c.gone = ErrStopped
	}
	c.mu.Unlock()
	if idle {
		c.hangUp()
	}
}

// lastRequest is how long after a response a connection stays open during a shutdown, if the response could not say that it will be closed:
// the client may send its next request just then, such as a user's answer to a question, and would not know whether it was read.
const lastRequest = 250 * time.Millisecond

// started is when this process began.
var started = time.Now()

// hangUpSoon closes the connection like hangUpIdle, but not before it has been idle for lastRequest.
func (c *conn) hangUpSoon() {
	idle := time.Since(started) - time.Duration(c.since.Load())
	if left := lastRequest - idle; left > 0 && !c.late {
		time.AfterFunc(left, c.hangUpSoon)
		return
	}
	c.hangUpIdle()
}

// rest notes that a request was answered, at about this time.
func (c *conn) rest(now time.Time) {
	c.since.Store(int64(now.Sub(started)))
	c.whole.Store(false)
	c.busy.Store(false)
}

// giveWay closes the connection if no request has come in. It reports false if one has, or if that has been done.
func (c *conn) giveWay() bool {
	c.mu.Lock()
	idle := c.cancel == nil && c.gone == nil && !c.whole.Load()
	if idle {
		c.gone = ErrClientLeft
	}
	c.mu.Unlock()
	if idle {
		c.hangUp()
	}
	return idle
}

// keep makes hangUpIdle leave a late connection open for the response to a request without an exchange. It returns false if the
// connection is closed already, or about to be.
func (c *conn) keep() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept = true
	return c.gone != ErrStopped
}

// hangUp closes the connection without a TLS alert: a peer that does not read could make the
// alert wait.
func (c *conn) hangUp() { _ = unwrap(c.Conn).Close() }

// writeBoth writes a and b with one system call.
func (c *conn) writeBoth(a, b []byte) error {
	_, err := rawio.WriteBoth(c.Conn, a, b)
	return err
}

// write writes all of b. It fails if the client takes less than a piece of it within
// WriteTimeout.
func (c *conn) write(b []byte) error {
	for len(b) > 0 {
		if err := c.SetWriteDeadline(time.Now().Add(c.cfg.WriteTimeout)); err != nil {
			return err
		}
		n, err := c.Conn.Write(b[:min(len(b), piece)])
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// unwrap returns the connection under all its layers, such as TLS.
func unwrap(nc net.Conn) net.Conn {
	for {
		layer, ok := nc.(interface{ NetConn() net.Conn })
		if _, tells := nc.(rawio.Teller); tells || !ok {
			return nc
		}
		nc = layer.NetConn()
	}
}

// SetReadDeadline records the deadline of the next Read. The next Read sets it on the connection,
// because fasthttp sets two deadlines for each request and most of the request is read by then. Only
// the serving goroutine may call it.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.readBy = t
	return nil
}

// heed sets the deadline that was asked for, unless the one that is set is later by at most an
// eighth of the time.
func (c *conn) heed() error {
	if c.readSet == c.readBy {
		return nil
	}
	t := c.readBy
	if !t.IsZero() {
		slack := max(0, time.Until(t)/8)
		if over := c.readSet.Sub(t); over >= 0 && over <= slack {
			return nil
		}
		t = t.Add(slack)
	}
	c.readSet = t
	return c.Conn.SetReadDeadline(t)
}

// readWithin lets Read wait for d from now, or for an eighth longer. now is about the time of the call.
func (c *conn) readWithin(now time.Time, d time.Duration) {
	if left := c.readSet.Sub(now); left < d || left > d+d/8 {
		c.readSet = now.Add(d + d/8)
		_ = c.Conn.SetReadDeadline(c.readSet) // if that fails, Read fails as well
	}
	c.readBy = c.readSet
}

// SetWriteDeadline sets the deadline of the next writes, unless the one that is set is later by at most an eighth of
// WriteTimeout.
func (c *conn) SetWriteDeadline(t time.Time) error {
	if !t.IsZero() {
		slack := c.cfg.WriteTimeout / 8
		if over := c.writeSet.Sub(t); over >= 0 && over <= slack {
			return nil
		}
		t = t.Add(slack)
	}
	c.writeSet = t
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline sets both deadlines.
func (c *conn) SetDeadline(t time.Time) error {
	c.readBy, c.readSet, c.writeSet = t, t, t
	return c.Conn.SetDeadline(t)
}

func (c *conn) Read(b []byte) (n int, err error) {
	switch {
	case len(c.early) > 0:
		n = copy(b, c.early)
		if c.early = c.early[n:]; len(c.early) == 0 {
			c.early = nil
		}
		return n, nil
	case c.earlyErr != nil:
		err, c.earlyErr = c.earlyErr, nil
		return 0, err
	}
	if err := c.heed(); err != nil {
		return 0, err
	}
	if c.peek != nil {
		n, err = c.peek.read(c, b)
	} else {
		n, err = c.Conn.Read(b)
	}
	if n == 0 && err != nil {
		c.answerPlain(err)
	}
	if c.first == (headEnd{}) && c.beginsTLS(b[:n]) {
		n, err = 0, errTLS
	}
	if bad := c.first.next(b[:n]); bad != nil {
		n, err = 0, bad
	}
	switch {
	case n > 0:
		c.busy.Store(true)
		if errors.Is(err, io.EOF) {
			err = nil // TLS reads ahead; the next Read returns the error alone
		}
	case errors.Is(err, io.EOF):
		c.ended = true
	}
	return n, err
}

// Write writes what fasthttp has to send.
func (c *conn) Write(b []byte) (int, error) {
	c.held = false
	switch {
	case c.muted:
		return len(b), nil
	case len(c.behind) == 0:
		return c.Conn.Write(b)
	}
	both := len(b) + len(c.behind)
	n, err := rawio.WriteBoth(c.Conn, b, c.behind)
	c.behind = c.behind[:0]
	if n == both {
		return len(b), nil
	}
	return min(n, len(b)), err
}

// writeBehind writes b behind what w, which writes to c, has buffered: with the same system call, and without a copy.
func (c *conn) writeBehind(w io.Writer, b []byte) (n int, err error) {
	c.behind = b
	defer func() { c.behind = nil }()
	if err := flush(w); err != nil {
		return 0, err
	}
	if len(c.behind) == 0 { // w had buffered bytes, and b went out with them
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// Close closes the connection. If the client is still sending, it does so after a while: unread
// bytes would make the system reset the connection, and the client would not get the response
// that says what was wrong.
func (c *conn) Close() error {
	if c.takenOver != nil {
		return nil // fasthttp calls Close, but no longer owns the connection
	}
	if c.linger {
		c.linger = false
		discard(c.Conn, c.cfg.MaxBody)
	}
	return c.Conn.Close()
}

// peeker notices that a client leaves, on systems that do not report it: while an exchange is
// under way, a goroutine reads one byte ahead. If a byte comes, from a client that pipelines, the
// peeker notices nothing until the next exchange, or until something is written to the client.
type peeker struct {
	byte [1]byte
	have bool
	err  error
	done chan struct{} // nil, or closed when the goroutine has ended
}

func (p *peeker) start(c *conn) {
	if p.have || p.err != nil {
		return
	}
	p.done = make(chan struct{})
	c.readSet = time.Time{}
	_ = c.Conn.SetReadDeadline(c.readSet)
	go func() {
		defer close(p.done)
		n, err := c.Conn.Read(p.byte[:])
		p.have = n > 0
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) { // the error of a connection that is dead is a timeout as well
			p.err = err
			c.end(ErrClientLeft)
		}
	}()
}

func (p *peeker) stop(c *conn) {
	if p.done == nil {
		return
	}
	_ = c.Conn.SetReadDeadline(time.Unix(1, 0)) // in the past: the read returns now
	<-p.done
	p.done = nil
	c.readSet = time.Time{}
	_ = c.Conn.SetReadDeadline(c.readSet)
}

func (p *peeker) read(c *conn, b []byte) (int, error) {
	switch {
	case p.have && len(b) > 0:
		p.have = false
		b[0] = p.byte[0]
		return 1, nil
	case p.err != nil:
		return 0, p.err
	}
	return c.Conn.Read(b)
}
