package downstream

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"testing"
)

// hidden hides file descriptors, as if the system had no watch.
type hidden struct{ net.Listener }

func (h hidden) Accept() (net.Conn, error) {
	nc, err := h.Listener.Accept()
	return struct{ net.Conn }{nc}, err
}

func TestClientThatDisconnectsIsNoticed(t *testing.T) {
	cert := certificate(t)
	withTLS := func(ln net.Listener) net.Listener {
		return tls.NewListener(ln, &tls.Config{Certificates: []tls.Certificate{cert}})
	}
	hide := func(ln net.Listener) net.Listener { return hidden{ln} }
	type wraps = []func(net.Listener) net.Listener
	for _, c := range []struct {
		name             string
		wrap             wraps
		tls, pipeline    bool
		half, needsWatch bool
	}{
		{name: "plain"},
		{name: "half-closed", half: true},
		{name: "pipelined", pipeline: true, needsWatch: true},
		{name: "TLS", wrap: wraps{withTLS}, tls: true},
		{name: "TLS half-closed", wrap: wraps{withTLS}, tls: true, half: true},
		{name: "TLS pipelined", wrap: wraps{withTLS}, tls: true, pipeline: true, needsWatch: true},
		{name: "no watch, plain", wrap: wraps{hide}},
		{name: "no watch, half-closed", wrap: wraps{hide}, half: true},
		{name: "no watch, TLS", wrap: wraps{hide, withTLS}, tls: true},
	} {
		for _, request := range []string{post("{}"), getHead + "\r\n"} {
			t.Run(c.name+"/"+request[:4], func(t *testing.T) {
				if c.needsWatch && runtime.GOOS != "linux" {
					t.Skip("no watch on this system")
				}
				inside := make(chan struct{}, 1)
				left := make(chan error, 1)
				events := newEvents()
				s := start(t, fakeHandler{
					post: func(q *Request, r *Response) {
						inside <- struct{}{}
						<-q.Ctx.Done()
						left <- context.Cause(q.Ctx)
					},
					get: func(q *Request, r *Response) {
						inside <- struct{}{}
						ctx := q.Ctx
						stream(events, q, r)
						r.Done = func() { left <- context.Cause(ctx) }
					},
				}, HTTPConfig{}, c.wrap...)

				raw := dial(t, s.addr)
				nc := raw
				if c.tls {
					nc = tls.Client(raw, &tls.Config{InsecureSkipVerify: true})
				}
				text := request
				if c.pipeline {
					text += request
				}
				if _, err := io.WriteString(nc, text); err != nil {
					t.Fatal(err)
				}
				recv(t, inside, "the request")
				if request[0] == 'G' {
					if _, err := http.ReadResponse(bufio.NewReader(nc), nil); err != nil {
						t.Fatal(err)
					}
				}
				select {
				case err := <-left:
					t.Fatalf("left too early: %v", err)
				default:
				}
				if c.half {
					_ = nc.(interface{ CloseWrite() error }).CloseWrite()
					if c.tls {
						_ = raw.(*net.TCPConn).CloseWrite()
					}
				} else {
					_ = nc.Close()
				}
				if err := recv(t, left, "the client's leaving"); !errors.Is(err, ErrClientLeft) {
					t.Errorf("cause = %v", err)
				}
			})
		}
	}
}

// TestDisconnectEndsOneConnectionOnly reuses file descriptors again and again while
// one client stays.
func TestDisconnectEndsOneConnectionOnly(t *testing.T) {
	inside := make(chan context.Context, 1)
	goOn := make(chan struct{})
	s := start(t, fakeHandler{post: func(q *Request, r *Response) {
		if string(q.Body) == "stay" {
			inside <- q.Ctx
			<-goOn
		}
		if q.Ctx.Err() != nil && string(q.Body) == "stay" {
			r.Status = http.StatusGone
		}
		echo(q, r)
	}}, HTTPConfig{})
	stay := dial(t, s.addr)
	_, _ = io.WriteString(stay, post("stay"))
	ctx := recv(t, inside, "the request")
	for range 200 {
		nc := dial(t, s.addr)
		_, _ = io.WriteString(nc, post("go"))
		_ = nc.Close()
		nc = dial(t, s.addr)
		_, _ = io.WriteString(nc, post("go"))
		answer(t, bufio.NewReader(nc), "POST")
		_ = nc.Close()
	}
	if ctx.Err() != nil {
		t.Errorf("cancelled: %v", context.Cause(ctx))
	}
	close(goOn)
	if res, body := answer(t, bufio.NewReader(stay), "POST"); res.StatusCode != 200 || body != "stay" {
		t.Errorf("got %d %q", res.StatusCode, body)
	}
}

// TestManyClientsDisconnectAtOnce lets more clients leave than the watch reports at a time.
func TestManyClientsDisconnectAtOnce(t *testing.T) {
	const n = 400
	inside, left := make(chan struct{}, n), make(chan struct{}, n)
	s := start(t, fakeHandler{post: func(q *Request, r *Response) {
		inside <- struct{}{}
		<-q.Ctx.Done()
		left <- struct{}{}
	}}, HTTPConfig{})
	var clients []net.Conn
	for range n {
		nc := dial(t, s.addr)
		_, _ = io.WriteString(nc, post("{}"))
		clients = append(clients, nc)
	}
	for range n {
		recv(t, inside, "a request")
	}
	for _, nc := range clients {
		_ = nc.Close()
	}
	for range n {
		recv(t, left, "a client's leaving")
	}
}

// TestReadingAheadLosesNothing checks that the byte that the peeker read is the first
// of the next request.
func TestReadingAheadLosesNothing(t *testing.T) {
	inside, goOn := make(chan struct{}), make(chan struct{})
	s := start(t, fakeHandler{post: func(q *Request, r *Response) {
		inside <- struct{}{}
		<-goOn
		echo(q, r)
	}}, HTTPConfig{}, func(ln net.Listener) net.Listener { return hidden{ln} })
	nc := dial(t, s.addr)
	br := bufio.NewReader(nc)
	_, _ = io.WriteString(nc, post("0"))
	for i := range 20 {
		recv(t, inside, "a request")
		_, _ = io.WriteString(nc, post(string(rune('1'+i)))) // while the one before is handled
		goOn <- struct{}{}
		if _, body := answer(t, br, "POST"); body != string(rune('0'+i)) {
			t.Fatalf("answer %d is %q", i, body)
		}
	}
	recv(t, inside, "the last request")
	goOn <- struct{}{}
	answer(t, br, "POST")
}
