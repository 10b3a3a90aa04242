package downstream

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestWhatTheFastPathTakes: plain POSTs, and nothing else.
func TestWhatTheFastPathTakes(t *testing.T) {
	other := strings.Replace(post("{}"), "Accept:", "Mcp-Session-Id: s\r\nConnection: keep-alive\r\nAccept:", 1)
	for _, c := range []struct {
		name, in string
		takes    bool
	}{
		{"one", post("{}"), true},
		{"several", post("{}") + post(`{"a":1}`) + post("[]") + post("{}"), true},
		{"with other headers", post("{}") + other + post("{}"), true},
		{"refused by the handler", post("?"), true},
		{"a panic", post("!") + post("{}"), true},
		{"a large answer", post(strings.Repeat("x", 40)) + post("{}"), true},
		{"nothing", "", false},
		{"another path", strings.Replace(post("{}"), "/mcp", "/sse", 1), false},
		{"a body that is too large", post(strings.Repeat(" ", 101)), false},
		{"half a head", post("{}") + post("{}")[:40], false},
		{"half a body", post("{}") + post("{}")[:len(post("{}"))-1], false},
		{"a GET behind it", post("{}") + getHead + "\r\n", false},
		{"the end of the connection", strings.Replace(post("{}"), "Accept:", "Connection: close\r\nAccept:", 1), false},
	} {
		h := twinServer(new(served), nil)
		peer := &pieces{script{in: bytes.NewReader([]byte(c.in))}, 0}
		if takes := h.serveFast(newConn(peer, &h.cfg)); takes != c.takes {
			t.Errorf("%s: takes it %v, want %v", c.name, takes, c.takes)
		}
	}
}

// TestAKnownHeadIsCheckedAgain when what is admitted has changed since.
func TestAKnownHeadIsCheckedAgain(t *testing.T) {
	admits := Renewable{AllowedHosts: []string{"a.example"}, Tokens: []string{"t"}}
	for _, c := range []struct {
		name   string
		renew  Renewable
		once   string
		status int
	}{
		{"nothing new", admits, "", 200},
		{"other tokens", Renewable{AllowedHosts: admits.AllowedHosts, Tokens: []string{"u"}}, "", 401},
		{"other hosts", Renewable{AllowedHosts: []string{"b.example"}, Tokens: admits.Tokens}, "", 403},
		{"a header that may occur once", admits, "X-User", 400},
	} {
		t.Run(c.name, func(t *testing.T) {
			var once atomic.Value
			once.Store("")
			s := start(t, fakeHandler{post: echo}, HTTPConfig{Principal: func() string { return once.Load().(string) }})
			s.Renew(admits)
			nc := dial(t, s.addr)
			r := bufio.NewReader(nc)
			request := strings.Replace(post("{}"), "Host: localhost", "Host: a.example\r\nAuthorization: Bearer t\r\nX-User: a\r\nX-User: b", 1)
			for range 2 {
				_, _ = io.WriteString(nc, request)
				if res, _ := answer(t, r, "POST"); res.StatusCode != 200 {
					t.Errorf("%d before", res.StatusCode)
				}
			}
			if c.once == "" {
				s.Renew(c.renew)
			}
			once.Store(c.once)
			_, _ = io.WriteString(nc, request)
			if res, _ := answer(t, r, "POST"); res.StatusCode != c.status {
				t.Errorf("%d, want %d", res.StatusCode, c.status)
			}
		})
	}
}

// TestAHeadMayComeBeforeItsBody, as many clients send them, and the connection stays on the fast path.
func TestAHeadMayComeBeforeItsBody(t *testing.T) {
	h := twinServer(new(served), nil)
	client, server := net.Pipe()
	took := make(chan bool)
	go func() { took <- h.serveFast(newConn(server, &h.cfg)) }()
	_ = client.SetDeadline(time.Now().Add(patience))
	r := bufio.NewReader(client)
	for _, body := range []string{"{}", `{"a":1}`, "{}"} {
		request := post(body)
		for _, part := range []string{request[:len(request)-len(body)], body[:1], body[1:]} {
			if _, err := io.WriteString(client, part); err != nil {
				t.Fatal(err)
			}
		}
		if res, got := answer(t, r, "POST"); res.StatusCode != 200 || got != body {
			t.Errorf("%q was answered with %d %q", body, res.StatusCode, got)
		}
	}
	_ = client.Close()
	if !<-took {
		t.Error("the connection was handed over to fasthttp")
	}
}
