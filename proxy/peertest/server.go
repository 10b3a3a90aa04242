package peertest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
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

	// SessionID is the Mcp-Session-Id in all responses over HTTP; "" for none.
	SessionID string
	// NoGet makes the server refuse a GET over HTTP with 405.
	NoGet bool
	// Every makes GET and DELETE over HTTP turns of Script, too.
	Every bool

	// URL is where a server over HTTP or HTTP+SSE is, once At was called.
	URL string

	over Over
	life context.Context
	web  *httptest.Server

	mu       sync.Mutex
	got      []Message
	lines    io.Writer // the pipe, or the stream of HTTP+SSE
	standing chan string
	listened chan struct{} // closed when the standing stream is open
	once     sync.Once
}

// Message is a message that a server got.
type Message struct {
	Text   string      // "DELETE" for a DELETE, and "GET" for a GET that is a turn
	Header http.Header // the HTTP headers
}

// NewServer returns a server that ends with the test.
func NewServer(t *testing.T, over Over, script func(*Turn)) *Server {
	s := &Server{T: t, over: over, Script: script, standing: make(chan string, 100), listened: make(chan struct{})}
	life, end := context.WithCancel(context.Background())
	s.life = life
	t.Cleanup(end)
	return s
}

// At starts the server.
func (s *Server) At() Endpoint {
	if s.over == Stdio {
		return Endpoint{Wire: Accept(s.T, s.readLines)}
	}
	s.web = httptest.NewServer(s)
	s.T.Cleanup(s.Close)
	s.URL = s.web.URL
	return Endpoint{URL: s.URL}
}

// Close ends a server over HTTP or HTTP+SSE, and its connections.
func (s *Server) Close() {
	s.Cut()
	s.web.Close()
}

// Cut ends the connections of a server over HTTP or HTTP+SSE.
func (s *Server) Cut() { s.web.CloseClientConnections() }

func (s *Server) piped() bool { return s.over != HTTP }

func (s *Server) readLines(conn net.Conn) {
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
		turns.Go(func() { s.Script(u) })
	}
}

func (s *Server) hear(ctx context.Context, text string, header http.Header) *Turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, Message{text, header})
	return &Turn{Server: s, Ctx: ctx, Text: text, ID: gjson.Get(text, "id").Raw, Method: gjson.Get(text, "method").String(), Header: header}
}

// ServeHTTP serves Streamable HTTP or HTTP+SSE.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.over == SSE {
		s.serveSSE(w, r)
		return
	}
	text := r.Method
	switch {
	case r.Method == http.MethodPost:
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		text = string(body)
	case s.Every:
	case r.Method == http.MethodGet:
		s.stand(w, r)
		return
	case r.Method == http.MethodDelete:
		s.hear(r.Context(), text, r.Header.Clone())
		return
	}
	ctx, left := context.WithCancel(r.Context())
	defer left()
	defer context.AfterFunc(s.life, left)()
	u := s.hear(ctx, text, r.Header.Clone())
	u.Web, u.Request = w, r
	if s.SessionID != "" {
		w.Header().Set("Mcp-Session-Id", s.SessionID)
	}
	s.Script(u)
	if !u.Begun {
		w.WriteHeader(http.StatusAccepted)
	}
}

func (s *Server) stand(w http.ResponseWriter, r *http.Request) {
	if s.NoGet {
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
			_, _ = io.WriteString(w, "data: "+m+"\n\n")
			w.(http.Flusher).Flush()
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
		u := s.hear(s.life, string(body), r.Header.Clone())
		w.WriteHeader(http.StatusAccepted)
		go s.Script(u)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	s.mu.Lock()
	s.lines = events{w}
	_, _ = fmt.Fprint(w, "event: endpoint\ndata: /messages\n\n")
	w.(http.Flusher).Flush()
	s.mu.Unlock()
	s.once.Do(func() { close(s.listened) })
	select {
	case <-r.Context().Done():
	case <-s.life.Done():
	}
	s.mu.Lock() // no line is written after the handler has returned
	s.lines = io.Discard
	s.mu.Unlock()
}

// events makes each line an event.
type events struct{ http.ResponseWriter }

func (w events) Write(line []byte) (int, error) {
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
func (s *Server) Line(m string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = io.WriteString(s.lines, m+"\n")
}

// Heard returns the messages that the server got, in order.
func (s *Server) Heard() []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Message(nil), s.got...)
}

// Awaits waits for the n-th message, counted from 1, for which is returns true.
func (s *Server) Awaits(n int, what string, is func(m string) bool) Message {
	s.T.Helper()
	var found Message
	Eventually(s.T, "the server gets "+what, func() bool {
		left := n
		for _, m := range s.Heard() {
			if is(m.Text) {
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

// Gets waits for the n-th request or notification of a method.
func (s *Server) Gets(n int, method string) Message {
	s.T.Helper()
	return s.Awaits(n, method, func(m string) bool { return gjson.Get(m, "method").String() == method })
}

// GetsResponse waits for a response to a request of the server.
func (s *Server) GetsResponse(id string) Message {
	s.T.Helper()
	return s.Awaits(1, "a response to "+id, func(m string) bool { return isResponse(m, id) })
}

func isResponse(m, id string) bool {
	return gjson.Get(m, "method").Raw == "" && gjson.Get(m, "id").Raw == id
}

// Count returns how many messages of a method the server got.
func (s *Server) Count(method string) (n int) {
	for _, m := range s.Heard() {
		if gjson.Get(m.Text, "method").String() == method {
			n++
		}
	}
	return n
}

// Last returns the newest message that the server got.
func (s *Server) Last() Message {
	all := s.Heard()
	return all[len(all)-1]
}
