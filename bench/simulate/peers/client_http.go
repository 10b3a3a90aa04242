package peers

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/simulate/network"
	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

// clientConn is a connection of a client. It reads from its first request to its end, in one goroutine.
type clientConn struct {
	net.Conn
	in      *deafReader
	r       *bufio.Reader // of in
	events  *bufio.Reader // of the stream that a body is
	address string
	number  int
	via     string
	x       *exchange // whose response comes next; nil for none
}

// exchange is a request of HTTP and its response.
type exchange struct {
	s       *clientSession
	verb    string
	data    []byte // the request
	address string
	calls   []*call // whose answers its response has to have
	conn    *clientConn
	handle  func(resp *http.Response, err error) (keep bool) // is called once, without the lock, unless the client left
	told    func(why string)                                 // for a notification: why it was not accepted, "" if it was
	session string                                           // the id that the response gave
	alone   bool                                             // it has a connection of its own
	left    bool                                             // the client has closed it
	opened  bool                                             // a standing stream that was accepted
	last    string                                           // id of the last event
	resumed int
}

// maxIdle is how many connections a client keeps for its next requests.
const maxIdle = 3

func newReader(r io.Reader) *bufio.Reader { return bufio.NewReaderSize(r, 4096) }

// ended says how a connection ended, or that there was none.
func ended(err error) string {
	var op *net.OpError
	if errors.As(err, &op) {
		if op.Op == "dial" {
			return "dial: " + op.Err.Error()
		}
		err = op.Err
	}
	return "ended: " + err.Error()
}

// start sends x over a connection that is there or a new one. The lock is held.
func (c *Client) start(x *exchange) {
	if c.closed {
		return
	}
	c.active[x] = true
	for i, k := range c.idle {
		if k.address == x.address && !x.alone {
			c.idle = append(c.idle[:i:i], c.idle[i+1:]...)
			k.x, x.conn = x, k
			break
		}
	}
	c.goes(func() {
		k := x.conn
		if k == nil {
			conn, err := c.o.Dial(network.Sends(c.ctx, x.data), "tcp", x.address)
			c.mu.Lock()
			switch {
			case x.left:
				c.mu.Unlock()
				if err == nil {
					conn.Close()
				}
				return
			case err != nil:
				delete(c.active, x)
				c.mu.Unlock()
				x.handle(nil, err)
				return
			}
			k = &clientConn{Conn: conn, address: x.address, x: x, in: &deafReader{c: c, r: conn}}
			k.r = newReader(k.in)
			if of, ok := conn.(interface{ ID() int }); ok {
				k.number = of.ID()
			}
			if at, ok := conn.(interface{ Peer() string }); ok {
				k.via = at.Peer()
			}
			x.conn = k
			c.goes(func() { c.readConn(k) })
			c.mu.Unlock()
		}
		if _, err := k.Write(x.data); err != nil {
			_ = k.SetReadDeadline(time.Now().Add(time.Second)) // there may be an answer still
		}
	})
}

// readConn reads the responses that come on k until it ends.
func (c *Client) readConn(k *clientConn) {
	defer k.Close()
	for keep := true; keep; {
		_, err := k.r.Peek(1)
		c.mu.Lock()
		x := k.x
		if x == nil {
			for i := range c.idle {
				if c.idle[i] == k {
					c.idle = append(c.idle[:i:i], c.idle[i+1:]...)
					break
				}
			}
			if err == nil && !c.closed {
				c.note(trace.Event{Kind: trace.Strange, Text: "something came on a connection without a request", Conn: k.number, Via: k.via})
			}
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
		var resp *http.Response
		if err == nil {
			resp, err = http.ReadResponse(k.r, &http.Request{Method: x.verb})
		}
		if err != nil && k.in.end != nil {
			err = k.in.end // it was cut
		} else if err != nil {
			c.mu.Lock()
			x.strange("a response that is no HTTP: "+err.Error(), nil)
			c.mu.Unlock()
		}
		keep = false
		if err != nil {
			x.handle(nil, err)
		} else if x.handle(resp, nil) && !resp.Close {
			_, err = resp.Body.Read(make([]byte, 1)) // the end, if all was read
			keep = err == io.EOF
		}
		c.mu.Lock()
		delete(c.active, x)
		k.x = nil
		if keep = keep && !c.closed && !x.left && !x.alone && len(c.idle) < maxIdle; keep {
			c.idle = append(c.idle, k)
		}
		c.mu.Unlock()
	}
}

// leave closes x without a word: nothing of it is heard any more.
func (x *exchange) leave() {
	x.left = true
	delete(x.s.c.active, x)
	if x.conn != nil {
		x.conn.Close()
	}
}

// waits reports whether an answer is missing.
func (x *exchange) waits() bool {
	return slices.ContainsFunc(x.calls, func(k *call) bool { return k.x == x && !k.ended })
}

// expects reports whether an answer is missing that the client wants.
func (x *exchange) expects() bool {
	return slices.ContainsFunc(x.calls, func(k *call) bool { return k.x == x && !k.ended && !k.silent })
}

func (x *exchange) strange(text string, raw []byte) {
	if !x.left {
		x.s.strange(x, text, raw)
	}
}

// exchange returns an exchange whose request has a message as its body; nil for a GET or DELETE.
func (s *clientSession) exchange(verb, path, accept string, body []byte, more ...string) *exchange {
	c := s.c
	x := &exchange{s: s, verb: verb, address: c.o.Address()}
	fields := append([]string{"Host", x.address, "Accept", accept}, more...)
	if c.o.Token != "" {
		fields = append(fields, "Authorization", "Bearer "+c.o.Token, "X-User", c.o.User)
	}
	if c.o.Transport == "http" {
		fields = append(fields, "Mcp-Session-Id", s.id)
		if s.revision >= "2025-06-18" { // known once the session has begun
			fields = append(fields, "MCP-Protocol-Version", s.revision)
		}
	}
	first := verb + " " + path + " HTTP/1.1"
	if body == nil {
		x.data = appendHead(nil, first, fields...)
	} else {
		x.data = appendBody(nil, first, body, append(fields, "Content-Type", "application/json")...)
	}
	return x
}

const (
	acceptBoth   = "application/json, text/event-stream"
	acceptStream = "text/event-stream"
)

// isStream reports whether resp is a stream of events.
func isStream(resp *http.Response) bool {
	return resp.StatusCode == 200 && kindOf(resp) == acceptStream
}

func kindOf(resp *http.Response) string {
	kind, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	return kind
}

// refusal returns what a response says that is not what was asked for. ok is set if it came whole.
func refusal(resp *http.Response) (text string, ok bool) {
	body, err := readBody(resp.Body)
	return fmt.Sprintf("status %d: %.100s", resp.StatusCode, body), err == nil
}

// post sends a message: that of calls, or one that is no request.
func (s *clientSession) post(raw []byte, calls []*call) *exchange {
	var x *exchange
	if s.c.o.Transport == "sse" {
		x = s.exchange("POST", s.endpoint, "*/*", raw)
		x.handle = x.postedSSE
	} else {
		x = s.exchange("POST", "/mcp", acceptBoth, raw, s.modernFields(calls)...)
		x.handle = x.posted
	}
	x.calls = calls
	for _, k := range calls {
		k.x = x
	}
	s.c.start(x)
	return x
}

// modernFields are the fields by which 2026-07-28 says in the head what the body says.
func (s *clientSession) modernFields(calls []*call) []string {
	if !s.c.modern || len(calls) == 0 {
		return nil
	}
	k := calls[0]
	fields := []string{"Mcp-Method", k.method}
	switch k.method {
	case "tools/call", "prompts/get":
		fields = append(fields, "Mcp-Name", k.params["name"].(string))
	case "resources/read":
		fields = append(fields, "Mcp-Name", k.params["uri"].(string))
	case "tasks/get", "tasks/cancel":
		fields = append(fields, "Mcp-Name", k.params["taskId"].(string))
	}
	return fields
}

// posted takes the response to a POST of Streamable HTTP.
func (x *exchange) posted(resp *http.Response, err error) bool {
	s := x.s
	if err != nil {
		return x.done(ended(err), false)
	}
	kind := kindOf(resp)
	if isStream(resp) && len(x.calls) > 0 {
		s.c.mu.Lock()
		x.session = resp.Header.Get("Mcp-Session-Id")
		s.c.mu.Unlock()
		return x.stream(resp.Body)
	}
	body, err := readBody(resp.Body)
	if err != nil {
		return x.done(ended(err), false)
	}
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if x.left {
		return false
	}
	x.session = resp.Header.Get("Mcp-Session-Id")
	text := fmt.Sprintf("status %d: %.100s", resp.StatusCode, body)
	var all []*message
	if kind == "application/json" && len(body) > 0 {
		if all, _, err = readMessages(body); err != nil {
			x.strange("a body that is none of the protocol: "+err.Error(), body)
		}
	}
	lost := resp.StatusCode == 404 && !s.c.modern && s.id != ""
	switch {
	case len(x.calls) == 0:
		if resp.StatusCode == 202 || resp.StatusCode == 200 && len(body) == 0 {
			text = ""
		} else if resp.StatusCode < 300 {
			x.strange("what is no request was answered by "+text, body)
		}
	case resp.StatusCode == 202 && !x.expects(): // it was cancelled
	case resp.StatusCode < 300 && (kind != "application/json" || resp.StatusCode != 200):
		x.strange("a request was answered by "+text, body)
	case !lost:
		for _, m := range all {
			if m.ID == nil || m.id() == "null" {
				continue // why the whole request was refused
			}
			s.take(m, x)
		}
	}
	x.finish(text)
	if lost {
		s.lose("the session is lost")
	}
	return true
}

// done ends x, whose response has ended.
func (x *exchange) done(why string, keep bool) bool {
	x.s.c.mu.Lock()
	defer x.s.c.mu.Unlock()
	x.finish(why)
	return keep
}

// finish refuses what has no answer though the response has ended. why is "" for a notification that was accepted.
func (x *exchange) finish(why string) {
	if x.left {
		return
	}
	for _, k := range x.calls {
		if k.x == x && !k.ended {
			k.refuse(why)
		}
	}
	if x.told != nil {
		x.told(why)
	}
}

// stream takes the events that answer a request, and has the stream resumed if it ends before that.
func (x *exchange) stream(body io.Reader) bool {
	why, neat := x.events(body)
	c := x.s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case x.left:
	case x.waits() && x.last != "" && x.resumed < 2 && !x.s.over && !c.modern && !x.calls[0].alone:
		x.resume(time.Second)
	default:
		x.finish(why)
	}
	return neat
}

// resume asks for what came after the last event of x, after a pause. The lock is held.
func (x *exchange) resume(pause time.Duration) {
	s := x.s
	leaves := s.leaves
	s.c.later(pause, func() {
		if s.over {
			x.finish("ended: the session is lost")
		}
		if s.leaves != leaves || s.over || !x.waits() {
			return
		}
		next := s.exchange("GET", "/mcp", acceptStream, nil, "Last-Event-ID", x.last)
		next.last, next.resumed = x.last, x.resumed+1
		for _, k := range x.calls {
			if k.x == x && !k.ended {
				k.x = next
				next.calls = append(next.calls, k)
				s.note(nil, trace.Event{Kind: trace.Resumes, Mark: k.mark, Method: k.method, ID: k.id})
			}
		}
		next.handle = next.posted
		s.c.start(next)
	})
}

// events takes the events of body to its end. neat is set if it was closed as HTTP has it.
func (x *exchange) events(body io.Reader) (why string, neat bool) {
	s := x.s
	b := &toEnd{r: body}
	r := x.conn.events
	if r == nil {
		r = newReader(b)
		x.conn.events = r
	} else {
		r.Reset(b)
	}
	for {
		e, err := readEvent(r)
		s.c.mu.Lock()
		if x.left {
			s.c.mu.Unlock()
			return "", false
		}
		if err == nil {
			x.event(e)
			s.c.mu.Unlock()
			continue
		}
		if err == io.ErrUnexpectedEOF && b.neat {
			x.strange("a stream was closed within an event", nil)
		} else if err != io.EOF && x.conn.in.end == nil {
			x.strange("a broken stream: "+err.Error(), nil)
		}
		s.c.mu.Unlock()
		if b.neat {
			return "ended: the stream was closed", true
		}
		return ended(err), false
	}
}

// toEnd notes that what it reads from came to its end in order.
type toEnd struct {
	r    io.Reader
	neat bool
}

func (b *toEnd) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	b.neat = b.neat || err == io.EOF
	return n, err
}

// event takes an event.
func (x *exchange) event(e event) {
	if e.HasID {
		x.last = e.ID
	}
	switch {
	case e.Name == "endpoint" && x.s.c.o.Transport == "sse":
		x.s.endpointIs(x, e.Data)
	case e.Name != "" && e.Name != "message":
		x.strange("an event of the name "+e.Name, []byte(e.Data))
	case e.Data != "":
		x.s.takeAll([]byte(e.Data), x)
	}
}

// stand opens the standing stream, and again after a pause whenever it ends. The lock is held.
func (s *clientSession) stand(last string, pause time.Duration) {
	x := s.exchange("GET", "/mcp", acceptStream, nil, "Last-Event-ID", last)
	x.last, s.standing = last, x
	x.handle = func(resp *http.Response, err error) bool {
		why, neat := x.standing(resp, err)
		s.c.mu.Lock()
		defer s.c.mu.Unlock()
		if x.left || s.over {
			return false
		}
		s.note(x, trace.Event{Kind: trace.Closed, Text: why})
		s.standing, s.last = nil, x.last
		if x.opened {
			pause = time.Second
		}
		switch {
		case strings.HasPrefix(why, "status 404"):
			s.lose("")
		case strings.HasPrefix(why, "status 405"): // there is none
		default:
			s.c.later(pause, func() {
				if !s.over && !s.away && s.standing == nil {
					s.stand(s.last, min(2*pause, 32*time.Second))
				}
			})
		}
		return neat
	}
	s.c.start(x)
}

// standing takes what comes on a standing stream, or why there is none, and says how it ended; neat is set if that was in order.
func (x *exchange) standing(resp *http.Response, err error) (why string, neat bool) {
	if err != nil {
		return ended(err), false
	}
	if !isStream(resp) {
		return refusal(resp)
	}
	if x.s.c.o.Transport == "http" {
		x.s.c.mu.Lock()
		x.opens()
		x.s.c.mu.Unlock()
	}
	return x.events(resp.Body)
}

func (x *exchange) opens() {
	if !x.left {
		x.opened = true
		x.s.note(x, trace.Event{Kind: trace.Opened})
	}
}

// openSSE opens the stream of HTTP+SSE, which is the session. ready is called when its endpoint is known; if that never comes, what is
// open is refused.
func (s *clientSession) openSSE(ready func()) {
	x := s.exchange("GET", "/sse", acceptStream, nil)
	x.told, s.standing = func(string) { ready() }, x
	x.handle = func(resp *http.Response, err error) bool {
		why, neat := x.standing(resp, err)
		s.c.mu.Lock()
		defer s.c.mu.Unlock()
		if !x.left && !s.over {
			s.lose(why)
			s.refuseAll(why)
		}
		return neat
	}
	s.c.start(x)
}

// delete ends the session at the server.
func (s *clientSession) delete() {
	x := s.exchange("DELETE", "/mcp", "*/*", nil)
	x.handle = func(resp *http.Response, err error) bool {
		why, neat := "", false
		if err != nil {
			why = ended(err)
		} else if why, neat = refusal(resp); resp.StatusCode < 300 {
			return neat
		}
		s.c.mu.Lock()
		defer s.c.mu.Unlock()
		if !x.left {
			s.note(x, trace.Event{Kind: trace.Note, Text: "the session was not deleted", Failed: why})
		}
		return neat
	}
	s.c.start(x)
}

// endpointIs takes the event that says where to POST.
func (s *clientSession) endpointIs(x *exchange, text string) {
	base := &url.URL{Scheme: "http", Host: x.address, Path: "/sse"}
	to, err := base.Parse(text)
	if err != nil || s.endpoint != "" || to.Host != x.address && to.Host != "127.0.0.1" {
		x.strange("an endpoint event with "+text, nil)
		return
	}
	s.endpoint = to.RequestURI()
	x.opens()
	x.told("")
}

// postedSSE takes the response to a POST of HTTP+SSE: the answer comes elsewhere.
func (x *exchange) postedSSE(resp *http.Response, err error) bool {
	if err != nil {
		return x.done(ended(err), false)
	}
	text, neat := refusal(resp)
	x.s.c.mu.Lock()
	defer x.s.c.mu.Unlock()
	switch {
	case x.left:
	case resp.StatusCode == 202 || resp.StatusCode == 200:
		if len(x.calls) == 0 {
			x.finish("")
		}
	default:
		x.finish(text)
		if resp.StatusCode == 404 {
			x.s.lose("the session is lost")
			x.s.refuseAll("ended: the session is lost")
		}
	}
	return neat
}
