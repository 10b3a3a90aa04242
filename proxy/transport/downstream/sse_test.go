package downstream

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
)

func TestPipeRefusals(t *testing.T) {
	ps := newPipes()
	s := start(t, fakeHandler{}, HTTPConfig{MaxBody: 200, Pipes: ps.with(nil)})
	c := openSSE(t, s, "")
	long := strings.Repeat(" ", 201)
	for _, c := range []struct {
		name, request string
		status, code  int
		id            string
	}{
		{"unknown session", postTo("/messages?session=AAAAAAAAAAAAAAAAAAAAAA", "", "{}"), 404, -32600, "null"},
		{"no session", postTo("/messages", "", "{}"), 400, -32600, "null"},
		{"empty session", postTo("/messages?session=", "", "{}"), 400, -32600, "null"},
		{"two sessions", postTo("/messages?session=AAAAAAAAAAAAAAAAAAAAAA&session=B", "", "{}"), 400, -32600, "null"},
		{"malformed", postTo(c.uri, "", `{"jsonrpc":"2.0",`), 400, -32700, "null"},
		{"malformed array", postTo(c.uri, "", `[{]`), 400, -32700, "null"},
		{"empty", postTo(c.uri, "", ""), 400, -32700, "null"},
		{"invalid UTF-8", postTo(c.uri, "", "{\"a\":\"\xff\"}"), 400, -32700, "null"},
		{"doubled member", postTo(c.uri, "", `{"jsonrpc":"2.0","id":7,"method":"a","method":"b"}`), 400, -32600, "7"},
		{"no message", postTo(c.uri, "", "1"), 400, -32600, "null"},
		{"too large", postTo(c.uri, "", long), 413, -32600, "null"},
		{"wrong type", strings.Replace(postTo(c.uri, "", "{}"), "application/json", "text/plain", 1), 415, -32600, "null"},
		{"compressed", postTo(c.uri, "Content-Encoding: gzip\r\n", "{}"), 415, -32600, "null"},
		{"rebound host", strings.Replace(postTo(c.uri, "", "{}"), "localhost", "evil.example", 1), 403, -32600, "null"},
		{"GET of the messages", "GET " + c.uri + " HTTP/1.1\r\nHost: localhost\r\n\r\n", 405, -32600, "null"},
		{"POST to the stream", postTo("/sse", "", "{}"), 405, -32600, "null"},
		{"foreign origin", sseHead + "Origin: https://evil.example\r\n\r\n", 403, -32600, "null"},
		{"stream as JSON", strings.Replace(sseHead, "text/event-stream", "application/json", 1) + "\r\n", 406, -32600, "null"},
	} {
		t.Run(c.name, func(t *testing.T) {
			res, body := ask(t, s.addr, c.request)
			var msg struct {
				ID    json.RawMessage
				Error struct {
					Code    int
					Message string
				}
			}
			if err := json.Unmarshal([]byte(body), &msg); err != nil {
				t.Fatalf("%d %q: %v", res.StatusCode, body, err)
			}
			if res.StatusCode != c.status || msg.Error.Code != c.code || string(msg.ID) != c.id || msg.Error.Message == "" {
				t.Errorf("got %d %s, want %d, code %d, id %s", res.StatusCode, body, c.status, c.code, c.id)
			}
			if (res.StatusCode == 405) != (res.Header.Get("Allow") != "") {
				t.Errorf("Allow: %q", res.Header.Get("Allow"))
			}
		})
	}
	c.post(t, `{"jsonrpc":"2.0","method":"still here"}`)
}

// TestTheEndpointEventNamesTheURIOfTheGateway: and the stream may be at another path.
func TestTheEndpointEventNamesTheURIOfTheGateway(t *testing.T) {
	cfg := newPipes().with(nil)
	s := start(t, fakeHandler{}, HTTPConfig{Pipes: cfg, SSEPath: "/stream", MessagesURI: func() string { return "/team/messages" }})
	nc := dial(t, s.addr)
	_, _ = io.WriteString(nc, strings.Replace(sseHead, "/sse", "/stream", 1)+"\r\n")
	r := bufio.NewReader(nc)
	for line := ""; !strings.HasPrefix(line, "data: "); {
		var err error
		if line, err = r.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(line, "data: ") && !strings.HasPrefix(line, "data: /team/messages?session=") {
			t.Error(line)
		}
	}
	if res, body := ask(t, s.addr, sseHead+"\r\n"); res.StatusCode != 404 || body != "no such path; the MCP endpoint is /mcp, for HTTP+SSE /stream\n" {
		t.Errorf("/sse: %d %s", res.StatusCode, body)
	}
}

// TestHealth: the paths answer without any check of the client, and nothing else does.
func TestHealth(t *testing.T) {
	s := start(t, fakeHandler{}, HTTPConfig{Health: []string{"/healthz", "/up"}, Tokens: []string{"t"}, Pipes: newPipes().with(nil)})
	for _, c := range []struct {
		request string
		status  int
		body    string
	}{
		{"GET /healthz HTTP/1.1\r\nHost: rebound.example\r\n\r\n", 200, "ok"},
		{"GET /healthz?full HTTP/1.1\r\nHost: x\r\nOrigin: https://evil.example\r\nAuthorization: Bearer wrong\r\n\r\n", 200, "ok"},
		{"GET /up HTTP/1.0\r\n\r\n", 200, "ok"},
		{"HEAD /up HTTP/1.1\r\nHost: x\r\n\r\n", 200, ""},
		{"GET /up HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, ""},
		{"GET /up/x HTTP/1.1\r\nHost: localhost\r\n\r\n", 401, ""},
		{"GET /ping HTTP/1.1\r\nHost: localhost\r\n\r\n", 401, ""},
		{"POST /up HTTP/1.1\r\nHost: rebound.example\r\nContent-Length: 0\r\n\r\n", 403, ""},
		{"GET /mcp HTTP/1.1\r\nHost: rebound.example\r\n\r\n", 403, ""},
	} {
		if res, body := ask(t, s.addr, c.request); res.StatusCode != c.status || c.body != "" && body != c.body {
			t.Errorf("%.60q: %d %s", c.request, res.StatusCode, body)
		}
	}
}

func TestPathsOfHTTPWithSSEAreNotFoundIfItIsOff(t *testing.T) {
	s := start(t, fakeHandler{}, HTTPConfig{})
	for _, request := range []string{sseHead + "\r\n", postTo("/messages?session=x", "", "{}")} {
		if res, _ := ask(t, s.addr, request); res.StatusCode != 404 {
			t.Errorf("status %d", res.StatusCode)
		}
	}
}

func TestPipeIsRefused(t *testing.T) {
	var pipe Pipe
	for _, c := range []struct {
		name   string
		open   openFunc
		status int
		text   string
	}{
		{"with words", func(p Pipe, q *Request, r *Response) PipeSession {
			pipe = p
			r.Status, r.Body, r.Header = 502, []byte(`{"a":1}`), []mcp.Header{{Name: "Retry-After", Value: "9"}}
			return nil
		}, 502, `{"a":1}`},
		{"without", func(p Pipe, q *Request, r *Response) PipeSession { pipe = p; return nil }, 503, "Service Unavailable"},
		{"in panic", func(p Pipe, q *Request, r *Response) PipeSession { pipe = p; panic("no") }, 500, "Internal Server Error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := start(t, fakeHandler{post: echo}, HTTPConfig{Pipes: c.open})
			nc := dial(t, s.addr)
			br := bufio.NewReader(nc)
			_, _ = io.WriteString(nc, sseHead+"\r\n"+post("{}"))
			res, body := answer(t, br, "GET")
			if res.StatusCode != c.status || !strings.Contains(body, c.text) || !json.Valid([]byte(body)) {
				t.Errorf("got %d %q", res.StatusCode, body)
			}
			if c.status == 502 && res.Header.Get("Retry-After") != "9" {
				t.Errorf("headers: %v", res.Header)
			}
			if err := pipe.Write(nil); !errors.Is(err, ErrOver) {
				t.Errorf("write: %v", err)
			}
			if res, _ := answer(t, br, "POST"); res.StatusCode != 200 {
				t.Errorf("next request: %d", res.StatusCode)
			}
		})
	}
}

func TestMessagesComeAfterTheEndpointEvent(t *testing.T) {
	s := start(t, fakeHandler{}, HTTPConfig{Pipes: openFunc(func(p Pipe, q *Request, r *Response) PipeSession {
		if q.Header("X-A") != "b" || q.Ctx != p.Context() {
			t.Errorf("header %q", q.Header("X-A"))
		}
		_ = p.Write([]byte("first"))
		return fakeSession{}
	})})
	if got := openSSE(t, s, "X-A: b\r\n").next(t, "message"); got != "first" {
		t.Errorf("got %q", got)
	}
}

func TestTooManyMessagesOfOneClientWait(t *testing.T) {
	message := `{"jsonrpc":"2.0","method":"0123456789"}`
	for _, c := range []struct {
		name string
		max  int
		fit  int // messages that wait behind the one that is being taken
	}{{"count", 0, maxPosted}, {"bytes", 10 * len(message), 10}} {
		t.Run(c.name, func(t *testing.T) {
			ps := newPipes()
			inside, goOn := make(chan struct{}, 1000), make(chan struct{})
			s := start(t, fakeHandler{}, HTTPConfig{MaxBody: c.max, Pipes: ps.with(func(Pipe, []byte, func(string) string) {
				inside <- struct{}{}
				<-goOn
			})})
			client := openSSE(t, s, "")
			nc := dial(t, s.addr)
			br := bufio.NewReader(nc)
			say := func() *http.Response {
				_, _ = io.WriteString(nc, postTo(client.uri, "", message))
				res, _ := answer(t, br, "POST")
				return res
			}
			if res := say(); res.StatusCode != 202 {
				t.Fatalf("status %d", res.StatusCode)
			}
			recv(t, inside, "the first message")
			for i := range c.fit {
				if res := say(); res.StatusCode != 202 {
					t.Fatalf("message %d: %d", i, res.StatusCode)
				}
			}
			if res := say(); res.StatusCode != 503 || res.Header.Get("Retry-After") == "" {
				t.Errorf("got %d %v", res.StatusCode, res.Header)
			}
			close(goOn)
			for range c.fit {
				recv(t, inside, "a message that waited")
			}
		})
	}
}

// TestClientsAtThePathOfTheOtherTransport are told theirs, and logged. A stream of a session is none of HTTP+SSE.
func TestClientsAtThePathOfTheOtherTransport(t *testing.T) {
	s := start(t, fakeHandler{}, HTTPConfig{Pipes: newPipes().with(nil)})
	res, body := ask(t, s.addr, postTo("/sse", "", "{}"))
	if res.StatusCode != 405 || !strings.Contains(body, "; Streamable HTTP clients use /mcp") || !strings.Contains(s.logs.String(), StreamableAtSSE) {
		t.Errorf("%d %s\n%s", res.StatusCode, body, s.logs.String())
	}
	get := strings.Replace(sseHead, "/sse", "/mcp", 1)
	ask(t, s.addr, get+"Mcp-Session-Id: x\r\n\r\n")
	if strings.Contains(s.logs.String(), SSEAtStreamable) {
		t.Errorf("%s", s.logs.String())
	}
	ask(t, s.addr, get+"\r\n")
	if !strings.Contains(s.logs.String(), SSEAtStreamable) {
		t.Errorf("%s", s.logs.String())
	}
}
