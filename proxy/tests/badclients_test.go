package tests

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
)

// request returns the text of a valid HTTP request. The given headers replace those of the same
// name.
func request(method, body string, headers ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s /mcp HTTP/1.1\r\n", method)
	given := strings.ToLower(strings.Join(headers, "\n"))
	for _, h := range []string{
		"Host: localhost", "Content-Type: application/json", "Accept: application/json, text/event-stream", fmt.Sprintf("Content-Length: %d", len(body)),
	} {
		if name, _, _ := strings.Cut(strings.ToLower(h), ":"); !strings.Contains("\n"+given, "\n"+name+":") {
			b.WriteString(h + "\r\n")
		}
	}
	for _, h := range headers {
		if !strings.HasSuffix(h, ":") { // a name without a value removes the header
			b.WriteString(h + "\r\n")
		}
	}
	return b.String() + "\r\n" + body
}

// raw writes text on a new connection, and returns the responses to n requests.
func (c *webClient) raw(text string, n int) (all []heardAll) {
	c.t.Helper()
	nc, err := net.Dial("tcp", strings.TrimPrefix(c.base, "http://"))
	if err != nil {
		c.t.Fatal(err)
	}
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(patience))
	sent := make(chan struct{})
	go func() { // a refused request may not be read to its end
		defer close(sent)
		_, _ = io.WriteString(nc, text)
	}()
	for in := bufio.NewReader(nc); len(all) < n; {
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			c.t.Fatalf("answer %d: %v", len(all)+1, err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil {
			c.t.Fatal(err)
		}
		h := heardAll{status: res.StatusCode, header: res.Header}
		if len(body) > 0 {
			h.messages = []string{string(body)}
		}
		all = append(all, h)
	}
	nc.Close()
	<-sent
	return all
}

// refusal returns the error response for the request id, or without an id.
func refusal(id string, code int, text string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, id, code, text)
}

// TestBadMessages: the sender of an invalid message gets an error. The server does not receive the
// message, and the next message is served.
func TestBadMessages(t *testing.T) {
	web := badWeb(t, nil)
	client := serving(t, func(cfg *config.Config) { cfg.Upstream.URL, cfg.Upstream.Transport = web.URL, "http" })
	client.initialize()
	got := len(web.heard())
	ping := func(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}` }
	deep := strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)
	for _, c := range []struct {
		name, in string
		status   int
		want     string
	}{
		{"nothing", "", 400, refusal("null", -32700, "Parse error: unexpected end of JSON at byte 0 (2025-06-18)")},
		{"malformed JSON", `{"jsonrpc":"2.0","id":1,"method":"ping"`, 400, refusal("null", -32700, "Parse error: unexpected end of JSON at byte 39 (2025-06-18, ping)")},
		{"trailing bytes", ping("1") + " x", 400, refusal("null", -32700, "Parse error: data after the message at byte 41 (2025-06-18, ping)")},
		{"two messages", ping("1") + ping("2"), 400, refusal("null", -32700, "Parse error: data after the message at byte 40 (2025-06-18, ping)")},
		{"invalid UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", 400, refusal("null", -32700, "Parse error: invalid UTF-8 at byte 34 (2025-06-18)")},
		{"a BOM", "\xef\xbb\xbf" + ping("1"), 400, refusal("null", -32700, "Parse error: invalid JSON at byte 0 (2025-06-18)")},
		{"two ids", `{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, 400, refusal("null", -32600, "Invalid Request: id occurs twice (2025-06-18, ping)")},
		{"two methods", `{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}`, 400, refusal("1", -32600, "Invalid Request: method occurs twice (2025-06-18, tools/list)")},
		{"two methods, one written with escapes", `{"jsonrpc":"2.0","id":1,"method":"ping","\u006dethod":"tools/list"}`, 400, refusal("1", -32600, "Invalid Request: method occurs twice (2025-06-18, tools/list)")},
		{"two params", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{},"params":{}}`, 400, refusal("1", -32600, "Invalid Request: params occurs twice (2025-06-18, ping)")},
		{"a notification of two requests", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"requestId":2}}`, 400,
			refusal("null", -32600, "Invalid Request: params.requestId occurs twice (2025-06-18, notifications/cancelled)")},
		{"progress of two calls", `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1,"progressToken":2}}`, 400,
			refusal("null", -32600, "Invalid Request: params.progressToken occurs twice (2025-06-18, notifications/progress)")},
		{"two results", `{"jsonrpc":"2.0","id":1,"result":{},"result":{}}`, 400, refusal("1", -32600, "Invalid Request: result occurs twice (2025-06-18)")},
		{"a result and an error", `{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}`, 400, refusal("1", -32600, "Invalid Request: both result and error (2025-06-18)")},
		{"id null", ping("null"), 400, refusal("null", -32600, "Invalid Request: id must be a string or an integer (2025-06-18, ping)")},
		{"id a fraction", ping("1.5"), 400, refusal("null", -32600, "Invalid Request: id must be a string or an integer (2025-06-18, ping)")},
		{"id true", ping("true"), 400, refusal("null", -32600, "Invalid Request: id must be a string or an integer (2025-06-18, ping)")},
		{"id an object", ping("{}"), 400, refusal("null", -32600, "Invalid Request: id must be a string or an integer (2025-06-18, ping)")},
		{"id an array", ping("[1]"), 400, refusal("null", -32600, "Invalid Request: id must be a string or an integer (2025-06-18, ping)")},
		{"no version of JSON-RPC", `{"id":1,"method":"ping"}`, 400, refusal("1", -32600, "Invalid Request: jsonrpc must be \"2.0\" (2025-06-18, ping)")},
		{"method a number", `{"jsonrpc":"2.0","id":1,"method":1}`, 400, refusal("1", -32600, "Invalid Request: method must be a string (2025-06-18)")},
		{"params null", `{"jsonrpc":"2.0","id":1,"method":"ping","params":null}`, 400, refusal("1", -32600, "Invalid Request: params must be an object (2025-06-18, ping)")},
		{"params an array", `{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}`, 400, refusal("1", -32600, "Invalid Request: params must be an object (2025-06-18, ping)")},
		{"params a number", `{"jsonrpc":"2.0","id":1,"method":"ping","params":1}`, 400, refusal("1", -32600, "Invalid Request: params must be an object (2025-06-18, ping)")},
		{"{ }", `{ }`, 400, refusal("null", -32600, "Invalid Request: jsonrpc must be \"2.0\" (2025-06-18)")},
		{"null", `null`, 400, refusal("null", -32600, "Invalid Request: not a JSON object (2025-06-18)")},
		{"1", `1`, 400, refusal("null", -32600, "Invalid Request: not a JSON object (2025-06-18)")},
		{"text", `"ping"`, 400, refusal("null", -32600, "Invalid Request: not a JSON object (2025-06-18)")},
		{"100,000 arrays deep", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":` + deep + `}}`, 400, refusal("null", -32700, "Parse error: nested deeper than 512 at byte 564 (2025-06-18, ping)")},
		{"100,000 arrays", deep, 400, refusal("null", -32700, "Parse error: nested deeper than 512 at byte 512 (2025-06-18)")},
		{"an empty batch", `[]`, 400, refusal("null", -32600, "Empty batch")},
		{"a batch", `[` + ping("1") + `]`, 400, refusal("null", -32600, "JSON-RPC batching is not supported in 2025-06-18")},
		{"too large", `"` + strings.Repeat("x", 10<<20) + `"`, 413, refusal("null", -32600, "the body is larger than the limit of 10485760 bytes (limits.client_message)")},
		{"a second initialize", initialize("2025-06-18", `{}`), 400, refusal("0", -32600, "Already initialized")},
		{"a request of the newest revision", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`, 400,
			refusal("1", -32600, "Not initialized: send initialize first; supported: 2025-11-25, 2025-06-18, 2025-03-26, 2024-11-05")},
	} {
		t.Run(c.name, func(t *testing.T) {
			client.ask("POST", c.in).told(t, c.status, c.want)
			if sent := web.heard(); len(sent) != got {
				t.Errorf("the server got %.200q", sent[got:])
			}
			client.isServed()
			got++
		})
	}
}

// TestStrangeMessagesGoOn: unusual but valid messages reach the server unchanged.
func TestStrangeMessagesGoOn(t *testing.T) {
	web := badWeb(t, nil)
	client := serving(t, func(cfg *config.Config) { cfg.Upstream.URL, cfg.Upstream.Transport = web.URL, "http" })
	client.initialize()
	digits := strings.Repeat("1234567890", 40)
	for _, c := range []struct{ name, id, params string }{
		{"an id of 400 digits", digits, `{}`},
		{"an empty id", `""`, `{}`},
		{"a negative id", `-0`, `{}`},
		{"an id with a whole exponent", `1e2`, `{}`},
		{"an id with a fraction of nothing", `1.0`, `{}`},
		{"an id with a lone surrogate", `"\ud800"`, `{}`},
		{"numbers of 400 digits", `1`, `{"a":` + digits + `,"b":0.` + digits + `,"c":1e` + digits[:300] + `}`},
		{"lone surrogates", `1`, `{"\udc00":"\ud83d","a":"\ud83d\ude00"}`},
		{"a member twice", `1`, `{"a":1,"a":2}`},
		{"blanks", ` 1 `, " {\n\t\"a\" : [ ] }\r\n"},
		{"nesting of 500", `1`, `{"a":` + strings.Repeat("[", 500) + strings.Repeat("]", 500) + `}`},
		{"ten megabytes", `1`, `{"a":"` + strings.Repeat("x", 10<<20-200) + `"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := `{"jsonrpc":"2.0","id":` + c.id + `,"method":"test/any","params":` + c.params + `}`
			client.ask("POST", in).told(t, 200, `{"jsonrpc":"2.0","id":`+strings.TrimSpace(c.id)+`,"result":{}}`)
			if sent := web.heard(); sent[len(sent)-1] != in {
				t.Errorf("the server got %.300q", sent[len(sent)-1])
			}
		})
	}
}

// TestBadBatches: invalid batches of clients whose revision has batches.
func TestBadBatches(t *testing.T) {
	web := badWeb(t, nil)
	client := serving(t, func(cfg *config.Config) { cfg.Upstream.URL, cfg.Upstream.Transport = web.URL, "http" })
	client.session = client.ask("POST", initialize("2025-03-26", `{}`)).header.Get("Mcp-Session-Id")
	for _, c := range []struct {
		name, in string
		status   int
		want     string
	}{
		{"empty", `[]`, 400, refusal("null", -32600, "Empty batch")},
		{"malformed", `[` + pingOne + `,`, 400, refusal("null", -32700, "Parse error: unexpected end of JSON at byte 42 (2025-03-26 to 2025-06-18)")},
		{"huge", `[` + strings.Repeat(pingOne+",", 100) + pingOne + `]`, 400, refusal("null", -32600, "Too many messages in batch: 100 are allowed")},
		{"a million empty ones", `[` + strings.Repeat("[],", 1_000_000) + `[]]`, 400, refusal("null", -32600, "Too many messages in batch: 100 are allowed")},
		{"holding initialize", initInIt, 400, refusal("null", -32600, "initialize must not be part of a batch")},
		{"of an id twice", `[` + pingOne + `,` + pingOne + `]`, 200, `[` + pingAnswer + `,` + refusal("1", -32600, "Duplicate request id in batch") + `]`},
		{"of what is no message", `[1,` + pingOne + `,{}]`, 200, `[` + refusal("null", -32600, "Invalid Request") + `,` + pingAnswer + `,` + refusal("null", -32600, "Invalid Request: jsonrpc must be \"2.0\" (2025-03-26 to 2025-06-18)") + `]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			client.ask("POST", c.in).told(t, c.status, c.want)
			client.isServed()
		})
	}
}

// TestBadRequests: errors in an HTTP request, before a message is read.
func TestBadRequests(t *testing.T) {
	web := badWeb(t, nil)
	client := serving(t, func(cfg *config.Config) {
		cfg.Upstream.URL, cfg.Upstream.Transport, cfg.Bridge.Principal = web.URL, "http", "header:x-user"
	})
	client.initialize()
	held, err := client.srv.Table.Find(client.session, sealed.Owner{}, &downstream.Sender{})
	if err != nil {
		t.Fatal(err)
	}
	held.Leave()
	old := held.Session
	old.Made = time.Now().Add(-25 * time.Hour)
	elsewhere := *client.srv.Now().Sealer
	elsewhere.Server = sealed.ServerMark(config.Upstream{URL: "http://127.0.0.1:1/"})
	unknown := refusal("1", -32600, "Session not found")
	with := func(id string) string { return "Mcp-Session-Id: " + id }
	session := with(client.session)
	twice := func(name string) string {
		return refusal("null", -32600, "the "+name+" header occurs more than once")
	}
	notInitialized := "Not initialized: send initialize first; supported: 2025-11-25, 2025-06-18, 2025-03-26, 2024-11-05; session.without: open answers requests without a session"
	for _, c := range []struct {
		name, request string
		status        int
		want          string
	}{
		{"as it should be", request("POST", pingOne, session), 200, pingAnswer},
		{"Accept without events", request("POST", pingOne, session, "Accept: application/json"), 406, refusal("null", -32600, "Accept must contain both application/json and text/event-stream")},
		{"Accept without events on GET", request("GET", "", session, "Accept: application/json"), 406, refusal("null", -32600, "Accept must contain text/event-stream")},
		{"wrong content type", request("POST", pingOne, session, "Content-Type: text/plain"), 415, refusal("null", -32600, "Content-Type must be application/json")},
		{"no content type", request("POST", pingOne, session, "Content-Type:"), 415, refusal("null", -32600, "Content-Type must be application/json")},
		{"compressed", request("POST", pingOne, session, "Content-Encoding: gzip"), 415, refusal("null", -32600, "Content-Encoding must be identity")},
		{"wrong method", request("PUT", pingOne, session), 405, refusal("null", -32600, "the MCP endpoint accepts POST, GET and DELETE")},
		{"version unknown", request("POST", pingOne, session, "MCP-Protocol-Version: 2020-01-01"), 400, refusal("1", -32600, "Unsupported MCP-Protocol-Version")},
		{"version of another revision", request("POST", pingOne, session, "MCP-Protocol-Version: 2024-11-05"), 200, pingAnswer},
		{"version twice", request("POST", pingOne, session, "MCP-Protocol-Version: 2025-06-18", "MCP-Protocol-Version: x"), 400, refusal("1", -32600, "the MCP-Protocol-Version header occurs more than once")},
		{"version twice, a modern one first", request("POST", pingOne, session, "MCP-Protocol-Version: 2026-07-28", "MCP-Protocol-Version: 2025-06-18"), 400, refusal("1", -32600, "the MCP-Protocol-Version header occurs more than once")},
		{"version twice, on GET", request("GET", "", session, "MCP-Protocol-Version: 2025-06-18", "MCP-Protocol-Version: 2025-11-25"), 400, twice("MCP-Protocol-Version")},
		{"version twice, on DELETE", request("DELETE", "", session, "MCP-Protocol-Version: 2025-06-18", "MCP-Protocol-Version: 2025-06-18"), 400, twice("MCP-Protocol-Version")},
		{"budget twice", request("POST", pingOne, session, "X-Max-Tokens: 1", "X-Max-Tokens: 100000"), 400, twice("X-Max-Tokens")},
		{"origin twice", request("POST", pingOne, session, "Origin: http://localhost", "Origin: http://localhost"), 400, twice("Origin")},
		{"session twice", request("POST", pingOne, session, session), 400, twice("Mcp-Session-Id")},
		{"Authorization twice", request("POST", pingOne, session, "Authorization: Bearer a", "Authorization: Bearer b"), 400, twice("Authorization")},
		{"last event twice", request("GET", "", session, "Last-Event-ID: 1", "Last-Event-ID: 2"), 400, twice("Last-Event-ID")},
		{"principal twice", request("POST", pingOne, session, "X-User: a", "X-User: b"), 400, twice("x-user")},
		{"principal twice, however it is written", request("POST", pingOne, session, "x-user: a", "X-USER: a"), 400, twice("x-user")},
		{"another header twice", request("POST", pingOne, session, "X-Other: a", "X-Other: b"), 200, pingAnswer},
		{"errors without an id", request("PUT", pingOne, session, "MCP-Protocol-Version: 2025-11-25"), 405, `{"jsonrpc":"2.0","error":{"code":-32600,"message":"the MCP endpoint accepts POST, GET and DELETE"}}`},
		{"errors without an id, of the message", request("POST", `{`, session, "MCP-Protocol-Version: 2025-11-25"), 400, `{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error: unexpected end of JSON at byte 1 (2025-06-18)"}}`},
		{"errors with null for an id", request("POST", `{`, session, "MCP-Protocol-Version: 2025-06-18"), 400, refusal("null", -32700, "Parse error: unexpected end of JSON at byte 1 (2025-06-18)")},
		{"session missing", request("POST", pingOne), 400, refusal("1", -32600, notInitialized)},
		{"session missing on GET", request("GET", ""), 400, refusal("null", -32600, notInitialized+"; HTTP+SSE clients use /sse")},
		{"session missing on DELETE", request("DELETE", ""), 400, refusal("null", -32600, "Not initialized: no session to end")},
		{"session forged", request("POST", pingOne, with(strings.ToUpper(client.session))), 404, unknown},
		{"session of no shape", request("POST", pingOne, with("../../etc/passwd")), 404, unknown},
		{"session of another key", request("POST", pingOne, with(sealerOf(t, web.URL, 9).SealSession(held.Session))), 404, unknown},
		{"session of another server", request("POST", pingOne, with(elsewhere.SealSession(held.Session))), 404, unknown},
		{"session expired", request("POST", pingOne, with(client.srv.Now().Sealer.SealSession(old))), 404, unknown},
		{"foreign origin", request("POST", pingOne, session, "Origin: https://evil.example"), 403, refusal("null", -32600, "the Origin header names an origin that is not allowed; add it to cors.origins if it is that of a web page")},
		{"rebound host", request("POST", pingOne, session, "Host: evil.example"), 403, refusal("null", -32600, "the Host header names a host that is not allowed; add it to allowed_hosts")},
		{"no host", request("POST", pingOne, session, "Host:"), 400, refusal("null", -32600, "this is not an HTTP request")},
		{"another path", strings.Replace(request("POST", pingOne, session), "/mcp", "/", 1), 404, "no such path; the MCP endpoint is /mcp, for HTTP+SSE /sse\n"},
		{"no HTTP", "EHLO localhost\r\n\r\n", 400, refusal("null", -32600, "this is not an HTTP request")},
		{"headers too large", request("POST", pingOne, session, "X: "+strings.Repeat("x", 20<<10)), 431, refusal("null", -32600, "the headers are larger than the limit of 16384 bytes (limits.header)")},
		{"length negative", request("POST", "", session, "Content-Length: -1"), 400, refusal("null", -32600, "this is not an HTTP request")},
		{"length too large", request("POST", strings.Repeat("x", 8<<10), session, "Content-Length: 2000000000"), 413, refusal("null", -32600, "the body is larger than the limit of 10485760 bytes (limits.client_message)")},
		{"two lengths", request("POST", pingOne, session, "Content-Length: 40", "Content-Length: 41"), 400, refusal("null", -32600, "this is not an HTTP request")},
		{"chunked", request("POST", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(pingOne), pingOne), session, "Content-Length:", "Transfer-Encoding: chunked"), 200, pingAnswer},
		{"chunked, broken", request("POST", "zz\r\n", session, "Content-Length:", "Transfer-Encoding: chunked"), 400, refusal("null", -32600, "this is not an HTTP request")},
		{"chunked, too large", request("POST", "fffffff\r\n"+strings.Repeat("x", 11<<20), session, "Content-Length:", "Transfer-Encoding: chunked"), 413, refusal("null", -32600, "the body is larger than the limit of 10485760 bytes (limits.client_message)")},
	} {
		t.Run(c.name, func(t *testing.T) {
			client.raw(c.request, 1)[0].told(t, c.status, c.want)
			client.isServed()
		})
	}
}

// TestPipelinedRequests: pipelined requests on one connection are each answered in order, whatever
// is wrong with earlier ones.
func TestPipelinedRequests(t *testing.T) {
	web := badWeb(t, nil)
	client := serving(t, func(cfg *config.Config) { cfg.Upstream.URL, cfg.Upstream.Transport = web.URL, "http" })
	client.initialize()
	session := "Mcp-Session-Id: " + client.session
	ping := func(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}` }
	row := []struct {
		request string
		status  int
		want    []string
	}{
		{request("POST", ping("1"), session), 200, []string{pingAnswer}},
		{request("POST", `{`, session), 400, []string{refusal("null", -32700, "Parse error: unexpected end of JSON at byte 1 (2025-06-18)")}},
		{request("POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, session), 202, nil},
		{request("POST", ping("2"), "Mcp-Session-Id: x"), 404, []string{refusal("2", -32600, "Session not found")}},
		{request("POST", ping("3"), session, "Accept: text/html"), 406, []string{refusal("null", -32600, "Accept must contain both application/json and text/event-stream")}},
		{request("GET", "", session), 405, []string{refusal("null", -32600, "The server offers no stream")}},
		{request("POST", ping(`"last"`), session), 200, []string{`{"jsonrpc":"2.0","id":"last","result":{}}`}},
	}
	var all string
	for _, r := range row {
		all += r.request
	}
	for i, h := range client.raw(all, len(row)) {
		h.told(t, row[i].status, row[i].want...)
	}
	client.isServed()
}

// TestSlowClients: a client that writes one byte at a time, and one that reads one byte at a time.
func TestSlowClients(t *testing.T) {
	const size = 4 << 20
	web := badWeb(t, func(nc *net.TCPConn) {
		large := `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"` + strings.Repeat("x", size) + `"}]}}`
		_, _ = io.WriteString(nc, jsonHead+ofLength(large))
	})
	client := serving(t, func(cfg *config.Config) { cfg.Upstream.URL, cfg.Upstream.Transport = web.URL, "http" })
	client.initialize()
	nc, err := net.Dial("tcp", strings.TrimPrefix(client.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(2 * patience))
	_ = nc.(*net.TCPConn).SetReadBuffer(64 << 10)
	text := request("POST", callOne, "Mcp-Session-Id: "+client.session)
	for i := range len(text) {
		if _, err := io.WriteString(nc, text[i:i+1]); err != nil {
			t.Fatal(err)
		}
		if i%20 == 0 {
			client.isServed() // other clients do not wait
		}
	}
	res, err := http.ReadResponse(bufio.NewReaderSize(nc, 16), nil)
	if err != nil {
		t.Fatal(err)
	}
	client.isServed() // while the response is being written
	n := 0
	for piece := make([]byte, 8<<10); ; {
		read, err := res.Body.Read(piece)
		if n += read; err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if res.StatusCode != 200 || n < size {
		t.Errorf("%d, %d bytes", res.StatusCode, n)
	}
}

// TestServerLearnsThatClientsLeft: if a client disconnects while nothing is sent, the server learns
// of it at once: the call is cancelled, or the stream is closed.
func TestServerLearnsThatClientsLeft(t *testing.T) {
	cert, key, roots := certificate(t)
	for _, c := range []struct {
		name          string
		tls, pipeline bool
		half          bool
	}{
		{name: "plain"}, {name: "half-closed", half: true}, {name: "pipelined", pipeline: true},
		{name: "TLS", tls: true}, {name: "TLS, pipelined", tls: true, pipeline: true},
	} {
		for _, method := range []string{"POST", "GET"} {
			t.Run(c.name+" "+method, func(t *testing.T) {
				if c.pipeline && runtime.GOOS != "linux" {
					t.Skip("bytes that wait to be read hide the end on this system")
				}
				inside, left := make(chan struct{}, 2), make(chan struct{}, 2)
				web := peertest.NewServer(t, peertest.HTTP, func(u *peertest.Turn) {
					switch {
					case u.Text == http.MethodGet || u.Method == "tools/call":
						if u.Text == http.MethodGet { // an empty stream
							u.Web.Header().Set("Content-Type", "text/event-stream")
							u.Refuse(http.StatusOK)
							u.Web.(http.Flusher).Flush()
						}
						inside <- struct{}{}
						<-u.Ctx.Done()
						left <- struct{}{}
					case u.Method == "initialize":
						u.Answer(200, result(u.ID, helloOf("2025-11-25", `{"tools":{}}`)))
					}
				})
				web.SessionID, web.Every = "theirs", true
				web.At()
				client := serving(t, func(cfg *config.Config) {
					cfg.Upstream.URL, cfg.Upstream.Transport = web.URL, "http"
					if c.tls {
						cfg.TLS = config.TLS{Cert: cert, Key: key}
					}
				})
				secure := &tls.Config{RootCAs: roots}
				if c.tls {
					client.base = strings.Replace(client.base, "http:", "https:", 1)
					client.http.Transport.(*http.Transport).TLSClientConfig = secure
				}
				client.session = client.ask("POST", initialize("2025-11-25", `{}`)).header.Get("Mcp-Session-Id")
				_, at, _ := strings.Cut(client.base, "//")
				tcp, err := net.Dial("tcp", at)
				if err != nil {
					t.Fatal(err)
				}
				defer tcp.Close()
				nc := tcp
				if c.tls {
					secure := secure.Clone()
					secure.ServerName = "127.0.0.1"
					nc = tls.Client(tcp, secure)
				}
				body := ""
				if method == "POST" {
					body = callOne
				}
				text := request(method, body, "Mcp-Session-Id: "+client.session)
				if c.pipeline {
					text += text
				}
				if _, err := io.WriteString(nc, text); err != nil {
					t.Fatal(err)
				}
				recv(t, inside, "the request")
				if method == "GET" {
					if _, err := http.ReadResponse(bufio.NewReader(nc), nil); err != nil {
						t.Fatal(err)
					}
				}
				select {
				case <-left:
					t.Fatal("given up while the client is there")
				default:
				}
				if c.half {
					_ = nc.(*net.TCPConn).CloseWrite()
				} else {
					_ = nc.Close()
				}
				recv(t, left, "the end of the request")
			})
		}
	}
}

func recv(t *testing.T, from <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-from:
	case <-time.After(patience):
		t.Fatalf("never: %s", what)
	}
}

// TestLengthAndChunks: a request whose end two parsers may see at different places is refused, and
// nothing after it on the connection is read.
func TestLengthAndChunks(t *testing.T) {
	web := badWeb(t, nil)
	client := serving(t, func(cfg *config.Config) { cfg.Upstream.URL, cfg.Upstream.Transport = web.URL, "http" })
	client.initialize()
	session := "Mcp-Session-Id: " + client.session
	chunks := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(pingOne), pingOne)
	for _, both := range [][]string{
		{session, "Content-Length: 6", "Transfer-Encoding: chunked"}, {session, "Transfer-Encoding: chunked", "content-length: 6"},
	} {
		nc, err := net.Dial("tcp", strings.TrimPrefix(client.base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		_ = nc.SetDeadline(time.Now().Add(patience))
		if _, err := io.WriteString(nc, request("POST", chunks, both...)+request("POST", pingOne, session)); err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReader(nc)
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		if res.StatusCode != 400 || !res.Close || !strings.Contains(string(body), "both Content-Length and Transfer-Encoding") {
			t.Errorf("%v: %d, closed %v, %s", both, res.StatusCode, res.Close, body)
		}
		if rest, _ := io.ReadAll(in); len(rest) > 0 {
			t.Errorf("what stands behind is answered: %s", rest)
		}
	}
	client.isServed()
}
