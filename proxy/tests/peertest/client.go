package peertest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/translate"
)

// Client is a client over Streamable HTTP or on a pipe that sends what the test says.
type Client struct {
	T       *testing.T
	URL     string
	HTTP    *http.Client
	Lines   chan string // the lines that a client on a pipe received
	Session string
	Version string // the MCP-Protocol-Version of HTTP requests; "" for none

	conn net.Conn // the pipe
}

// NewClient returns a client of what is at this URL, or on this wire.
func NewClient(t *testing.T, at Endpoint) *Client {
	t.Helper()
	c := &Client{T: t, URL: at.URL}
	if at.Wire == "" {
		c.HTTP = WebClient(t)
		return c
	}
	conn := Dial(t, at.Wire)
	c.conn, c.Lines = conn, make(chan string, 1000)
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		defer close(c.Lines)
		for in := bufio.NewReader(conn); ; {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			c.Lines <- strings.TrimSuffix(line, "\n")
		}
	}()
	return c
}

// Piped reports whether the client is on a pipe.
func (c *Client) Piped() bool { return c.conn != nil }

// Reply holds what a client receives for one message or, on a pipe, for all.
type Reply struct {
	T      *testing.T
	Events chan string
	Begun  chan struct{} // closed when Status and Header are set; nil on a pipe
	Status int
	Header http.Header
	Leave  context.CancelFunc // closes the stream
}

// Say sends a message. Over HTTP it adds the headers that a modern request needs, except those in
// more, where a name may occur twice.
func (c *Client) Say(body string, more ...string) *Reply {
	c.T.Helper()
	if c.conn != nil {
		if _, err := io.WriteString(c.conn, body+"\n"); err != nil {
			c.T.Fatal(err)
		}
		return &Reply{T: c.T, Events: c.Lines, Leave: func() {}}
	}
	header := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	if c.Session != "" {
		header.Set("Mcp-Session-Id", c.Session)
	}
	version := c.Version
	if v := gjson.Get(body, `params._meta.io\.modelcontextprotocol/protocolVersion`); v.Exists() {
		version = v.String()
		name := gjson.Get(body, "params.name").String()
		if name == "" {
			name = gjson.Get(body, "params.uri").String()
		}
		header.Set("Mcp-Method", gjson.Get(body, "method").String())
		header.Set("Mcp-Name", headerValue(name))
	}
	if version != "" {
		header.Set("MCP-Protocol-Version", version)
	}
	given := http.Header{}
	for i := 0; i+1 < len(more); i += 2 {
		given.Add(more[i], more[i+1])
	}
	maps.Copy(header, given)
	return c.Do(http.MethodPost, body, header)
}

// headerValue returns the value of a header for any text. See
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#value-encoding.
func headerValue(text string) string {
	plain := text == strings.Trim(text, " \t") && !strings.HasPrefix(text, "=?base64?")
	for _, c := range []byte(text) {
		plain = plain && (c == '\t' || c >= ' ' && c <= '~')
	}
	if plain {
		return text
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(text)) + "?="
}

// Listen opens the standing stream of a session.
func (c *Client) Listen() *Reply {
	if c.conn != nil {
		return &Reply{T: c.T, Events: c.Lines, Leave: func() {}}
	}
	h := http.Header{"Accept": {"text/event-stream"}, "Mcp-Session-Id": {c.Session}}
	if c.Version != "" {
		h.Set("MCP-Protocol-Version", c.Version)
	}
	return c.Do(http.MethodGet, "", h)
}

// Do sends an HTTP request.
func (c *Client) Do(method, body string, header http.Header) *Reply {
	ctx, leave := context.WithCancel(context.Background())
	r := &Reply{T: c.T, Events: make(chan string, 1000), Begun: make(chan struct{}), Leave: leave}
	req, err := http.NewRequestWithContext(ctx, method, c.URL, strings.NewReader(body))
	if err != nil {
		c.T.Fatal(err)
	}
	req.Header = header
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(r.Events)
		resp, err := c.HTTP.Do(req)
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				c.T.Errorf("%s: %v", method, err)
			}
			close(r.Begun)
			return
		}
		defer resp.Body.Close()
		r.Status, r.Header = resp.StatusCode, resp.Header
		close(r.Begun)
		if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
			if body, _ := io.ReadAll(resp.Body); len(bytes.TrimSpace(body)) > 0 {
				r.Events <- string(body)
			}
			return
		}
		in := bufio.NewScanner(resp.Body)
		in.Buffer(nil, 16<<20)
		data := ""
		for in.Scan() {
			switch line := in.Text(); {
			case line == "" && data != "":
				r.Events <- data
				data = ""
			case strings.HasPrefix(line, "data:"):
				data += strings.TrimPrefix(strings.TrimPrefix(line, "data:"), " ")
			}
		}
	}()
	c.T.Cleanup(func() {
		leave()
		<-read
	})
	return r
}

// Next returns the next message.
func (r *Reply) Next() string {
	r.T.Helper()
	select {
	case m, ok := <-r.Events:
		if !ok {
			r.T.Fatal("the stream has ended")
		}
		return m
	case <-time.After(Patience):
		r.T.Fatal("nothing comes")
	}
	return ""
}

// Code returns the HTTP status, or 0 on a pipe.
func (r *Reply) Code() int {
	if r.Begun == nil {
		return 0
	}
	<-r.Begun
	return r.Status
}

// HasStatus compares the HTTP status with want, over HTTP.
func (r *Reply) HasStatus(want int) {
	r.T.Helper()
	if r.Begun == nil {
		return
	}
	select {
	case <-r.Begun:
	case <-time.After(Patience):
		r.T.Fatal("no status")
	}
	if r.Status != want {
		r.T.Errorf("status %d, want %d", r.Status, want)
	}
}

// Initialize begins a session.
func (c *Client) Initialize(version, capabilities string) string {
	c.T.Helper()
	return c.InitializeAs(Initialize(version, capabilities))
}

// Initialize returns the request that begins a session.
func Initialize(version, capabilities string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":%q,"capabilities":%s,"clientInfo":{"name":"c","version":"1"}}}`, version, capabilities)
}

// InitializeAs begins a session with this request, and returns the response.
func (c *Client) InitializeAs(body string) string {
	c.T.Helper()
	r := c.Say(body)
	answer := r.Next()
	version := gjson.Get(answer, "result.protocolVersion").String()
	if version == "" {
		c.T.Fatalf("initialize: %s", answer)
	}
	if r.Begun != nil {
		c.Session = r.Header.Get("Mcp-Session-Id")
		if r := translate.Lookup(version); r != nil && r.VersionHeader {
			c.Version = version
		}
	}
	c.Say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return answer
}
