package network

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/rawio"
)

// Conn is one end of a connection or a pipe.
type Conn struct {
	end           *end
	local, remote net.Addr
}

// telling is a connection that tells by itself what the kernel tells of sockets.
type telling struct{ *Conn }

func (n *Network) dressed(c *Conn) net.Conn {
	if n.portable {
		return c
	}
	return telling{c}
}

// ID returns the number of the connection, which is the same at both ends.
func (c *Conn) ID() int { return c.end.link.id }

// Peer returns the host of the other end.
func (c *Conn) Peer() string { return c.end.other.host }

// LocalAddr implements net.Conn.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr implements net.Conn.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) {
	e := c.end
	mu := &e.link.n.mu
	mu.Lock()
	defer mu.Unlock()
	for {
		switch {
		case e.closed:
			return 0, c.failure("read", net.ErrClosed)
		case len(p) == 0:
			return 0, nil
		case e.mayRead.isOver():
			return 0, c.failure("read", os.ErrDeadlineExceeded)
		case e.killed:
			return 0, c.failure("read", syscall.ECONNRESET)
		case e.other.arrived > e.other.read:
			return e.take(p), nil
		case e.err != nil && !e.ended:
			return 0, c.failure("read", e.why())
		case e.ended || e.failed:
			return 0, io.EOF
		}
		e.mayRead.wait()
	}
}

// Write implements net.Conn.
func (c *Conn) Write(p []byte) (n int, err error) {
	e := c.end
	mu := &e.link.n.mu
	mu.Lock()
	defer mu.Unlock()
	for {
		switch room := e.link.window - (len(e.out) - e.read); {
		case e.closed:
			return n, c.failure("write", net.ErrClosed)
		case e.mayWrite.isOver():
			return n, c.failure("write", os.ErrDeadlineExceeded)
		case e.killed:
			return n + len(p), nil
		case e.err != nil:
			return n, c.failure("write", e.why())
		case e.failed || e.shut || e.unread:
			return n, c.failure("write", syscall.EPIPE)
		case room > 0:
			k := min(room, len(p))
			e.out = append(e.out, p[:k]...)
			n, p = n+k, p[k:]
			e.move()
		default:
			e.mayWrite.wait()
		}
		if len(p) == 0 {
			return n, nil
		}
	}
}

// why returns the error of a reset, which it has from then on no more, as a socket.
func (e *end) why() error {
	err := e.err
	e.err = nil
	return err
}

// Close implements net.Conn. If bytes were not read, the connection is reset.
func (c *Conn) Close() error {
	e := c.end
	n := e.link.n
	n.mu.Lock()
	defer n.mu.Unlock()
	if e.closed {
		return c.failure("close", net.ErrClosed)
	}
	e.close()
	return nil
}

// CloseWrite ends the sending.
func (c *Conn) CloseWrite() error {
	e := c.end
	n := e.link.n
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case e.closed:
		return c.failure("close", net.ErrClosed)
	case e.failed:
		return c.failure("close", os.NewSyscallError("shutdown", syscall.ENOTCONN))
	case e.shut || e.killed:
		return nil
	}
	e.shut, e.fin = true, true
	e.mayWrite.cond.Broadcast()
	e.move()
	return nil
}

// SetDeadline implements net.Conn.
func (c *Conn) SetDeadline(t time.Time) error {
	return c.set(t, &c.end.mayRead, &c.end.mayWrite)
}

// SetReadDeadline implements net.Conn.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.set(t, &c.end.mayRead) }

// SetWriteDeadline implements net.Conn.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.set(t, &c.end.mayWrite) }

func (c *Conn) set(t time.Time, which ...*wait) error {
	n := c.end.link.n
	n.mu.Lock()
	defer n.mu.Unlock()
	if c.end.closed {
		return c.failure("set", net.ErrClosed)
	}
	for _, w := range which {
		if w.by = t; w.waiting > 0 {
			w.cond.Broadcast()
		}
	}
	return nil
}

// failure returns err as package net or os has it.
func (c *Conn) failure(op string, err error) error {
	if c.end.link.pipe {
		if errors.Is(err, net.ErrClosed) {
			err = os.ErrClosed
		}
		return &fs.PathError{Op: op, Path: "|" + c.local.String(), Err: err}
	}
	if e, ok := err.(syscall.Errno); ok {
		err = os.NewSyscallError(op, e)
	}
	if op == "set" {
		return &net.OpError{Op: op, Net: "tcp", Addr: c.local, Err: err}
	}
	return &net.OpError{Op: op, Net: "tcp", Source: c.local, Addr: c.remote, Err: err}
}

// Tell notifies by of what happens, and of what has happened already, until stop is called, as rawio asks of a connection that is no socket.
func (c telling) Tell(what rawio.Watched, by rawio.Watcher) (stop func()) {
	e := c.end
	n := e.link.n
	n.mu.Lock()
	defer n.mu.Unlock()
	w := &watcher{what: what, by: by}
	if e.closed { // the kernel would say nothing as well
		return func() {}
	}
	e.watchers = append(e.watchers, w)
	if what == rawio.Readable && e.readable() || what == rawio.Leaving && (e.ended || e.failed || e.killed) {
		e.tell(what)
	}
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		e.forget(w)
	}
}

// Quiet returns nil if the connection is open and has nothing to read.
func (c telling) Quiet() error {
	e := c.end
	n := e.link.n
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case e.closed:
		return net.ErrClosed
	case e.err != nil && !e.ended && e.other.arrived == e.other.read:
		return e.why()
	case e.readable():
		return errNotQuiet
	}
	return nil
}

var errNotQuiet = errors.New("the connection has ended, or has bytes that were not read")
