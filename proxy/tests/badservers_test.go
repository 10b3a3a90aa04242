package tests

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// heardAll is what an HTTP client receives for one message: a status, and one message or those of a
// stream.
type heardAll struct {
	status   int
	header   http.Header
	messages []string
}

// webClient is an HTTP client of a running proxy.
type webClient struct {
	t       *testing.T
	logs    *observer.ObservedLogs
	srv     *proxy.Server
	base    string
	http    *http.Client
	session string
}

// serving starts a proxy with the configuration, and returns a client. When the test ends, there
// must have been no panic, and no goroutine may remain.
func serving(t *testing.T, change func(*config.Config)) *webClient {
	t.Helper()
	leavesNothing(t)
	cfg := config.Default()
	cfg.Shutdown.Drain = patience
	cfg.Upstream.HandshakeTimeout, cfg.Upstream.ConnectTimeout = patience, patience
	change(&cfg)
	core, logs := observer.New(zap.DebugLevel)
	srv := newOf(t, cfg, zap.New(core))
	base, stop := startServing(t, srv)
	c := &webClient{t: t, srv: srv, logs: logs, base: base, http: peertest.WebClient(t)}
	c.http.Timeout = 2 * patience
	t.Cleanup(func() {
		c.http.CloseIdleConnections()
		stop()
		for _, l := range logs.All() {
			if l.Level >= zap.ErrorLevel && l.ContextMap()["cause"] != "command_not_found" {
				t.Errorf("logged: %s %v", l.Message, l.ContextMap())
			}
		}
	})
	return c
}

// another returns another client of the same proxy.
func (c *webClient) another() *webClient {
	return &webClient{t: c.t, srv: c.srv, logs: c.logs, base: c.base, http: c.http}
}

func (c *webClient) ask(method, body string, header ...string) (h heardAll) {
	c.t.Helper()
	req, err := http.NewRequest(method, c.base+"/mcp", strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if c.session != "" {
		req.Header.Set("Mcp-Session-Id", c.session)
	}
	for pair := range slices.Chunk(header, 2) {
		req.Header.Set(pair[0], pair[1])
	}
	res, err := c.http.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	h.status, h.header = res.StatusCode, res.Header
	if res.Header.Get("Content-Type") != "text/event-stream" {
		text, err := io.ReadAll(res.Body)
		if err != nil {
			c.t.Fatal(err)
		}
		if len(text) > 0 {
			h.messages = []string{string(text)}
		}
		return h
	}
	for events := sse.NewReader(res.Body, 100<<20); ; {
		e, err := events.Next()
		if err == io.EOF {
			return h
		}
		if err != nil {
			c.t.Fatal(err)
		}
		if len(e.Data) > 0 {
			h.messages = append(h.messages, string(e.Data))
		}
	}
}

func (c *webClient) initialize() heardAll {
	c.t.Helper()
	h := c.ask("POST", initialize("2025-06-18", `{}`))
	c.session = h.header.Get("Mcp-Session-Id")
	return h
}

// isServed expects that a call is answered correctly. It uses a new request id, since on a pipe a
// second response to an old id could not be told apart.
func (c *webClient) isServed() {
	c.t.Helper()
	again := strings.NewReplacer(`"id":1`, `"id":"again"`)
	if h := c.ask("POST", again.Replace(pingOne)); h.status != 200 || len(h.messages) != 1 || h.messages[0] != again.Replace(pingAnswer) {
		c.t.Errorf("another call: %d %.200q", h.status, h.messages)
	}
}

// told expects a status and messages.
func (h heardAll) told(t *testing.T, status int, messages ...string) {
	t.Helper()
	got := make([]string, len(h.messages))
	for i, m := range h.messages {
		got[i] = withoutAdvice(m)
	}
	if h.status != status || !slices.Equal(got, messages) {
		t.Errorf("\n got  %d %.300q\n want %d %.300q", h.status, h.messages, status, messages)
	}
}

// upstreamError is the error for a call that the server has failed.
func upstreamError(text string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":%q}}`, text)
}

const (
	goodAnswer  = `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`
	wrongAnswer = `{"jsonrpc":"2.0","id":"nobody's","result":{"content":[]}}`
	jsonHead    = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
	eventHead   = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
)

// ofLength returns a complete response body, after which the connection is closed.
func ofLength(body string) string {
	return fmt.Sprintf("Connection: close\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// badServer is a Streamable HTTP server that behaves correctly except for tools/call: there it does
// with the connection what bad says, and closes it. A call of test/wait is answered when the test
// says so.
type badServer struct {
	*peertest.Server
	waits, goOn chan struct{}
}

// waitsFor waits for a call of test/wait, which ends only if the server has not got it.
func (s *badServer) waitsFor(t *testing.T, call <-chan heardAll) {
	t.Helper()
	select {
	case <-s.waits:
	case h := <-call:
		t.Fatalf("the server did not get the call: %d %.300q", h.status, h.messages)
	}
}

// heard returns the messages that the server got, without initialize.
func (s *badServer) heard() (list []string) {
	for _, m := range s.Heard() {
		if gjson.Get(m.Text, "method").String() != "initialize" && strings.HasPrefix(m.Text, "{") {
			list = append(list, m.Text)
		}
	}
	return list
}

func badWeb(t *testing.T, bad func(c *net.TCPConn)) *badServer {
	s := &badServer{waits: make(chan struct{}), goOn: make(chan struct{})}
	s.Server = peertest.NewServer(t, peertest.HTTP, func(u *peertest.Turn) {
		switch {
		case u.Request.Method != http.MethodPost:
			u.Refuse(http.StatusMethodNotAllowed)
			return
		case u.Method == "tools/call":
			c := u.Hijack()
			defer c.Close()
			bad(c)
			return
		case u.Method == "test/wait":
			s.waits <- struct{}{}
			select {
			case <-s.goOn:
			case <-t.Context().Done(): // the test has failed
			}
		case u.Method == "initialize":
			u.Web.Header().Set("Mcp-Session-Id", "theirs")
		}
		if answers := obligingly(u.Text); len(answers) > 0 {
			u.Answer(200, answers[0])
		}
	})
	s.Every = true
	s.At()
	return s
}

// stay keeps a connection open until the peer closes it.
func stay(c *net.TCPConn) { _, _ = io.Copy(io.Discard, c) }

// veryLong is the length of a message that is far longer than any buffer of the proxy.
const veryLong = 16 << 20 / effort

// TestBadServersOverHTTP: what a server over HTTP does wrong fails only the call concerned; the
// session and its other calls continue. Answers to questions that this process does not know are
// forwarded, since another process may have asked them.
func TestBadServersOverHTTP(t *testing.T) {
	waits(t)
	const limit = 1 << 20
	tooLong := strings.Repeat("x", limit+1)
	large := `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"` + strings.Repeat("x", veryLong) + `"}]}}`
	failed := func(why string) string { return upstreamError("upstream request failed: " + why) }
	for _, c := range []struct {
		name   string
		says   string             // a response, after which the connection is closed
		does   func(*net.TCPConn) // used instead of says
		max    config.Size        // the largest message; 0 for the default
		limit  config.TimeLimit   // of the call
		status int
		want   []string
	}{
		{name: "hangs", does: stay, limit: config.TimeLimit{FirstByte: 100 * time.Millisecond}, status: 200, want: []string{upstreamError("upstream timed out")}},
		{name: "hangs in the middle of its answer", limit: config.TimeLimit{FirstByte: patience, Silence: 100 * time.Millisecond}, status: 200, want: []string{upstreamError("upstream timed out")},
			does: func(c *net.TCPConn) { _, _ = io.WriteString(c, jsonHead+"Content-Length: 100\r\n\r\n{"); stay(c) }},
		{name: "hangs behind its first event", limit: config.TimeLimit{FirstByte: patience, Silence: 100 * time.Millisecond}, status: 200, want: []string{logLine, upstreamError("upstream timed out")},
			does: func(c *net.TCPConn) { _, _ = io.WriteString(c, eventHead+"data: "+logLine+"\n\n"); stay(c) }},
		{name: "closes mid-call", status: 200, want: []string{failed(cutShort)}},
		{name: "resets mid-call", does: func(c *net.TCPConn) { _ = c.SetLinger(0) }, status: 200, want: []string{failed("connection reset by peer")}},
		{name: "dies between chunks", says: jsonHead + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n", status: 200, want: []string{failed(cutShort)}},
		{name: "cuts an event in two", says: eventHead + "data: {\"jsonrpc\"", status: 200, want: []string{failed(cutShort)}},
		{name: "cuts its second event in two", says: eventHead + "data: " + logLine + "\n\ndata: {\"js", status: 200, want: []string{logLine, failed(cutShort)}},
		{name: "ends its stream without the answer", says: eventHead + ": bye\n\n", status: 200, want: []string{upstreamError("upstream closed the stream without answering")}},
		{name: "answers HTML", says: "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n" + ofLength("<html>"), status: 200,
			want: []string{failed(`response of type "text/html", expected application/json or text/event-stream`)}},
		{name: "answers an error page", says: "HTTP/1.1 500 Oh\r\nContent-Type: text/html\r\n" + ofLength("<html>"), status: 200,
			want: []string{upstreamError("upstream answered 500 Internal Server Error")}},
		{name: "sends elsewhere", says: "HTTP/1.1 307 Go\r\nLocation: http://169.254.169.254/\r\n" + ofLength(""), status: 200,
			want: []string{upstreamError("upstream answered 307 Temporary Redirect")}},
		{name: "accepts and says no more", says: "HTTP/1.1 202 Accepted\r\n" + ofLength(""), status: 200, want: []string{upstreamError("upstream answered 202 Accepted")}},
		{name: "answers nothing", says: jsonHead + ofLength(""), status: 200, want: []string{failed("response without a body")}},
		{name: "speaks no HTTP", says: "220 smtp ready\r\n\r\n", status: 200, want: []string{failed("malformed HTTP response")}},
		{name: "answers an unknown id", says: jsonHead + ofLength(wrongAnswer), status: 200, want: []string{wrongAnswer, upstreamError("upstream closed the stream without answering")}},
		{name: "answers an unknown id, then ours", says: eventHead + "data: " + wrongAnswer + "\n\ndata: " + goodAnswer + "\n\n", status: 200, want: []string{wrongAnswer, goodAnswer}},
		{name: "answers twice", says: eventHead + "data: " + goodAnswer + "\n\ndata: " + goodAnswer + "\n\n", status: 200, want: []string{goodAnswer}},
		{name: "answers malformed JSON", says: jsonHead + ofLength(`{"jsonrpc":"2.0","id":1,`), status: 200, want: []string{upstreamError("upstream sent something that is not JSON-RPC")}},
		{name: "answers in Latin-1", says: jsonHead + ofLength("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"\xe9\":1}}"), status: 200, want: []string{upstreamError("upstream sent something that is not JSON-RPC")}},
		{name: "answers with two ids", says: jsonHead + ofLength(`{"jsonrpc":"2.0","id":1,"id":2,"result":{}}`), status: 200, want: []string{upstreamError("upstream sent something that is not JSON-RPC")}},
		{name: "answers too much", says: jsonHead + ofLength(`"`+tooLong+`"`), max: limit, status: 200, want: []string{failed("message is larger than the limit of 1048576 bytes")}},
		{name: "sends too large an event", says: eventHead + "data: " + tooLong + "\n\n", max: limit, status: 200, want: []string{failed("message is larger than the limit of 1048576 bytes")}},
		{name: "sends a very long line", says: eventHead + "data: " + large + "\n\n", status: 200, want: []string{large}},
	} {
		runTogether(t, c.name, func(t *testing.T) {
			web := badWeb(t, func(nc *net.TCPConn) {
				if c.does != nil {
					c.does(nc)
					return
				}
				_, _ = io.WriteString(nc, c.says)
			})
			client := serving(t, func(cfg *config.Config) {
				cfg.Upstream.URL, cfg.Upstream.Transport = web.URL, "http"
				if c.max != 0 {
					cfg.Limits.UpstreamMessage = c.max
				}
				if c.limit != (config.TimeLimit{}) {
					cfg.Limits.Time = map[string]config.TimeLimit{"tools/call": c.limit}
				}
			})
			client.initialize().told(t, 200, `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"2"}}}`)
			waiting := make(chan heardAll, 1)
			go func() {
				defer close(waiting) // whether it was answered or not
				waiting <- client.ask("POST", `{"jsonrpc":"2.0","id":"w","method":"test/wait"}`)
			}()
			web.waitsFor(t, waiting)
			client.ask("POST", callOne).told(t, c.status, c.want...)
			client.isServed()
			web.goOn <- struct{}{}
			(<-waiting).told(t, 200, `{"jsonrpc":"2.0","id":"w","result":{}}`)
		})
	}
}

func TestServerThatIsDown(t *testing.T) {
	client := serving(t, func(cfg *config.Config) { cfg.Upstream.URL = "http://" + peertest.NoListener })
	for range 2 {
		client.ask("POST", initialize("2025-06-18", `{}`)).told(t, 502,
			`{"jsonrpc":"2.0","id":0,"error":{"code":-32603,"message":"upstream request failed: connection refused"}}`)
	}
}

func TestServerThatGoesDown(t *testing.T) {
	web := badWeb(t, nil)
	client := serving(t, func(cfg *config.Config) { cfg.Upstream.URL, cfg.Upstream.Transport = web.URL, "http" })
	client.initialize()
	client.isServed()
	at := strings.TrimPrefix(web.URL, "http://")
	web.Close()
	client.ask("POST", pingOne).told(t, 200, upstreamError("upstream request failed: connection refused"))
	ln, err := net.Listen("tcp", at) // the server is back
	if err != nil {
		t.Skip("another program uses the port: ", err)
	}
	again := &http.Server{Handler: web.Server}
	ended := make(chan error, 1)
	go func() { ended <- again.Serve(ln) }()
	client.isServed()
	again.Close()
	<-ended
}

// TestServerWithoutAStream: a server without a standing stream gets only one GET.
func TestServerWithoutAStream(t *testing.T) {
	web := badWeb(t, nil)
	client := serving(t, func(cfg *config.Config) { cfg.Upstream.URL, cfg.Upstream.Transport = web.URL, "http" })
	client.initialize()
	h := client.ask("GET", "")
	h.told(t, 405, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"The server offers no stream"}}`)
	client.isServed()
}

// badChild in the environment makes the test binary a server on stdio that behaves correctly except
// for what the value names.
const badChild = "DRAGOMAN_TEST_BAD_CHILD"

// beBadChild serves until stdin ends.
func beBadChild(how string) {
	write := func(line string) { _, _ = io.WriteString(os.Stdout, line+"\n") }
	switch how {
	case "exits at start":
		fmt.Fprintln(os.Stderr, "license expired")
		syscall.Exit(3)
	case "noise for ever":
		for {
			write("Welcome to the server!")
		}
	case "is mute":
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}
	in, got := bufio.NewReader(os.Stdin), 0
	for {
		m, err := in.ReadString('\n')
		if err != nil {
			return
		}
		if gjson.Get(m, "method").String() == "server/discover" && how == "exits when asked early" {
			syscall.Exit(4)
		}
		if gjson.Get(m, "method").String() == "server/discover" && how == "is silent when asked early" {
			continue
		}
		if strings.HasSuffix(how, "and modern") {
			id := gjson.Get(m, "id").Raw
			switch gjson.Get(m, "method").String() {
			case "initialize":
				write(rpcError(id, `"code":-32601,"message":"Method not found"`))
				continue
			case "server/discover":
				write(result(id, `"resultType":"complete","supportedVersions":["2026-07-28"],"ttlMs":0,"cacheScope":"private","capabilities":{"tools":{},"prompts":{}}`))
				continue
			}
		}
		if gjson.Get(m, "method").String() != "tools/call" {
			for _, a := range obligingly(m) {
				write(a)
			}
			continue
		}
		got++
		switch how {
		case "is busy", "is busy and modern": // as a synchronous server is with a slow tool
			if gjson.Get(m, "params.name").String() == "slow" {
				workUntilReleased(gjson.Get(m, "params.arguments.until").String())
			}
			if gjson.Get(m, "params.name").String() == "ends" {
				syscall.Exit(7)
			}
			write(result(gjson.Get(m, "id").Raw, fmt.Sprintf(`"content":[{"type":"text","text":"call %d"}]`, got)))
		case "exits mid-call":
			fmt.Fprintln(os.Stderr, "segmentation fault")
			syscall.Exit(7)
		case "closes its output":
			_ = os.Stdout.Close()
			_, _ = io.Copy(io.Discard, in)
			return
		case "hangs": // sends nothing, and does not exit
		case "floods stderr":
			block := bytes.Repeat([]byte("x"), 1<<16)
			for range 200 {
				_, _ = os.Stderr.Write(block)
			}
			write(goodAnswer)
		case "answers an unknown id":
			write(wrongAnswer)
			write(goodAnswer)
		case "answers twice":
			write(goodAnswer)
			write(goodAnswer)
		case "cuts a line in two":
			write(goodAnswer[:20])
			write(goodAnswer[20:])
			write(goodAnswer)
		case "makes noise":
			write("debug: called")
			write("\xff\xfe")
			write("")
			write(goodAnswer)
		case "sends a very long line":
			write(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"` + strings.Repeat("x", veryLong) + `"}]}}`)
		case "sends too long a line":
			write(`{"jsonrpc":"2.0","id":1,"result":"` + strings.Repeat("x", 1<<20) + `"}`)
		}
	}
}

// TestBadServersOnStdio is TestBadServersOverHTTP for servers on a pipe.
func TestBadServersOnStdio(t *testing.T) {
	waits(t)
	large := `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"` + strings.Repeat("x", veryLong) + `"}]}}`
	lost := func(how string) string {
		return upstreamError(fmt.Sprintf("upstream process ended and is being restarted; the request was lost: upstream %q ended (%s", os.Args[0], how))
	}
	for _, c := range []struct {
		name   string
		status int
		want   string
	}{
		{"exits mid-call", 200, lost(`exit status 7); standard error: "segmentation fault"`)},
		{"closes its output", 200, lost("exit status 0)")},
		{"hangs", 200, upstreamError("upstream timed out")},
		{"floods stderr", 200, goodAnswer},
		{"answers an unknown id", 200, goodAnswer},
		{"answers twice", 200, goodAnswer},
		{"cuts a line in two", 200, goodAnswer},
		{"makes noise", 200, goodAnswer},
		{"sends a very long line", 200, large},
		{"sends too long a line", 200, upstreamError("upstream request failed: message is larger than the limit of 1048576 bytes")},
	} {
		runTogether(t, c.name, func(t *testing.T) {
			client := serving(t, func(cfg *config.Config) {
				cfg.Upstream.Command = []string{os.Args[0]}
				cfg.Upstream.Env = map[string]string{badChild: c.name}
				if c.name == "sends too long a line" {
					cfg.Limits.UpstreamMessage = 1 << 20
				}
				cfg.Limits.Time = map[string]config.TimeLimit{"tools/call": {FirstByte: patience}}
				if c.name == "hangs" {
					cfg.Limits.Time["tools/call"] = config.TimeLimit{FirstByte: 100 * time.Millisecond}
				}
			})
			other := client.another()
			client.initialize()
			other.initialize()
			client.ask("POST", callOne).told(t, c.status, c.want)
			other.isServed()
			client.isServed()
		})
	}
}

// TestServersThatDoNotBegin: processes that do not answer initialize.
func TestServersThatDoNotBegin(t *testing.T) {
	waits(t)
	for _, c := range []struct {
		name   string
		status int
		text   string
	}{
		{"exits at start", 502, fmt.Sprintf("upstream process ended: upstream %q ended (exit status 3); standard error: \"license expired\"", os.Args[0])},
		{"noise for ever", 502, `upstream request failed: it has written 1001 lines to its standard output that are not JSON-RPC, beginning with "Welcome to the server!"`},
		{"is mute", 504, "upstream timed out"},
	} {
		runTogether(t, c.name, func(t *testing.T) {
			client := serving(t, func(cfg *config.Config) {
				cfg.Upstream.Command = []string{os.Args[0]}
				cfg.Upstream.Env = map[string]string{badChild: c.name}
				if c.status == 504 {
					cfg.Upstream.HandshakeTimeout = 200 * time.Millisecond
				}
			})
			for range 2 {
				client.initialize().told(t, c.status, fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"error":{"code":-32603,"message":%q}}`, c.text))
			}
		})
	}
}
