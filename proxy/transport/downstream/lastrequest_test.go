package downstream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// TestNoRequestBeginsOnAConnectionThatWasIdle when a shutdown closed it: its client would not get the response, and could not
// know whether to repeat the request.
func TestNoRequestBeginsOnAConnectionThatWasIdle(t *testing.T) {
	t.Run("when its request has come and has not begun", func(t *testing.T) {
		arrived, goOn := make(chan struct{}), make(chan struct{})
		held, free := make(chan struct{}), make(chan struct{})
		begun := make(chan error, 1)
		var wait atomic.Bool
		s := start(t, fakeHandler{post: func(q *Request, r *Response) {
			begun <- context.Cause(q.Ctx)
			echo(q, r)
		}}, HTTPConfig{
			Held: func(context.Context) { close(held); <-free },
			Principal: func() string { // is asked for between the arrival of a request and its beginning
				if wait.CompareAndSwap(true, false) {
					close(arrived)
					<-goOn
				}
				return ""
			},
		})
		done := make(chan error, 1)
		ask(t, s.addr, post("{}"))
		<-begun
		wait.Store(true)
		go func() { done <- s.Shutdown(context.Background()) }()
		recv(t, held, "the shutdown")
		nc := dial(t, s.addr)
		_, _ = io.WriteString(nc, post("{}"))
		recv(t, arrived, "the request")
		close(free)
		if n, err := nc.Read(make([]byte, 1)); err == nil {
			t.Fatalf("read %d bytes", n)
		}
		close(goOn)
		if why := recv(t, begun, "the handler"); !errors.Is(why, ErrStopped) {
			t.Errorf("the request was handled: %v", why)
		}
		if err := recv(t, done, "Shutdown"); err != nil {
			t.Error(err)
		}
	})
	for name, head := range map[string]string{"when it was pipelined": "", "when it was pipelined behind one that fasthttp serves": "TE: trailers\r\n"} {
		t.Run(name, func(t *testing.T) {
			inside, goOn := make(chan struct{}), make(chan struct{})
			begun := make(chan error, 1)
			s := start(t, fakeHandler{post: func(q *Request, r *Response) {
				if string(q.Body) == "wait" {
					close(inside)
					<-goOn
				} else {
					begun <- context.Cause(q.Ctx)
				}
				echo(q, r)
			}}, HTTPConfig{})
			nc := dial(t, s.addr)
			_, _ = io.WriteString(nc, postHead+head+"Content-Length: 4\r\n\r\nwait"+post("{}"))
			recv(t, inside, "the request")
			done := make(chan error, 1)
			go func() { done <- s.Shutdown(context.Background()) }()
			peertest.Eventually(t, "the shutdown has begun", s.draining.Load)
			close(goOn)
			if _, body := answer(t, bufio.NewReader(nc), "POST"); body != "wait" {
				t.Errorf("got %q", body)
			}
			if err := recv(t, done, "Shutdown"); err != nil {
				t.Error(err)
			}
			select {
			case why := <-begun:
				if !errors.Is(why, ErrStopped) {
					t.Errorf("the second request was handled: %v", why)
				}
			default:
			}
		})
	}
}

// TestWhatAShutdownClosesAsIdle and what may begin on it then.
func TestWhatAShutdownClosesAsIdle(t *testing.T) {
	for name, c := range map[string]struct {
		late   bool
		before func(*conn)
		stays  bool
	}{
		"a connection without a request":                      {before: func(*conn) {}},
		"one whose request comes in":                          {before: func(c *conn) { c.busy.Store(true) }, stays: true},
		"one that has carried a message for a pipe":           {before: func(c *conn) { c.keep() }},
		"a late one whose request comes in":                   {late: true, before: func(c *conn) { c.busy.Store(true) }},
		"a late one with an exchange":                         {late: true, before: func(c *conn) { c.begin(func(error) {}) }, stays: true},
		"a late one whose message for a pipe is not answered": {late: true, before: func(c *conn) { c.keep() }, stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			defer ours.Close()
			defer theirs.Close()
			conn := newConn(ours, new(HTTPConfig))
			conn.late = c.late
			c.before(conn)
			conn.hangUpIdle()
			_ = theirs.SetReadDeadline(time.Now()) // closed or not is known already
			_, err := theirs.Read(make([]byte, 1))
			if stays := !errors.Is(err, io.EOF); stays != c.stays {
				t.Errorf("it stays open: %v, want %v", stays, c.stays)
			}
			why := error(nil)
			conn.begin(func(err error) { why = err })
			if wantBegun := c.stays; (why == nil) != wantBegun || conn.keep() != wantBegun {
				t.Errorf("a request may begin: %v, want %v", why == nil, wantBegun)
			}
		})
	}
}

// TestAResponseDuringAShutdownSaysThatItsConnectionCloses, if its head is written then. Behind another one, one more request is answered.
func TestAResponseDuringAShutdownSaysThatItsConnectionCloses(t *testing.T) {
	for _, c := range []struct {
		name, head string
		early      bool // the head is written before the shutdown
	}{
		{name: "a body"},
		{name: "a body that fasthttp writes", head: "TE: trailers\r\n"},
		{name: "events", early: true},
		{name: "events that fasthttp begins", head: "TE: trailers\r\n", early: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			inside, goOn := make(chan struct{}), make(chan struct{})
			s := start(t, fakeHandler{post: func(q *Request, r *Response) {
				body := bytes.Clone(q.Body)
				if c.early && string(body) == "wait" {
					_ = q.Client.Send(sse.Event{Data: []byte("early")})
				}
				if string(body) == "wait" {
					close(inside)
					<-goOn
				}
				r.Body = body
			}}, HTTPConfig{})
			nc := dial(t, s.addr)
			_, _ = io.WriteString(nc, postHead+c.head+"Content-Length: 4\r\n\r\nwait")
			recv(t, inside, "the request")
			done := make(chan error, 1)
			go func() { done <- s.Shutdown(context.Background()) }()
			peertest.Eventually(t, "the shutdown has begun", s.draining.Load)
			close(goOn)
			in := bufio.NewReader(nc)
			res, body := answer(t, in, "POST")
			if !strings.Contains(body, "wait") || res.Close == c.early {
				t.Errorf("%q, closes: %v", body, res.Close)
			}
			if c.early {
				_, _ = io.WriteString(nc, post("next"))
				if res, body := answer(t, in, "POST"); body != "next" || !res.Close {
					t.Errorf("behind the events: %q, closes: %v", body, res.Close)
				}
			}
			if _, err := in.ReadByte(); err != io.EOF {
				t.Errorf("the connection ends with %v", err)
			}
			if err := recv(t, done, "Shutdown"); err != nil {
				t.Error(err)
			}
		})
	}
}
