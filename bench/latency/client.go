package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os/exec"
	"slices"
	"strconv"
	"time"

	"github.com/tidwall/gjson"
	"github.com/valyala/fasthttp"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/translate"
)

const (
	largest   = 64_000_000 // bytes of the largest result
	maxAnswer = largest + 1<<20
	callTime  = 60 * time.Second // a timeout: calls are much faster
	maxLine   = 1 << 20          // of a client on stdio
)

// carrier sends a message and returns the answer, which is valid until the next call; nil for a notification.
type carrier interface {
	exchange(message []byte, notification bool) ([]byte, error)
	close()
}

// session is a client with its connection. Only one goroutine at a time may use it.
type session struct {
	carrier
	speaks *translate.Revision
	number int
	pid    int // of the command, for a client on stdio
}

// open greets the server, if the client's revision has a handshake. The client knows its revision and older ones: as the specification
// asks of it, it leaves if the server names a newer one
// (https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#version-negotiation).
func open(c carrier, speaks *translate.Revision) (*session, error) {
	s := &session{carrier: c, speaks: speaks, number: 10_000_000}
	if speaks.Modern {
		return s, nil
	}
	hello := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"latency","version":"1"}}}`, speaks.Name)
	body, err := c.exchange(hello, false)
	if err == nil && !gjson.GetBytes(body, "result").IsObject() {
		err = fmt.Errorf("not a result: %.300q", body)
	}
	if named := gjson.GetBytes(body, "result.protocolVersion").Str; err == nil && !slices.Contains(translate.Handshake()[slices.Index(translate.Handshake(), speaks):], translate.Lookup(named)) {
		err = fmt.Errorf("the server names revision %q", named)
	}
	if err == nil {
		_, err = c.exchange([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`), true)
	}
	if err != nil {
		c.close()
		return nil, fmt.Errorf("initialize %s: %w", speaks.Name, err)
	}
	return s, nil
}

// call is a request whose id is replaced for each call, and the length of the answer.
type call struct {
	message []byte
	id      int // its offset
	size    int // of each answer; 0 until the first
}

// request returns a call of a kind; bytes is the size of the result, 0 for the small one.
func (s *session) request(kind, bytes int) *call {
	const idText = "10000000"
	meta := ""
	if s.speaks.Modern {
		meta = fmt.Sprintf(`,"_meta":{"io.modelcontextprotocol/protocolVersion":%q,"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"latency","version":"1"}}`, s.speaks.Name)
	}
	head := `{"jsonrpc":"2.0","id":`
	rest := `,"method":"tools/call","params":{"name":"small","arguments":{"query":"what the weather will be","limit":20` + `}` + meta + `}}`
	switch {
	case kind == list && meta == "":
		rest = `,"method":"tools/list","params":{}}`
	case kind == list:
		rest = `,"method":"tools/list","params":{` + meta[1:] + `}}`
	case bytes > 0:
		rest = fmt.Sprintf(`,"method":"tools/call","params":{"name":"sized","arguments":{"bytes":%d}%s}}`, bytes, meta)
	}
	return &call{message: []byte(head + idText + rest), id: len(head)}
}

// do makes one call. It returns an error unless the answer is as long as the first one, whose content is checked.
func (s *session) do(c *call) error {
	s.number++
	strconv.AppendInt(c.message[:c.id], int64(s.number), 10) // 8 digits
	body, err := s.exchange(c.message, false)
	if err != nil {
		return err
	}
	if c.size == 0 {
		if !gjson.ValidBytes(body) || gjson.GetBytes(body, "id").Int() != int64(s.number) || !gjson.GetBytes(body, "result").IsObject() || gjson.GetBytes(body, "result.isError").Bool() {
			return fmt.Errorf("not the answer: %.300q", body)
		}
		c.size = len(body)
	}
	if len(body) != c.size {
		return fmt.Errorf("answers differ: %d bytes, then %d", c.size, len(body))
	}
	return nil
}

// overHTTP is a connection of Streamable HTTP. It reads an answer that is an event stream of one message as well, which
// other proxies send.
type overHTTP struct {
	conn    net.Conn
	r       *bufio.Reader
	host    string
	path    string
	speaks  *translate.Revision
	session string
	resp    fasthttp.Response
	out     []byte
}

func dialHTTP(to string, speaks *translate.Revision) (*overHTTP, error) {
	u, err := url.Parse(to)
	if err != nil {
		return nil, err
	}
	conn, err := net.DialTimeout("tcp", u.Host, callTime)
	if err != nil {
		return nil, err
	}
	return &overHTTP{conn: conn, r: bufio.NewReaderSize(conn, 16<<10), host: u.Host, path: u.RequestURI(), speaks: speaks}, nil
}

func (c *overHTTP) close() { c.conn.Close() }

func (c *overHTTP) exchange(message []byte, notification bool) ([]byte, error) {
	if err := c.conn.SetDeadline(time.Now().Add(callTime)); err != nil {
		return nil, err
	}
	c.out = append(append(append(append(c.out[:0], "POST "...), c.path...), " HTTP/1.1\r\nHost: "...), c.host...)
	c.out = append(c.out, "\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"...)
	if c.session != "" {
		c.out = append(append(append(c.out, "Mcp-Session-Id: "...), c.session...), "\r\n"...)
	}
	if c.speaks.VersionHeader && (c.session != "" || c.speaks.Modern) {
		c.out = append(append(append(c.out, "MCP-Protocol-Version: "...), c.speaks.Name...), "\r\n"...)
	}
	if c.speaks.Modern {
		c.out = append(append(append(c.out, "Mcp-Method: "...), gjson.GetBytes(message, "method").Str...), "\r\n"...)
		if name := gjson.GetBytes(message, "params.name").Str; name != "" {
			c.out = append(append(append(c.out, "Mcp-Name: "...), name...), "\r\n"...)
		}
	}
	c.out = append(strconv.AppendInt(append(c.out, "Content-Length: "...), int64(len(message)), 10), "\r\n\r\n"...)
	if _, err := c.conn.Write(append(c.out, message...)); err != nil {
		return nil, err
	}
	if err := c.resp.ReadLimitBody(c.r, maxAnswer); err != nil {
		return nil, err
	}
	body := c.resp.Body()
	if status := c.resp.StatusCode(); status >= 300 {
		return nil, fmt.Errorf("status %d: %.300q", status, body)
	}
	if id := c.resp.Header.Peek("Mcp-Session-Id"); len(id) > 0 && c.session == "" {
		c.session = string(id)
	}
	if notification {
		return nil, nil
	}
	if !bytes.HasPrefix(c.resp.Header.ContentType(), []byte("text/event-stream")) {
		return body, nil
	}
	for events := sse.NewReader(bytes.NewReader(body), maxAnswer); ; {
		e, err := events.Next()
		if err != nil {
			return nil, fmt.Errorf("no message in the event stream: %w", err)
		}
		if gjson.GetBytes(e.Data, "id").Exists() {
			return e.Data, nil
		}
	}
}

// overSSE is a client of HTTP+SSE: a stream, and a connection for requests.
type overSSE struct {
	stream net.Conn
	events *sse.Reader
	post   *overHTTP
}

func dialSSE(to string) (*overSSE, error) {
	u, err := url.Parse(to)
	if err != nil {
		return nil, err
	}
	conn, err := net.DialTimeout("tcp", u.Host, callTime)
	if err != nil {
		return nil, err
	}
	c := &overSSE{stream: conn}
	if err := c.greet(u); err != nil {
		conn.Close()
		return nil, err
	}
	return c, nil
}

func (c *overSSE) greet(u *url.URL) error {
	if err := c.stream.SetDeadline(time.Now().Add(callTime)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(c.stream, "GET %s HTTP/1.1\r\nHost: %s\r\nAccept: text/event-stream\r\n\r\n", u.RequestURI(), u.Host); err != nil {
		return err
	}
	body, err := streamBody(c.stream)
	if err != nil {
		return err
	}
	c.events = sse.NewReader(body, maxLine)
	e, err := c.events.Next()
	if err != nil {
		return err
	}
	if c.post, err = dialHTTP("http://"+u.Host+string(e.Data), translate.Oldest()); err != nil {
		return err
	}
	return c.stream.SetDeadline(time.Time{})
}

func (c *overSSE) exchange(message []byte, notification bool) ([]byte, error) {
	if _, err := c.post.exchange(message, true); err != nil || notification {
		return nil, err
	}
	if err := c.stream.SetReadDeadline(time.Now().Add(callTime)); err != nil {
		return nil, err
	}
	for {
		e, err := c.events.Next()
		if err != nil {
			return nil, err
		}
		if gjson.GetBytes(e.Data, "id").Exists() && !gjson.GetBytes(e.Data, "method").Exists() {
			return e.Data, nil
		}
	}
}

func (c *overSSE) close() {
	c.stream.Close()
	if c.post != nil {
		c.post.close()
	}
}

// overStdio is a command that speaks on its stdin and stdout.
type overStdio struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	err bytes.Buffer
}

func startStdio(ctx context.Context, args []string, env []string) (*overStdio, error) {
	c := &overStdio{cmd: exec.CommandContext(ctx, args[0], args[1:]...)}
	c.cmd.Env = env
	c.cmd.Stderr = &limited{&c.err}
	c.cmd.WaitDelay = 2 * time.Second
	in, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.in, c.out = in, bufio.NewReaderSize(out, maxLine)
	return c, c.cmd.Start()
}

func (c *overStdio) exchange(message []byte, notification bool) ([]byte, error) {
	if _, err := c.in.Write(append(message[:len(message):len(message)], '\n')); err != nil {
		return nil, err
	}
	if notification {
		return nil, nil
	}
	for {
		line, err := c.out.ReadSlice('\n')
		if err != nil {
			if errors.Is(err, io.EOF) {
				c.cmd.Wait()
				err = fmt.Errorf("%s ended: %.300q", c.cmd.Path, c.err.String())
			}
			return nil, err
		}
		if gjson.GetBytes(line, "id").Exists() && !gjson.GetBytes(line, "method").Exists() {
			return bytes.TrimSpace(line), nil
		}
	}
}

// close ends the command by the end of its input, and after a while by force.
func (c *overStdio) close() {
	c.in.Close()
	kill := time.AfterFunc(3*time.Second, func() { c.cmd.Process.Kill() })
	defer kill.Stop()
	c.cmd.Wait()
}

// limited keeps the first 4 KiB that are written to it.
type limited struct{ *bytes.Buffer }

func (l *limited) Write(b []byte) (int, error) {
	l.Buffer.Write(b[:min(len(b), max(0, 4096-l.Len()))])
	return len(b), nil
}
