package proxy

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/peertest"
)

// quietServer is a server with sessions that says on its standing streams what a test says.
type quietServer struct {
	named   string
	streams chan *quietStream
}

// quietStream is one GET.
type quietStream struct {
	lastEventID string
	say         chan string
	end, left   chan struct{}
}

func (s *quietServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	switch m := string(body); {
	case r.Method == http.MethodGet:
		st := &quietStream{lastEventID: r.Header.Get("Last-Event-Id"), say: make(chan string), end: make(chan struct{}), left: make(chan struct{})}
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		s.streams <- st
		st.serve(w, r)
	case gjson.Get(m, "method").Str == "initialize":
		w.Header().Set("Content-Type", "application/json")
		if s.named != "" {
			w.Header().Set("Mcp-Session-Id", s.named)
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"logging":{}},"serverInfo":{"name":"q","version":"1"}}}`, gjson.Get(m, "id").Raw)
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

func (st *quietStream) serve(w http.ResponseWriter, r *http.Request) {
	for {
		select {
		case text := <-st.say:
			_, _ = io.WriteString(w, text)
			w.(http.Flusher).Flush()
		case <-st.end:
			return
		case <-r.Context().Done():
			close(st.left)
			return
		}
	}
}

// quietClient is a client with a standing stream.
type quietClient struct {
	next  func() string
	leave func()
}

func quietClientOf(t *testing.T, base, over string) quietClient {
	t.Helper()
	if over == "sse" {
		c := peertest.NewSSEClient(t, base)
		c.Post(initialize("2024-11-05", `{}`))
		c.Next()
		c.Post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		return quietClient{c.Next, func() { _ = c.Body.Close() }}
	}
	c := peertest.NewClient(t, peertest.Endpoint{URL: base + "/mcp"})
	begun := c.Say(initialize("2025-06-18", `{}`))
	begun.Next()
	c.Session, c.Version = begun.Header.Get("Mcp-Session-Id"), "2025-06-18"
	listens := c.Listen()
	listens.HasStatus(200)
	return quietClient{listens.Next, func() { listens.Leave() }}
}

// TestQuietStreamsHoldNoGoroutine: a standing stream on which nothing comes waits without one. What comes then reaches the client,
// a stream that breaks off is opened again behind the last event, and the server learns that the client has left.
func TestQuietStreamsHoldNoGoroutine(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("no stream is parked on this system")
	}
	for _, over := range []string{"http", "sse"} {
		for _, named := range []string{"", "51e9"} {
			t.Run(fmt.Sprintf("%s, session %q", over, named), func(t *testing.T) {
				s := &quietServer{named: named, streams: make(chan *quietStream, 10)}
				web := httptest.NewServer(s)
				t.Cleanup(web.Close)
				t.Cleanup(web.CloseClientConnections)
				base := serving(t, func(cfg *config.Config) { cfg.Upstream.URL, cfg.Upstream.Transport = web.URL, "http" }).base
				client := quietClientOf(t, base, over)
				st := <-s.streams
				says := func(text string) {
					t.Helper()
					peertest.Eventually(t, "no goroutine waits", func() bool {
						var all strings.Builder
						_ = pprof.Lookup("goroutine").WriteTo(&all, 2)
						return !strings.Contains(all.String(), "exchange.(*Exchange).Answer")
					})
					st.say <- text
					sameJSON(t, client.next(), logLine)
				}
				says("data: " + logLine + "\n\n")
				says("id: 7\ndata: " + logLine + "\n\n")
				if over == "sse" || named != "" { // else the client opens its stream again
					close(st.end)
					if st = <-s.streams; st.lastEventID != "7" {
						t.Errorf("opened again after %q", st.lastEventID)
					}
					says("data: " + logLine + "\n\n")
				}
				client.leave()
				<-st.left

				quietClientOf(t, base, over) // the shutdown ends its stream
				<-s.streams
			})
		}
	}
}
