package rawio

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"
)

const patience = time.Minute

// pair returns both ends of a TCP connection. The first one is wrapped.
func pair(t testing.TB) (wrapped net.Conn, peer *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	nc, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	other, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	wrapped, peer = Wrap(nc), other.(*net.TCPConn)
	t.Cleanup(func() { wrapped.Close(); peer.Close() })
	for _, c := range []net.Conn{wrapped, peer} {
		if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
	}
	return wrapped, peer
}

func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i ^ i>>8 ^ i>>16)
	}
	return b
}

// TestBytesArrive in both directions, also those that the socket's buffer does not take at once.
func TestBytesArrive(t *testing.T) {
	for _, n := range []int{1, 100, 4096, most - 1, most, most + 1, 8 << 20} {
		want := pattern(n)
		c, peer := pair(t)
		var both sync.WaitGroup
		both.Go(func() {
			got, err := io.ReadAll(io.LimitReader(peer, int64(n)))
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes written: the peer got %d, %v", n, len(got), err)
			}
			if _, err := peer.Write(want); err != nil {
				t.Error(err)
			}
		})
		for b := want; len(b) > 0; {
			k := min(len(b), most)
			if m, err := c.Write(b[:k]); m != k || err != nil {
				t.Fatalf("wrote %d of %d bytes, %v", m, k, err)
			}
			b = b[k:]
		}
		got, buf := []byte(nil), make([]byte, min(2*n, 3*most))
		for len(got) < n {
			m, err := c.Read(buf)
			if err != nil {
				t.Fatalf("after %d of %d bytes: %v", len(got), n, err)
			}
			got = append(got, buf[:m]...)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%d bytes are not those that were sent", n)
		}
		both.Wait()
	}
}

func TestBothPartsArrive(t *testing.T) {
	for _, sizes := range [][2]int{{0, 0}, {1, 0}, {0, 1}, {1, 1}, {200, 45 << 10}, {45 << 10, 200}, {most, 1}, {1, most}, {1 << 20, 4 << 20}} {
		a, b := pattern(sizes[0]), bytes.ToUpper(pattern(sizes[1])) // takes long with the race detector
		c, peer := pair(t)
		var got []byte
		var reading sync.WaitGroup
		reading.Go(func() { got, _ = io.ReadAll(peer) })
		if n, err := WriteBoth(c, a, b); n != len(a)+len(b) || err != nil {
			t.Errorf("%v: wrote %d, %v", sizes, n, err)
		}
		c.Close()
		reading.Wait()
		if !bytes.Equal(got, append(a, b...)) {
			t.Errorf("%v: the peer got %d other bytes", sizes, len(got))
		}
	}
}

// TestASlowReaderGetsAll of what is written in parts of a call, as the socket's buffer becomes free.
func TestASlowReaderGetsAll(t *testing.T) {
	const part = 64 << 10
	want := pattern(40 * part)
	c, peer := pair(t)
	_ = c.(interface{ SetWriteBuffer(int) error }).SetWriteBuffer(16 << 10)
	var writing sync.WaitGroup
	writing.Go(func() {
		for b := want; len(b) > 0; b = b[part:] {
			n, err := WriteBoth(c, b[:part/3], b[part/3:part])
			if n != part || err != nil {
				t.Errorf("wrote %d, %v", n, err)
			}
		}
		c.Close()
	})
	got, err := io.ReadAll(io.MultiReader(io.LimitReader(peer, 1000), peer))
	writing.Wait()
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %d bytes of %d, %v", len(got), len(want), err)
	}
}

// TestErrors are those of a net.TCPConn.
func TestErrors(t *testing.T) {
	small := make([]byte, 10)
	for _, c := range []struct {
		name string
		does func(c net.Conn, peer *net.TCPConn) (int, error)
		is   error
	}{
		{"end", func(c net.Conn, peer *net.TCPConn) (int, error) { peer.Close(); return c.Read(small) }, io.EOF},
		{"read too late", func(c net.Conn, peer *net.TCPConn) (int, error) {
			_ = c.SetReadDeadline(time.Unix(1, 0))
			return c.Read(small)
		}, os.ErrDeadlineExceeded},
		{"read until the deadline", func(c net.Conn, peer *net.TCPConn) (int, error) {
			_ = c.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
			return c.Read(small)
		}, os.ErrDeadlineExceeded},
		{"read interrupted", func(c net.Conn, peer *net.TCPConn) (int, error) {
			time.AfterFunc(10*time.Millisecond, func() { _ = c.SetReadDeadline(time.Unix(1, 0)) })
			return c.Read(small)
		}, os.ErrDeadlineExceeded},
		{"write too late", func(c net.Conn, peer *net.TCPConn) (int, error) {
			_ = c.SetWriteDeadline(time.Unix(1, 0))
			return c.Write(small)
		}, os.ErrDeadlineExceeded},
		{"read a closed one", func(c net.Conn, peer *net.TCPConn) (int, error) { c.Close(); return c.Read(small) }, net.ErrClosed},
		{"write a closed one", func(c net.Conn, peer *net.TCPConn) (int, error) { c.Close(); return c.Write(small) }, net.ErrClosed},
		{"closed while it reads", func(c net.Conn, peer *net.TCPConn) (int, error) {
			time.AfterFunc(10*time.Millisecond, func() { c.Close() })
			return c.Read(small)
		}, net.ErrClosed},
	} {
		wrapped, peer := pair(t)
		n, err := c.does(wrapped, peer)
		if n != 0 || !errors.Is(err, c.is) {
			t.Errorf("%s: %d, %v", c.name, n, err)
		}
		plain, peer := pair(t)
		if tcp, ok := plain.(interface{ NetConn() net.Conn }); ok {
			plain = tcp.NetConn()
		}
		if _, want := c.does(plain, peer); kindOf(want) != kindOf(err) {
			t.Errorf("%s: %v, of a TCP connection %v", c.name, err, want)
		}
	}
}

// kindOf says what of an error does not depend on the ports.
func kindOf(err error) string {
	e, ok := err.(*net.OpError)
	if !ok {
		return err.Error()
	}
	says := e.Op + " " + e.Net + " " + e.Err.Error()
	if e.Source != nil && e.Addr != nil {
		says += " from there to there"
	}
	if e.Timeout() {
		says += ", too late"
	}
	return says
}

// TestAResetConnection fails, and says how much was written.
func TestAResetConnection(t *testing.T) {
	c, peer := pair(t)
	_ = peer.SetLinger(0)
	peer.Close()
	if n, err := c.Read(make([]byte, 10)); n != 0 || err == nil || err == io.EOF {
		t.Errorf("read %d, %v", n, err)
	}
	if n, err := c.Write(make([]byte, 10)); n != 0 || err == nil {
		t.Errorf("wrote %d, %v", n, err)
	}
}

// TestAFullSocket: a write that the peer does not read ends at the deadline, and returns how much was written.
func TestAFullSocket(t *testing.T) {
	c, peer := pair(t)
	if err := c.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	written := 0
	for {
		n, err := c.Write(make([]byte, most))
		if written += n; errors.Is(err, os.ErrDeadlineExceeded) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	c.Close()
	if got, err := io.Copy(io.Discard, peer); got != int64(written) || err != nil {
		t.Errorf("%d bytes written, %d read, %v", written, got, err)
	}
}

// TestConcurrentUse is safe, as with every net.Conn.
func TestConcurrentUse(t *testing.T) {
	c, peer := pair(t)
	const calls, size = 200, 100
	var all sync.WaitGroup
	var mu sync.Mutex
	got := 0
	for range 4 {
		all.Go(func() {
			for range calls {
				if n, err := c.Write(bytes.Repeat([]byte("x"), size)); n != size || err != nil {
					t.Errorf("wrote %d, %v", n, err)
				}
			}
		})
		all.Go(func() {
			for buf := make([]byte, size); ; {
				n, err := c.Read(buf)
				mu.Lock()
				got += n
				mu.Unlock()
				if err == io.EOF {
					return
				} else if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Go(func() {
		if _, err := io.CopyN(peer, peer, 4*calls*size); err != nil {
			t.Error(err)
		}
		_ = peer.CloseWrite()
	})
	all.Wait()
	if got != 4*calls*size {
		t.Errorf("read %d bytes", got)
	}
}

func TestOtherConnectionsStayAsTheyAre(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if Wrap(a) != a {
		t.Error("a pipe was wrapped")
	}
	go func() { _, _ = WriteBoth(a, []byte("12"), []byte("34")) }()
	got := make([]byte, 4)
	if _, err := io.ReadFull(b, got); err != nil || string(got) != "1234" {
		t.Errorf("%q, %v", got, err)
	}
}

func BenchmarkRoundTrip(b *testing.B) {
	for _, wrap := range []bool{false, true} {
		b.Run(map[bool]string{false: "net", true: "raw"}[wrap], func(b *testing.B) {
			c, peer := pair(b)
			_ = c.SetDeadline(time.Time{})
			_ = peer.SetDeadline(time.Time{})
			other := net.Conn(peer)
			if wrap {
				other = Wrap(peer)
			} else if tcp, ok := c.(interface{ NetConn() net.Conn }); ok {
				c = tcp.NetConn()
			}
			go func() {
				buf := make([]byte, 512)
				for {
					n, err := other.Read(buf)
					if err != nil {
						return
					}
					if _, err := other.Write(buf[:n]); err != nil {
						return
					}
				}
			}()
			buf := make([]byte, 512)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Write(buf[:200]); err != nil {
					b.Fatal(err)
				}
				if _, err := c.Read(buf); err != nil {
					b.Fatal(err)
				}
			}
			c.Close()
		})
	}
}
