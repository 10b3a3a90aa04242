package cost

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
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
	speaks       *translate.Revision
	capabilities string // what a client without a handshake declares
	number       int
}

// firstNumber is the id before that of the first call: all have eight digits.
const firstNumber = 10_000_000

// open greets the server, if the client's revision has a handshake. The client knows its revision and older ones: as the specification
// asks of it, it leaves if the server names a newer one
// (https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#version-negotiation).
func open(c carrier, speaks *translate.Revision) (*session, error) {
	s := &session{carrier: c, speaks: speaks, capabilities: "{}", number: firstNumber}
	if speaks.Modern {
		return s, nil
	}
	hello := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"measure","version":"1"}}}`, speaks.Name)
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

// request returns a call of a kind.
func (s *session) request(kind int) *call {
	if kind == list {
		return s.message("tools/list", "")
	}
	return s.tool(toolNames()[kind], `{"query":"what the weather will be","limit":20}`)
}

// tool returns a call of a tool.
func (s *session) tool(name, arguments string) *call {
	return s.message("tools/call", fmt.Sprintf(`"name":%q,"arguments":%s`, name, arguments))
}

// message returns a request. A revision without sessions has the client's revision, capabilities and name in each. See
// https://modelcontextprotocol.io/specification/2026-07-28/basic#meta.
func (s *session) message(method, params string) *call {
	const head = `{"jsonrpc":"2.0","id":`
	if s.speaks.Modern {
		if params != "" {
			params += ","
		}
		params += fmt.Sprintf(`"_meta":{"io.modelcontextprotocol/protocolVersion":%q,"io.modelcontextprotocol/clientCapabilities":%s,"io.modelcontextprotocol/clientInfo":{"name":"measure","version":"1"}}`, s.speaks.Name, s.capabilities)
	}
	return &call{message: fmt.Appendf(nil, `%s%d,"method":%q,"params":{%s}}`, head, firstNumber, method, params), id: len(head)}
}

// do makes one call. It returns an error unless the answer is as long as the first one, whose content is checked.
func (s *session) do(c *call) error {
	s.number++
	strconv.AppendInt(c.message[:c.id], int64(s.number), 10)
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

// overHTTP is a connection of Streamable HTTP. It reads an answer that is an event stream as well.
type overHTTP struct {
	conn    net.Conn
	r       *bufio.Reader
	host    string
	path    string
	speaks  *translate.Revision
	session string
	user    string // the value of its Authorization header; "" for none
	notes   int    // how many notifications came before the last answer
	resp    fasthttp.Response
	out     []byte
}

// dialHTTP connects from an address; nil for any.
func dialHTTP(to string, speaks *translate.Revision, from net.Addr) (*overHTTP, error) {
	u, err := url.Parse(to)
	if err != nil {
		return nil, err
	}
	d := net.Dialer{Timeout: callTime, LocalAddr: from}
	conn, err := d.Dial("tcp", u.Host)
	if err != nil {
		return nil, err
	}
	return &overHTTP{conn: conn, r: bufio.NewReaderSize(conn, 64<<10), host: u.Host, path: u.RequestURI(), speaks: speaks}, nil
}

func (c *overHTTP) close() { c.conn.Close() }

func (c *overHTTP) header(name, value string) {
	if value != "" {
		c.out = append(append(append(append(c.out, name...), ": "...), value...), "\r\n"...)
	}
}

// send writes a request without waiting for its response.
func (c *overHTTP) send(method, accept string, message []byte) error {
	if err := c.conn.SetDeadline(time.Now().Add(callTime)); err != nil {
		return err
	}
	c.out = append(append(append(append(c.out[:0], method...), ' '), c.path...), " HTTP/1.1\r\n"...)
	c.header("Host", c.host)
	c.header("Accept", accept)
	c.header("Mcp-Session-Id", c.session)
	c.header("Authorization", c.user)
	if c.speaks.VersionHeader && (c.session != "" || c.speaks.Modern) {
		c.header("MCP-Protocol-Version", c.speaks.Name)
	}
	if c.speaks.Modern {
		c.header("Mcp-Method", gjson.GetBytes(message, "method").Str)
		c.header("Mcp-Name", gjson.GetBytes(message, "params.name").Str)
	}
	if message != nil {
		c.header("Content-Type", "application/json")
		c.out = append(strconv.AppendInt(append(c.out, "Content-Length: "...), int64(len(message)), 10), "\r\n"...)
	}
	_, err := c.conn.Write(append(append(c.out, "\r\n"...), message...))
	return err
}

func (c *overHTTP) exchange(message []byte, notification bool) ([]byte, error) {
	if err := c.send(http.MethodPost, "application/json, text/event-stream", message); err != nil {
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
	c.notes = 0
	for events := sse.NewReader(bytes.NewReader(body), maxAnswer); ; c.notes++ {
		e, err := events.Next()
		if err != nil {
			return nil, fmt.Errorf("no answer in the event stream: %w", err)
		}
		if gjson.GetBytes(e.Data, "id").Exists() {
			return e.Data, nil
		}
	}
}

// listen opens a GET stream on the connection, which is not used for anything else from then on.
func (c *overHTTP) listen() (io.Reader, error) {
	if err := c.send(http.MethodGet, "text/event-stream", nil); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("stream: %s", resp.Status)
	}
	return resp.Body, c.conn.SetDeadline(time.Time{})
}

// overSSE is a client of HTTP+SSE: a stream, and a connection for requests.
type overSSE struct {
	stream *overHTTP
	events *sse.Reader
	post   *overHTTP
}

func dialSSE(to string) (*overSSE, error) {
	stream, err := dialHTTP(to, translate.Oldest(), nil)
	if err != nil {
		return nil, err
	}
	c := &overSSE{stream: stream}
	body, err := stream.listen()
	if err == nil {
		c.events = sse.NewReader(body, maxLine)
		var e sse.Event
		if e, err = c.events.Next(); err == nil {
			c.post, err = dialHTTP("http://"+stream.host+string(e.Data), translate.Oldest(), nil)
		}
	}
	if err != nil {
		stream.close()
		return nil, err
	}
	return c, nil
}

func (c *overSSE) exchange(message []byte, notification bool) ([]byte, error) {
	if _, err := c.post.exchange(message, true); err != nil || notification {
		return nil, err
	}
	if err := c.stream.conn.SetReadDeadline(time.Now().Add(callTime)); err != nil {
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
	c.stream.close()
	c.post.close()
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
