package upstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

func TestConnectionsAreReused(t *testing.T) {
	event := "data: " + answer + "\n\n"
	for _, c := range []struct {
		name, reply string
		conns       int32
	}{
		{"json", jsonReply(answer), 1},
		{"json in chunks", jsonHead + fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(answer), answer), 1},
		{"events in chunks", eventHead + fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(event), event), 1},
		{"server says close", withHeads("Connection: keep-alive, Close"), 10},
		{"server says close, and more", withHeads("Connection: close", "Connection: TE"), 10},
		{"server says more, and close", withHeads("connection: TE", "connection:\tx ,CLOSE", "Connection: keep-alive"), 10},
		{"server says close after an interim response", "HTTP/1.1 103 Early Hints\r\n\r\n" + withHeads("Connection: close", "Connection: x"), 10},
		{"server does not say close", withHeads("Connection: closed", "X: close", "X-Connection: close"), 1},
		{"interim response", "HTTP/1.1 103 Early Hints\r\nConnection: close\r\n\r\n" + jsonReply(answer), 1},
		{"http/1.0", "HTTP/1.0" + jsonReply(answer)[len("HTTP/1.1"):], 10},
		{"bytes after the answer", jsonReply(answer) + "HTTP/1.1 200 OK\r\n", 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			peertest.NoLeaks(t)
			srv := serve(t, always(c.reply))
			s := newHTTP(t, HTTPConfig{URL: srv.url()}).Session("", "")
			for range 10 {
				stream := send(t, t.Context(), s)
				// The caller closes after the answer and sees no end of the stream.
				if e, err := First(stream); err != nil || string(e.Data) != answer {
					t.Fatalf("%q, %v", e.Data, err)
				}
				stream.Close()
			}
			if n := srv.conns.Load(); n != c.conns {
				t.Errorf("%d connections for 10 calls", n)
			}
		})
	}
}

// withHeads returns a response with these lines in its head.
func withHeads(lines ...string) string {
	return strings.Replace(jsonReply(answer), "\r\n", "\r\n"+strings.Join(lines, "\r\n")+"\r\n", 1)
}

// TestCloseInAHeadInPieces: what a server says of the connection counts in a head that comes in pieces, too.
func TestCloseInAHeadInPieces(t *testing.T) {
	for line, conns := range map[string]int32{"X: y": 1, "Connection: keep-alive": 1, "Connection: close\r\nConnection: TE": 4, "Connection: TE, close": 4} {
		srv := serve(t, func(c net.Conn, in *bufio.Reader) {
			reply := withHeads(line)
			for {
				if _, ok := take(in); !ok {
					return
				}
				for _, part := range []string{reply[:20], reply[20:]} {
					io.WriteString(c, part)
					time.Sleep(5 * time.Millisecond)
				}
			}
		})
		s := newHTTP(t, HTTPConfig{URL: srv.url()}).Session("", "")
		for range 4 {
			if got, err := said(t.Context(), s); err != io.EOF || len(got) != 1 {
				t.Fatalf("%q: %q, %v", line, got, err)
			}
		}
		if n := srv.conns.Load(); n != conns {
			t.Errorf("%q: %d connections for 4 calls, want %d", line, n, conns)
		}
	}
}

func TestConnectionClosedJustAfterTheAnswerIsNotReused(t *testing.T) {
	peertest.NoLeaks(t)
	closed := make(chan struct{})
	srv := serve(t, func(c net.Conn, in *bufio.Reader) {
		for {
			if _, ok := take(in); !ok {
				return
			}
			io.WriteString(c, eventHead+fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\ndata: %s\n\n\r\n", len(answer)+8, answer))
			<-closed
			io.WriteString(c, "0\r\n\r\n")
		}
	})
	h := newHTTP(t, HTTPConfig{URL: srv.url()})
	for range 5 {
		stream := send(t, t.Context(), h.Session("", ""))
		if _, err := First(stream); err != nil {
			t.Fatal(err)
		}
		stream.Close()
		closed <- struct{}{}
		h.pool.lingering.Wait()
	}
	if n := srv.conns.Load(); n > 3 { // one, unless the machine held us up for longer than we linger
		t.Errorf("%d connections for 5 calls", n)
	}
}

func TestStreamThatGoesOnAfterTheAnswerIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gone atomic.Int32
		h := newHTTP(t, HTTPConfig{URL: "http://server"})
		inMemory(t, h, silent(eventHead+"Transfer-Encoding: chunked\r\n\r\na\r\ndata: {}\n\n\r\n", &gone))
		stream := send(t, t.Context(), h.Session("", ""))
		if _, err := First(stream); err != nil {
			t.Fatal(err)
		}
		stream.Close()
		h.pool.lingering.Wait()
		if synctest.Wait(); gone.Load() != 1 {
			t.Error("the connection is open")
		}
	})
}

// closer answers, and closes a connection on which nothing came for a while, as servers
// do. It does not close while a call is under way, for which quiet is read-locked: a
// request during which the connection is closed is lost and may not be sent again.
func closer(idle time.Duration, quiet *sync.RWMutex) func(net.Conn, *bufio.Reader) {
	reply := jsonReply(answer)
	closed := func(c net.Conn, in *bufio.Reader) bool {
		if !quiet.TryLock() {
			return false // waiting for the end of a call that may be one of ours to answer
		}
		defer quiet.Unlock()
		c.SetReadDeadline(time.Now().Add(time.Millisecond))
		if _, err := in.Peek(1); err == nil {
			return false
		}
		c.Close()
		return true
	}
	return func(c net.Conn, in *bufio.Reader) {
		for {
			c.SetReadDeadline(time.Now().Add(idle))
			_, err := in.Peek(1)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				if closed(c, in) {
					return
				}
				continue
			}
			if err != nil {
				return // the client closed it
			}
			c.SetReadDeadline(time.Time{})
			if _, ok := take(in); !ok {
				return
			}
			io.WriteString(c, reply)
		}
	}
}

func TestIdleConnectionsClosedByTheServer(t *testing.T) {
	peertest.NoLeaks(t)
	var quiet sync.RWMutex
	srv := serve(t, closer(10*time.Millisecond, &quiet))
	s := newHTTP(t, HTTPConfig{URL: srv.url()}).Session("", "")
	var calls sync.WaitGroup
	var failed atomic.Int32
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for i := range 600 {
		<-tick.C
		n := 1
		if i%40 == 0 { // more connections than are needed afterwards
			n = 8
		}
		for range n {
			calls.Go(func() {
				quiet.RLock()
				defer quiet.RUnlock()
				if _, err := said(t.Context(), s); err != io.EOF {
					failed.Add(1)
					t.Errorf("call failed: %v", err)
				}
			})
		}
	}
	calls.Wait()
	if n := srv.conns.Load(); n < 16 {
		t.Errorf("%d connections: the server closed none, and nothing was tested", n)
	}
}

func TestClosedConnectionIsNotPickedAgain(t *testing.T) {
	peertest.NoLeaks(t)
	srv := serve(t, once(jsonReply(answer)))
	h := newHTTP(t, HTTPConfig{URL: srv.url()})
	for i := range 20 {
		stream := send(t, t.Context(), h.Session("", ""))
		if _, err := First(stream); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
		stream.Close()
		peertest.Eventually(t, "the end of the idle connection was seen", func() bool {
			c := h.pool.pop()
			if c == nil {
				return true
			}
			ok := c.probe != nil && c.probe() == nil
			if ok {
				h.pool.put(c)
			} else {
				h.pool.discard(c)
			}
			return !ok
		})
	}
	if n := srv.conns.Load(); n != 20 {
		t.Errorf("%d connections for 20 calls", n)
	}
}

func TestKeepAliveTimeoutOfTheServerIsUsed(t *testing.T) {
	for _, c := range []struct {
		hint    string
		trusted time.Duration
	}{
		{"", time.Minute},
		{"Keep-Alive: timeout=5\r\n", 4 * time.Second},
		{"Keep-Alive: max=100, Timeout=1\r\n", 500 * time.Millisecond},
		{"Keep-Alive: timeout=600\r\n", time.Minute},
		{"Keep-Alive: timeout=-1\r\n", time.Minute},
		{"Keep-Alive: timeout=99999999999999999999\r\n", time.Minute},
	} {
		h := newHTTP(t, HTTPConfig{URL: serve(t, always(jsonHead+c.hint+"Content-Length: 2\r\n\r\n{}")).url()})
		if _, err := said(t.Context(), h.Session("", "")); err != io.EOF {
			t.Fatal(err)
		}
		nc := h.pool.pop()
		if nc == nil {
			t.Fatalf("%q: connection was not kept", c.hint)
		}
		nc.probe = func() error { return nil } // where there is none, less is trusted
		if d := h.pool.trusted(nc); d != c.trusted {
			t.Errorf("%q: trusted for %v", c.hint, d)
		}
		h.pool.discard(nc)
	}
}

func TestIdleConnectionsAreTrustedForLessTimeAfterAnEarlyClose(t *testing.T) {
	p := &pool{maxAge: time.Minute}
	c := &conn{probe: func() error { return nil }}
	for _, step := range []struct {
		idle, passed, trusted time.Duration
	}{
		{0, 0, time.Minute},
		{2 * time.Second, 0, time.Second},
		{9 * time.Second, 0, time.Second},
		{0, lesson, 4 * time.Second},
		{6 * time.Second, 0, 3 * time.Second},
		{0, 2 * lesson, 48 * time.Second},
		{0, lesson, time.Minute},
		{0, 1000 * lesson, time.Minute},
	} {
		if step.idle > 0 {
			p.learn(step.idle)
		}
		p.learned = p.learned.Add(-step.passed)
		if d := p.trusted(c); d.Round(time.Second/2) != step.trusted {
			t.Errorf("%+v: trusted for %v", step, d)
		}
	}
}

// TestCancelledCallsDoNotTouchOtherCalls: a connection that went back to the pool belongs to the
// next call: neither a late cancellation nor a second Close of the one before may touch it.
func TestCancelledCallsDoNotTouchOtherCalls(t *testing.T) {
	peertest.NoLeaks(t)
	h := newHTTP(t, HTTPConfig{URL: peertest.NewServer(t, peertest.HTTP, echo).At().URL})
	s := h.Session("", "")
	var callers sync.WaitGroup
	for caller := range 8 {
		callers.Go(func() {
			for i := range 150 {
				body := fmt.Sprintf(`{"id":"%d-%d"}`, caller, i)
				ctx, cancel := context.WithCancel(t.Context())
				stream, err := s.Send(ctx, &Outgoing{Body: []byte(body), Request: true})
				if err != nil {
					t.Errorf("send: %v", err)
					cancel()
					continue
				}
				var others sync.WaitGroup
				switch i % 4 {
				case 0: // in a race with the answer
					others.Go(cancel)
				case 1:
					others.Go(func() { stream.Close() })
				}
				e, err := First(stream)
				if i%4 >= 2 && err != nil {
					t.Errorf("a call that was not cancelled: %v", err)
				}
				if err == nil && i%4 != 1 && string(e.Data) != body {
					t.Errorf("sent %s, got %s", body, e.Data)
				}
				if i%4 == 3 { // late
					others.Go(cancel)
					others.Go(func() { stream.Close() })
				}
				stream.Close()
				others.Wait()
				cancel()
			}
		})
	}
	callers.Wait()
}

// failing is a connection of which the first write fails.
type failing struct {
	net.Conn
	taken int
}

func (f failing) Write(p []byte) (int, error) {
	return f.taken, &net.OpError{Op: "write", Err: os.NewSyscallError("write", errors.New("broken"))}
}

func TestOnlyWhatWasNotWrittenIsSentAgain(t *testing.T) {
	for _, taken := range []int{0, 1} {
		var requests atomic.Int32
		srv := serve(t, func(c net.Conn, in *bufio.Reader) {
			for {
				if _, ok := take(in); !ok {
					return
				}
				requests.Add(1)
				io.WriteString(c, jsonReply(answer))
			}
		})
		h := newHTTP(t, HTTPConfig{URL: srv.url(), FirstByteTimeout: patience})
		if _, err := said(t.Context(), h.Session("", "")); err != io.EOF {
			t.Fatal(err)
		}
		h.pool.idle[0].Conn = failing{h.pool.idle[0].Conn, taken}
		m := Outgoing{Body: []byte(ping), Request: true}
		if taken == 1 {
			m.FirstByte = 100 * time.Millisecond // no answer comes
		}
		st, err := h.Session("", "").Send(t.Context(), &m)
		for err == nil {
			_, err = First(st)
		}
		if st != nil {
			st.Close()
		}
		if taken == 0 && (err != io.EOF || requests.Load() != 2) {
			t.Errorf("nothing was written: %v, %d requests", err, requests.Load())
		}
		if taken == 1 && (err == io.EOF || requests.Load() != 1) {
			t.Errorf("a byte was written: %v, %d requests", err, requests.Load())
		}
	}
}

func TestIdleConnectionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHTTP(t, HTTPConfig{URL: "http://server", MaxIdleConns: 2, IdleConnTimeout: time.Minute})
		inMemory(t, h, func(c net.Conn, in *bufio.Reader) {
			for {
				if _, ok := take(in); !ok {
					return
				}
				time.Sleep(time.Second) // until all have connected
				io.WriteString(c, jsonReply(answer))
			}
		})
		var calls sync.WaitGroup
		for range 8 {
			stream := send(t, t.Context(), h.Session("", ""))
			calls.Go(func() {
				if _, err := First(stream); err != nil {
					t.Error(err)
				}
				stream.Close()
			})
		}
		calls.Wait()
		count := func() (idle, open int) {
			h.pool.mu.Lock()
			defer h.pool.mu.Unlock()
			return len(h.pool.idle), len(h.pool.open)
		}
		if idle, open := count(); idle != 2 || open != 2 {
			t.Errorf("%d connections idle, %d open", idle, open)
		}
		time.Sleep(30 * time.Second)
		for _, c := range h.pool.idle {
			c.probe = func() error { return nil } // it is known to be open
		}
		if _, err := said(t.Context(), h.Session("", "")); err != io.EOF {
			t.Fatal(err)
		}
		for _, left := range []int{2, 1, 0} { // the one that was used stays longer
			if idle, open := count(); idle != left || open != left {
				t.Errorf("%d connections idle, %d open, want %d", idle, open, left)
			}
			time.Sleep(45 * time.Second)
		}
	})
}

func TestDialIsCancelled(t *testing.T) {
	peertest.NoLeaks(t)
	h := newHTTP(t, HTTPConfig{URL: "http://127.0.0.1:1"})
	d := dialer{addr: h.addr, timeout: time.Minute}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.dial(ctx); err != context.Canceled {
		t.Errorf("ended with %v", err)
	}
}

func TestTLSHandshakeTimesOut(t *testing.T) {
	peertest.NoLeaks(t)
	srv := serve(t, func(_ net.Conn, in *bufio.Reader) { io.Copy(io.Discard, in) })
	peertest.Within(t, 50*time.Millisecond, func(limit time.Duration) error { // the connection is there within it
		h := newHTTP(t, HTTPConfig{URL: "https://" + srv.address, DialTimeout: limit})
		_, err := said(t.Context(), h.Session("", ""))
		var e *Error
		if !errors.As(err, &e) || e.Op != "tls" || !e.Timeout() || err.Error() != "upstream "+srv.address+": tls: no connection within "+limit.String() {
			return fmt.Errorf("ended with %w", err)
		}
		return nil
	})
}
