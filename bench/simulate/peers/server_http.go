package peers

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/simulate/script"
	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

// serverConn is a connection of HTTP.
type serverConn struct {
	s    *Server
	conn net.Conn
	n    int
	box  *outbox
	quit chan struct{}
	over bool
	x    *serverExchange // that is not over
}

// number returns the number of a connection; 0 for none.
func (c *serverConn) number() int {
	if c == nil {
		return 0
	}
	return c.n
}

// serverExchange is a request of HTTP and its response.
type serverExchange struct {
	user    string // whose token the request has
	c       *serverConn
	session string // for the head of the response
	close   bool   // the connection ends after it
	begun   bool   // its head was written
	over    bool
	done    chan struct{} // closed when it is over
	call    *serverCall   // that its end stops
	stream  *serverStream
	gone    func() // called when the connection ends before it is over
}

func (x *serverExchange) connection() string {
	if x.close {
		return "close"
	}
	return ""
}

func (x *serverExchange) write(data []byte) { x.c.box.send(data) }

// respond sends a whole response.
func (x *serverExchange) respond(status int, body []byte, fields ...string) {
	x.begun = true
	fields = append(fields, "Mcp-Session-Id", x.session, "Connection", x.connection())
	x.write(appendBody(nil, statusLine(status), body, fields...))
	x.end()
}

func (x *serverExchange) end() {
	if x.over {
		return
	}
	x.over = true
	x.c.x = nil
	if x.stream != nil {
		x.stream.x = nil
	}
	close(x.done)
	if x.close {
		x.c.box.close()
	}
}

func (s *Server) accept(l net.Listener) {
	defer s.running.Done()
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		if s.listener != l {
			s.mu.Unlock()
			conn.Close()
			return
		}
		c := &serverConn{s: s, conn: conn, quit: make(chan struct{})}
		if numbered, ok := conn.(interface{ ID() int }); ok {
			c.n = numbered.ID()
		} else {
			c.n = s.next("connection")
		}
		c.box = newOutbox(conn, func(error) { conn.Close() })
		s.conns = append(s.conns, c)
		e := trace.Event{Kind: trace.Accepted, Conn: c.n}
		if from, ok := conn.(interface{ Peer() string }); ok {
			e.Via = from.Peer()
		}
		s.tell(e)
		s.running.Add(1)
		go c.serve()
		s.mu.Unlock()
	}
}

// serverReader reads nothing while the server is deaf.
type serverReader struct {
	s    *Server
	r    io.Reader
	quit chan struct{}
	err  error // how the connection ended
}

func (r *serverReader) Read(p []byte) (n int, err error) {
	r.wait()
	n, r.err = r.r.Read(p)
	r.wait()
	return n, r.err
}

func (r *serverReader) wait() {
	for {
		r.s.mu.Lock()
		deaf := time.Until(r.s.deafEnd)
		r.s.mu.Unlock()
		if deaf <= 0 {
			return
		}
		timer := time.NewTimer(deaf)
		select {
		case <-timer.C:
		case <-r.quit:
			timer.Stop()
			return
		}
	}
}

// serve answers the requests of a connection until it ends.
func (c *serverConn) serve() {
	s := c.s
	defer s.running.Done()
	defer func() {
		s.mu.Lock()
		c.end()
		s.mu.Unlock()
		<-c.box.ended
	}()
	from := &serverReader{s: s, r: c.conn, quit: c.quit}
	r := bufio.NewReader(from)
	for {
		q, err := http.ReadRequest(r)
		var body []byte
		if err == nil {
			body, err = readBody(q.Body)
		}
		s.mu.Lock()
		if c.over || err != nil {
			if !c.over && from.err == nil { // else it is half a request
				s.tell(trace.Event{Kind: trace.Strange, Conn: c.n, Text: "this is no HTTP: " + err.Error()})
			}
			s.mu.Unlock()
			return
		}
		x := &serverExchange{c: c, close: q.Close, done: make(chan struct{})}
		x.user = userOf(q.Header.Get("Authorization"))
		c.x = x
		s.serve(x, q, body)
		s.mu.Unlock()
		if _, err := r.Peek(1); err != nil { // the connection is watched while the response is on its way
			return
		}
		select {
		case <-x.done:
		case <-c.quit:
		}
	}
}

// userOf is whose token an Authorization has; the whole if it is none of them.
func userOf(authorization string) string {
	for _, user := range []string{"alice", "bob"} {
		if authorization == "Bearer "+script.Token(user) {
			return user
		}
	}
	return authorization
}

// end ends a connection now, on both sides.
func (c *serverConn) end() {
	if c.over {
		return
	}
	s := c.s
	c.over = true
	close(c.quit)
	s.conns = slices.DeleteFunc(s.conns, func(of *serverConn) bool { return of == c })
	c.box.close()
	c.conn.Close()
	x := c.x
	if x == nil {
		return
	}
	x.end()
	if x.gone != nil && s.listener != nil {
		x.gone()
	}
	if call := x.call; call != nil && !call.over {
		if call.modern && s.listener != nil { // else the server died, and not its client
			s.tell(trace.Event{Kind: trace.Stopped, Mark: call.mark, Method: call.m.Method, ID: call.m.id(), Conn: c.n, Text: "connection"})
		}
		call.end()
	}
}

// serve answers a request of HTTP.
func (s *Server) serve(x *serverExchange, q *http.Request, body []byte) {
	switch path := q.Method + " " + q.URL.Path; {
	case s.o.Wants == "own" && x.user == "" || s.o.Wants == "key" && q.Header.Get(script.KeyHeader) != script.Key:
		if id := q.Header.Get("Mcp-Session-Id"); id != noSession || s.o.Wants == "key" {
			s.strange(x, path+" without what the server wants: "+s.o.Wants, body)
		}
		x.respond(401, []byte("this is 401"), "Content-Type", "text/plain", "WWW-Authenticate", "Bearer")
	case s.o.Transport == "http" && path == "POST /mcp":
		s.post(x, q, body)
	case s.o.Transport == "http" && (path == "GET /mcp" || path == "DELETE /mcp"):
		if !s.handshake() {
			x.respond(405, nil, "Allow", "POST")
			return
		}
		sess := s.session(x, q)
		switch {
		case sess == nil:
		case q.Method == "GET" && s.hesitation > 0 && q.Header.Get("Last-Event-Id") == "":
			wait := s.hesitation
			s.running.Add(1)
			go func() {
				defer s.running.Done()
				time.Sleep(wait)
				s.mu.Lock()
				defer s.mu.Unlock()
				if x.over {
					return
				}
				if sess := s.session(x, q); sess != nil { // it may be over by now
					s.get(sess, x, q)
				}
			}()
		case q.Method == "GET":
			s.get(sess, x, q)
		default:
			s.tell(trace.Event{Kind: trace.Gone, Session: sess.id, Conn: x.c.n})
			sess.end()
			x.respond(200, nil)
		}
	case s.o.Transport == "sse" && path == "GET /sse":
		s.accepts(x, q, "text/event-stream")
		sess := s.newSession("server", fmt.Sprint("session-", s.next("session")))
		s.given[sess.id] = true
		s.sessions = append(s.sessions, sess)
		sess.pipe = &serverStream{event: "message", x: x}
		x.stream = sess.pipe
		x.gone = func() {
			if !sess.over {
				s.tell(trace.Event{Kind: trace.Gone, Session: sess.id, Conn: x.c.n})
				sess.end()
			}
		}
		s.tell(trace.Event{Kind: trace.Standing, Session: sess.id, Conn: x.c.n, Text: "GET"})
		sess.pipe.begin()
		x.write(appendChunk(nil, appendEvent(nil, "", "endpoint", []byte("/messages?session="+sess.id))))
	case s.o.Transport == "sse" && path == "POST /messages":
		id := q.URL.Query().Get("session")
		m := s.postedMessage(x, q, body)
		if m == nil {
			return
		}
		sess := s.sessionOf(id)
		if sess == nil {
			if !s.given[id] {
				s.strange(x, "a session that there never was: "+id, nil)
			}
			s.refuse(x, m, 404)
			return
		}
		s.message(sess, m, sess.pipe, x.c)
		x.respond(202, []byte("Accepted"))
	case s.o.Transport == "sse" && q.URL.Path == "/sse":
		x.respond(405, nil, "Allow", "GET")
	default:
		s.strange(x, "a request for "+path, nil)
		x.respond(404, nil)
	}
}

func (s *Server) strange(x *serverExchange, text string, raw []byte) {
	s.tell(trace.Event{Kind: trace.Strange, Conn: x.c.n, Text: text, Raw: raw})
}

// accepts looks whether the client takes what it may get.
func (s *Server) accepts(x *serverExchange, q *http.Request, types ...string) {
	for _, t := range types {
		if !strings.Contains(strings.Join(q.Header.Values("Accept"), ","), t) {
			s.strange(x, fmt.Sprintf("%s without %s in Accept: %q", q.Method, t, q.Header.Get("Accept")), nil)
		}
	}
}

// refuse answers m, a request or not, with a status of HTTP, as something before the server does.
func (s *Server) refuse(x *serverExchange, m *message, status int) {
	if m.request() {
		c := newServerCall(&serverSession{s: s}, m, nil, x.c)
		s.tell(trace.Event{Kind: trace.Answers, Mark: c.mark, Method: m.Method, ID: m.id(), Conn: x.c.n,
			Session: x.session, Failed: strconv.Itoa(status)})
	} else {
		s.tell(trace.Event{Kind: trace.Note, Method: m.Method, ID: m.id(), Conn: x.c.n, Session: x.session, Text: "a message is refused", Failed: strconv.Itoa(status)})
	}
	x.session = ""
	if status == 404 {
		x.respond(status, writeError(nullID, -32001, "Session not found", nil), "Content-Type", "application/json")
		return
	}
	x.respond(status, []byte("this is "+strconv.Itoa(status)), "Content-Type", "text/plain")
}

// refuseSession answers an initialize while the server begins no session.
func (s *Server) refuseSession(x *serverExchange, c *serverCall) {
	if status, _ := strconv.Atoi(s.refuses); status > 0 {
		s.refusedAny = s.refusedAny || status < 500
		s.refuse(x, c.m, status)
		return
	}
	c.fail(-32603, "no session at present", nil)
}

var nullID = []byte("null")

// postedMessage returns the message of a POST; nil if it was refused.
func (s *Server) postedMessage(x *serverExchange, q *http.Request, body []byte) *message {
	if t, _, _ := strings.Cut(q.Header.Get("Content-Type"), ";"); t != "application/json" {
		s.strange(x, fmt.Sprintf("the Content-Type is %q", q.Header.Get("Content-Type")), body)
	}
	all, batch, err := readMessages(body)
	switch {
	case err != nil:
		s.strange(x, "this is no message: "+err.Error(), body)
		x.respond(400, writeError(nullID, -32700, "Parse error", nil), "Content-Type", "application/json")
		return nil
	case batch:
		s.strange(x, "a batch", body)
		x.respond(400, writeError(nullID, -32600, "Batches are not supported", nil), "Content-Type", "application/json")
		return nil
	case time.Now().Before(s.statusEnd):
		if all[0].Method == "initialize" && s.status < 500 {
			s.refusedAny = true
		}
		s.refuse(x, all[0], s.status)
		return nil
	}
	return all[0]
}

// noSession is the session id that dragoman names where it wants to know whether the server is there, and begin nothing.
const noSession = "no-session-of-dragoman"

// session returns the session of a request; nil if it was refused.
func (s *Server) session(x *serverExchange, q *http.Request) *serverSession {
	id := q.Header.Get("Mcp-Session-Id")
	sess := s.sessionOf(id)
	switch {
	case id == "":
		if q.Method != "GET" || !s.refusedAny {
			s.strange(x, q.Method+" without Mcp-Session-Id", nil)
		}
		x.respond(400, writeError(nullID, -32000, "Bad Request: Mcp-Session-Id header is required", nil), "Content-Type", "application/json")
	case sess == nil:
		if !s.given[id] && id != noSession {
			s.strange(x, "a session that there never was: "+id, nil)
		}
		if q.Method != "POST" {
			s.unknown(x, q, id)
		}
	default:
		if v := q.Header.Get("Mcp-Protocol-Version"); v != sess.revision && (v != "" || since(sess.revision, "2025-06-18")) {
			s.strange(x, fmt.Sprintf("%s of %s has MCP-Protocol-Version %q", q.Method, sess.revision, v), nil)
		}
	}
	return sess
}

// unknown answers a GET or DELETE in a session that it does not know.
func (s *Server) unknown(x *serverExchange, q *http.Request, session string) {
	s.tell(trace.Event{Kind: trace.Note, Session: session, Conn: x.c.n, Text: q.Method + " in a session that it does not know", Failed: "404"})
	x.respond(404, writeError(nullID, -32001, "Session not found", nil), "Content-Type", "application/json")
}

func isHandshake(revision string) bool {
	return slices.Contains(serverRevisions, revision) && revision != modernRevision
}

// post answers a POST of Streamable HTTP.
func (s *Server) post(x *serverExchange, q *http.Request, body []byte) {
	s.accepts(x, q, "application/json", "text/event-stream")
	m := s.postedMessage(x, q, body)
	if m == nil {
		return
	}
	id, version := q.Header.Get("Mcp-Session-Id"), q.Header.Get("Mcp-Protocol-Version")
	st := &serverStream{x: x}
	c := newServerCall(s.newSession("server", ""), m, st, x.c)
	initialize := m.Method == "initialize" && m.request()
	modern := !isHandshake(c.meta()) && c.meta() != "" || id == "" && version != "" && !isHandshake(version) && !initialize
	switch {
	case initialize && c.meta() == "" && !s.handshake():
		c.refuseRevision(c.params.ProtocolVersion)
	case s.modern() && (modern || !s.handshake()):
		x.call, x.stream = c, st
		s.postModern(x, q, c)
	case modern && id == "": // a client that wants to know whether the server speaks it
		s.tell(trace.Event{Kind: trace.Note, Method: m.Method, ID: m.id(), Conn: x.c.n, Text: "of a revision that the server does not speak", Failed: "400"})
		x.respond(400, writeError(nullID, -32000, "Bad Request: Unsupported protocol version", nil), "Content-Type", "application/json")
	case initialize:
		if id != "" || version != "" && version != c.params.ProtocolVersion {
			s.strange(x, fmt.Sprintf("initialize with Mcp-Session-Id %q, MCP-Protocol-Version %q", id, version), m.raw)
		}
		x.call, x.stream = c, st
		if time.Now().Before(s.refusesEnd) {
			s.refuseSession(x, c)
			return
		}
		s.refusedAny = false
		s.request(c)
	default:
		sess := s.session(x, q)
		if sess == nil {
			if id != "" {
				x.session = id
				s.refuse(x, m, 404)
			}
			return
		}
		if !m.request() {
			s.message(sess, m, nil, x.c)
			x.respond(202, nil)
			return
		}
		c.sess, x.stream = sess, st
		st.name, st.primes = fmt.Sprint(sess.id, ".", s.next("stream")), since(sess.revision, "2025-11-25")
		sess.posts = append(sess.posts, st)
		s.request(c)
	}
}

// get opens a standing stream, or goes on with one of which the client has missed something.
func (s *Server) get(sess *serverSession, x *serverExchange, q *http.Request) {
	s.accepts(x, q, "text/event-stream")
	e := trace.Event{Kind: trace.Standing, Session: sess.id, Conn: x.c.n, Text: "GET"}
	if last := q.Header.Get("Last-Event-Id"); last != "" {
		dot := strings.LastIndexByte(last, '.')
		for _, st := range append(slices.Clone(sess.standing), sess.posts...) {
			if dot < 0 || st.name != last[:dot] {
				continue
			}
			e.Text = "GET after " + last
			s.tell(e)
			st.pause() // the old connection may be gone without a word
			n, _ := strconv.Atoi(last[dot+1:])
			st.x, x.stream = x, st
			if slices.Contains(sess.standing, st) {
				s.age(sess, st)
			}
			st.begin()
			for i := min(n, len(st.kept)); i < len(st.kept); i++ {
				x.write(appendChunk(nil, appendEvent(nil, st.name+"."+strconv.Itoa(i+1), "", st.kept[i])))
			}
			if st.over {
				st.end()
			}
			return
		}
		e.Text = "GET after an event that there never was: " + last
	}
	s.tell(e)
	st := &serverStream{x: x, name: fmt.Sprint(sess.id, ".", s.next("stream")), primes: since(sess.revision, "2025-11-25")}
	x.stream = st
	sess.standing = append(sess.standing, st)
	st.begin()
	s.age(sess, st)
}

// age ends the response over which a standing stream goes at present when it is as old as the server, or a gateway before it, lets it become.
func (s *Server) age(sess *serverSession, st *serverStream) {
	life, x := s.streamLife, st.x
	if life <= 0 {
		return
	}
	s.running.Add(1)
	go func() {
		defer s.running.Done()
		timer := time.NewTimer(life)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-x.done:
			return
		}
		if s.o.Turn != nil {
			s.o.Turn("standing stream " + st.name)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if st.x == x {
			s.tell(trace.Event{Who: sess.who, Kind: trace.Expires, Session: sess.id, Conn: x.c.n, Text: life.String()})
			st.pause()
		}
	}()
}

// postModern answers a POST of 2026-07-28, after it has looked at its fields in the order of the specification.
func (s *Server) postModern(x *serverExchange, q *http.Request, c *serverCall) {
	version, m := q.Header.Get("Mcp-Protocol-Version"), c.m
	c.modern = true
	wrong := func(status, code int, text string) {
		if q.Header.Get("Mcp-Session-Id") != noSession {
			s.strange(x, text, m.raw)
		}
		x.respond(status, writeError(idOr(m, nullID), code, text, nil), "Content-Type", "application/json")
	}
	name := ""
	switch m.Method {
	case "tools/call", "prompts/get":
		name = c.params.Name
	case "resources/read":
		name = c.params.URI
	case "tasks/get", "tasks/cancel", "tasks/update":
		name = c.params.TaskID
	}
	switch {
	case m.response():
		wrong(400, -32600, "a response in a POST of "+modernRevision)
	case m.notification():
		s.tell(trace.Event{Kind: trace.Note, Method: m.Method, Conn: x.c.n, Text: "a notification", Raw: m.raw})
		x.respond(202, nil)
	case version == "":
		wrong(400, -32020, "MCP-Protocol-Version is missing")
	case c.meta() == "" || c.params.Meta.Capabilities == nil:
		wrong(400, -32602, "_meta has no protocolVersion or no clientCapabilities")
	case version != c.meta():
		wrong(400, -32020, fmt.Sprintf("MCP-Protocol-Version %q differs from %q in _meta", version, c.meta()))
	case version != modernRevision:
		c.refuseRevision(version)
	case q.Header.Get("Mcp-Method") != m.Method:
		wrong(400, -32020, fmt.Sprintf("Mcp-Method is %q, the method %q", q.Header.Get("Mcp-Method"), m.Method))
	case headerText(q.Header.Get("Mcp-Name")) != name:
		wrong(400, -32020, fmt.Sprintf("Mcp-Name is %q, the name %q", q.Header.Get("Mcp-Name"), name))
	default:
		if id := q.Header.Get("Mcp-Session-Id"); id != "" {
			s.strange(x, "Mcp-Session-Id in a request of "+modernRevision+": "+id, m.raw)
		}
		s.request(c)
	}
}

func idOr(m *message, none []byte) []byte {
	if m.ID == nil {
		return none
	}
	return m.ID
}

// headerText returns what the value of a field says that may be encoded.
func headerText(value string) string {
	if inner, ok := strings.CutPrefix(value, "=?base64?"); ok {
		if inner, ok = strings.CutSuffix(inner, "?="); ok {
			if text, err := base64.StdEncoding.DecodeString(inner); err == nil {
				return string(text)
			}
		}
	}
	return value
}
