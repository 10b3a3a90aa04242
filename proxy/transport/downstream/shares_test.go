package downstream

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// from connects from an address of this machine.
func from(t *testing.T, address, to string) net.Conn {
	t.Helper()
	nc, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}).Dial("tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	return nc
}

// asks sends a request on a connection, and returns the status of the response.
func asks(t *testing.T, nc net.Conn, request string) int {
	t.Helper()
	_, _ = io.WriteString(nc, request)
	res, _ := answer(t, bufio.NewReader(nc), "POST")
	return res.StatusCode
}

// TestSlowCallsOfOneClientLeaveRoom: a client alone may have all requests in hand that the limit allows, in whatever number of
// connections; when it has, others are still served, and each of them may have several. Clients are told apart by their token, by the
// header that names them, or else by their address.
func TestSlowCallsOfOneClientLeaveRoom(t *testing.T) {
	const limit = 40
	with := func(header string) string {
		return strings.Replace(post("slow"), "\r\n\r\n", "\r\n"+header+"\r\n\r\n", 1)
	}
	for _, c := range []struct {
		name           string
		cfg            HTTPConfig
		greedy, modest string // requests
		address        string // of the modest client
	}{
		{"token", HTTPConfig{Tokens: []string{"one", "two"}}, with("Authorization: Bearer one"), with("Authorization: Bearer two"), "127.0.0.1"},
		{"header", HTTPConfig{Principal: func() string { return "Authorization" }}, with("Authorization: Bearer one"), with("Authorization: Bearer two"), "127.0.0.1"},
		{"token and header", HTTPConfig{Tokens: []string{"one"}, Principal: func() string { return "X-User" }},
			with("X-Dragoman-Token: one\r\nX-User: a"), with("X-Dragoman-Token: one\r\nX-User: b"), "127.0.0.1"},
		{"address", HTTPConfig{}, post("slow"), post("slow"), "127.0.0.2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.address != "127.0.0.1" && runtime.GOOS != "linux" {
				t.Skip("only Linux has all of 127.0.0.0/8")
			}
			inside, goOn := make(chan struct{}, 2*limit), make(chan struct{})
			c.cfg.MaxRequests = limit
			s := start(t, fakeHandler{post: func(q *Request, r *Response) {
				inside <- struct{}{}
				<-goOn
				echo(q, r)
			}}, c.cfg)
			var all []net.Conn
			for n := range limit {
				nc := from(t, "127.0.0.1", s.addr)
				_, _ = io.WriteString(nc, c.greedy)
				recv(t, inside, fmt.Sprint("request ", n))
				all = append(all, nc)
			}
			if status := asks(t, from(t, "127.0.0.1", s.addr), c.greedy); status != 503 {
				t.Errorf("one more of the same client: %d", status)
			}
			for n := range 4 {
				nc := from(t, c.address, s.addr)
				_, _ = io.WriteString(nc, c.modest)
				recv(t, inside, fmt.Sprint("request ", n, " of the other"))
				all = append(all, nc)
			}
			close(goOn)
			for _, nc := range all {
				if res, _ := answer(t, bufio.NewReader(nc), "POST"); res.StatusCode != 200 {
					t.Errorf("status %d", res.StatusCode)
				}
			}
			if status := asks(t, all[0], c.greedy); status != 200 {
				t.Errorf("afterwards: %d", status)
			}
			peertest.Eventually(t, "nothing is in hand", func() bool {
				s.inHand.mu.Lock()
				defer s.inHand.mu.Unlock()
				return s.inHand.of.Held() == 0
			})
		})
	}
}

// TestIdleConnectionsGiveWay to new ones, and those that send a request too slowly as well; those with a request under way do not. Of
// clients, the one that has the most gives way.
func TestIdleConnectionsGiveWay(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has all of 127.0.0.0/8")
	}
	const limit = 20
	inside, goOn := make(chan struct{}, limit), make(chan struct{})
	s := start(t, fakeHandler{post: func(q *Request, r *Response) {
		if string(q.Body) == "slow" {
			inside <- struct{}{}
			<-goOn
		}
		echo(q, r)
	}}, HTTPConfig{MaxConns: limit})
	slow := from(t, "127.0.0.1", s.addr)
	_, _ = io.WriteString(slow, post("slow"))
	recv(t, inside, "the slow request")
	modest := from(t, "127.0.0.3", s.addr)
	if status := asks(t, modest, post("1")); status != 200 {
		t.Fatalf("status %d", status)
	}
	for n := range limit - 2 {
		nc := from(t, "127.0.0.1", s.addr)
		switch n % 3 {
		case 0: // says nothing
		case 1:
			_, _ = io.WriteString(nc, post("1")[:20])
		default:
			if status := asks(t, nc, post("1")); status != 200 {
				t.Fatalf("status %d", status)
			}
		}
	}
	peertest.Eventually(t, "the listener has them", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.conns) == limit
	})
	for n := range 2 * limit {
		if status := asks(t, from(t, "127.0.0.2", s.addr), post("1")); status != 200 {
			t.Fatalf("request %d of another client: %d", n, status)
		}
	}
	if status := asks(t, modest, post("1")); status != 200 {
		t.Errorf("the client with one connection: %d", status)
	}
	close(goOn)
	if res, _ := answer(t, bufio.NewReader(slow), "POST"); res.StatusCode != 200 {
		t.Errorf("the slow request: %d", res.StatusCode)
	}
}

// TestProbesAlwaysAnswer: whatever the connections are that use up the limit, of the listener for operators or of that for clients.
func TestProbesAlwaysAnswer(t *testing.T) {
	const limit = 20
	routes := map[string]fasthttp.RequestHandler{"/livez": func(c *fasthttp.RequestCtx) { c.SetBodyString("ok\n") }}
	const probe = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
	admin := func(t *testing.T) *server {
		return startHTTP(t, func(cfg HTTPConfig) *HTTP { return NewAdmin(routes, cfg) }, HTTPConfig{MaxConns: limit})
	}
	clients := func(t *testing.T) *server {
		return start(t, fakeHandler{get: func(q *Request, r *Response) { stream(newEvents(), q, r) }}, HTTPConfig{MaxConns: limit, Routes: routes})
	}
	wide := func(t *testing.T) *server {
		return start(t, fakeHandler{get: func(q *Request, r *Response) { stream(newEvents(), q, r) }}, HTTPConfig{MaxConns: limit, Health: []string{"/livez"}})
	}
	for name, c := range map[string]struct {
		of   func(t *testing.T) *server
		said string // on each connection
		busy bool   // none can be closed
	}{
		"admin, silent":   {admin, "", false},
		"admin, slow":     {admin, probe[:9], false},
		"admin, answered": {admin, probe, false},
		"clients, silent": {clients, "", false},
		"streams":         {clients, getHead + "\r\n", true},
		"wide, streams":   {wide, getHead + "\r\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := c.of(t)
			for range limit {
				nc := dial(t, s.addr)
				_, _ = io.WriteString(nc, c.said)
				if strings.HasSuffix(c.said, "\r\n\r\n") {
					_ = nc.SetReadDeadline(time.Now().Add(patience))
					if _, err := nc.Read(make([]byte, 1)); err != nil {
						t.Fatal(err)
					}
				}
			}
			peertest.Eventually(t, "the listener has them", func() bool {
				s.mu.Lock()
				defer s.mu.Unlock()
				return len(s.conns) >= limit
			})
			for n := range 3 * limit {
				nc := dial(t, s.addr)
				if n%2 == 0 { // stays, and says nothing
					continue
				}
				_, _ = io.WriteString(nc, probe)
				if res, body := answer(t, bufio.NewReader(nc), "GET"); res.StatusCode != 200 || strings.TrimSpace(body) != "ok" {
					t.Fatalf("%d %s", res.StatusCode, body)
				}
				if !c.busy {
					continue
				}
				if res, _ := ask(t, s.addr, post("1")); res.StatusCode != 503 {
					t.Fatalf("a message: %d", res.StatusCode)
				}
			}
		})
	}
}
