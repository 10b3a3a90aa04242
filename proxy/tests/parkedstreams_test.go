package tests

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// quietServer is a server with sessions that says on its standing streams what a test says.
type quietServer struct {
	named   string
	version string      // "2025-06-18" if it is ""
	silent  bool        // it does not answer a GET
	lost    atomic.Bool // the next GET is for a session that it does not know
	streams chan *quietStream
	answers chan string // what clients answer to its questions
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
	case r.Method == http.MethodGet && s.lost.Swap(false):
		w.WriteHeader(http.StatusNotFound)
	case r.Method == http.MethodGet:
		st := &quietStream{lastEventID: r.Header.Get("Last-Event-Id"), say: make(chan string), end: make(chan struct{}), left: make(chan struct{})}
		w.Header().Set("Content-Type", "text/event-stream")
		if !s.silent {
			w.(http.Flusher).Flush()
		}
		s.streams <- st
		st.serve(w, r)
	case gjson.Get(m, "method").Str == "initialize":
		w.Header().Set("Content-Type", "application/json")
		if s.named != "" {
			w.Header().Set("Mcp-Session-Id", s.named)
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":%q,"capabilities":{"logging":{}},"serverInfo":{"name":"q","version":"1"}}}`, gjson.Get(m, "id").Raw, cmp.Or(s.version, "2025-06-18"))
	case gjson.Get(m, "result").Exists():
		s.answers <- gjson.Get(m, "result").Raw
		w.WriteHeader(http.StatusAccepted)
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
	say   func(message string)
	leave func()
}

func quietClientOf(t *testing.T, base, over string) quietClient {
	t.Helper()
	if over == "sse" {
		c := peertest.NewSSEClient(t, base)
		c.Post(initialize("2025-06-18", canBeAsked))
		c.Next()
		c.Post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		return quietClient{c.Next, func(message string) { c.Post(message) }, func() { _ = c.Body.Close() }}
	}
	c := peertest.NewClient(t, peertest.Endpoint{URL: base + "/mcp"})
	begun := c.Say(initialize("2025-06-18", canBeAsked))
	begun.Next()
	c.Session, c.Version = begun.Header.Get("Mcp-Session-Id"), "2025-06-18"
	listens := c.Listen()
	listens.HasStatus(200)
	return quietClient{listens.Next, func(message string) { c.Say(message).HasStatus(202) }, func() { listens.Leave() }}
}

// goroutineIn reports whether a goroutine is in all of these functions.
func goroutineIn(functions ...string) bool {
	var all strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&all, 2)
	for stack := range strings.SplitSeq(all.String(), "\n\n") {
		if !slices.ContainsFunc(functions, func(f string) bool { return !strings.Contains(stack, f) }) {
			return true
		}
	}
	return false
}

// TestQuietStreamsHoldNoGoroutine: a standing stream on which nothing comes waits without one. What comes then reaches the client,
// a stream that breaks off is opened again behind the last event, and the server learns that the client has left.
func TestQuietStreamsHoldNoGoroutine(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("no stream is parked on this system")
	}
	type pair struct {
		over, base string
		server     *quietServer
		client     quietClient
		stream     *quietStream
	}
	var all, again []*pair // the streams are at once, since each may take a second to be quiet
	for _, over := range []string{"http", "sse"} {
		for _, named := range []string{"", "51e9"} {
			s := &quietServer{named: named, streams: make(chan *quietStream, 10)}
			web := peertest.Web(t, s)
			base := serving(t, func(cfg *config.Config) { cfg.Upstream.URL, cfg.Upstream.Transport = web.URL, "http" }).base
			p := &pair{over: over, base: base, server: s, client: quietClientOf(t, base, over)}
			p.stream = <-s.streams
			all = append(all, p)
			if over == "sse" || named != "" { // else the client opens its stream again
				again = append(again, p)
			}
		}
	}
	say := func(to []*pair, text string) {
		t.Helper()
		peertest.Eventually(t, "no goroutine waits", func() bool { return !goroutineIn("exchange.(*Exchange).Answer") })
		for _, p := range to {
			p.stream.say <- text
			sameJSON(t, p.client.next(), logLine)
		}
	}
	say(all, "data: "+logLine+"\n\n")
	say(all, "id: 7\ndata: "+logLine+"\n\n")
	for _, p := range again {
		close(p.stream.end)
		if p.stream = <-p.server.streams; p.stream.lastEventID != "7" {
			t.Errorf("%s, session %q: opened again after %q", p.over, p.server.named, p.stream.lastEventID)
		}
	}
	say(again, "data: "+logLine+"\n\n")
	for _, p := range all {
		p.client.leave()
		<-p.stream.left

		quietClientOf(t, p.base, p.over) // the shutdown ends its stream
		<-p.server.streams
	}
}

// TestQuestionOfAQuietStreamIsAskedAgain on the stream, however long the user thinks: a stream on which it may have to be asked
// again is not parked, also if it is opened again in the meantime.
func TestQuestionOfAQuietStreamIsAskedAgain(t *testing.T) {
	for _, c := range []struct{ over, named string }{{"http", "51e9"}, {"sse", "51e9"}, {"sse", ""}} {
		inBubble(t, fmt.Sprintf("%s, session %q", c.over, c.named), func(t *testing.T) {
			s := &quietServer{named: c.named, version: "2025-11-25", streams: make(chan *quietStream, 10), answers: make(chan string, 10)}
			web := peertest.Web(t, s)
			base := serving(t, func(cfg *config.Config) { cfg.Upstream.URL, cfg.Upstream.Transport = web.URL, "http" }).base
			client := quietClientOf(t, base, c.over)
			st := <-s.streams
			st.say <- "data: " + twoTags + "\n\n"
			question := client.next()
			close(st.end)
			<-s.streams
			peertest.Eventually(t, "a goroutine waits for the new stream", func() bool {
				return goroutineIn("exchange.(*Exchange).Answer", "upstream.(*exchange).begins", "upstream.(*conn).receive")
			})
			answer := func(content string) {
				client.say(`{"jsonrpc":"2.0","id":` + gjson.Get(question, "id").Raw + `,"result":{"action":"accept","content":` + content + `}}`)
			}
			answer(`{"tags.0":true}`)
			question = client.next()
			answer(`{"tags.0":true,"tags.2":true}`)
			sameJSON(t, <-s.answers, `{"action":"accept","content":{"tags":["x","z"]}}`)
		})
	}
}

// TestShutdownEndsAStreamThatIsNotGranted: nothing else would end it soon.
func TestShutdownEndsAStreamThatIsNotGranted(t *testing.T) {
	s := &quietServer{named: "51e9", silent: true, streams: make(chan *quietStream, 10)}
	web := peertest.Web(t, s)
	p := serving(t, func(cfg *config.Config) { cfg.Upstream.URL, cfg.Upstream.Transport = web.URL, "http" })
	c := peertest.NewClient(t, peertest.Endpoint{URL: p.base + "/mcp"})
	begun := c.Say(initialize("2025-06-18", `{}`))
	begun.Next()
	c.Session, c.Version = begun.Header.Get("Mcp-Session-Id"), "2025-06-18"
	c.Listen()
	st := <-s.streams
	p.srv.Host.Drain()
	select {
	case <-st.left:
	case <-time.After(peertest.Patience):
		t.Error("the GET goes on")
	}
}

// TestStreamInANewSessionIsResumed behind its last event, although the session was replaced when the stream was opened.
func TestStreamInANewSessionIsResumed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &quietServer{named: "51e9", streams: make(chan *quietStream, 10)}
		web := peertest.Web(t, s)
		base := serving(t, func(cfg *config.Config) { cfg.Upstream.URL, cfg.Upstream.Transport = web.URL, "http" }).base
		client := quietClientOf(t, base, "http")
		st := <-s.streams
		s.lost.Store(true)
		close(st.end)
		st = <-s.streams
		st.say <- "id: 7\ndata: " + logLine + "\n\n"
		sameJSON(t, client.next(), logLine)
		close(st.end)
		if st = <-s.streams; st.lastEventID != "7" {
			t.Errorf("opened again after %q", st.lastEventID)
		}
	})
}
