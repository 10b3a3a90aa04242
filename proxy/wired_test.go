package proxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/mcpheader"
)

// The types in this file are a scripted server and a client that sends and reads bytes. A proxy is
// between them, over real sockets and pipes.

// wireProgram is the file of the program in testdata/wire, which connects its stdin and stdout with an address. It
// stands for a server on a pipe.
var wireProgram = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "dragoman-wire-")
	if err != nil {
		panic(err)
	}
	removeWire = func() { os.RemoveAll(dir) }
	file := filepath.Join(dir, "wire.exe")
	build := exec.Command("go", "build", "-o", file, "./testdata/wire")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		panic(fmt.Sprintf("go build: %v\n%s", err, out))
	}
	return file
})

// removeWire removes the program, after all tests.
var removeWire = func() {}

// endpoint is where a server is reached: a URL, or the address of a wire.
type endpoint struct{ url, wire string }

// behind makes e the server of cfg.
func (e endpoint) behind(cfg *config.Config) {
	cfg.Upstream.URL = e.url
	if e.wire != "" {
		cfg.Upstream.Command = []string{wireProgram(), e.wire}
	}
}

// accept serves each connection to a new address until the test ends.
func accept(t *testing.T, serve func(net.Conn)) (address string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var open []net.Conn
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, conn)
			mu.Unlock()
			all.Go(func() {
				serve(conn)
				conn.Close()
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		mu.Lock()
		for _, conn := range open {
			conn.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	return ln.Addr().String()
}

// scripted is a server that runs script for each message it gets, each in a goroutine of its own.
// Over HTTP it has sessions if id is set.
type scripted struct {
	t       *testing.T
	piped   bool
	session string
	noGet   bool
	script  func(*turn)

	mu       sync.Mutex
	got      []arrived
	lines    io.Writer // the pipe
	standing chan string
	listened chan struct{} // closed when the standing stream is open
	once     sync.Once
	life     context.Context
}

// arrived is a message that a scripted server got.
type arrived struct {
	text   string
	header http.Header // the HTTP headers
}

// turn is a message that a scripted server got, and the way to answer it.
type turn struct {
	*scripted
	text, id, method string
	ctx              context.Context // ends when the client leaves or cancels
	web              http.ResponseWriter
	begun            bool
}

func script(t *testing.T, piped bool, do func(*turn)) *scripted {
	s := &scripted{t: t, piped: piped, script: do, standing: make(chan string, 100), listened: make(chan struct{})}
	life, end := context.WithCancel(context.Background())
	s.life = life
	t.Cleanup(end)
	return s
}

// at starts the server.
func (s *scripted) at() endpoint {
	if s.piped {
		return endpoint{wire: accept(s.t, s.readLines)}
	}
	web := httptest.NewServer(s)
	s.t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return endpoint{url: web.URL}
}

func (s *scripted) readLines(conn net.Conn) {
	s.mu.Lock()
	s.lines = conn
	s.mu.Unlock()
	s.once.Do(func() { close(s.listened) })
	ctx, left := context.WithCancel(s.life)
	defer left()
	var turns sync.WaitGroup
	defer turns.Wait()
	defer left()
	in := bufio.NewReader(conn)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		u := s.hear(ctx, strings.TrimSuffix(line, "\n"), nil)
		turns.Go(func() { s.script(u) })
	}
}

func (s *scripted) hear(ctx context.Context, text string, header http.Header) *turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, arrived{text, header})
	return &turn{scripted: s, ctx: ctx, text: text, id: gjson.Get(text, "id").Raw, method: gjson.Get(text, "method").String()}
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet:
		s.stand(w, r)
		return
	case http.MethodDelete:
		s.hear(r.Context(), "DELETE", r.Header.Clone())
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	ctx, left := context.WithCancel(r.Context())
	defer left()
	defer context.AfterFunc(s.life, left)()
	u := s.hear(ctx, string(body), r.Header.Clone())
	u.web = w
	if s.session != "" {
		w.Header().Set("Mcp-Session-Id", s.session)
	}
	s.script(u)
	if !u.begun {
		w.WriteHeader(http.StatusAccepted)
	}
}

func (s *scripted) stand(w http.ResponseWriter, r *http.Request) {
	if s.noGet {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	s.once.Do(func() { close(s.listened) })
	for {
		select {
		case m := <-s.standing:
			io.WriteString(w, "data: "+m+"\n\n")
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			return
		case <-s.life.Done():
			return
		}
	}
}

// say sends a message about the request: an event of its stream, or a line.
func (u *turn) say(messages ...string) {
	for _, m := range messages {
		if u.piped {
			u.line(m)
			continue
		}
		if !u.begun {
			u.begun = true
			u.web.Header().Set("Content-Type", "text/event-stream")
			u.web.WriteHeader(http.StatusOK)
		}
		io.WriteString(u.web, "data: "+m+"\n\n")
		u.web.(http.Flusher).Flush()
	}
}

// hears waits until the client has answered a request of the server, or has left.
func (u *turn) hears(id string) {
	for u.ctx.Err() == nil {
		for _, m := range u.heard() {
			if gjson.Get(m.text, "method").Raw == "" && gjson.Get(m.text, "id").Raw == id {
				return
			}
		}
		time.Sleep(time.Millisecond)
	}
}

// answer sends the response: an HTTP status and a body, or on a pipe the body.
func (u *turn) answer(status int, body string) {
	if u.piped {
		u.line(body)
		return
	}
	u.begun = true
	u.web.Header().Set("Content-Type", "application/json")
	u.web.WriteHeader(status)
	io.WriteString(u.web, body)
}

// unasked sends a message that belongs to no request.
func (s *scripted) unasked(m string) {
	s.t.Helper()
	select {
	case <-s.listened:
	case <-time.After(patience):
		s.t.Error("no client listens")
		return
	}
	if s.piped {
		s.line(m)
		return
	}
	s.standing <- m
}

func (s *scripted) line(m string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	io.WriteString(s.lines, m+"\n")
}

// heard returns the messages that the server got, in order.
func (s *scripted) heard() []arrived {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]arrived(nil), s.got...)
}

// awaits waits for the n-th message, counted from 1, for which is returns true.
func (s *scripted) awaits(n int, what string, is func(m string) bool) arrived {
	s.t.Helper()
	var found arrived
	eventually(s.t, "the server gets "+what, func() bool {
		left := n
		for _, m := range s.heard() {
			if is(m.text) {
				if left--; left == 0 {
					found = m
					return true
				}
			}
		}
		return false
	})
	return found
}

// gets waits for the n-th request or notification of a method.
func (s *scripted) gets(n int, method string) arrived {
	s.t.Helper()
	return s.awaits(n, method, func(m string) bool { return gjson.Get(m, "method").String() == method })
}

// getsResponse waits for a response to a request of the server.
func (s *scripted) getsResponse(id string) arrived {
	s.t.Helper()
	return s.awaits(1, "a response to "+id, func(m string) bool {
		return gjson.Get(m, "method").Raw == "" && gjson.Get(m, "id").Raw == id
	})
}

// count returns how many messages of a method the server got.
func (s *scripted) count(method string) (n int) {
	for _, m := range s.heard() {
		if gjson.Get(m.text, "method").String() == method {
			n++
		}
	}
	return n
}

// proxied is a proxy that listens at both HTTP endpoints.
type proxied struct {
	*Server
	web  endpoint
	pipe endpoint
}

// through starts a proxy in front of a server.
func through(t *testing.T, to endpoint, change ...func(*config.Config)) proxied {
	t.Helper()
	cfg := config.Default()
	cfg.Shutdown.Drain = time.Second
	cfg.Upstream.HandshakeTimeout = patience
	to.behind(&cfg)
	for _, c := range change {
		c(&cfg)
	}
	start := func() *Server {
		srv, err := New(cfg, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		return srv
	}
	p := proxied{Server: start()}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() {
		if err := p.Serve(ctx, ln); err != nil {
			t.Errorf("serving: %v", err)
		}
	})
	t.Cleanup(func() {
		stop()
		all.Wait()
	})
	p.web.url = "http://" + ln.Addr().String() + "/mcp"
	p.pipe.wire = accept(t, func(conn net.Conn) { start().ServePipe(ctx, conn, conn) })
	return p
}

// talker is a client over HTTP or on a pipe that sends what the test says.
type talker struct {
	t       *testing.T
	url     string
	web     *http.Client
	conn    net.Conn    // the pipe
	lines   chan string // the lines that the client received
	session string
	version string // the MCP-Protocol-Version of HTTP requests; "" for none
}

// client makes a client of p.
func (p proxied) client(t *testing.T, piped bool) *talker {
	t.Helper()
	c := &talker{t: t, url: p.web.url}
	if !piped {
		c.web = &http.Client{Transport: new(http.Transport)}
		t.Cleanup(c.web.CloseIdleConnections)
		return c
	}
	conn, err := net.Dial("tcp", p.pipe.wire)
	if err != nil {
		t.Fatal(err)
	}
	c.conn, c.lines = conn, make(chan string, 1000)
	t.Cleanup(func() { conn.Close() })
	go func() {
		defer close(c.lines)
		for in := bufio.NewReader(conn); ; {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			c.lines <- strings.TrimSuffix(line, "\n")
		}
	}()
	return c
}

// told holds what a client receives for one message or, on a pipe, for all.
type told struct {
	t      *testing.T
	events chan string
	begun  chan struct{} // closed when status and header are set
	status int
	header http.Header
	leave  context.CancelFunc // closes the stream
}

// say sends a message. Over HTTP it adds the headers that a modern request needs, except those in
// more.
func (c *talker) say(body string, more ...string) *told {
	c.t.Helper()
	if c.conn != nil {
		if _, err := io.WriteString(c.conn, body+"\n"); err != nil {
			c.t.Fatal(err)
		}
		return &told{t: c.t, events: c.lines, leave: func() {}}
	}
	header := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	if c.session != "" {
		header.Set("Mcp-Session-Id", c.session)
	}
	version := c.version
	if v := gjson.Get(body, `params._meta.io\.modelcontextprotocol/protocolVersion`); v.Exists() {
		version = v.String()
		name := gjson.Get(body, "params.name").String()
		if name == "" {
			name = gjson.Get(body, "params.uri").String()
		}
		header.Set("Mcp-Method", gjson.Get(body, "method").String())
		header.Set("Mcp-Name", mcpheader.Encode(name))
	}
	if version != "" {
		header.Set("MCP-Protocol-Version", version)
	}
	for i := 0; i+1 < len(more); i += 2 {
		header.Set(more[i], more[i+1])
	}
	return c.do(http.MethodPost, body, header)
}

// listen opens the standing stream of a session.
func (c *talker) listen() *told {
	if c.conn != nil {
		return &told{t: c.t, events: c.lines, leave: func() {}}
	}
	h := http.Header{"Accept": {"text/event-stream"}, "Mcp-Session-Id": {c.session}}
	if c.version != "" {
		h.Set("MCP-Protocol-Version", c.version)
	}
	return c.do(http.MethodGet, "", h)
}

func (c *talker) do(method, body string, header http.Header) *told {
	ctx, leave := context.WithCancel(context.Background())
	r := &told{t: c.t, events: make(chan string, 1000), begun: make(chan struct{}), leave: leave}
	req, err := http.NewRequestWithContext(ctx, method, c.url, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header = header
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(r.events)
		resp, err := c.web.Do(req)
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				c.t.Errorf("%s: %v", method, err)
			}
			close(r.begun)
			return
		}
		defer resp.Body.Close()
		r.status, r.header = resp.StatusCode, resp.Header
		close(r.begun)
		if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
			if body, _ := io.ReadAll(resp.Body); len(bytes.TrimSpace(body)) > 0 {
				r.events <- string(body)
			}
			return
		}
		in := bufio.NewScanner(resp.Body)
		in.Buffer(nil, 16<<20)
		data := ""
		for in.Scan() {
			switch line := in.Text(); {
			case line == "" && data != "":
				r.events <- data
				data = ""
			case strings.HasPrefix(line, "data:"):
				data += strings.TrimPrefix(strings.TrimPrefix(line, "data:"), " ")
			}
		}
	}()
	c.t.Cleanup(func() {
		leave()
		<-read
	})
	return r
}

// next returns the next message.
func (r *told) next() string {
	r.t.Helper()
	select {
	case m, ok := <-r.events:
		if !ok {
			r.t.Fatal("the stream has ended")
		}
		return m
	case <-time.After(patience):
		r.t.Fatal("nothing comes")
	}
	return ""
}

// hasStatus compares the HTTP status with want, over HTTP.
func (r *told) hasStatus(want int) {
	r.t.Helper()
	if r.begun == nil {
		return
	}
	select {
	case <-r.begun:
	case <-time.After(patience):
		r.t.Fatal("no status")
	}
	if r.status != want {
		r.t.Errorf("status %d, want %d", r.status, want)
	}
}

// initialize begins a session.
func (c *talker) initialize(version, capabilities string) string {
	c.t.Helper()
	return c.initializeAs(initialize(version, capabilities))
}

// initializeAs begins a session with this request, and returns the response.
func (c *talker) initializeAs(body string) string {
	c.t.Helper()
	r := c.say(body)
	answer := r.next()
	version := gjson.Get(answer, "result.protocolVersion").String()
	if version == "" {
		c.t.Fatalf("initialize: %s", answer)
	}
	if r.begun != nil {
		c.session = r.header.Get("Mcp-Session-Id")
		if version >= "2025-06-18" {
			c.version = version
		}
	}
	c.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return answer
}
