package proxy

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/translate"
)

// scriptMessage is a message that a peer got. The status is that of an HTTP response, for a client over HTTP.
type scriptMessage struct{ text, status string }

// scriptServer is the server of a script. It answers the handshake by itself.
type scriptServer struct {
	*scripted
	sse   bool
	inbox chan scriptMessage

	mu   sync.Mutex
	open []*scriptRequest // requests without a response, the newest last
}

type scriptRequest struct {
	*turn
	done chan struct{}
}

// serveScript makes a server that puts what it gets into its inbox.
func serveScript(t *testing.T, is scriptPeer, over string) *scriptServer {
	s := &scriptServer{inbox: make(chan scriptMessage, 1000), sse: over == "sse"}
	modern := translate.Lookup(is.revision).Modern
	s.scripted = script(t, over != "http", func(u *turn) {
		result := func(body string) { u.answer(200, `{"jsonrpc":"2.0","id":`+u.id+`,"result":`+body+`}`) }
		switch known, ok := is.answers[u.method]; {
		case u.method == "initialize" && !modern:
			result(`{"protocolVersion":"` + is.revision + `","capabilities":` + is.capabilities + `,"serverInfo":{"name":"s","version":"2"}}`)
		case u.method == "server/discover" && modern:
			result(`{"resultType":"complete","supportedVersions":["` + is.revision + `"],"capabilities":` + is.capabilities + `,"ttlMs":0,"cacheScope":"private",` + identity + `}`)
		case u.method == "initialize", u.method == "server/discover":
			u.answer(map[bool]int{false: 200, true: 404}[modern], rpcError(u.id, `"code":-32601,"message":"Method not found"`))
		case u.method == "notifications/initialized", u.text == "DELETE":
		case ok && u.id != "":
			result(known)
		default:
			s.receive(u)
		}
	})
	if !modern {
		s.session = "session-1"
	}
	s.noGet = modern
	return s
}

// receive puts a message into the inbox, and keeps an HTTP request open until it has its response.
func (s *scriptServer) receive(u *turn) {
	r := &scriptRequest{turn: u, done: make(chan struct{})}
	if u.id == "" || u.method == "" {
		s.inbox <- scriptMessage{text: u.text}
		return
	}
	s.mu.Lock()
	s.open = append(s.open, r)
	s.mu.Unlock()
	s.inbox <- scriptMessage{text: u.text}
	select {
	case <-r.done:
	case <-u.ctx.Done():
	}
}

// send sends a message: a response as the body of its request's HTTP response, if nothing came before on it; what
// is no response on the newest open request's stream, or on the standing stream.
func (s *scriptServer) send(m, status string, unasked bool) error {
	if unasked {
		s.unasked(m)
		return nil
	}
	id, response := gjson.Get(m, "id").Raw, !gjson.Get(m, "method").Exists()
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := len(s.open) - 1; n >= 0; n-- {
		r := s.open[n]
		switch {
		case response && r.id != id:
			continue
		case !response:
			r.say(m)
			return nil
		case status == "" && r.begun:
			r.say(m)
		default:
			code, err := strconv.Atoi(status)
			if err != nil {
				code = 200
			}
			r.answer(code, m)
		}
		close(r.done)
		s.open = append(s.open[:n], s.open[n+1:]...)
		return nil
	}
	return fmt.Errorf("server sends %s, but has no open request for it", m)
}

// at starts the server.
func (s *scriptServer) at() endpoint {
	if !s.sse {
		return s.scripted.at()
	}
	web := httptest.NewServer(http.HandlerFunc(s.serveSSE))
	s.t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return endpoint{url: web.URL}
}

// serveSSE is the server's side of HTTP+SSE. What the server sends are events of its one stream.
func (s *scriptServer) serveSSE(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		u := s.hear(s.life, string(body), r.Header.Clone())
		w.WriteHeader(http.StatusAccepted)
		go s.script(u)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	s.scripted.mu.Lock()
	s.lines = scriptEvents{w}
	fmt.Fprint(w, "event: endpoint\ndata: /messages\n\n")
	w.(http.Flusher).Flush()
	s.scripted.mu.Unlock()
	s.once.Do(func() { close(s.listened) })
	select {
	case <-r.Context().Done():
	case <-s.life.Done():
	}
	s.scripted.mu.Lock() // no line is written after the handler has returned
	s.lines = io.Discard
	s.scripted.mu.Unlock()
}

// scriptEvents makes each line an event.
type scriptEvents struct{ http.ResponseWriter }

func (w scriptEvents) Write(line []byte) (int, error) {
	_, err := fmt.Fprintf(w.ResponseWriter, "event: message\ndata: %s\n", line)
	w.ResponseWriter.(http.Flusher).Flush()
	return len(line), err
}

// scriptClient is the client of a script. It has begun its session.
type scriptClient struct {
	*talker
	sse   *sseTalker // nil but over HTTP+SSE
	inbox chan scriptMessage
	posts sync.WaitGroup // HTTP responses that are being read, but for the standing stream
}

func openScript(t *testing.T, p proxied, is scriptPeer, over string) *scriptClient {
	c := &scriptClient{inbox: make(chan scriptMessage, 1000)}
	modern := translate.Lookup(is.revision).Modern
	if over == "sse" {
		c.sse = overSSE(t, p)
		c.sse.post(initialize(is.revision, is.capabilities))
		if got := c.sse.next(); gjson.Get(got, "result.protocolVersion").String() != is.revision {
			t.Fatalf("initialize: %s", got)
		}
		c.sse.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		go func() {
			for in := c.sse.in; ; {
				line, err := in.ReadString('\n')
				if err != nil {
					return
				}
				if data, ok := strings.CutPrefix(line, "data: "); ok {
					c.inbox <- scriptMessage{text: strings.TrimSuffix(data, "\n")}
				}
			}
		}()
		return c
	}
	c.talker = p.client(t, over == "stdio")
	if !modern {
		if got := gjson.Get(c.initialize(is.revision, is.capabilities), "result.protocolVersion").String(); got != is.revision {
			t.Fatalf("initialize: %s", got)
		}
	}
	switch {
	case over == "stdio":
		go func() {
			for m := range c.lines {
				c.inbox <- scriptMessage{text: m}
			}
		}()
	case is.listens && !modern:
		stream := c.listen()
		select {
		case <-stream.begun:
			go c.read(stream)
		case <-time.After(patience):
			t.Fatal("the standing stream does not begin")
		}
	}
	return c
}

// send sends a message. Over HTTP it waits until a message that is no request was accepted.
func (c *scriptClient) send(m string) error {
	if c.sse != nil {
		c.sse.post(m)
		return nil
	}
	r := c.say(m)
	if r.begun == nil {
		return nil
	}
	read := func(r *told) { c.posts.Go(func() { c.read(r) }) }
	if first := gjson.Parse(m); first.Get("method").Exists() && first.Get("id").Exists() || first.IsArray() {
		read(r)
		return nil
	}
	select {
	case <-r.begun:
		read(r)
		return nil
	case <-time.After(patience):
		return errors.New("client sends a message, but it is not accepted")
	}
}

// ended waits until the responses to all requests have ended.
func (c *scriptClient) ended(wait time.Duration) bool {
	done := make(chan struct{})
	go func() { c.posts.Wait(); close(done) }()
	select {
	case <-done:
		return true
	case <-time.After(wait):
		return false
	}
}

// read puts the messages of an HTTP response into the inbox. A response without a message is one if its status is
// not 202.
func (c *scriptClient) read(r *told) {
	<-r.begun
	status, n := strconv.Itoa(r.status), 0
	for m := range r.events {
		c.inbox <- scriptMessage{m, status}
		n++
	}
	if n == 0 && r.status != http.StatusAccepted && r.status != 0 {
		c.inbox <- scriptMessage{"", status}
	}
}
