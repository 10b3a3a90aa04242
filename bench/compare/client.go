package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/tidwall/gjson"
	"github.com/valyala/fasthttp"

	"github.com/dragoman-proxy/dragoman/translate"
)

const (
	maxAnswer   = 8 << 20
	callTime    = 30 * time.Second // a timeout: calls are much faster
	readerBytes = 64 << 10
)

// client is one MCP client with its own connection, and with a session if its
// revision has sessions. Only one goroutine at a time may use it.
type client struct {
	conn    net.Conn
	r       *bufio.Reader
	host    string
	speaks  *translate.Revision
	session string
	user    string // the value of its Authorization header, "" for none
	resp    fasthttp.Response
}

// dial connects a client to the end of a way, and opens its session.
func dial(w *way) (*client, error) {
	c, err := connect(w, nil)
	if err != nil || c.speaks.Modern {
		return c, err
	}
	if err := c.initialize(); err != nil {
		c.conn.Close()
		return nil, fmt.Errorf("initialize: %w", err)
	}
	return c, nil
}

// connect connects a client to the end of a way, from the given address; nil for any.
func connect(w *way, from net.IP) (*client, error) {
	u, err := url.Parse(w.url)
	if err != nil {
		return nil, err
	}
	d := net.Dialer{Timeout: callTime}
	if from != nil {
		d.LocalAddr = &net.TCPAddr{IP: from}
	}
	conn, err := d.Dial("tcp", u.Host)
	if err != nil {
		return nil, err
	}
	return &client{conn: conn, r: bufio.NewReaderSize(conn, readerBytes), host: u.Host, speaks: w.speaks}, nil
}

func (c *client) initialize() error {
	hello := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"compare","version":"1"}}}`, c.speaks.Name)
	if err := c.do(c.wrap(hello)); err != nil {
		return err
	}
	if status := c.resp.StatusCode(); status != fasthttp.StatusOK {
		return fmt.Errorf("status %d: %.200q", status, c.resp.Body())
	}
	c.session = string(c.resp.Header.Peek("Mcp-Session-Id"))
	if err := c.do(c.wrap([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))); err != nil {
		return err
	}
	if status := c.resp.StatusCode(); status != fasthttp.StatusAccepted {
		return fmt.Errorf("status %d: %.200q", status, c.resp.Body())
	}
	return nil
}

// wrap returns the HTTP request that carries a message.
func (c *client) wrap(message []byte) []byte {
	headers := ""
	if c.session != "" {
		headers = "Mcp-Session-Id: " + c.session + "\r\n"
	}
	if c.speaks.Modern {
		message, headers = c.present(message)
	}
	if c.user != "" {
		headers += "Authorization: " + c.user + "\r\n"
	}
	return fmt.Appendf(nil, "POST /mcp HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"+
		"Accept: application/json, text/event-stream\r\n%sContent-Length: %d\r\n\r\n%s", c.host, headers, len(message), message)
}

// present adds the client's revision, capabilities and name to a request, as a revision without sessions requires,
// and returns the headers that repeat parts of it. See
// https://modelcontextprotocol.io/specification/2026-07-28/basic#meta.
func (c *client) present(request []byte) (presented []byte, headers string) {
	const who = `"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}},"io.modelcontextprotocol/clientInfo":{"name":"compare","version":"1"}}`
	method, params := gjson.GetBytes(request, "method"), gjson.GetBytes(request, "params")
	at := params.Index + len(params.Raw) - 1
	presented = append(presented, request[:at]...)
	if at > params.Index+1 {
		presented = append(presented, ',')
	}
	presented = fmt.Appendf(presented, `"_meta":{"io.modelcontextprotocol/protocolVersion":%q,%s`, c.speaks.Name, who)
	headers = fmt.Sprintf("MCP-Protocol-Version: %s\r\nMcp-Method: %s\r\n", c.speaks.Name, method.Str)
	if name := params.Get("name").Str; name != "" {
		headers += "Mcp-Name: " + name + "\r\n"
	}
	return append(presented, request[at:]...), headers
}

// do sends a request and reads its response into c.resp.
func (c *client) do(request []byte) error {
	if err := c.conn.SetDeadline(time.Now().Add(callTime)); err != nil {
		return err
	}
	if _, err := c.conn.Write(request); err != nil {
		return err
	}
	return c.resp.ReadLimitBody(c.r, maxAnswer)
}

// warm makes the calls that are not measured, and checks the last answer. It returns
// the length of an answer, which is the same for all calls.
func (c *client) warm(w *work, request []byte) (int, error) {
	for range w.warm {
		if err := c.do(request); err != nil {
			return 0, err
		}
	}
	body := c.resp.Body()
	size := len(body)
	if w.notices != nil {
		if n := bytes.Count(body, []byte(`"notifications/message"`)); n != len(w.notices) {
			return 0, fmt.Errorf("%d notifications before the answer, want %d: %.500q", n, len(w.notices), body)
		}
		_, body, _ = bytes.Cut(body[bytes.LastIndex(body, []byte("\ndata:"))+1:], []byte(":"))
	}
	switch {
	case c.resp.StatusCode() != fasthttp.StatusOK:
		return 0, fmt.Errorf("status %d: %.200q", c.resp.StatusCode(), body)
	case !gjson.ValidBytes(body) || gjson.GetBytes(body, "id").Raw != gjson.GetBytes(w.answer, "id").Raw:
		return 0, fmt.Errorf("not the answer: %.200q", body)
	case !gjson.GetBytes(body, "result").IsObject() || len(body) < len(w.answer)/2:
		return 0, fmt.Errorf("not the whole answer: %.200q", body)
	}
	return size, nil
}

var errChanged = errors.New("answers differ")

// call makes one call. It returns an error unless the answer has size bytes.
func (c *client) call(request []byte, size int) error {
	if err := c.do(request); err != nil {
		return err
	}
	if c.resp.StatusCode() != fasthttp.StatusOK || len(c.resp.Body()) != size {
		return errChanged
	}
	return nil
}
