package tests

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// namedEvents are events of a server, and what its client gets: events with a message have a name, since some published clients
// read no others.
var namedEvents = []struct{ name, says, want string }{
	{"message without a name", "data: " + logLine, "event: message\ndata: " + logLine},
	{"message with the name", "event: message\ndata: " + logLine, "event: message\ndata: " + logLine},
	{"message with an empty name", "event:\ndata: " + logLine, "event: message\ndata: " + logLine},
	{"message with another name", "event: note\ndata: " + logLine, "event: note\ndata: " + logLine},
	{"message with an id and a time", "id: 7\nretry: 2000\ndata: " + logLine, "event: message\nid: 7\nretry: 2000\ndata: " + logLine},
	{"message of many bytes", "data: " + longLine, "event: message\ndata: " + longLine},
	{"priming event", "id: 8\ndata:", "id: 8\ndata: "},
	{"priming event without data", "id: 9", "id: 9\ndata: "},
	{"reconnection time", "retry: 1000", "retry: 1000"},
	{"no message", "event: ping\ndata: 2025-11-05 12:00", "event: ping\ndata: 2025-11-05 12:00"},
	{"no message, but JSON", "event: ping\ndata: {}", "event: ping\ndata: {}"},
	{"no message, without data", "event: ping\nid: 10\ndata:", "event: ping\nid: 10\ndata: "},
}

var longLine = strings.Replace(logLine, `"data":"`, `"data":"`+strings.Repeat("x", 100<<10), 1)

// rawEvents reads the events of a response as they come, without the blank line behind them.
type rawEvents struct {
	t  *testing.T
	in *bufio.Reader
}

func (r *rawEvents) next() string {
	r.t.Helper()
	event := ""
	for {
		line, err := r.in.ReadString('\n')
		if err != nil {
			r.t.Fatalf("%q, %v", event+line, err)
		}
		switch {
		case line == ":\n": // a comment that keeps the connection busy
		case line != "\n":
			event += line
		case event != "":
			return strings.TrimSuffix(event, "\n")
		}
	}
}

// TestEventsWithAMessageAreNamed on the stream of a call and on the standing stream. Other names and events without a message stay.
func TestEventsWithAMessageAreNamed(t *testing.T) {
	says := make(chan string)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		id := gjson.GetBytes(body, "id").Raw
		switch method := gjson.GetBytes(body, "method").Str; {
		case method == "initialize":
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, initialized(id))
		case method == "tools/call":
			w.Header().Set("Content-Type", "text/event-stream")
			for _, e := range namedEvents {
				_, _ = io.WriteString(w, e.says+"\n\n")
			}
			_, _ = io.WriteString(w, ": comment\n\ndata: "+result(id, `"content":[]`)+"\n\n")
		case r.Method == http.MethodGet:
			w.Header().Set("Content-Type", "text/event-stream")
			w.(http.Flusher).Flush()
			for {
				select {
				case text := <-says:
					_, _ = io.WriteString(w, text+"\n\n")
					w.(http.Flusher).Flush()
				case <-r.Context().Done():
					return
				}
			}
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	t.Cleanup(web.Close)
	t.Cleanup(web.CloseClientConnections)
	c := serving(t, func(cfg *config.Config) { cfg.Upstream.URL, cfg.Upstream.Transport = web.URL, "http" })
	do := func(method, body, session string) (*rawEvents, *http.Response) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, c.base+"/mcp", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
		if session != "" {
			req.Header["Mcp-Session-Id"], req.Header["Mcp-Protocol-Version"] = []string{session}, []string{"2025-06-18"}
		}
		resp, err := c.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return &rawEvents{t, bufio.NewReader(resp.Body)}, resp
	}
	_, hello := do("POST", initialize("2025-06-18", `{}`), "")
	session := hello.Header.Get("Mcp-Session-Id")
	standing, _ := do("GET", "", session)
	call, _ := do("POST", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}`, session)
	for _, e := range namedEvents {
		if got := call.next(); got != e.want {
			t.Errorf("%s on the stream of a call: %.200q, want %.200q", e.name, got, e.want)
		}
		says <- e.says
		if got := standing.next(); got != e.want {
			t.Errorf("%s on the standing stream: %.200q, want %.200q", e.name, got, e.want)
		}
	}
	if got, want := call.next(), "event: message\ndata: "+result("1", `"content":[]`); got != want {
		t.Errorf("response: %q, want %q", got, want)
	}
	for _, l := range c.logs.All() {
		if l.Message == "upstream sent something that is not JSON-RPC" {
			t.Errorf("an event that is no message counts as a broken one: %v", l.ContextMap())
		}
	}
}

// TestEventsThatAreNoMessagesAreLeftOut where a bridge or a handshake reads the server's stream: they are no broken messages.
func TestEventsThatAreNoMessagesAreLeftOut(t *testing.T) {
	const ping = "event: ping\ndata: 2025-11-05 12:00\n\n"
	for _, modern := range []bool{false, true} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			id, answer := gjson.GetBytes(body, "id").Raw, ""
			switch method := gjson.GetBytes(body, "method").Str; {
			case method == "initialize" && !modern:
				answer = initialized(id)
			case method == "server/discover" && modern:
				answer = result(id, discoveredModern)
			case method == "tools/call":
				answer = result(id, `"content":[],"resultType":"complete"`)
			case r.Method == http.MethodGet:
				w.WriteHeader(http.StatusMethodNotAllowed)
				return
			case id != "":
				answer = rpcError(id, `"code":-32601,"message":"Method not found"`)
			default:
				w.WriteHeader(http.StatusAccepted)
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, ping+"data: "+answer+"\n\n")
		}))
		t.Cleanup(web.Close)
		t.Cleanup(web.CloseClientConnections)
		srv := frontOfWeb(t, web.URL)
		session := srv.initialize("2025-06-18")
		old := srv.post(session, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}`)
		young := srv.modernly(modernRequestOf("2", "tools/call", `"name":"t",`+meta(`{}`)))
		for _, r := range []reply{old, young} {
			if answer := r.body + strings.Join(r.events, ""); !gjson.Get(answer, "result.content").Exists() {
				t.Errorf("modern server: %v: %+v", modern, r)
			}
		}
		if n := counted(t, srv.Metrics, "dragoman_messages_dropped_total"); n != 0 {
			t.Errorf("modern server: %v: %v messages are dropped", modern, n)
		}
	}
}
