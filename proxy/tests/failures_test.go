package tests

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/failures"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// fault is one way in which a server over HTTP fails a request.
type fault struct {
	name    string
	down    bool   // the server has stopped listening
	says    string // the response, after which the connection is closed
	hangs   bool   // the connection stays open instead
	deaf    bool   // the network forgets the connection instead
	status  int    // the status for initialize and for modern clients
	session int    // the status within a session; 0 for 200
	text    string // the text of the error
	advice  string // in the log; "" for that of the cause
	header  string // a header of the response
	cause   failures.Cause
	lost    bool // within a session, the error says that the session is lost
}

// cutShort is what clients are told of a connection that ended too early.
const cutShort = "the connection ended before the answer was complete; the server may have done what was asked"

// faults are the ways in which a server over HTTP fails a request before it has sent anything, and
// begunFaults those after a first event.
func faults() []fault {
	refusal := func(status int, more string) string {
		return fmt.Sprintf("HTTP/1.1 %d %s\r\n%sContent-Type: text/html\r\n", status, http.StatusText(status), more) + ofLength("<html>")
	}
	failed := "upstream request failed: "
	failing := failures.HTTPStatus.AdviceOn(&upstream.StatusError{Code: 500}, "")
	return []fault{
		{name: "refused", cause: failures.Refused, down: true, status: 502, text: failed + "connection refused"},
		{name: "timeout_first_byte", cause: failures.TimeoutFirstByte, hangs: true, status: 504, text: "upstream timed out"},
		{name: "timeout_silence", cause: failures.TimeoutSilence, says: jsonHead + "Content-Length: 100\r\n\r\n{", hangs: true, status: 504, text: "upstream timed out"},
		{name: "connection closed", cause: failures.StreamClosed, status: 502, text: failed + cutShort},
		{name: "stream_closed", cause: failures.StreamClosed, says: eventHead, status: 502, text: "upstream closed the stream without answering"},
		{name: "event cut in two", cause: failures.StreamClosed, says: eventHead + "data: {\"jsonrpc\"", status: 502, text: failed + cutShort},
		{name: "not_mcp", cause: failures.NotMCP, says: "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n" + ofLength("<html>"), status: 502,
			text: failed + `response of type "text/html", expected application/json or text/event-stream`},
		{name: "malformed head", cause: failures.Malformed, says: "220 smtp ready\r\n\r\n", status: 502, text: failed + "malformed HTTP response"},
		{name: "malformed too large", cause: failures.Malformed, says: eventHead + "data: " + strings.Repeat("x", 1<<20) + "\n\n", status: 502,
			text: failed + "message is larger than the limit of 65536 bytes"},
		{name: "malformed no JSON", cause: failures.Malformed, says: jsonHead + ofLength("Bad Gateway"), status: 502,
			text: "upstream sent something that is not JSON-RPC"},
		{name: "malformed no JSON-RPC", cause: failures.Malformed, says: jsonHead + ofLength(`{"error":"quota"}`), status: 502,
			text: "upstream sent something that is not JSON-RPC"},
		{name: "http_status 418", cause: failures.HTTPStatus, says: refusal(418, ""), status: 418, session: 418, text: "upstream answered 418 I'm a teapot"},
		{name: "not_found", cause: failures.NotFound, says: refusal(404, ""), status: 502, session: 404, lost: true, text: "upstream endpoint not found"},
		{name: "http_status 500", cause: failures.HTTPStatus, advice: failing, says: refusal(500, ""), status: 500, text: "upstream answered 500 Internal Server Error"},
		{name: "http_status 502", cause: failures.HTTPStatus, advice: failing, says: refusal(502, ""), status: 502, text: "upstream answered 502 Bad Gateway"},
		{name: "http_status 503", cause: failures.HTTPStatus, advice: failing, says: refusal(503, "Retry-After: 7\r\n"), status: 503, text: "upstream answered 503 Service Unavailable", header: "Retry-After"},
		{name: "http_status 307", cause: failures.HTTPStatus, advice: failures.HTTPStatus.AdviceOn(&upstream.StatusError{Code: 307, Target: "http://127.0.0.1:1/"}, "http://127.0.0.1:2/"), says: refusal(307, "Location: http://u:p@127.0.0.1:1/?key=s\r\n"), status: 502, text: "upstream answered 307 Temporary Redirect"},
		{name: "unauthorized", cause: failures.Unauthorized, says: refusal(401, "WWW-Authenticate: Bearer realm=\"r\"\r\n"), status: 401, session: 401, text: "upstream answered 401 Unauthorized", header: "WWW-Authenticate"},
		{name: "forbidden", cause: failures.Forbidden, says: refusal(403, "WWW-Authenticate: Bearer scope=\"s\"\r\n"), status: 403, session: 403, text: "upstream answered 403 Forbidden", header: "WWW-Authenticate"},
		{name: "rate_limited", cause: failures.RateLimited, says: refusal(429, "Retry-After: 7\r\n"), status: 429, session: 429, text: "upstream answered 429 Too Many Requests", header: "Retry-After"},
	}
}

func begunFaults() []fault {
	begun := eventHead + "data: " + logLine + "\n\n"
	return []fault{
		{name: "timeout_silence", cause: failures.TimeoutSilence, says: begun, hangs: true, status: 504, text: "upstream timed out"},
		{name: "stream_closed", cause: failures.StreamClosed, says: begun, status: 502, text: "upstream closed the stream without answering"},
		{name: "event cut in two", cause: failures.StreamClosed, says: begun + "data: {\"js", status: 502, text: "upstream request failed: " + cutShort},
		{name: "malformed too large", cause: failures.Malformed, says: begun + "data: " + strings.Repeat("x", 1<<20) + "\n\n", status: 502,
			text: "upstream request failed: message is larger than the limit of 65536 bytes"},
	}
}

// faultyServer behaves correctly until fault is set; then it fails the requests of one method.
type faultyServer struct {
	*peertest.Server
	fault  atomic.Pointer[fault]
	method string
	stands http.HandlerFunc // answers a GET; nil for 405
}

func newFaultyServer(t *testing.T, method string, modern bool) *faultyServer {
	s := &faultyServer{method: method}
	s.Server = peertest.NewServer(t, peertest.HTTP, func(u *peertest.Turn) {
		answer := func(members string) { u.Answer(200, `{"jsonrpc":"2.0","id":`+u.ID+`,`+members+`}`) }
		f := s.fault.Load()
		switch {
		case f != nil && u.Method == s.method:
			c := u.Hijack()
			if f.deaf {
				peertest.Deafen(t, c)
				t.Cleanup(func() { c.Close() })
				return
			}
			defer c.Close()
			_, _ = io.WriteString(c, f.says)
			if f.hangs {
				stay(c)
			}
		case u.Text == http.MethodGet && s.stands != nil:
			u.Begun = true
			s.stands(u.Web, u.Request)
		case u.Text == http.MethodDelete:
			u.Refuse(http.StatusNoContent)
		case u.Text == http.MethodGet:
			u.Refuse(http.StatusMethodNotAllowed)
		case u.ID == "":
		case u.Method == "server/discover" && modern:
			answer(`"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}`)
		case u.Method == "server/discover":
			answer(`"error":{"code":-32601,"message":"Method not found"}`)
		case u.Method == "initialize":
			u.Web.Header().Set("Mcp-Session-Id", "theirs")
			answer(`"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"2"}}`)
		case u.Method == "ping":
			answer(`"result":{}`)
		default:
			answer(`"result":{"content":[],"tools":[]}`)
		}
	})
	s.Every = true
	s.At()
	return s
}

// begin makes the server fail from now on.
func (s *faultyServer) begin(f fault) {
	s.fault.Store(&f)
	if f.down {
		s.Close()
	}
}

// proxyOf returns a client of a proxy in front of s, which is about to fail in this way. Only a server that hangs meets a
// time limit: on a busy machine, every other failure may take long to arrive.
func (s *faultyServer) proxyOf(t *testing.T, f fault) *webClient {
	const short = 100 * time.Millisecond
	return serving(t, func(cfg *config.Config) {
		cfg.Upstream.URL, cfg.Upstream.Transport = s.URL, "http"
		cfg.Limits.UpstreamMessage = 64 << 10
		if f.deaf {
			cfg.Upstream.DeadAfter = time.Second
		}
		limit := config.TimeLimit{FirstByte: patience, Silence: patience}
		switch {
		case !f.hangs:
		case s.method == "initialize": // the handshake has a limit of its own
			cfg.Upstream.HandshakeTimeout = 12 * short // it includes the time to connect
		case f.cause == failures.TimeoutFirstByte:
			limit.FirstByte = short
		default:
			limit.Silence = short
		}
		cfg.Limits.Time = map[string]config.TimeLimit{s.method: limit}
	})
}

// TestServerFailuresAreAnswered: within the session of a handshake client, a 5xx is a JSON-RPC
// error with status 200, as the body or as the last event of the stream. For initialize and for
// modern clients it is the HTTP status.
func TestServerFailuresAreAnswered(t *testing.T) {
	waits(t)
	for _, begun := range []bool{false, true} {
		list, form := faults(), "json"
		if begun {
			list, form = begunFaults(), "stream"
		}
		for _, f := range list {
			name := form + "/" + f.name + "/"
			runTogether(t, name+"session", func(t *testing.T) { f.inSession(t, begun) })
			runTogether(t, name+"initialize", f.atInitialize)
			for _, modern := range []bool{false, true} {
				runTogether(t, fmt.Sprintf("%smodern client, modern server %v", name, modern), func(t *testing.T) { f.withoutSession(t, begun, modern) })
			}
		}
	}
}

// told expects the response to the call with this id.
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
	client := s.proxyOf(t, f)
	client.initialize()
	s.begin(f)
	status := f.session
	if status == 0 {
		status = 200
	}
	client.logs.TakeAll()
	if f.lost {
		f.text, f.cause = "upstream answered 404 Not Found", failures.SessionLost
		f.told(t, client.ask("POST", callOne), "1", status, begun)
		f.isReported(t, client, "tools/call", 2) // the new session is refused as well
		return
	}
	for range 2 { // the session continues
		f.told(t, client.ask("POST", callOne), "1", status, begun)
	}
	f.isReported(t, client, "tools/call", 2)
	if !f.down {
		client.isServed()
	}
}

func (f fault) atInitialize(t *testing.T) {
	s := newFaultyServer(t, "initialize", false)
	client := s.proxyOf(t, f)
	s.begin(f)
	if f.cause == failures.TimeoutSilence {
		f.cause = failures.TimeoutFirstByte // the handshake's own limit knows no difference
	}
	f.text = strings.TrimSuffix(f.text, report.MayBeDone) // initialize may be done twice
	if f.name == "connection closed" {
		f.advice = f.cause.AdviceOn(&upstream.Error{Op: "read", Unanswered: true, Err: io.ErrUnexpectedEOF}, s.URL)
	}
	f.told(t, client.initialize(), "0", f.status, false)
	f.isReported(t, client, "initialize", 1)
	if client.session != "" {
		t.Error("there is a session")
	}
}

func (f fault) withoutSession(t *testing.T, begun, modern bool) {
	s := newFaultyServer(t, "tools/call", modern)
	client := s.proxyOf(t, f)
	talk := &peertest.Client{T: t, URL: client.base + "/mcp", HTTP: client.http}
	level := `"io.modelcontextprotocol/logLevel":"debug"`
	ask := func(method, params string) (h heardAll) {
		r := talk.Say(modernRequestOf("1", method, params+meta(`{}`, level)))
		for m := range r.Events {
			h.messages = append(h.messages, m)
		}
		h.status, h.header = r.Status, r.Header
		return h
	}
	if h := ask("tools/list", ""); h.status != 200 {
		t.Fatalf("%+v", h)
	}
	client.logs.TakeAll()
	s.begin(f)
	if f.lost && modern { // errors of a modern server are passed unchanged
		f.status, f.text = 404, "upstream answered 404 Not Found"
	}
	f.told(t, ask("tools/call", `"name":"t",`), "1", f.status, begun)
	if !f.lost || modern { // else a new session was tried first
		f.isReported(t, client, "tools/call", 1)
	}
}

// isReported expects one log line about the failed requests of a method, and one count for each.
func (f fault) isReported(t *testing.T, client *webClient, method string, times int) {
	t.Helper()
	counts := func(labels ...string) int {
		return counted(t, client.srv.Metrics, "dragoman_upstream_failures_total", labels...)
	}
	eventually(t, "the count", func() bool { return counts() >= times }) // of any cause: another one is a mistake, and no reason to wait
	lines := client.logs.FilterMessage("request failed").TakeAll()
	if n := counts("cause=" + string(f.cause)); n != times || len(lines) != 1 {
		t.Fatalf("%d counted and %d lines for %d failures: %v", n, len(lines), times, lines)
	}
	is := lines[0].ContextMap()
	if lines[0].Level != f.cause.Level() || is["cause"] != string(f.cause) || is["advice"] != cmp.Or(f.advice, f.cause.Advice()) || is["method"] != method || is["error"] == "" {
		t.Errorf("%v %v", lines[0].Level, is)
	}
	if f.name == "http_status 307" && !strings.HasSuffix(is["error"].(string), " to http://127.0.0.1:1/") {
		t.Errorf("no target: %v", is["error"])
	}
	if at, _ := is["server"].(string); !strings.HasPrefix(at, "http://127.0.0.1:") {
		t.Errorf("server %q", at)
	}
	if method == "tools/call" && (is["client_rev"] == nil || is["server_rev"] == nil) && f.cause != failures.Refused {
		t.Errorf("no revisions: %v", is)
	}
}

// TestServerFailsANotification: there is no response that could carry the error.
func TestServerFailsANotification(t *testing.T) {
	for method, status := range map[string]int{"notifications/roots/list_changed": 202, "notifications/initialized": 500} {
		t.Run(method, func(t *testing.T) {
			s := newFaultyServer(t, method, false)
			client := s.proxyOf(t, fault{})
			client.initialize()
			s.begin(fault{says: "HTTP/1.1 500 Oh\r\n" + ofLength("")})
			h := client.ask("POST", `{"jsonrpc":"2.0","method":"`+method+`"}`)
			if h.status != status || (len(h.messages) > 0) != (status == 500) {
				t.Errorf("%+v", h)
			}
			client.isServed()
		})
	}
}

// TestServerFailsAStandingStream: if the server refuses its standing stream for now, the client's
// stream stays open, and carries messages once the server opens the stream. If the server refuses
// for good, so does dragoman.
func TestServerFailsAStandingStream(t *testing.T) {
	for _, status := range []int{500, 503} {
		inBubble(t, strconv.Itoa(status), func(t *testing.T) {
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
			client := s.proxyOf(t, fault{})
			client.initialize()
			listens := (&peertest.Client{T: t, URL: client.base + "/mcp", HTTP: client.http, Session: client.session}).Listen()
			listens.HasStatus(200)
			sameJSON(t, listens.Next(), logLine)
			listens.Leave()
		})
	}
	for _, status := range []int{401, 404} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			s := newFaultyServer(t, "", false)
			s.stands = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
			client := s.proxyOf(t, fault{})
			client.initialize()
			if h := client.ask("GET", ""); h.status != status {
				t.Errorf("%+v", h)
			}
		})
	}
}
