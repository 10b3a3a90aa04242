package peers

import (
	"bytes"
	"net/http"

	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

// garbage sends something that is none of the protocol, on a connection of its own or as a line.
func (c *Client) garbage(kind string) {
	var body []byte
	switch kind {
	case "utf8":
		body = []byte("{\"jsonrpc\":\"2.0\",\"id\":\"bad\",\"method\":\"tools/list\",\"params\":{\"a\":\"\xff\xfe\"}}")
	case "depth":
		body = append(append([]byte(`{"jsonrpc":"2.0","id":"bad","method":"tools/list","params":{"a":`), bytes.Repeat([]byte("["), 600)...), append(bytes.Repeat([]byte("]"), 600), "}}"...)...)
	case "unknown":
		body = []byte(`{"jsonrpc":"2.0","sense":"none"}`)
	case "token":
		body = []byte(`{"jsonrpc":"2.0","id":"bad","method":"tools/list"}`)
	case "huge":
		body = bytes.Repeat([]byte("x"), 100_000)
	case "http":
		body = []byte("\x16\x03\x01 this is no HTTP\r\n\r\n")
	case "answer": // to a question that this client was not asked; another one may have been
		if c.modern || c.session == nil || !c.session.ok || c.session.asked["1"] != nil {
			return
		}
		body = []byte(`{"jsonrpc":"2.0","id":1,"result":{"roots":[{"uri":"file:///forged","name":"forged"}],"action":"accept","content":{"answer":"forged"}}}`)
	default:
		body = []byte(`{"jsonrpc":"2.0","id":`)
	}
	c.note(trace.Event{Kind: trace.Note, Text: "garbage " + kind})
	c.spoilt = true
	if c.o.Transport == "stdio" {
		c.box.send(append(bytes.ReplaceAll(body, []byte("\r\n"), []byte(" ")), '\n'))
		return
	}
	s := c.session
	if s == nil || !s.ok {
		s = &clientSession{c: c, endpoint: "/messages"}
	}
	path := "/mcp"
	if c.o.Transport == "sse" {
		path = s.endpoint
	}
	x := s.exchange("POST", path, acceptBoth, body)
	x.alone = true
	switch kind {
	case "http":
		x.data = body
	case "token":
		x.data = bytes.Replace(x.data, []byte(c.o.Token), []byte("unknown-0123456789abcdef"), 1)
	case "huge": // a body that is not to be waited for
		x.data = bytes.Replace(x.data, []byte("Content-Length: 100000"), []byte("Content-Length: 1000000000000"), 1)
	}
	otherwise := "garbage was taken for something: " + kind
	if kind == "answer" {
		otherwise = ""
	}
	x.mustFail("garbage "+kind, otherwise)
}

// ghost uses a session that the client has ended.
func (c *Client) ghost() {
	if s := c.deleted; s != nil && c.o.Transport == "http" && !c.modern {
		x := s.exchange("POST", "/mcp", acceptBoth, []byte(`{"jsonrpc":"2.0","id":"bad","method":"tools/list"}`))
		s.note(nil, trace.Event{Kind: trace.Note, Method: "tools/list", Text: "a ghost"})
		x.mustFail("uses the session that it has ended", "a session that was ended was served")
	}
}

// mustFail sends x, to which the answer must be an error, unless otherwise is "".
func (x *exchange) mustFail(what, otherwise string) {
	c := x.s.c
	x.alone = true
	x.handle = func(resp *http.Response, err error) bool {
		e := trace.Event{Kind: trace.Note, Text: what}
		if err != nil {
			e.Failed = ended(err)
		} else if resp.StatusCode < 400 && c.o.Transport == "http" && otherwise != "" {
			e.Kind, e.Text, e.Failed = trace.Strange, otherwise, resp.Status
		} else {
			e.Failed, _ = refusal(resp)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if !x.left {
			x.s.note(x, e)
		}
		return false
	}
	c.start(x)
}

// Session returns the id and the revision of the session of Streamable HTTP that the client has; "" for none.
func (c *Client) Session() (id, revision string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.session; s != nil && s.ok && !s.over {
		return s.id, s.revision
	}
	return "", ""
}

// Listens returns the replica to which the standing stream of the client is open; "" for none.
func (c *Client) Listens() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.session; s != nil && s.standing != nil && s.standing.conn != nil {
		return s.standing.conn.via
	}
	return ""
}

// steal uses the session of another client, with the token of this one.
func (c *Client) steal(session, revision, how string) {
	if session == "" || c.o.Transport != "http" {
		return
	}
	s := &clientSession{c: c, id: session, revision: revision}
	var x *exchange
	switch how {
	case "get":
		x = s.exchange("GET", "/mcp", acceptStream, nil)
	case "delete":
		x = s.exchange("DELETE", "/mcp", "*/*", nil)
	default:
		x = s.exchange("POST", "/mcp", acceptBoth, []byte(`{"jsonrpc":"2.0","id":"bad","method":"tools/list"}`))
	}
	x.mustFail("steals a session: "+how, "the session of another user was served: "+how)
}
