package downstream

import (
	"bufio"
	"io"
	"strings"
	"testing"
	"time"
)

// TestTokensAreReplacedOnOpenConnections: a name or token that was removed is refused,
// even if it was allowed on the connection before.
func TestTokensAreReplacedOnOpenConnections(t *testing.T) {
	s := start(t, fakeHandler{post: echo}, HTTPConfig{AllowedHosts: []string{"a.example"}, Tokens: []string{"old"}})
	nc := dial(t, s.addr)
	r := bufio.NewReader(nc)
	ask := func(host, token string) int {
		t.Helper()
		head := strings.Replace(postHead, "Host: localhost", "Host: "+host, 1)
		if head == postHead {
			t.Fatalf("no host in %q", head)
		}
		_, _ = io.WriteString(nc, head+"Authorization: Bearer "+token+"\r\nContent-Length: 2\r\n\r\n{}")
		res, _ := answer(t, r, "POST")
		return res.StatusCode
	}
	for _, c := range []struct {
		renew       Renewable
		host, token string
		status      int
	}{
		{Renewable{AllowedHosts: []string{"a.example"}, Tokens: []string{"old"}}, "a.example", "old", 200},
		{Renewable{AllowedHosts: []string{"a.example"}, Tokens: []string{"new", "old"}}, "a.example", "new", 200},
		{Renewable{AllowedHosts: []string{"a.example"}, Tokens: []string{"new"}}, "a.example", "old", 401},
		{Renewable{AllowedHosts: []string{"a.example"}, Tokens: []string{"new"}}, "a.example", "new", 200},
		{Renewable{AllowedHosts: []string{"b.example"}, Tokens: []string{"new"}}, "a.example", "new", 403},
		{Renewable{AllowedHosts: []string{"b.example"}, Tokens: []string{"new"}}, "b.example", "new", 200},
		{Renewable{AllowedHosts: []string{"b.example"}}, "b.example", "any", 200},
	} {
		s.Renew(c.renew)
		if got := ask(c.host, c.token); got != c.status {
			t.Errorf("%+v: %s with %s: %d, want %d", c.renew, c.host, c.token, got, c.status)
		}
	}
}

func TestHeartbeatIsRenewed(t *testing.T) {
	e := newEvents()
	s := start(t, fakeHandler{get: func(q *Request, r *Response) { stream(e, q, r) }}, HTTPConfig{})
	s.Renew(Renewable{Heartbeat: time.Millisecond})
	nc := dial(t, s.addr)
	_, _ = io.WriteString(nc, getHead+"\r\n")
	_ = nc.SetReadDeadline(time.Now().Add(patience))
	r := bufio.NewReader(nc)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("no heartbeat: %v", err)
		}
		if strings.HasPrefix(line, ":") {
			return
		}
	}
}
