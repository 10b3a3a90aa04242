package rawio

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// conn is a TCP connection whose Read and Write make raw system calls. All else is that of net.TCPConn.
type conn struct {
	*net.TCPConn
	raw     syscall.RawConn
	in, out transfer
}

// transfer is what a Read or Write under way has to do, and what it has done.
type transfer struct {
	busy  atomic.Bool
	do    func(fd uintptr) bool // bound once
	parts [2]syscall.Iovec
	n     uintptr
	errno syscall.Errno
}

// Wrap returns a connection with cheaper Read and Write if nc is a TCP connection, else nc.
func Wrap(nc net.Conn) net.Conn {
	tcp, ok := nc.(*net.TCPConn)
	if !ok {
		return nc
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nc
	}
	c := &conn{TCPConn: tcp, raw: raw}
	c.in.do, c.out.do = c.in.read, c.out.write
	return c
}

// NetConn returns the connection itself.
func (c *conn) NetConn() net.Conn { return c.TCPConn }

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	t := &c.in
	if len(b) == 0 || len(b) > most || !t.busy.CompareAndSwap(false, true) {
		return c.TCPConn.Read(b)
	}
	defer t.busy.Store(false)
	t.begin(b, nil)
	err := c.raw.Read(t.do)
	n, err := t.end(c, "read", err)
	if n == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}

// Write implements net.Conn.
func (c *conn) Write(b []byte) (int, error) {
	if len(b) == 0 || len(b) > most || !c.out.busy.CompareAndSwap(false, true) {
		return c.TCPConn.Write(b)
	}
	return c.send(b, nil)
}

func (c *conn) writeBoth(a, b []byte) (int, error) {
	if len(a) == 0 || len(b) == 0 || len(a)+len(b) > most || !c.out.busy.CompareAndSwap(false, true) {
		return writeVector(c.TCPConn, a, b)
	}
	return c.send(a, b)
}

// send writes a and then b. The caller has made out busy.
func (c *conn) send(a, b []byte) (int, error) {
	t := &c.out
	defer t.busy.Store(false)
	t.begin(a, b)
	err := c.raw.Write(t.do)
	return t.end(c, "write", err)
}

func (t *transfer) begin(a, b []byte) {
	t.parts[0].Base = unsafe.SliceData(a)
	t.parts[0].SetLen(len(a))
	t.parts[1].Base = unsafe.SliceData(b)
	t.parts[1].SetLen(len(b))
	t.n, t.errno = 0, 0
}

// end returns what was done. err is that of the RawConn.
func (t *transfer) end(c *conn, op string, err error) (int, error) {
	t.parts = [2]syscall.Iovec{}
	switch {
	case err != nil:
		if e, ok := errors.AsType[*net.OpError](err); ok {
			err = e.Err
		}
	case t.errno != 0:
		err = os.NewSyscallError(op, t.errno)
	default:
		return int(t.n), nil
	}
	return int(t.n), &net.OpError{Op: op, Net: c.LocalAddr().Network(), Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}

// read reads what there is, and returns false if there is nothing yet.
func (t *transfer) read(fd uintptr) bool {
	for {
		n, errno := read(fd, &t.parts[0])
		switch errno {
		case 0:
			t.n = n
			return true
		case syscall.EINTR:
		case syscall.EAGAIN:
			return false
		default:
			t.errno = errno
			return true
		}
	}
}

// write writes the rest, and returns false if not all of it can be written yet.
func (t *transfer) write(fd uintptr) bool {
	for {
		var n uintptr
		var errno syscall.Errno
		switch a, b := &t.parts[0], &t.parts[1]; {
		case a.Len == 0 && b.Len == 0:
			return true
		case a.Len > 0 && b.Len > 0:
			n, errno = writev(fd, &t.parts)
		case a.Len > 0:
			n, errno = write(fd, a)
		default:
			n, errno = write(fd, b)
		}
		switch errno {
		case 0:
			t.n += n
			for i := range t.parts {
				p := &t.parts[i]
				k := min(n, uintptr(p.Len))
				n -= k
				if left := uintptr(p.Len) - k; left == 0 {
					*p = syscall.Iovec{} // a pointer behind the buffer would keep something else alive
				} else {
					p.Base = (*byte)(unsafe.Add(unsafe.Pointer(p.Base), k))
					p.SetLen(int(left))
				}
			}
		case syscall.EINTR:
		case syscall.EAGAIN:
			return false
		default:
			t.errno = errno
			return true
		}
	}
}
