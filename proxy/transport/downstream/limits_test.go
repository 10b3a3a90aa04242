package downstream

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

func TestTooManyRequestsAtOneTime(t *testing.T) {
	inside, goOn := make(chan struct{}), make(chan struct{})
	s := start(t, fakeHandler{post: func(q *Request, r *Response) {
		inside <- struct{}{}
		<-goOn
		echo(q, r)
	}, del: echo}, HTTPConfig{MaxRequests: 1})
	first := dial(t, s.addr)
	_, _ = io.WriteString(first, post("1"))
	recv(t, inside, "the first request")
	res, body := ask(t, s.addr, post("2"))
	if res.StatusCode != 503 || res.Header.Get("Retry-After") == "" || !json.Valid([]byte(body)) || !strings.Contains(body, "requests") {
		t.Errorf("got %d %q", res.StatusCode, body)
	}
	if res, _ := ask(t, s.addr, "DELETE /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n"); res.StatusCode != 200 {
		t.Errorf("DELETE: %d", res.StatusCode)
	}
	goOn <- struct{}{}
	br := bufio.NewReader(first)
	answer(t, br, "POST")
	_, _ = io.WriteString(first, post("3"))
	recv(t, inside, "the next request")
	goOn <- struct{}{}
	if res, _ := answer(t, br, "POST"); res.StatusCode != 200 {
		t.Errorf("next: %d", res.StatusCode)
	}
}

// TestBodiesStayWithinTheBudget checks also that the budget gets all bytes back,
// whatever becomes of the bodies.
func TestBodiesStayWithinTheBudget(t *testing.T) {
	t.Parallel() // it waits most of the time
	const size = 100 << 10
	budget := large.NewBudget(150 << 10)
	inside, goOn := make(chan int64), make(chan struct{})
	ps := newPipes()
	s := start(t, fakeHandler{post: func(q *Request, r *Response) {
		inside <- budget.Taken()
		<-goOn
		echo(q, r)
	}}, HTTPConfig{Memory: &large.Memory{Budget: budget, Buffers: new(large.Buffers)}, BudgetWait: 20 * time.Millisecond, MaxBody: size, Pipes: ps.with(nil)})
	big := strings.Repeat("x", size)
	chunked := fmt.Sprintf("%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", postHead, size, big)
	first := dial(t, s.addr)
	_, _ = io.WriteString(first, post(big))
	if taken := recv(t, inside, "the first request"); taken < size {
		t.Errorf("%d bytes are taken", taken)
	}
	client := openSSE(t, s, "")
	for _, c := range []struct{ name, request string }{
		{"length", post(big)}, {"chunked", chunked}, {"message", postTo(client.uri, "", big)},
	} {
		res, body := ask(t, s.addr, c.request)
		if res.StatusCode != 503 || res.Header.Get("Retry-After") == "" || !strings.Contains(body, "limits.in_hand") {
			t.Errorf("%s: %d %q", c.name, res.StatusCode, body)
		}
	}
	small := dial(t, s.addr)
	_, _ = io.WriteString(small, post("{}"))
	recv(t, inside, "a small request")
	goOn <- struct{}{}
	goOn <- struct{}{}
	answer(t, bufio.NewReader(small), "POST")
	answer(t, bufio.NewReader(first), "POST")

	for _, c := range []struct {
		name, request string
		status        int
	}{
		{"too large", post(big + "x"), 413},
		{"too large in chunks", fmt.Sprintf("%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%sx\r\n0\r\n\r\n", postHead, size+1, big), 413},
		{"broken chunk", fmt.Sprintf("%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\nzz\r\n", postHead, size, big), 400},
		{"malformed message", postTo(client.uri, "", big), 400},
	} {
		if res, body := ask(t, s.addr, c.request); res.StatusCode != c.status {
			t.Errorf("%s: %d %q", c.name, res.StatusCode, body)
		}
	}
	message := `{"jsonrpc":"2.0","method":"` + big[:size/2] + `"}`
	client.post(t, message)
	_ = client.Close()
	recv(t, ps.left, "the end of the pipe")
	if err := s.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	if budget.Taken() != 0 {
		t.Errorf("%d bytes are taken at the end", budget.Taken())
	}
}

func TestRequestWaitsForTheBudget(t *testing.T) {
	budget := large.NewBudget(20 << 10)
	if err := budget.Take(t.Context(), large.Whole, 20<<10); err != nil {
		t.Fatal(err)
	}
	s := start(t, fakeHandler{post: echo}, HTTPConfig{Memory: &large.Memory{Budget: budget, Buffers: new(large.Buffers)}, BudgetWait: patience})
	nc := dial(t, s.addr)
	_, _ = io.WriteString(nc, post(strings.Repeat("x", 10<<10)))
	peertest.Eventually(t, "the request waits", func() bool { return budget.Waiting() > 0 })
	budget.Give(large.Whole, 20<<10)
	if res, _ := answer(t, bufio.NewReader(nc), "POST"); res.StatusCode != 200 {
		t.Errorf("status %d", res.StatusCode)
	}
}

// TestRequestsWaitWhileTheBudgetIsOverdrawn, as large messages of servers can overdraw
// it: even a small request waits, and is refused in the end.
func TestRequestsWaitWhileTheBudgetIsOverdrawn(t *testing.T) {
	ps := newPipes()
	memory := large.NewMemory(20 << 10)
	s := start(t, fakeHandler{post: echo}, HTTPConfig{Memory: memory, BudgetWait: 20 * time.Millisecond, Pipes: ps.with(nil)})
	client := openSSE(t, s, "")
	if err := memory.Budget.Take(t.Context(), large.Whole, 20<<10+1); err != nil {
		t.Fatal(err)
	}
	for name, request := range map[string]string{"request": post("{}"), "message": postTo(client.uri, "", `{"jsonrpc":"2.0","method":"x"}`)} {
		if res, body := ask(t, s.addr, request); res.StatusCode != 503 || !strings.Contains(body, "limits.in_hand") {
			t.Errorf("%s: %d %q", name, res.StatusCode, body)
		}
	}
	memory.Budget.Give(large.Whole, 1)
	if res, _ := ask(t, s.addr, post("{}")); res.StatusCode != 200 {
		t.Errorf("status %d when it is only spent", res.StatusCode)
	}
}

// TestLargeBodiesUseMemoryAgain: the buffer is returned when the response, which may
// consist of the same bytes, was written.
func TestLargeBodiesUseMemoryAgain(t *testing.T) {
	var first []byte
	s := start(t, fakeHandler{post: func(q *Request, r *Response) {
		if first != nil && &q.Body[0] != &first[0] {
			t.Error("the second body had fresh memory")
		}
		first = q.Body
		r.Body = q.Body
	}}, HTTPConfig{})
	for _, c := range []string{"a", "b", "c"} {
		body := strings.Repeat(c, 300<<10)
		if _, got := ask(t, s.addr, post(body)); got != body {
			t.Errorf("%d bytes came back that begin with %.10q", len(got), got)
		}
		for end := time.Now().Add(patience); s.cfg.Memory.Budget.Taken() != 0; runtime.Gosched() {
			if time.Now().After(end) {
				t.Fatalf("%d bytes are taken at the end", s.cfg.Memory.Budget.Taken())
			}
		}
	}
}

// TestUnreadBodyIsNoRequest: the bytes behind the head of a refused request are its
// body, even if they look like a request.
func TestUnreadBodyIsNoRequest(t *testing.T) {
	seen := make(chan string, 10)
	note := func(q *Request, r *Response) { seen <- string(q.Body); echo(q, r) }
	s := start(t, fakeHandler{post: note, get: note, del: note}, HTTPConfig{MaxBody: 64 << 10})
	smuggled := post("smuggled")
	pad := strings.Repeat(" ", prefetched)
	chunk := fmt.Sprintf("%x\r\n%s\r\n", len(pad), pad)
	for _, c := range []struct{ name, head, body string }{
		{"wrong type", "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n", pad + smuggled},
		{"nowhere", "POST /nothing HTTP/1.1\r\nHost: localhost\r\n", pad + smuggled},
		{"foreign host", "POST /mcp HTTP/1.1\r\nHost: evil.example\r\n", pad + smuggled},
		{"GET with a body", "GET /mcp HTTP/1.1\r\nHost: localhost\r\n", pad + smuggled},
		{"DELETE with a body", "DELETE /mcp HTTP/1.1\r\nHost: localhost\r\n", pad + smuggled},
		{"PUT", "PUT /mcp HTTP/1.1\r\nHost: localhost\r\n", pad + smuggled},
		{"small", "PUT /mcp HTTP/1.1\r\nHost: localhost\r\n", smuggled},
		{"too large", postHead, strings.Repeat(pad, 9) + smuggled},
	} {
		for _, chunked := range []bool{false, true} {
			t.Run(fmt.Sprint(c.name, " chunked ", chunked), func(t *testing.T) {
				request := fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", c.head, len(c.body), c.body)
				if chunked {
					request = c.head + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat(chunk, 9) + smuggled
				}
				nc := dial(t, s.addr)
				_, _ = io.WriteString(nc, request)
				br := bufio.NewReader(nc)
				_, _ = http.ReadResponse(br, nil)
				_ = nc.(*net.TCPConn).CloseWrite()
				_, _ = io.Copy(io.Discard, br)
				for len(seen) > 0 {
					if body := <-seen; body == "smuggled" {
						t.Error("the body was served as a request")
					}
				}
			})
		}
	}
}

func TestPipelinedBodiesArriveWhole(t *testing.T) {
	s := start(t, fakeHandler{post: echo}, HTTPConfig{})
	nc := dial(t, s.addr)
	var all, chunked strings.Builder
	sizes := []int{0, 1, prefetched - 1, prefetched, prefetched + 1, 100_000, 3}
	for i, n := range sizes {
		body := strings.Repeat(string(rune('a'+i)), n)
		all.WriteString(post(body))
		chunked.Reset()
		for rest := body; len(rest) > 0; {
			part := rest[:min(len(rest), 5000)]
			rest = rest[len(part):]
			fmt.Fprintf(&chunked, "%x;ext=1\r\n%s\r\n", len(part), part)
		}
		all.WriteString(postHead + "Transfer-Encoding: chunked\r\n\r\n" + chunked.String() + "0\r\n\r\n")
	}
	go func() { _, _ = io.WriteString(nc, all.String()) }()
	br := bufio.NewReader(nc)
	for i, n := range sizes {
		for range 2 {
			if _, body := answer(t, br, "POST"); body != strings.Repeat(string(rune('a'+i)), n) {
				t.Fatalf("body of %d bytes came as %d", n, len(body))
			}
		}
	}
}

func TestBodyThatEndsEarlyIsRefused(t *testing.T) {
	s := start(t, fakeHandler{post: func(*Request, *Response) { t.Error("half a body was handled") }}, HTTPConfig{})
	for _, request := range []string{
		postHead + "Content-Length: 100000\r\n\r\n" + strings.Repeat("x", 9000),
		postHead + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n5\r\nhe",
		postHead + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
	} {
		nc := dial(t, s.addr)
		_, _ = io.WriteString(nc, request)
		_ = nc.(*net.TCPConn).CloseWrite()
		if res, body := answer(t, bufio.NewReader(nc), "POST"); res.StatusCode != 400 || !json.Valid([]byte(body)) {
			t.Errorf("%.60q: %d %s", request[len(postHead):], res.StatusCode, body)
		}
	}
}

func TestSlowBodyTimesOut(t *testing.T) {
	s := start(t, fakeHandler{post: echo}, HTTPConfig{ReadTimeout: 50 * time.Millisecond})
	for _, request := range []string{
		postHead + "Content-Length: 100000\r\n\r\n" + strings.Repeat("x", 9000),
		postHead + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
	} {
		askSlowly(t, s, request)
	}
}

// TestIdleConnectionIsClosed checks also that a connection with a stream is not closed.
func TestIdleConnectionIsClosed(t *testing.T) {
	ps := newPipes()
	s := start(t, fakeHandler{post: echo, get: func(q *Request, r *Response) { stream(newEvents(), q, r) }},
		HTTPConfig{IdleTimeout: 20 * time.Millisecond, Pipes: ps.with(nil)}) // a new connection has ReadTimeout
	stream, _, _ := listen(t, s, getHead+"\r\n")
	client := openSSE(t, s, "")
	nc := dial(t, s.addr)
	br := bufio.NewReader(nc)
	_, _ = io.WriteString(nc, post("{}"))
	answer(t, br, "POST")
	if _, err := br.ReadByte(); err != io.EOF {
		t.Errorf("the idle connection: %v", err)
	}
	_ = stream
	p := recv(t, ps.opened, "the pipe")
	if err := p.Write([]byte("still here")); err != nil {
		t.Error(err)
	}
	if got := client.next(t, "message"); got != "still here" {
		t.Errorf("got %q", got)
	}
}

// TestUnreadMessagesOnAPipeAreCounted until the client has received them, or has left.
func TestUnreadMessagesOnAPipeAreCounted(t *testing.T) {
	const size = 12 << 20 // more than the connection's buffers take
	ps := newPipes()
	memory := large.NewMemory(64 << 20)
	s := start(t, fakeHandler{post: echo}, HTTPConfig{Memory: memory, Pipes: ps.with(nil), MaxQueue: 4 * size})
	message := []byte(`"` + strings.Repeat("x", size) + `"`)
	for _, reads := range []bool{true, false} {
		client := openSSE(t, s, "")
		p := recv(t, ps.opened, "the pipe")
		for range 2 {
			if err := p.Write(message); err != nil {
				t.Fatal(err)
			}
		}
		if taken := memory.Budget.Taken(); taken < size {
			t.Errorf("%d bytes are counted", taken)
		}
		if reads {
			for range 2 {
				client.next(t, "message")
			}
			peertest.Eventually(t, "nothing to be in hand", func() bool { return memory.Budget.Taken() == 0 })
		}
		_ = client.Close()
		recv(t, ps.left, "the end of the pipe")
		peertest.Eventually(t, "nothing to be in hand", func() bool { return memory.Budget.Taken() == 0 })
	}
}
