package proxy

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// fault is one way in which a server over HTTP fails a request.
type fault struct {
	name    string
	down    bool   // nothing listens any more
	says    string // the response, after which the connection is closed
	hangs   bool   // the connection stays open instead
	status  int    // of the answer to initialize and to clients without a session
	session int    // of the answer within a session; 200 where it is 0
	text    string // of the error
	header  string // that the answer has
}

// faults are the causes by which a server over HTTP fails a request before it has said
// anything, and begunFaults those behind a first event.
func faults() []fault {
	refusal := func(status int, more string) string {
		return fmt.Sprintf("HTTP/1.1 %d %s\r\n%sContent-Type: text/html\r\n", status, http.StatusText(status), more) + ofLength("<html>")
	}
	failed := "upstream request failed: "
	return []fault{
		{name: "refused", down: true, status: 502, text: failed + "connection refused"},
		{name: "timeout_first_byte", hangs: true, status: 504, text: "upstream timed out"},
		{name: "timeout_silence", says: jsonHead + "Content-Length: 100\r\n\r\n{", hangs: true, status: 504, text: "upstream timed out"},
		{name: "connection closed", status: 502, text: failed + "unexpected EOF"},
		{name: "stream_closed", says: eventHead, status: 502, text: "upstream closed the stream without answering"},
		{name: "event cut in two", says: eventHead + "data: {\"jsonrpc\"", status: 502, text: failed + "unexpected EOF"},
		{name: "not_mcp", says: "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n" + ofLength("<html>"), status: 502,
			text: failed + `answer of type "text/html", where application/json or text/event-stream was expected`},
		{name: "malformed head", says: "220 smtp ready\r\n\r\n", status: 502, text: failed + "malformed response head"},
		{name: "malformed too large", says: eventHead + "data: " + strings.Repeat("x", 1<<20) + "\n\n", status: 502,
			text: failed + "message is larger than the limit of 65536 bytes"},
		{name: "http_status 500", says: refusal(500, ""), status: 500, text: "upstream answered 500 Internal Server Error"},
		{name: "http_status 502", says: refusal(502, ""), status: 502, text: "upstream answered 502 Bad Gateway"},
		{name: "http_status 503", says: refusal(503, "Retry-After: 7\r\n"), status: 503, text: "upstream answered 503 Service Unavailable", header: "Retry-After"},
		{name: "http_status 307", says: refusal(307, "Location: http://127.0.0.1:1/\r\n"), status: 502, text: "upstream answered 307 Temporary Redirect"},
		{name: "unauthorized", says: refusal(401, "WWW-Authenticate: Bearer realm=\"r\"\r\n"), status: 401, session: 401, text: "upstream answered 401 Unauthorized", header: "WWW-Authenticate"},
		{name: "forbidden", says: refusal(403, "WWW-Authenticate: Bearer scope=\"s\"\r\n"), status: 403, session: 403, text: "upstream answered 403 Forbidden", header: "WWW-Authenticate"},
		{name: "rate_limited", says: refusal(429, "Retry-After: 7\r\n"), status: 429, session: 429, text: "upstream answered 429 Too Many Requests", header: "Retry-After"},
	}
}

func begunFaults() []fault {
	begun := eventHead + "data: " + logLine + "\n\n"
	return []fault{
		{name: "timeout_silence", says: begun, hangs: true, status: 504, text: "upstream timed out"},
		{name: "stream_closed", says: begun, status: 502, text: "upstream closed the stream without answering"},
		{name: "event cut in two", says: begun + "data: {\"js", status: 502, text: "upstream request failed: unexpected EOF"},
		{name: "malformed too large", says: begun + "data: " + strings.Repeat("x", 1<<20) + "\n\n", status: 502,
			text: "upstream request failed: message is larger than the limit of 65536 bytes"},
	}
}

// faultyServer answers as a server should until fault is set; then it fails the requests
// of one method.
type faultyServer struct {
	*httptest.Server
	fault  atomic.Pointer[fault]
	method string
	stands http.HandlerFunc // answers a GET; nil for 405
}

func newFaultyServer(t *testing.T, method string, modern bool) *faultyServer {
	s := &faultyServer{method: method}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		m := string(body)
		method, id := gjson.Get(m, "method").String(), gjson.Get(m, "id").Raw
		if f := s.fault.Load(); f != nil && method == s.method {
			nc, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer nc.Close()
			_, _ = io.WriteString(nc, f.says)
			if f.hangs {
				stay(nc.(*net.TCPConn))
			}
			return
		}
		switch {
		case r.Method == http.MethodGet && s.stands != nil:
			s.stands(w, r)
			return
		case r.Method == http.MethodDelete:
			w.WriteHeader(http.StatusNoContent)
			return
		case r.Method != http.MethodPost:
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		case id == "":
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		switch {
		case method == "server/discover" && modern:
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}}`, id)
		case method == "server/discover":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`, id)
		case method == "initialize":
			w.Header().Set("Mcp-Session-Id", "theirs")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"2"}}}`, id)
		case method == "ping":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{}}`, id)
		default:
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[],"tools":[]}}`, id)
		}
	}))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

// begin makes the server fail from now on.
func (s *faultyServer) begin(f fault) {
	s.fault.Store(&f)
	if f.down {
		s.CloseClientConnections()
		s.Close()
	}
}

// proxyOf is a client of a proxy in front of s.
func (s *faultyServer) proxyOf(t *testing.T) *webClient {
	return serving(t, func(cfg *Config) {
		cfg.Upstream.URL, cfg.Upstream.Transport = s.URL, "http"
		cfg.Limits.UpstreamMessage = 64 << 10
		cfg.Limits.Time = map[string]TimeLimit{
			"tools/call": {FirstByte: 100 * time.Millisecond, Silence: 100 * time.Millisecond},
			"initialize": {FirstByte: 100 * time.Millisecond, Silence: 100 * time.Millisecond},
		}
		if s.method == "initialize" {
			cfg.Upstream.HandshakeTimeout = 300 * time.Millisecond
		}
	})
}

// TestServerFailuresAreAnswered walks the causes by which a server fails a request: within
// the session of a client with a handshake a 5xx is the JSON-RPC error with status 200, as
// a body or, where the stream has begun, as its last event. To initialize and to clients
// without a session it is the status.
func TestServerFailuresAreAnswered(t *testing.T) {
	for _, begun := range []bool{false, true} {
		list, form := faults(), "json"
		if begun {
			list, form = begunFaults(), "stream"
		}
		for _, f := range list {
			t.Run(form+"/"+f.name, func(t *testing.T) {
				t.Run("session", func(t *testing.T) { f.inSession(t, begun) })
				t.Run("initialize", f.atInitialize)
				for _, modern := range []bool{false, true} {
					t.Run(fmt.Sprintf("modern client, modern server %v", modern), func(t *testing.T) { f.withoutSession(t, begun, modern) })
				}
			})
		}
	}
}

// told expects the answer to the call of id.
func (f fault) told(t *testing.T, h heardAll, id string, status int, begun bool) {
	t.Helper()
	if begun {
		status = 200
	}
	if h.status != status {
		t.Errorf("status %d, want %d", h.status, status)
	}
	if len(h.messages) == 0 {
		t.Fatal("no answer")
	}
	last := h.messages[len(h.messages)-1]
	sameJSON(t, last, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":%q}}`, id, f.text))
	if f.header != "" && h.header.Get(f.header) == "" {
		t.Errorf("no %s: %v", f.header, h.header)
	}
	if begun && len(h.messages) != 2 {
		t.Errorf("messages: %q", h.messages)
	}
}

func (f fault) inSession(t *testing.T, begun bool) {
	s := newFaultyServer(t, "tools/call", false)
	client := s.proxyOf(t)
	client.initialize()
	s.begin(f)
	status := f.session
	if status == 0 {
		status = 200
	}
	for range 2 { // the session goes on
		f.told(t, client.ask("POST", callOne), "1", status, begun)
	}
	if !f.down {
		client.isServed()
	}
}

func (f fault) atInitialize(t *testing.T) {
	s := newFaultyServer(t, "initialize", false)
	client := s.proxyOf(t)
	s.begin(f)
	f.told(t, client.initialize(), "0", f.status, false)
	if client.session != "" {
		t.Error("there is a session")
	}
}

func (f fault) withoutSession(t *testing.T, begun, modern bool) {
	s := newFaultyServer(t, "tools/call", modern)
	client := s.proxyOf(t)
	talk := &talker{t: t, url: client.base + "/mcp", web: client.http}
	level := `"io.modelcontextprotocol/logLevel":"debug"`
	ask := func(method, params string) (h heardAll) {
		r := talk.say(modernRequestOf("1", method, params+meta(`{}`, level)))
		for m := range r.events {
			h.messages = append(h.messages, m)
		}
		h.status, h.header = r.status, r.header
		return h
	}
	if h := ask("tools/list", ""); h.status != 200 {
		t.Fatalf("%+v", h)
	}
	s.begin(f)
	f.told(t, ask("tools/call", `"name":"t",`), "1", f.status, begun)
}

// A notification has no answer that could hold the error.
func TestServerFailsANotification(t *testing.T) {
	for method, status := range map[string]int{"notifications/roots/list_changed": 202, "notifications/initialized": 500} {
		s := newFaultyServer(t, method, false)
		client := s.proxyOf(t)
		client.initialize()
		s.begin(fault{says: "HTTP/1.1 500 Oh\r\n" + ofLength("")})
		h := client.ask("POST", `{"jsonrpc":"2.0","method":"`+method+`"}`)
		if h.status != status || (len(h.messages) > 0) != (status == 500) {
			t.Errorf("%s: %+v", method, h)
		}
		client.isServed()
	}
}

// A standing stream that the server refuses for now stays open towards the client, and
// begins when the server grants it. One that it refuses for good is refused.
func TestServerFailsAStandingStream(t *testing.T) {
	for _, status := range []int{500, 503} {
		s := newFaultyServer(t, "", false)
		asked := make(chan struct{}, 10)
		s.stands = func(w http.ResponseWriter, r *http.Request) {
			asked <- struct{}{}
			if len(asked) == 1 {
				w.WriteHeader(status)
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: "+logLine+"\n\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
		client := s.proxyOf(t)
		client.initialize()
		listens := (&talker{t: t, url: client.base + "/mcp", web: client.http, session: client.session}).listen()
		listens.hasStatus(200)
		sameJSON(t, listens.next(), logLine)
		listens.leave()
	}
	for _, status := range []int{401, 404} {
		s := newFaultyServer(t, "", false)
		s.stands = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
		client := s.proxyOf(t)
		client.initialize()
		if h := client.ask("GET", ""); h.status != status {
			t.Errorf("%+v", h)
		}
	}
}
