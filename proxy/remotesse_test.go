package proxy

import (
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// forgetfulSSE is a server over HTTP+SSE that can forget its sessions.
type forgetfulSSE struct {
	mu       sync.Mutex
	refuses  bool // it refuses initialize
	away     bool // it answers 503
	sessions map[string]*sseSession
	begun    []*sseSession
	ran      map[string]int
}

type sseSession struct {
	hello      string
	level      string
	subscribed []string
	says       chan string
	gone       chan struct{}
}

func (f *forgetfulSSE) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	away := f.away
	f.mu.Unlock()
	if away {
		http.Error(w, "starting", http.StatusServiceUnavailable)
		return
	}
	if r.Method == http.MethodGet {
		f.stream(w, r)
		return
	}
	body, _ := io.ReadAll(r.Body)
	m := string(body)
	id, method := gjson.Get(m, "id").Raw, gjson.Get(m, "method").String()
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.sessions[r.URL.Query().Get("s")]
	if s == nil {
		http.Error(w, "Session not found", http.StatusNotFound)
		return
	}
	w.WriteHeader(http.StatusAccepted)
	answer := `"result":{}`
	switch method {
	case "initialize":
		s.hello = m
		answer = fmt.Sprintf(`"result":{"protocolVersion":%q,"capabilities":{"tools":{"listChanged":true},"logging":{},"resources":{"subscribe":true}},"serverInfo":{"name":"s","version":"2"}}`,
			gjson.Get(m, "params.protocolVersion").String())
		if f.refuses {
			answer = `"error":{"code":-32000,"message":"no more"}`
		}
	case "logging/setLevel":
		s.level = gjson.Get(m, "params.level").String()
	case "resources/subscribe":
		s.subscribed = append(s.subscribed, gjson.Get(m, "params.uri").String())
	case "tools/call":
		f.ran["calls"]++
		if answer = `"result":{"content":[{"type":"text","text":"echo"}]}`; gjson.Get(m, "params.name").String() == "hang" {
			go f.forget(true) // the message crashes the server
			return
		}
	}
	if id != "" {
		s.says <- `{"jsonrpc":"2.0","id":` + id + `,` + answer + `}`
	}
}

func (f *forgetfulSSE) stream(w http.ResponseWriter, r *http.Request) {
	s, id := &sseSession{says: make(chan string, 100), gone: make(chan struct{})}, rand.Text()
	f.mu.Lock()
	f.sessions[id] = s
	f.begun = append(f.begun, s)
	f.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "event: endpoint\ndata: /?s=%s\n\n", id)
	for {
		w.(http.Flusher).Flush()
		select {
		case m := <-s.says:
			fmt.Fprintf(w, "event: message\ndata: %s\n\n", m)
		case <-s.gone:
			panic(http.ErrAbortHandler)
		case <-r.Context().Done():
			return
		}
	}
}

// forget forgets all sessions, and breaks their streams, or leaves them open, as a load balancer
// may do.
func (f *forgetfulSSE) forget(breaks bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.sessions {
		if breaks {
			close(s.gone)
		}
	}
	clear(f.sessions)
}

func (f *forgetfulSSE) last() sseSession {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := *f.begun[len(f.begun)-1]
	s.subscribed = slices.Clone(s.subscribed)
	return s
}

func beforeSSE(t *testing.T) (*forgetfulSSE, testServer) {
	t.Helper()
	leavesNothing(t)
	f := &forgetfulSSE{sessions: map[string]*sseSession{}, ran: map[string]int{}}
	web := httptest.NewServer(f)
	cfg := config.Default()
	quickly(&cfg)
	cfg.Upstream.URL, cfg.Upstream.Transport, cfg.Upstream.HandshakeTimeout = web.URL, "sse", patience
	core, logs := observer.New(zap.DebugLevel)
	srv, err := New(cfg, zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		srv.close()
		web.CloseClientConnections()
		web.Close()
	})
	return f, testServer{srv, t, logs}
}

// eitherClient is a client on HTTP or on a pipe.
type eitherClient struct {
	ask  func(m string) (answer string)
	tell func(m string)
}

// onEither runs the test with a client on HTTP and with one on a pipe.
func onEither(t *testing.T, do func(t *testing.T, f *forgetfulSSE, c eitherClient)) {
	t.Run("http", func(t *testing.T) {
		f, srv := beforeSSE(t)
		session := srv.post("", introduction).header["Mcp-Session-Id"]
		do(t, f, eitherClient{
			ask: func(m string) string {
				r := srv.post(session, m)
				return slices.Concat(r.events, []string{r.body})[max(len(r.events)-1, 0)] // after notifications
			},
			tell: func(m string) { srv.post(session, m) },
		})
	})
	t.Run("pipe", func(t *testing.T) {
		f, srv := beforeSSE(t)
		c := srv.pipe()
		c.say(introduction)
		c.hear()
		do(t, f, eitherClient{
			ask: func(m string) string {
				c.say(m)
				for {
					if answer := c.hear(); gjson.Get(answer, "id").Raw == gjson.Get(m, "id").Raw {
						return answer
					}
				}
			},
			tell: func(m string) { c.say(m) },
		})
		if err := c.end(); err != nil {
			t.Error(err)
		}
	})
}

// TestALostSSESessionIsBegunAgain, whether its stream ends or a POST is refused.
func TestALostSSESessionIsBegunAgain(t *testing.T) {
	onEither(t, func(t *testing.T, f *forgetfulSSE, c eitherClient) {
		c.tell(initializedNotice)
		c.ask(debugLevel)
		c.ask(fmt.Sprintf(subscribeTo, 3, "file:///a"))
		for round, breaks := range []bool{false, true, false} {
			f.forget(breaks)
			if breaks {
				eventually(t, "begun again", func() bool {
					f.mu.Lock()
					defer f.mu.Unlock()
					return len(f.begun) == round+2
				})
			}
			sameJSON(t, c.ask(echoCall), echoAnswer)
			f.mu.Lock()
			begun, ran := len(f.begun), f.ran["calls"]
			f.mu.Unlock()
			if begun != round+2 || ran != round+1 {
				t.Errorf("round %d: %d sessions begun, the call ran %d times", round, begun, ran)
			}
			eventually(t, "restored", func() bool {
				s := f.last()
				return s.level == "debug" && slices.Equal(s.subscribed, []string{"file:///a"})
			})
			if got := gjson.Get(f.last().hello, "params.clientInfo.name").String(); got != "c" {
				t.Errorf("introduced as %q", got)
			}
		}
	})
}

// TestACallInFlightFailsWhenItsSSESessionIsLost, with a reason.
func TestACallInFlightFailsWhenItsSSESessionIsLost(t *testing.T) {
	onEither(t, func(t *testing.T, f *forgetfulSSE, c eitherClient) {
		c.tell(initializedNotice)
		hang := strings.NewReplacer(`"id":7`, `"id":9`, "echo", "hang").Replace(echoCall)
		if got := gjson.Get(c.ask(hang), "error.message").String(); !strings.Contains(got, "session ended") {
			t.Errorf("%q", got)
		}
		sameJSON(t, c.ask(echoCall), echoAnswer)
	})
}

// TestAnSSEServerThatIsAwayForAWhile: calls fail in the meantime, and the session continues.
func TestAnSSEServerThatIsAwayForAWhile(t *testing.T) {
	onEither(t, func(t *testing.T, f *forgetfulSSE, c eitherClient) {
		c.tell(initializedNotice)
		f.mu.Lock()
		f.away = true
		f.mu.Unlock()
		f.forget(true)
		for range 8 { // more often than a process is restarted
			if got := c.ask(echoCall); gjson.Get(got, "error").Raw == "" {
				t.Error(got)
			}
		}
		f.mu.Lock()
		f.away = false
		f.mu.Unlock()
		got := ""
		eventually(t, "there again", func() bool {
			got = c.ask(echoCall)
			return gjson.Get(got, "result").Exists()
		})
		sameJSON(t, got, echoAnswer)
	})
}

// TestAnSSEServerThatRefusesAnotherSession: the client's session ends.
func TestAnSSEServerThatRefusesAnotherSession(t *testing.T) {
	f, srv := beforeSSE(t)
	session := srv.post("", introduction).header["Mcp-Session-Id"]
	f.mu.Lock()
	f.refuses = true
	f.mu.Unlock()
	f.forget(true)
	eventually(t, "over", func() bool { return srv.Table.Len() == 0 })
	if r := srv.post(session, echoCall); r.status != 404 {
		t.Errorf("%+v", r)
	}
}
