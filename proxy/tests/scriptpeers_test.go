package tests

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/translate"
)

// scriptMessage is a message that a peer got. The status is that of an HTTP response, for a client over HTTP; the header is
// that of the request or response, over HTTP only.
type scriptMessage struct {
	text, status string
	header       http.Header
}

// scriptServer is the server of a script. It answers the handshake by itself.
type scriptServer struct {
	*peertest.Server
	over  string
	inbox chan scriptMessage

	mu   sync.Mutex
	open []*scriptRequest // requests without a response, the newest last
}

type scriptRequest struct {
	*peertest.Turn
	done chan struct{}
	gone bool // the HTTP response cannot be written any more
}

// serveScript makes a server that puts what it gets into its inbox.
func serveScript(t *testing.T, is scriptPeer, over string) *scriptServer {
	s := &scriptServer{over: over, inbox: make(chan scriptMessage, 1000)}
	modern := translate.Lookup(is.revision).Modern
	begins := map[bool]string{false: "initialize", true: "server/discover"}[modern]
	// answered answers what the steps do not show, and returns false for everything else.
	answered := func(u *peertest.Turn) bool {
		result := func(body string) { u.Answer(200, `{"jsonrpc":"2.0","id":`+u.ID+`,"result":`+body+`}`) }
		switch known, ok := is.answers[u.Method]; {
		case is.handshake && (u.Method == begins || u.Method == "notifications/initialized"), slices.Contains(is.shown, u.Method):
			return false
		case u.Method == "initialize" && !modern:
			result(`{"protocolVersion":"` + is.revision + `","capabilities":` + is.capabilities + `,"serverInfo":{"name":"s","version":"2"}}`)
		case u.Method == "server/discover" && modern:
			result(`{"resultType":"complete","supportedVersions":["` + is.revision + `"],"capabilities":` + is.capabilities + `,"ttlMs":0,"cacheScope":"private",` + identity + `}`)
		case u.Method == "initialize", u.Method == "server/discover":
			u.Answer(map[bool]int{false: 200, true: 404}[modern], rpcError(u.ID, `"code":-32601,"message":"Method not found"`))
		case u.Method == "notifications/initialized", u.Text == "DELETE":
		case ok && u.ID != "":
			result(known)
		default:
			return false
		}
		return true
	}
	s.Server = peertest.NewServer(t, peertest.Over(over), s.stay)
	s.First = func(u *peertest.Turn) {
		if !answered(u) {
			s.receive(u)
		}
	}
	if !modern {
		s.SessionID = "session-1"
	}
	s.NoGet = modern
	return s
}

// receive puts a message into the inbox.
func (s *scriptServer) receive(u *peertest.Turn) {
	m := scriptMessage{text: u.Text}
	if s.over == "http" {
		m.header = u.Header
	}
	if u.ID != "" && u.Method != "" {
		s.mu.Lock()
		s.open = append(s.open, &scriptRequest{Turn: u, done: make(chan struct{})})
		s.mu.Unlock()
	}
	s.inbox <- m
}

// stay keeps a request open until it has its response.
func (s *scriptServer) stay(u *peertest.Turn) {
	s.mu.Lock()
	at := slices.IndexFunc(s.open, func(r *scriptRequest) bool { return r.Turn == u })
	if at < 0 {
		s.mu.Unlock()
		return
	}
	r := s.open[at]
	s.mu.Unlock()
	select {
	case <-r.done:
	case <-u.Ctx.Done():
	}
	s.mu.Lock() // send may still be writing the response
	r.gone = u.Web != nil
	s.mu.Unlock()
}

// send sends a message: a response as the body of its request's HTTP response, if nothing came before on it; what
// is no response on the stream of the open request of, if that is "" of the newest, or on the standing stream.
func (s *scriptServer) send(m, of string, st scriptStep) error {
	if st.unasked {
		s.Unasked(m)
		return nil
	}
	text, plain := strings.CutPrefix(m, "text")
	id, response := gjson.Get(m, "id").Raw, plain || !gjson.Get(m, "method").Exists()
	if of != "" {
		id = of
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m[0] == '[' {
		return s.sendBatch(m)
	}
	for n := len(s.open) - 1; n >= 0; n-- {
		r := s.open[n]
		switch {
		case (response || of != "") && r.ID != id:
			continue
		case r.gone, response && r.Ctx.Err() != nil:
			return fmt.Errorf("server sends %s, but the proxy has closed its request", m)
		case !response:
			r.Say(m)
			return nil
		case st.status == "" && r.Begun:
			r.Say(m)
		default:
			code, err := strconv.Atoi(st.status)
			if err != nil {
				code = 200
			}
			for _, h := range st.header {
				if r.Web != nil {
					r.Web.Header().Add(h.name, h.value)
				}
			}
			switch {
			case !plain:
				r.Answer(code, m)
			case r.Web == nil:
				return errors.New("server sends text, but has no request over HTTP: use [server http]")
			default:
				r.Web.Header().Set("Content-Type", "text/plain; charset=utf-8")
				r.Refuse(code)
				_, _ = io.WriteString(r.Web, strings.TrimSpace(text))
			}
		}
		close(r.done)
		s.open = append(s.open[:n], s.open[n+1:]...)
		return nil
	}
	return fmt.Errorf("server sends %s, but has no open request for it", m)
}

// sendBatch sends an array on the stream of the first request that it has a response to, and ends the requests.
func (s *scriptServer) sendBatch(m string) error {
	said := false
	for _, one := range gjson.Parse(m).Array() {
		at := slices.IndexFunc(s.open, func(r *scriptRequest) bool { return !one.Get("method").Exists() && r.ID == one.Get("id").Raw })
		if at < 0 {
			continue
		}
		if !said {
			s.open[at].Say(m)
			said = true
		}
		close(s.open[at].done)
		s.open = slices.Delete(s.open, at, at+1)
	}
	if !said {
		return fmt.Errorf("server sends %s, but has no open request for it", m)
	}
	return nil
}

// isLeft waits until the proxy has closed the server's open request.
func (s *scriptServer) isLeft(of string, wait time.Duration) error {
	s.mu.Lock()
	at := slices.IndexFunc(s.open, func(r *scriptRequest) bool { return r.ID == of })
	if at < 0 {
		s.mu.Unlock()
		return fmt.Errorf("the server has no open request %s", of)
	}
	r := s.open[at]
	s.mu.Unlock()
	select {
	case <-r.Ctx.Done():
		return nil
	case <-time.After(wait):
		return fmt.Errorf("the proxy does not close the request %s", of)
	}
}

// scriptClient is the client of a script. It has begun its session.
type scriptClient struct {
	*peertest.Client
	sse   *peertest.SSEClient // nil but over HTTP+SSE
	inbox chan scriptMessage
	is    scriptPeer
	last  *peertest.Reply            // the response to the newest request
	asked map[string]*peertest.Reply // the response to each request
	left  sync.Map                   // the responses that the client has left
	posts sync.WaitGroup             // HTTP responses that are being read, but for the standing stream
}

func overSSE(t *testing.T, p proxied) *peertest.SSEClient {
	t.Helper()
	return peertest.NewSSEClient(t, strings.TrimSuffix(p.web.URL, "/mcp"))
}

func openScript(t *testing.T, p proxied, is scriptPeer, over string) *scriptClient {
	c := &scriptClient{is: is, asked: map[string]*peertest.Reply{}, inbox: make(chan scriptMessage, 1000)}
	modern := translate.Lookup(is.revision).Modern
	if over == "sse" {
		c.sse = overSSE(t, p)
		if !is.handshake {
			c.sse.Post(initialize(is.revision, is.capabilities))
			if got := c.sse.Next(); gjson.Get(got, "result.protocolVersion").String() != is.revision {
				t.Fatalf("initialize: %s", got)
			}
			c.sse.Post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		}
		go func() {
			for in := c.sse.In; ; {
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
	c.Client = p.client(t, over == "stdio")
	if !modern && !is.handshake {
		if got := gjson.Get(c.Initialize(is.revision, is.capabilities), "result.protocolVersion").String(); got != is.revision {
			t.Fatalf("initialize: %s", got)
		}
	}
	switch {
	case over == "stdio":
		go func() {
			for m := range c.Lines {
				c.inbox <- scriptMessage{text: m}
			}
		}()
	case is.listens && !modern:
		stream := c.Listen()
		select {
		case <-stream.Begun:
			go c.read(stream)
		case <-time.After(patience):
			t.Fatal("the standing stream does not begin")
		}
	}
	return c
}

// send sends a message. Over HTTP it waits until a message that is no request was accepted.
func (c *scriptClient) send(m string, header []scriptHeader) error {
	if c.sse != nil {
		c.sse.Post(m)
		return nil
	}
	var more []string
	if task := gjson.Get(m, "params.taskId"); translate.Lookup(c.is.revision).Modern && task.Exists() {
		more = append(more, "Mcp-Name", task.Str)
	}
	for _, h := range header {
		more = append(more, h.name, h.value)
	}
	r := c.Say(m, more...)
	if r.Begun == nil {
		return nil
	}
	read := func(r *peertest.Reply) { c.posts.Go(func() { c.read(r) }) }
	if first := gjson.Parse(m); first.Get("method").Exists() && first.Get("id").Exists() || first.IsArray() {
		c.last, c.asked[first.Get("id").Raw] = r, r
		if first.Get("method").Str == "initialize" {
			c.posts.Go(func() { c.begin(r) }) // the steps get its response before they send more
			return nil
		}
		read(r)
		return nil
	}
	select {
	case <-r.Begun:
		read(r)
		return nil
	case <-time.After(patience):
		return errors.New("client sends a message, but it is not accepted")
	}
}

// begin reads the response to initialize, and takes over its session.
func (c *scriptClient) begin(r *peertest.Reply) {
	<-r.Begun
	if session := r.Header.Get("Mcp-Session-Id"); session != "" {
		c.Session = session
		if translate.Lookup(c.is.revision).VersionHeader {
			c.Version = c.is.revision
		}
	}
	c.read(r)
}

// leave closes the response to the request with this id, or to the newest one.
func (c *scriptClient) leave(id string) error {
	r := c.last
	if id != "" {
		r = c.asked[id]
	}
	if r == nil {
		return errors.New("client leaves, but has no request over HTTP: use [client http]")
	}
	c.left.Store(r, true)
	r.Leave()
	return nil
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
// not 202. What comes after the client has left, while its connection is being closed, it does not get.
func (c *scriptClient) read(r *peertest.Reply) {
	<-r.Begun
	status, n := strconv.Itoa(r.Status), 0
	for m := range r.Events {
		if _, left := c.left.Load(r); !left {
			c.inbox <- scriptMessage{m, status, r.Header}
		}
		n++
	}
	if _, left := c.left.Load(r); n == 0 && !left && r.Status != http.StatusAccepted && r.Status != 0 {
		c.inbox <- scriptMessage{"", status, r.Header}
	}
}
