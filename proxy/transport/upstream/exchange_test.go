package upstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

func send(t *testing.T, ctx context.Context, c Conn) Stream {
	t.Helper()
	s, err := c.Send(ctx, &Outgoing{Body: []byte(ping), Request: true})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestStreamWithContentLengthZeroEnds checks that Events does not wait for the end of a connection
// that stays open.
func TestStreamWithContentLengthZeroEnds(t *testing.T) {
	peertest.NoLeaks(t)
	srv := serveSilent(t, eventHead+"Content-Length: 0\r\n\r\n")
	ctx, cancel := context.WithTimeout(t.Context(), patience/8)
	defer cancel()
	x, err := newHTTP(t, HTTPConfig{URL: srv.url()}).Session("", "").Listen(ctx, ListenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if _, err := First(x); err != io.EOF || ctx.Err() != nil {
		t.Errorf("ended with %v, %v", err, ctx.Err())
	}
}

// places are the points at which a server may fall silent after it got a request.
var places = []struct{ name, reply, late string }{
	{"before the head", "", "read: no answer within"},
	{"in the head", "HTTP/1.1 200 OK\r\nContent-", "read: no answer within"},
	{"before the body", jsonHead + "Content-Length: 10\r\n\r\n", "read: no further data within"},
	{"in the body", jsonHead + "Content-Length: 10\r\n\r\n{", "read: no further data within"},
	{"in a chunk", jsonHead + "Transfer-Encoding: chunked\r\n\r\n9\r\n{", "read: no further data within"},
	{"in an event", eventHead + "\r\ndata: {", "read: no further data within"},
	{"between events", eventHead + "\r\ndata: {}\n\n", "read: no further data within"},
}

func TestSilenceEnds(t *testing.T) {
	for _, c := range places {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var gone atomic.Int32
				h := newHTTP(t, HTTPConfig{URL: "http://server", FirstByteTimeout: time.Minute, IdleTimeout: time.Minute})
				inMemory(t, h, silent(c.reply, &gone))
				_, err := said(t.Context(), h.Session("", ""))
				var e *Error
				if !errors.As(err, &e) || !e.Timeout() || !strings.HasSuffix(err.Error(), c.late+" 1m0s") {
					t.Errorf("ended with %v", err)
				}
				if synctest.Wait(); gone.Load() != 1 {
					t.Error("the connection is open")
				}
			})
		})
	}
}

// TestInterruptLosesNothing: another goroutine reads on where Events was told to stop, wherever the server is silent.
func TestInterruptLosesNothing(t *testing.T) {
	const event = "id: 7\ndata: {\"a\":\ndata: 1}\n\n"
	replies := map[string]string{
		"a body":   jsonHead + "Content-Length: 9\r\n\r\n{\"a\": 1}\n",
		"chunks":   jsonHead + "Transfer-Encoding: chunked\r\n\r\n3\r\n{\"a\r\n6\r\n\": 1}\n\r\n0\r\n\r\n",
		"an event": fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", eventHead, len(event), event),
	}
	for name, reply := range replies {
		t.Run(name, func(t *testing.T) {
			peertest.NoLeaks(t)
			further := make(chan struct{})
			s := serve(t, func(c net.Conn, in *bufio.Reader) {
				for {
					if _, ok := take(in); !ok {
						return
					}
					for i := range len(reply) {
						select {
						case <-further:
						case <-t.Context().Done():
							return
						}
						if _, err := io.WriteString(c, reply[i:i+1]); err != nil {
							return
						}
					}
				}
			})
			session := newHTTP(t, HTTPConfig{URL: s.url()}).Session("", "")
			for range 2 { // the second one on the same connection
				x := send(t, t.Context(), session).(*exchange)
				if !x.CanInterrupt() {
					t.Fatal("cannot interrupt")
				}
				var e sse.Event
				err := sse.ErrInterrupted
				for range len(reply) {
					done := make(chan struct{})
					go func() {
						defer close(done)
						e, err = First(x)
					}()
					peertest.Eventually(t, "Next waits", func() bool {
						x.mu.Lock()
						defer x.mu.Unlock()
						return x.waits
					})
					x.Interrupt()
					if <-done; err != sse.ErrInterrupted {
						t.Fatalf("%s, %v", e.Data, err)
					}
					further <- struct{}{}
				}
				if e, err = First(x); err != nil || strings.ReplaceAll(string(e.Data), "\n", " ") != `{"a": 1}` || name == "an event" && string(e.ID) != "7" {
					t.Errorf("%q, id %q, %v", e.Data, e.ID, err)
				}
				x.Interrupt() // too late
				x.Close()
			}
			if n := s.conns.Load(); n != 1 {
				t.Errorf("%d connections", n)
			}
		})
	}
}

// TestSilenceEndsAfterAnInterruption: an interruption does not lengthen the limit for the server's silence.
func TestSilenceEndsAfterAnInterruption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		event := "9\r\ndata: 1\n\n\r\n"
		h := newHTTP(t, HTTPConfig{URL: "http://server", IdleTimeout: time.Minute})
		inMemory(t, h, func(c net.Conn, in *bufio.Reader) {
			if _, ok := take(in); !ok {
				return
			}
			io.WriteString(c, eventHead+"Transfer-Encoding: chunked\r\n\r\n"+event)
			time.Sleep(90 * time.Second) // longer than the limit, shorter than twice the limit
			io.WriteString(c, event)
		})
		x := send(t, t.Context(), h.Session("", "")).(*exchange)
		defer x.Close()
		if e, err := First(x); err != nil {
			t.Fatalf("%q, %v", e.Data, err)
		}
		x.Interrupt()
		if _, err := First(x); err != sse.ErrInterrupted {
			t.Fatal(err)
		}
		var late *Error
		if e, err := First(x); !errors.As(err, &late) || !late.Timeout() {
			t.Errorf("%q, %v", e.Data, err)
		}
	})
}

// TestStreamRestsWhenInterrupted: a stream whose reader was told to stop holds no large buffer while it waits on, and goes on as before.
func TestStreamRestsWhenInterrupted(t *testing.T) {
	peertest.NoLeaks(t)
	further := make(chan struct{})
	event := func(text string) string { s := "data: " + text + "\n\n"; return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }
	long := strings.Repeat("long ", 1000)
	s := serve(t, func(c net.Conn, in *bufio.Reader) {
		for {
			if _, ok := take(in); !ok {
				return
			}
			io.WriteString(c, eventHead+"Transfer-Encoding: chunked\r\n\r\n"+event("first"))
			select {
			case <-further:
			case <-t.Context().Done():
				return
			}
			io.WriteString(c, event(long)+event("last")+"0\r\n\r\n")
		}
	})
	session := newHTTP(t, HTTPConfig{URL: s.url()}).Session("", "")
	for range 2 { // the second one on the same connection
		x := send(t, t.Context(), session).(*exchange)
		expect := func(want string) {
			t.Helper()
			if e, err := First(x); err != nil || string(e.Data) != want {
				t.Fatalf("%.20q, %v", e.Data, err)
			}
		}
		expect("first")
		buffers := []int{smallHead, restBuffer, restBuffer} // of the connection while it waits, before and after interruptions
		for i, want := range buffers {
			done := make(chan struct{})
			go func() {
				defer close(done)
				if i < len(buffers)-1 {
					if _, err := First(x); err != sse.ErrInterrupted {
						t.Errorf("the wait was not interrupted: %v", err)
					}
				} else {
					expect(strings.TrimSpace(long))
				}
			}()
			peertest.Eventually(t, "Events waits", func() bool {
				x.mu.Lock()
				defer x.mu.Unlock()
				return x.waits
			})
			x.mu.Lock()
			if got := x.conn.in.Size(); got != want {
				t.Errorf("a buffer of %d bytes after %d interruptions", got, i)
			}
			x.mu.Unlock()
			if i < len(buffers)-1 {
				x.Interrupt()
			} else {
				further <- struct{}{}
			}
			<-done
		}
		if got := x.conn.in.Size(); got != smallHead {
			t.Errorf("a buffer of %d bytes when the stream goes on", got)
		}
		expect("last")
		if _, err := First(x); err != io.EOF {
			t.Error(err)
		}
		x.Close()
	}
	if n := s.conns.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

func TestCancelClosesExactlyOneConnection(t *testing.T) {
	for _, c := range places {
		for _, how := range []string{"cancel", "close"} {
			t.Run(how+" "+c.name, func(t *testing.T) {
				peertest.NoLeaks(t)
				s := serveSilent(t, c.reply)
				h := newHTTP(t, HTTPConfig{URL: s.url()})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				other := send(t, t.Context(), h.Session("", ""))
				defer other.Close()
				stream := send(t, ctx, h.Session("", ""))
				ended := make(chan error, 1)
				started := make(chan struct{})
				go func() {
					close(started)
					for {
						if _, err := First(stream); err != nil {
							ended <- err
							return
						}
					}
				}()
				<-started
				want := context.Canceled
				if how == "close" {
					want = ErrClosed
					stream.Close()
					stream.Close()
				} else {
					cancel()
				}
				select {
				case err := <-ended:
					if err != want {
						t.Errorf("ended with %v", err)
					}
				case <-time.After(patience):
					t.Fatal("Next did not return")
				}
				peertest.Eventually(t, "connection closed", func() bool { return s.gone.Load() > 0 })
				stream.Close()
				if gone, conns := s.gone.Load(), s.conns.Load(); gone != 1 || conns != 2 {
					t.Errorf("%d of %d connections closed", gone, conns)
				}
			})
		}
	}
}

func TestCancelBeforeNext(t *testing.T) {
	peertest.NoLeaks(t)
	h := newHTTP(t, HTTPConfig{URL: serve(t, always(jsonReply(answer))).url()})
	ctx, cancel := context.WithCancel(t.Context())
	stream := send(t, ctx, h.Session("", ""))
	cancel()
	if _, err := First(stream); err != context.Canceled {
		t.Errorf("ended with %v", err)
	}
	stream.Close()
	if _, err := First(stream); err != ErrClosed {
		t.Errorf("after Close: %v", err)
	}
	if _, err := h.Session("", "").Send(ctx, &Outgoing{Body: []byte(ping)}); err != context.Canceled {
		t.Errorf("sent with %v", err)
	}
}

func TestDeadlineOfTheCaller(t *testing.T) {
	s := serveSilent(t, "")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := said(ctx, newHTTP(t, HTTPConfig{URL: s.url()}).Session("", "")); err != context.DeadlineExceeded {
		t.Errorf("ended with %v", err)
	}
}

func TestServerThatDoesNotRead(t *testing.T) {
	peertest.NoLeaks(t)
	hold := make(chan struct{})
	s := serve(t, func(net.Conn, *bufio.Reader) { <-hold })
	defer close(hold)
	big := make([]byte, 32<<20)
	h := newHTTP(t, HTTPConfig{URL: s.url(), IdleTimeout: 100 * time.Millisecond})
	_, err := h.Session("", "").Send(t.Context(), &Outgoing{Body: big, Request: true})
	var e *Error
	if !errors.As(err, &e) || e.Op != "write" || !e.Timeout() {
		t.Errorf("ended with %v", err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	h = newHTTP(t, HTTPConfig{URL: s.url()})
	if _, err = h.Session("", "").Send(ctx, &Outgoing{Body: big, Request: true}); err != context.Canceled {
		t.Errorf("ended with %v", err)
	}
}

func TestRefusalBeforeAllWasRead(t *testing.T) {
	peertest.NoLeaks(t)
	s := serve(t, func(c net.Conn, in *bufio.Reader) {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		io.CopyN(io.Discard, r.Body, 1<<20)
		io.WriteString(c, "HTTP/1.1 413 Too much\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		c.(*net.TCPConn).CloseRead()
		io.Copy(io.Discard, in)
	})
	h := newHTTP(t, HTTPConfig{URL: s.url()})
	stream, err := h.Session("", "").Send(t.Context(), &Outgoing{Body: make([]byte, 16<<20), Request: true})
	if err == nil {
		_, err = First(stream)
		stream.Close()
	}
	// If the reset arrives before the answer, the error of the write is reported.
	var status *StatusError
	var failure *Error
	if !errors.As(err, &status) && !errors.As(err, &failure) || status != nil && status.Code != 413 {
		t.Errorf("ended with %v", err)
	}
}

func TestListen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Both limits would end the stream if they still applied.
		h := newHTTP(t, HTTPConfig{URL: "http://server", FirstByteTimeout: time.Minute, IdleTimeout: time.Second})
		inMemory(t, h, func(c net.Conn, in *bufio.Reader) {
			if _, ok := take(in); !ok {
				return
			}
			io.WriteString(c, eventHead+"\r\n")
			for i := range 3 {
				time.Sleep(time.Hour)
				fmt.Fprintf(c, ": hi\n\nid: %d\nretry: 5\ndata: %d\n\n", i, i)
			}
		})
		stream, err := h.Session("", "").Listen(t.Context(), ListenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		for i := range 3 {
			e, err := First(stream)
			if err != nil || string(e.Data) != fmt.Sprint(i) || string(e.ID) != fmt.Sprint(i) || e.Retry != 5*time.Millisecond {
				t.Fatalf("%+v, %v", e, err)
			}
		}
		if _, err := First(stream); err != io.EOF {
			t.Errorf("ended with %v", err)
		}
	})
}

func TestListenRefused(t *testing.T) {
	peertest.NoLeaks(t)
	for _, c := range []struct{ reply, want string }{
		{"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n", ErrNoStream.Error()},
		{"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "upstream answered 404 Not Found"},
		{jsonReply(answer), `response of type "application/json"`},
	} {
		h := newHTTP(t, HTTPConfig{URL: serve(t, always(c.reply)).url()})
		stream, err := h.Session("", "").Listen(t.Context(), ListenOptions{})
		if stream != nil || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, %v, want %s", stream, err, c.want)
		}
	}
}

func TestCloseEndsTheSession(t *testing.T) {
	peertest.NoLeaks(t)
	for code, ok := range map[int]bool{200: true, 204: true, 404: true, 405: true, 401: false, 500: false} {
		server := peertest.NewServer(t, peertest.HTTP, func(u *peertest.Turn) { u.Refuse(code) })
		server.Every = true
		h := newHTTP(t, HTTPConfig{URL: server.At().URL})
		if err := h.Session("", "").Close(t.Context()); err != nil || len(server.Heard()) != 0 {
			t.Errorf("%d without a session: %v, %d requests", code, err, len(server.Heard()))
		}
		if err := h.Session("abc", "").Close(t.Context()); (err == nil) != ok {
			t.Errorf("%d: %v", code, err)
		}
		if got := server.Heard(); len(got) != 1 || got[0].Text != "DELETE" || got[0].Header.Get("Mcp-Session-Id") != "abc" {
			t.Errorf("%d: %v", code, got)
		}
	}
}

// TestASlowDelete: a client's DELETE has as long as its calls have, and only the end of a session that no client asks for
// is given up soon.
func TestASlowDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peertest.InMemory(t)
		server := peertest.NewServer(t, peertest.HTTP, func(u *peertest.Turn) {
			time.Sleep(closeTimeout + closeTimeout/4)
			u.Refuse(204)
		})
		server.Every = true
		h := newHTTP(t, HTTPConfig{URL: server.At().URL, Dial: peertest.Dialer(t)})
		var closed sync.WaitGroup
		closed.Go(func() {
			if err := h.Session("abc", "").Close(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Close: %v", err)
			}
		})
		if err := h.Session("abc", "").Delete(t.Context(), nil, nil); err != nil {
			t.Errorf("Delete: %v", err)
		}
		closed.Wait()
	})
}

func TestCloseEndsOpenRequests(t *testing.T) {
	peertest.NoLeaks(t)
	s := serveSilent(t, eventHead+"\r\ndata: {}\n\n")
	h := newHTTP(t, HTTPConfig{URL: s.url()})
	var ended sync.WaitGroup
	for range 10 {
		stream := send(t, t.Context(), h.Session("", ""))
		if _, err := First(stream); err != nil {
			t.Fatal(err)
		}
		ended.Go(func() {
			if _, err := First(stream); err != ErrClosed {
				t.Errorf("ended with %v", err)
			}
			stream.Close()
		})
	}
	h.Close()
	ended.Wait()
	if _, err := h.Session("", "").Send(t.Context(), &Outgoing{Body: []byte(ping)}); err != ErrClosed {
		t.Errorf("sent after Close: %v", err)
	}
}

func TestSessionID(t *testing.T) {
	for _, c := range []struct{ header, had, want string }{
		{"mcp-session-id: abc-1\r\n", "", "abc-1"},
		{"Mcp-Session-Id: abc-1\r\n", "old", "abc-1"},
		{"", "old", ""},
	} {
		reply := jsonHead + c.header + "Content-Length: 2\r\n\r\n{}"
		stream := send(t, t.Context(), newHTTP(t, HTTPConfig{URL: serve(t, once(reply)).url()}).Session(c.had, ""))
		if _, err := First(stream); err != nil {
			t.Fatal(err)
		}
		if id := stream.SessionID(); id != c.want {
			t.Errorf("%q: session %q", c.header, id)
		}
		stream.Close()
	}
}
