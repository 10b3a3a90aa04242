package peertest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// Over is a transport.
type Over string

// The transports. Stdio is a process whose stdin and stdout are a connection to the server.
const (
	HTTP  Over = "http"
	SSE   Over = "sse"
	Stdio Over = "stdio"
)

// Server is a server that runs Script for each message it gets, each in a goroutine of its own. Its fields are set before
// At is called.
type Server struct {
	T      *testing.T
	Script func(*Turn)

	// First, if not nil, runs for each message before Script, in the order in which the messages of a pipe come.
	First func(*Turn)

	// SessionID is the Mcp-Session-Id in all responses over HTTP; "" for none.
	SessionID string
	// NoGet makes the server refuse a GET over HTTP with 405.
	NoGet bool
	// Every makes GET and DELETE over HTTP turns of Script, too.
	Every bool
	// Sessions makes a server know its sessions. Over HTTP, Script begins one in [Turn.Open], over HTTP+SSE each stream is one,
	// and over Stdio each process. The server can lose them: over Stdio by Crash, which ends the processes.
	Sessions bool
	// Unknown answers over HTTP what belongs to no known session; nil for 404.
	Unknown func(*Turn)

	// TLS makes a server over HTTP speak TLS, with a certificate that its Certificate returns if TLS has none; nil for plain HTTP.
	TLS *tls.Config
	// ConnState is told of the connections of a server over HTTP; nil for none.
	ConnState func(net.Conn, http.ConnState)

	// URL is where a server over HTTP or HTTP+SSE is, once At was called.
	URL string

	over Over
	web  *httptest.Server
	away atomic.Int32 // the status of all responses; 0 if the server is there
	record
	sessions

	mu       sync.Mutex
	lines    io.Writer // the newest pipe, or stream of HTTP+SSE
	streams  []*events // all streams of HTTP+SSE
	standing chan string
	listened chan struct{} // closed when the standing stream is open
	once     sync.Once
}

// NewServer returns a server that ends with the test.
func NewServer(t *testing.T, over Over, script func(*Turn)) *Server {
	s := &Server{T: t, record: record{t: t}, over: over, Script: script, standing: make(chan string, 100), listened: make(chan struct{})}
	life, end := context.WithCancel(context.Background())
	s.sessions = sessions{life: life, known: map[string]*Session{}}
	t.Cleanup(end)
	return s
}

// At starts the server.
func (s *Server) At() Endpoint {
	if s.over == Stdio {
		return Endpoint{Wire: Accept(s.T, s.readLines)}
	}
	s.web = &httptest.Server{Listener: Listen(s.T), Config: &http.Server{Handler: s, ConnState: s.ConnState}}
	if s.TLS == nil {
		s.web.Start()
	} else {
		s.web.TLS, s.web.Config.ErrorLog = s.TLS, log.New(io.Discard, "", 0) // clients that refuse the certificate are a test's
		s.web.StartTLS()
	}
	s.T.Cleanup(s.Close)
	s.URL = s.web.URL
	return Endpoint{URL: s.URL}
}

// Certificate returns the certificate of a server that speaks TLS.
func (s *Server) Certificate() *x509.Certificate { return s.web.Certificate() }

// Close ends a server over HTTP or HTTP+SSE, and its connections.
func (s *Server) Close() {
	s.Cut()
	s.web.Close()
}

// Away makes the server answer whatever comes over HTTP with this status, until Away(0).
func (s *Server) Away(status int) { s.away.Store(int32(status)) }

// Cut ends the connections of a server over HTTP or HTTP+SSE.
func (s *Server) Cut() { s.web.CloseClientConnections() }

func (s *Server) piped() bool { return s.over != HTTP }

func (s *Server) readLines(conn net.Conn) {
	s.mu.Lock()
	s.lines = conn
	s.mu.Unlock()
	s.once.Do(func() { close(s.listened) })
	var in *Session
	life := s.life
	if s.Sessions {
		in = s.open()
		in.lines, life = conn, in.life
		defer context.AfterFunc(life, func() { _ = conn.Close() })()
	}
	ctx, left := context.WithCancel(life)
	defer left()
	var turns sync.WaitGroup
	defer turns.Wait()
	defer left()
	for lines := bufio.NewReader(conn); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		u := s.hear(ctx, Message{Text: strings.TrimSuffix(line, "\n")}, in)
		u.lines = conn
		s.begin(u)
		turns.Go(func() { s.Script(u) })
	}
}

func (s *Server) hear(ctx context.Context, m Message, in *Session) *Turn {
	m.Session = in.name()
	return &Turn{Server: s, Session: in, nth: s.add(m), Ctx: ctx, Text: m.Text, ID: gjson.Get(m.Text, "id").Raw, Method: gjson.Get(m.Text, "method").String(), Header: m.Header}
}

// sent is the message of an HTTP request.
func sent(r *http.Request, text string) Message {
	return Message{Text: text, Target: r.RequestURI, Header: r.Header.Clone()}
}

func (s *Server) begin(u *Turn) {
	if s.First != nil {
		s.First(u)
	}
}

// looks answers the ping that serve sends before a client comes, of which no script need know.
func looks(w http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodPost {
		return false
	}
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), failing{err}))
	if !bytes.Contains(body, []byte(`"dragoman:look"`)) {
		return false
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":"dragoman:look","result":{}}`)
	return true
}

// failing is a reader at whose end err is; nil for io.EOF.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) {
	if f.err == nil {
		return 0, io.EOF
	}
	return 0, f.err
}

// ServeHTTP serves Streamable HTTP or HTTP+SSE.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if status := int(s.away.Load()); status != 0 {
		http.Error(w, "starting", status)
		return
	}
	if looks(w, r) {
		return
	}
	if s.over == SSE {
		s.serveSSE(w, r)
		return
	}
	in := s.session(r.Header.Get("Mcp-Session-Id"))
	text := r.Method
	switch {
	case r.Method == http.MethodPost:
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		text = string(body)
	case s.Every:
	case s.Sessions && in == nil:
	case r.Method == http.MethodGet:
		s.stand(w, r, in)
		return
	case r.Method == http.MethodDelete:
		s.hear(r.Context(), sent(r, text), in)
		s.end(in)
		return
	}
	ctx, left := context.WithCancel(r.Context())
	defer left()
	defer context.AfterFunc(s.life, left)()
	u := s.hear(ctx, sent(r, text), in)
	u.Web, u.Request = w, r
	if s.SessionID != "" {
		w.Header().Set("Mcp-Session-Id", s.SessionID)
	}
	s.begin(u)
	switch {
	case s.Sessions && in == nil && u.Method != "initialize":
		u.unknown()
	case in != nil:
		defer context.AfterFunc(in.life, left)()
		if s.Script(u); in.life.Err() != nil {
			panic(http.ErrAbortHandler)
		}
	default:
		s.Script(u)
	}
	if !u.Begun {
		w.WriteHeader(http.StatusAccepted)
	}
}

func (s *Server) stand(w http.ResponseWriter, r *http.Request, in *Session) {
	if s.NoGet {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	s.once.Do(func() { close(s.listened) })
	says := s.standing
	if in != nil {
		says = in.says
	}
	for {
		select {
		case m := <-says:
			_, _ = io.WriteString(w, "data: "+m+"\n\n")
			w.(http.Flusher).Flush()
		case <-in.crashed():
			panic(http.ErrAbortHandler)
		case <-r.Context().Done():
			return
		case <-s.life.Done():
			return
		}
	}
}

// serveSSE serves HTTP+SSE. What the server sends are events of its one stream.
func (s *Server) serveSSE(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		in := s.session(r.URL.Query().Get("session"))
		if s.Sessions && in == nil {
			http.Error(w, "Session not found", http.StatusNotFound)
			return
		}
		life := s.life
		if in != nil {
			life = in.life
		}
		u := s.hear(life, sent(r, string(body)), in)
		u.lines = s.streamOf(r)
		s.mu.Lock()
		s.lines = u.lines // not that of a stream on which nothing is ever said, as serve opens one before a client comes
		s.mu.Unlock()
		s.once.Do(func() { close(s.listened) })
		s.begin(u)
		w.WriteHeader(http.StatusAccepted)
		go s.Script(u)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	in, at := (*Session)(nil), ""
	if s.Sessions {
		in = s.open()
		at = "&session=" + in.ID
	}
	s.mu.Lock()
	lines := &events{ResponseWriter: w}
	s.streams = append(s.streams, lines)
	at = fmt.Sprintf("/messages?stream=%d%s", len(s.streams), at)
	_, _ = fmt.Fprintf(w, "event: endpoint\ndata: %s\n\n", at)
	w.(http.Flusher).Flush()
	if in != nil {
		in.lines = lines
	}
	s.mu.Unlock()
	select {
	case <-in.crashed():
		defer panic(http.ErrAbortHandler)
	case <-r.Context().Done():
	case <-s.life.Done():
	}
	s.mu.Lock() // no line is written after the handler has returned
	lines.over = true
	s.mu.Unlock()
}

// streamOf returns the stream of HTTP+SSE that a request belongs to.
func (s *Server) streamOf(r *http.Request) io.Writer {
	n, _ := strconv.Atoi(r.URL.Query().Get("stream"))
	s.mu.Lock()
	defer s.mu.Unlock()
	if n < 1 || n > len(s.streams) {
		return io.Discard
	}
	return s.streams[n-1]
}

// events makes each line an event.
type events struct {
	http.ResponseWriter
	over bool // the handler has returned
}

func (w *events) Write(line []byte) (int, error) {
	if w.over {
		return 0, net.ErrClosed
	}
	_, err := fmt.Fprintf(w.ResponseWriter, "event: message\ndata: %s\n", line)
	w.ResponseWriter.(http.Flusher).Flush()
	return len(line), err
}

// Unasked sends a message that belongs to no request.
func (s *Server) Unasked(m string) {
	s.T.Helper()
	select {
	case <-s.listened:
	case <-time.After(Patience):
		s.T.Error("no client listens")
		return
	}
	if s.piped() {
		s.Line(m)
		return
	}
	s.standing <- m
}

// Line sends a message on a pipe.
func (s *Server) Line(m string) { s.line(nil, m) }

func (s *Server) line(in *Session, m string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	to := s.lines
	if in != nil {
		to = in.lines
	}
	_, _ = io.WriteString(to, m+"\n")
}

func (s *Server) write(to io.Writer, m string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = io.WriteString(to, m+"\n")
}

// Turn is a message that a server got, and the way to answer it.
type Turn struct {
	*Server
	Text, ID, Method string // the message; ID is raw JSON
	Header           http.Header
	Ctx              context.Context // ends when the client leaves or cancels
	Session          *Session        // of a server that knows its sessions; nil for none

	// Web and Request are the HTTP request of a server over Streamable HTTP. What writes to Web itself sets Begun;
	// otherwise the response is 202.
	Web     http.ResponseWriter
	Request *http.Request
	Begun   bool

	nth   int       // which message it is
	lines io.Writer // where the response goes, on a pipe
	local Local     // where it goes without a transport
}

// Local is a connection to a server that has no transport. It takes what the server sends about one message.
type Local interface {
	Say(message string)
	Answer(status int, body string)
	Fail(err error)
	Reads(do func())
}

// Say sends messages about the request: events of its stream, or lines.
func (u *Turn) Say(messages ...string) {
	for _, m := range messages {
		if u.local != nil {
			u.local.Say(m)
			continue
		}
		if u.piped() {
			u.write(u.lines, m)
			continue
		}
		if !u.Begun {
			u.Begun = true
			u.Web.Header().Set("Content-Type", "text/event-stream")
			u.Web.WriteHeader(http.StatusOK)
		}
		_, _ = io.WriteString(u.Web, "data: "+m+"\n\n")
		u.Web.(http.Flusher).Flush()
	}
}

// Answer sends the response: an HTTP status and a body, or on a pipe the body.
func (u *Turn) Answer(status int, body string) {
	if u.local != nil {
		u.local.Answer(status, body)
		return
	}
	if u.piped() {
		u.write(u.lines, body)
		return
	}
	u.Begun = true
	u.Web.Header().Set("Content-Type", "application/json")
	u.Web.WriteHeader(status)
	_, _ = io.WriteString(u.Web, body)
}

// Open begins a session over HTTP. The response has its id.
func (u *Turn) Open() {
	u.Session = u.open()
	u.belongs(u.nth, u.Session.ID)
	u.Web.Header().Set("Mcp-Session-Id", u.Session.ID)
}

// unknown answers what belongs to no known session.
func (u *Turn) unknown() {
	if u.Unknown == nil {
		u.Answer(http.StatusNotFound, `{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}`)
		return
	}
	u.Unknown(u)
}

// Refuse sends a status without a body, over HTTP.
func (u *Turn) Refuse(status int) {
	u.Begun = true
	u.Web.WriteHeader(status)
}

// Hijack returns the connection of the request, over HTTP. The caller closes it.
func (u *Turn) Hijack() *net.TCPConn {
	u.Begun = true
	conn, _, err := u.Web.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	return conn.(*net.TCPConn)
}

// Fail ends the response with an error of the connection, on a server without a transport. In First, the server does not get
// the message.
func (u *Turn) Fail(err error) { u.local.Fail(err) }

// Reads runs do where the response is read, after the messages before it, on a server without a transport.
func (u *Turn) Reads(do func()) { u.local.Reads(do) }

// Until waits until the channel is closed or has something, and returns false if the client has left before that.
func (u *Turn) Until(open <-chan struct{}) bool {
	select {
	case <-open:
		return true
	case <-u.Ctx.Done():
		return false
	}
}

// Hears waits until the client has answered a request of the server, or has left.
func (u *Turn) Hears(id string) { u.hears(0, func(m Message) bool { return isResponse(m.Text, id) }) }

// Asks sends the client a request about this one, and returns the response that comes in the same session. It returns ""
// if the client has left.
func (u *Turn) Asks(question string) (response string) {
	id, seen := gjson.Get(question, "id").Raw, len(u.Heard())
	u.Say(question)
	return u.hears(seen, func(m Message) bool { return m.Session == u.Session.name() && isResponse(m.Text, id) })
}

// hears waits for a message behind the first seen ones.
func (u *Turn) hears(seen int, is func(Message) bool) string {
	for {
		news, more := u.since(seen)
		for _, m := range news {
			if seen++; is(m) {
				return m.Text
			}
		}
		select {
		case <-more:
		case <-u.Ctx.Done():
			return ""
		}
	}
}
