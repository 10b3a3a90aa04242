package upstream

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/dragoman-proxy/dragoman/dial"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/rawio"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/samehead"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
)

const (
	// smallHead is a size that the head of nearly every response fits into. A
	// connection holds a buffer of this size while it is open.
	smallHead = 4 << 10
	// maxHead is the largest head of a response that is accepted.
	maxHead = 64 << 10
	// streamBuffer is the buffer size of a standing stream. It is for the sizes of
	// chunks; most of the data bypasses the buffer.
	streamBuffer = 256
	// restBuffer is the buffer size of a stream until its next byte comes.
	restBuffer = 16
)

// errWouldBlock is returned by a conn that must not wait.
var errWouldBlock = errors.New("nothing to read yet")

// phase says how far the response of an exchange was read.
type phase uint8

const (
	awaiting phase = iota // the head is still to come
	object                // a body of JSON is to come
	events                // a stream of events is read
	over                  // the response was read
)

// meaning is what the head of a response to a call says, except for its length.
type meaning struct {
	phase   phase // object or events
	session string
	passed  []mcp.Header
	keep    time.Duration // as in conn
}

// interruptible reads from a connection.
type interruptible interface {
	// beginWait returns sse.ErrInterrupted if Read must not wait.
	beginWait() error
	// endWait returns the error of a read of c that has returned n and err.
	endWait(c *conn, n int, err error) error
}

// conn is one connection to the server. It carries one exchange at a time.
type conn struct {
	net.Conn          // the TLS connection, or socket itself
	socket   net.Conn // closing it ends everything at once, without a TLS alert
	in       *bufio.Reader
	gate     *gate // under TLS; nil for plain HTTP
	guard    dial.Guard
	probe    func() error // returns nil if the socket is open and quiet; nil itself if the system cannot say

	readBy   time.Time // the deadlines of socket
	writeBy  time.Time
	silence  time.Duration // how long one Read may wait; 0 leaves the deadline as it is
	watched  uint64        // its id in the watch while its stream is parked
	noWait   bool          // Read fails instead of waiting
	readErr  error         // error of the last Read
	reader   interruptible // may be told to stop waiting in Read; nil for none
	unread   []byte        // bytes that Read returns before those of the socket
	reusable bool          // it may be used again once its response was read
	keep     time.Duration // how long the server said it keeps an idle connection; 0 if it did not say
	born     moment
	since    moment        // since when it is idle
	taken    time.Time     // when this exchange got it
	idle     time.Duration // how long it was idle before that

	known samehead.Head // the head of the last response to a call
	means meaning       // what it says
}

func newConn(nc, socket net.Conn) *conn {
	c := &conn{Conn: nc, socket: socket}
	c.in = bufio.NewReaderSize(c, smallHead)
	switch s := socket.(type) {
	case interface{ Quiet() error }:
		c.probe = s.Quiet
	case syscall.Conn:
		c.probe = quietProbe(s)
	}
	return c
}

func (c *conn) Read(p []byte) (int, error) {
	if len(c.unread) > 0 {
		n := copy(p, c.unread)
		if c.unread = c.unread[n:]; len(c.unread) == 0 {
			c.unread = nil
		}
		return n, nil
	}
	if c.noWait {
		return 0, errWouldBlock
	}
	if c.silence > 0 {
		if err := c.readWithin(c.silence); err != nil {
			return 0, err
		}
	}
	x := c.reader
	if x == nil {
		n, err := c.receive(p)
		c.readErr = err
		return n, err
	}
	if c.readErr = x.beginWait(); c.readErr != nil {
		return 0, c.readErr
	}
	n, err := c.receive(p)
	c.readErr = x.endWait(c, n, err)
	return n, c.readErr
}

// receive reads from the connection. The end of it comes alone: TLS returns it with the last bytes, if it can.
func (c *conn) receive(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && err == io.EOF {
		err = nil // the next Read returns it again
	}
	return n, c.guard.Err(err)
}

// ahead reports whether more was read from the socket than was asked for: TLS reads whole records, so that bytes behind an
// answer may be neither in the buffer nor in the socket, where probe would find them.
func (c *conn) ahead() bool {
	if c.in.Buffered() > 0 || len(c.unread) > 0 {
		return true
	}
	if c.gate == nil {
		return false
	}
	c.gate.shut = true
	n, err := c.Conn.Read(c.gate.one[:])
	c.gate.shut = false
	return n > 0 || err != os.ErrDeadlineExceeded
}

// gate is a socket under TLS. While it is shut, what TLS has read ahead can be read, and no more.
type gate struct {
	net.Conn
	shut bool
	one  [1]byte // for what is read ahead
}

func (g *gate) Read(p []byte) (int, error) {
	if g.shut {
		return 0, os.ErrDeadlineExceeded // after which TLS can read on
	}
	return g.Conn.Read(p)
}

// SetReadDeadline sets the deadline, and records it.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.readBy = t
	return c.Conn.SetReadDeadline(t)
}

// readWithin lets reads wait for d from now, or for an eighth longer: a deadline is
// kept for a while, because setting one costs as much as a small read.
func (c *conn) readWithin(d time.Duration) error {
	now := time.Now()
	if stands(c.readBy, now, d) {
		return nil
	}
	return c.SetReadDeadline(now.Add(d + d/8))
}

// writeWithin does the same for writes. now is about the time of the call.
func (c *conn) writeWithin(now time.Time, d time.Duration) error {
	if stands(c.writeBy, now, d) {
		return nil
	}
	c.writeBy = now.Add(d + d/8)
	return c.SetWriteDeadline(c.writeBy)
}

// stands reports whether a deadline can stay for d from now.
func stands(deadline, now time.Time, d time.Duration) bool {
	left := deadline.Sub(now)
	return left >= d && left <= d+d/8
}

// resize gives the connection a buffer of another size. No byte is lost.
func (c *conn) resize(size int) {
	buffered, _ := c.in.Peek(c.in.Buffered())
	c.unread = append(append([]byte(nil), buffered...), c.unread...)
	c.in = bufio.NewReaderSize(c, size)
}

// write sends head and then content in as few system calls as possible, and returns how
// many bytes the system has taken. Small content is copied into the free room of head.
func (c *conn) write(head, content []byte, timeout time.Duration) (int, error) {
	if err := c.writeWithin(c.taken, timeout); err != nil {
		return 0, err
	}
	c.guard.Sent()
	defer c.guard.Sent()
	var n int
	var err error
	if len(head)+len(content) <= cap(head) {
		n, err = c.Conn.Write(append(head, content...))
	} else {
		n, err = rawio.WriteBoth(c.Conn, head, content)
	}
	return n, c.guard.Err(err)
}

// moment is a point in time by two clocks. That of Go stands still while the machine sleeps, and that on the wall can be set.
type moment struct {
	at   time.Duration // since the program has started
	wall int64         // in nanoseconds
}

var started = time.Now()

func momentOf(at time.Time) moment { return moment{at.Sub(started), at.UnixNano()} }

// age returns how much time has passed until now, by the clock that says more.
func (m moment) age(now time.Time) time.Duration {
	n := momentOf(now)
	return max(n.at-m.at, time.Duration(n.wall-m.wall))
}

// lesson is the time after which an idle connection is trusted four times as long
// again, after the server was found to close idle connections early.
const lesson = 10 * time.Second

// pool has the open connections to one server.
type pool struct {
	dial    func(context.Context) (*conn, error)
	maxIdle int
	maxAge  time.Duration // of an idle connection
	maxLife time.Duration // since a connection was made, looked at before an exchange

	mu      sync.Mutex
	idle    []*conn // the one used last is at the end, and is taken first
	open    map[*conn]struct{}
	expiry  *time.Timer
	closed  bool
	learnt  time.Duration // a connection that was idle for longer was found not to be trusted …
	learned time.Time     // … when this was found
	watch   rawio.Watch   // of the connections whose streams are parked

	lingering sync.WaitGroup
}

// get returns an idle connection that the server has not closed, or a new one.
func (p *pool) get(ctx context.Context) (c *conn, reused bool, err error) {
	for {
		c := p.pop()
		if c == nil {
			c, err := p.fresh(ctx)
			return c, false, err
		}
		c.taken = time.Now()
		c.idle = c.since.age(c.taken)
		if c.idle <= p.trusted(c) && c.born.age(c.taken) <= p.maxLife {
			if c.probe == nil {
				return c, true, nil
			}
			err := c.probe()
			if err == nil {
				return c, true, nil
			}
			if !dial.IsDead(c.guard.Err(err)) {
				p.learn(c.idle)
			}
		}
		p.discard(c)
	}
}

func (p *pool) pop() *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.idle)
	if n == 0 {
		return nil
	}
	c := p.idle[n-1]
	p.idle[n-1] = nil
	p.idle = p.idle[:n-1]
	return c
}

// trusted returns how long c may have been idle and still take a message. If the server
// closes the connection while the message is on its way, the message is lost and cannot
// be sent again, because the server may have read it.
func (p *pool) trusted(c *conn) time.Duration {
	d := p.maxAge
	if c.keep > 0 {
		// https://datatracker.ietf.org/doc/html/draft-thomson-hybi-http-timeout: a
		// margin for the way there.
		d = min(d, max(c.keep-time.Second, c.keep/2))
	}
	if c.probe == nil {
		d = min(d, blindAge)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return min(d, p.taught())
}

// blindAge is how long an idle connection is trusted that cannot be probed.
const blindAge = time.Second

// taught returns how long an idle connection is trusted after the lesson so far. The
// caller holds the lock.
func (p *pool) taught() time.Duration {
	if p.learned.IsZero() {
		return p.maxAge
	}
	times := time.Since(p.learned) / lesson
	if times > 10 {
		return p.maxAge
	}
	return p.learnt << (2 * times)
}

// learn notes that the server has closed a connection that was idle for this long, so
// that others are not used at the moment when the server closes them.
func (p *pool) learn(idle time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.learnt = min(idle/2, p.taught())
	p.learned = time.Now()
}

// fresh opens a new connection.
func (p *pool) fresh(ctx context.Context) (*conn, error) {
	p.mu.Lock()
	closed := p.closed
	p.mu.Unlock()
	if closed {
		return nil, ErrClosed
	}
	c, err := p.dial(ctx)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		c.socket.Close()
		return nil, ErrClosed
	}
	p.open[c] = struct{}{}
	c.taken = time.Now()
	c.born = momentOf(c.taken)
	return c, nil
}

// put takes back a connection whose response was read to its end.
func (p *pool) put(c *conn) {
	if !c.reusable || c.ahead() {
		p.discard(c)
		return
	}
	c.since = momentOf(time.Now())
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle) >= p.maxIdle {
		delete(p.open, c)
		c.socket.Close()
		return
	}
	p.idle = append(p.idle, c)
	if p.expiry == nil {
		p.expiry = time.AfterFunc(p.maxAge, p.expire)
	}
}

// discard closes a connection, even if an exchange is under way on it. If it was dead, those go too that were idle already when the
// exchange got it: they would cost a call each.
func (p *pool) discard(c *conn) {
	c.socket.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, c)
	if c.guard.Dead() {
		taken := momentOf(c.taken)
		p.closeIdle(func(older *conn) bool { return older.since.at <= taken.at })
	}
}

// closeIdle closes the longest idle connections, as long as goes says so. The caller holds the lock.
func (p *pool) closeIdle(goes func(*conn) bool) {
	n := 0
	for n < len(p.idle) && goes(p.idle[n]) {
		delete(p.open, p.idle[n])
		p.idle[n].socket.Close()
		n++
	}
	left := copy(p.idle, p.idle[n:])
	clear(p.idle[left:])
	p.idle = p.idle[:left]
}

// park makes by notice when c can be read, and reports whether it could.
func (p *pool) park(c *conn, by rawio.Watcher) (ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	c.watched, ok = p.watch.Add(c.socket, rawio.Readable, by)
	return ok
}

// unpark undoes park.
func (p *pool) unpark(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watch.Remove(c.watched)
}

func (p *pool) inUse() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.open) - len(p.idle)
}

// expire closes the connections that were idle for too long.
func (p *pool) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expiry = nil
	now := time.Now()
	p.closeIdle(func(c *conn) bool { return c.since.age(now) >= p.maxAge })
	if len(p.idle) > 0 && !p.closed {
		p.expiry = time.AfterFunc(p.maxAge-p.idle[0].since.age(now), p.expire)
	}
}

// linger waits a short while for the end of a response that no caller needs any more,
// so that the next message can use the connection. Most servers end a stream just after
// the answer.
func (p *pool) linger(c *conn, b *body) {
	if b.framing == byClose || !p.enter() {
		p.discard(c)
		return
	}
	go func() {
		defer p.lingering.Done()
		var scratch [512]byte
		c.silence = 0
		c.SetReadDeadline(time.Now().Add(lingerTime)) //nolint:errcheck // the reader gets the error
		if b.drain(scratch[:], lingerBytes) {
			p.put(c)
		} else {
			p.discard(c)
		}
	}()
}

const (
	lingerTime  = 250 * time.Millisecond
	lingerBytes = 64 << 10
)

func (p *pool) enter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.lingering.Add(1)
	}
	return !p.closed
}

// close closes all connections, and waits for the goroutines of linger.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	if p.expiry != nil {
		p.expiry.Stop()
	}
	for c := range p.open {
		c.socket.Close()
	}
	clear(p.open)
	p.idle = nil
	p.mu.Unlock()
	p.watch.Close()
	p.lingering.Wait()
}
