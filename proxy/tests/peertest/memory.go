package peertest

import (
	"context"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/rawio"
)

// oneWay is what flows in one direction of a connection in memory.
type oneWay struct {
	mu      sync.Mutex
	changed *sync.Cond
	unread  []byte
	ended   bool // nothing more is written
	closed  bool // nothing more is read
	told    map[*rawio.Watcher]rawio.Watched
}

func newOneWay() *oneWay {
	w := &oneWay{told: make(map[*rawio.Watcher]rawio.Watched)}
	w.changed = sync.NewCond(&w.mu)
	return w
}

// change makes a change, and tells of it.
func (w *oneWay) change(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do()
	w.changed.Broadcast()
	for by, what := range w.told {
		if w.is(what) {
			delete(w.told, by)
			go (*by).Notice()
		}
	}
}

func (w *oneWay) is(what rawio.Watched) bool {
	return w.ended || w.closed || what == rawio.Readable && len(w.unread) > 0
}

// memoryConn is one end of a connection in memory. It tells by itself what the kernel tells of a socket.
type memoryConn struct {
	in, out    *oneWay
	here, peer net.Addr

	mu     sync.Mutex
	readBy time.Time
}

func memoryPair(client, server net.Addr) (ours, theirs *memoryConn) {
	there, back := newOneWay(), newOneWay()
	return &memoryConn{in: back, out: there, here: client, peer: server}, &memoryConn{in: there, out: back, here: server, peer: client}
}

func (c *memoryConn) Read(p []byte) (int, error) {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	for {
		c.mu.Lock()
		by := c.readBy
		c.mu.Unlock()
		switch {
		case c.in.closed:
			return 0, net.ErrClosed
		case len(c.in.unread) > 0:
			n := copy(p, c.in.unread)
			c.in.unread = c.in.unread[n:]
			return n, nil
		case c.in.ended:
			return 0, io.EOF
		case !by.IsZero() && !time.Now().Before(by):
			return 0, os.ErrDeadlineExceeded
		}
		c.in.changed.Wait()
	}
}

func (c *memoryConn) Write(p []byte) (n int, err error) {
	c.out.change(func() {
		if c.out.ended || c.out.closed {
			err = io.ErrClosedPipe
			return
		}
		c.out.unread = append(c.out.unread, p...)
		n = len(p)
	})
	return n, err
}

func (c *memoryConn) Close() error {
	c.in.change(func() { c.in.closed = true })
	c.out.change(func() { c.out.ended = true })
	return nil
}

// CloseWrite ends what flows to the other end.
func (c *memoryConn) CloseWrite() error {
	c.out.change(func() { c.out.ended = true })
	return nil
}

func (c *memoryConn) LocalAddr() net.Addr  { return c.here }
func (c *memoryConn) RemoteAddr() net.Addr { return c.peer }

func (c *memoryConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	c.readBy = t
	c.mu.Unlock()
	if t.IsZero() {
		return nil
	}
	time.AfterFunc(time.Until(t), func() { c.in.change(func() {}) })
	return nil
}

func (c *memoryConn) SetWriteDeadline(time.Time) error { return nil } // a Write does not wait

func (c *memoryConn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

func (c *memoryConn) Tell(what rawio.Watched, by rawio.Watcher) (stop func()) {
	c.in.change(func() { c.in.told[&by] = what })
	return func() {
		c.in.mu.Lock()
		defer c.in.mu.Unlock()
		delete(c.in.told, &by)
	}
}

func (c *memoryConn) Quiet() error {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	if c.in.is(rawio.Readable) {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// MemoryListener accepts connections in memory. They live in a bubble of testing/synctest, where no time is spent on waiting.
type MemoryListener struct {
	at     *net.TCPAddr
	come   chan net.Conn // those that are not accepted yet
	closed chan struct{}

	mu    sync.Mutex
	ended bool
}

// ListenInMemory returns a listener at a port of 127.0.0.1, which none of the system's connections reaches.
func ListenInMemory(port int) *MemoryListener {
	return &MemoryListener{at: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}, come: make(chan net.Conn, 1024), closed: make(chan struct{})}
}

// Accept implements [net.Listener].
func (l *MemoryListener) Accept() (net.Conn, error) {
	select {
	case nc := <-l.come:
		return nc, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (l *MemoryListener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return nil
	}
	l.ended = true
	close(l.closed)
	for {
		select {
		case nc := <-l.come:
			nc.Close()
		default:
			return nil
		}
	}
}

// Addr implements [net.Listener].
func (l *MemoryListener) Addr() net.Addr { return l.at }

// Dial connects to the listener, whatever the address is. As at a socket, the connection need not be accepted for that.
func (l *MemoryListener) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ours, theirs := memoryPair(&net.TCPAddr{IP: l.at.IP, Port: 50000}, l.at)
	switch {
	case l.ended:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: l.at, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	l.come <- theirs
	return ours, nil
}
