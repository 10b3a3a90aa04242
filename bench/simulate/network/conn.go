package network

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/rawio"
)

// Conn is one end of a connection or a pipe.
type Conn struct {
	end           *end
	local, remote net.Addr
}

func (c *Conn) lock() *sync.Mutex { return c.end.link.n.lock() }

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
	defer c.lock().Unlock()
	for e := c.end; ; e.mayRead.wait() {
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
	}
}

// Write implements net.Conn.
func (c *Conn) Write(p []byte) (n int, err error) {
	defer c.lock().Unlock()
	e := c.end
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
		case e.failed || e.fin || e.unread:
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

// why returns the error of a reset, which e has from then on no more, as a socket.
func (e *end) why() error {
	err := e.err
	e.err = nil
	return err
}

// Close implements net.Conn. If bytes were not read, the connection is reset.
func (c *Conn) Close() error {
	defer c.lock().Unlock()
	if c.end.closed {
		return c.failure("close", net.ErrClosed)
	}
	c.end.close()
	return nil
}

// CloseWrite ends the sending.
func (c *Conn) CloseWrite() error {
	defer c.lock().Unlock()
	switch e := c.end; {
	case e.closed:
		return c.failure("close", net.ErrClosed)
	case e.failed && !e.killed, e.sent && e.ended: // there is no connection any more
		return c.failure("close", os.NewSyscallError("shutdown", syscall.ENOTCONN))
	default:
		e.finish()
		return nil
	}
}

// SetDeadline implements net.Conn.
func (c *Conn) SetDeadline(t time.Time) error { return c.set(t, &c.end.mayRead, &c.end.mayWrite) }

// SetReadDeadline implements net.Conn.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.set(t, &c.end.mayRead) }

// SetWriteDeadline implements net.Conn.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.set(t, &c.end.mayWrite) }

func (c *Conn) set(t time.Time, which ...*wait) error {
	defer c.lock().Unlock()
	if c.end.closed {
		return c.failure("set", net.ErrClosed)
	}
	for _, w := range which {
		w.by = t
		w.cond.Broadcast()
	}
	return nil
}

// failure returns err as package net or os has it.
func (c *Conn) failure(op string, err error) error {
	if c.end.link.pipe {
		if err == net.ErrClosed {
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

// telling is a connection that tells by itself what the kernel tells of sockets.
type telling struct{ *Conn }

func (c *Conn) dressed() net.Conn {
	if c.end.link.n.portable {
		return c
	}
	return telling{c}
}

// Tell notifies by of what happens, and of what has happened already, until stop is called, as rawio asks of a connection that is no socket.
func (c telling) Tell(what rawio.Watched, by rawio.Watcher) (stop func()) {
	defer c.lock().Unlock()
	e, w := c.end, &watcher{what: what, by: by}
	if !e.closed { // else the kernel would say nothing either
		e.watchers = append(e.watchers, w)
		if e.has(what) {
			e.tell(what)
		}
	}
	return func() {
		defer c.lock().Unlock()
		e.watchers = slices.DeleteFunc(e.watchers, func(other *watcher) bool { return other == w })
	}
}

// Quiet returns nil if the connection is open and has nothing to read.
func (c telling) Quiet() error {
	defer c.lock().Unlock()
	switch e := c.end; {
	case e.closed:
		return net.ErrClosed
	case e.err != nil && !e.ended && e.other.arrived == e.other.read:
		return e.why()
	case e.has(rawio.Readable):
		return errNotQuiet
	}
	return nil
}

var errNotQuiet = errors.New("the connection has ended, or has bytes that were not read")
