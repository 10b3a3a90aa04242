package downstream

import (
	"bytes"

	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
)

// pieces is a connection whose peer has sent everything already. Each read gets at most size bytes of it.
type pieces struct {
	script
	size int
}

func (p *pieces) Read(b []byte) (int, error) {
	if p.size > 0 && len(b) > p.size {
		b = b[:p.size]
	}
	return p.in.Read(b)
}

// served is what a handler sees and a client gets of the bytes on a connection.
type served struct {
	calls []string
	out   string
}

// twinServer returns a server whose handler notes in s what it sees, and answers as the request says.
func twinServer(s *served, tokens []string) *HTTP {
	see := func(method string) func(*Request, *Response) {
		return func(q *Request, r *Response) {
			var headers []string
			for _, name := range []string{"Host", "Authorization", tokenHeader, "Content-Type", "Content-Length", "User-Agent", "Cookie", "Mcp-Method", "X-Other", "Connection", "Transfer-Encoding"} {
				headers = append(headers, fmt.Sprintf("%s=%q", name, q.Header(name)))
			}
			q.Headers("", func(name, value string) { headers = append(headers, fmt.Sprintf("%q: %q", name, value)) })
			s.calls = append(s.calls, fmt.Sprintf("%s %q session %q version %q twice %q last %q guest %q peer %q\n%s", method, q.Body, q.Session, q.Version, q.Twice, q.LastEventID, q.Guest, q.Peer, strings.Join(headers, "\n")))
			if name := q.Header("X-Answer"); name != "" {
				r.Header = append(r.Header, mcp.Header{Name: name, Value: q.Header("X-Other")})
			}
			switch {
			case bytes.HasPrefix(q.Body, []byte("[")):
				_ = q.Client.Send(sse.Event{Data: []byte("1")})
				r.Body = []byte("2")
			case bytes.HasPrefix(q.Body, []byte("!")):
				panic("asked to")
			case bytes.HasPrefix(q.Body, []byte("x")):
				r.Body = bytes.Repeat([]byte("y"), len(q.Body)<<12)
			case bytes.HasPrefix(q.Body, []byte("-")):
				r.Status = http.StatusAccepted
			case bytes.HasPrefix(q.Body, []byte("?")):
				r.Status, r.Body = http.StatusNotFound, []byte("{}")
			default:
				r.Body = bytes.Clone(q.Body)
			}
		}
	}
	return NewHTTP(fakeHandler{post: see("POST"), get: see("GET"), del: see("DELETE")}, HTTPConfig{MaxBody: 100, MaxHeader: 1 << 10, Tokens: tokens, Pages: []string{"http://page"}})
}

// serveTwin serves in with the fast path, or with fasthttp's server alone.
func serveTwin(in []byte, size int, tokens []string, fast bool) (s served) {
	h := twinServer(&s, tokens)
	peer := &pieces{script{in: bytes.NewReader(in)}, size}
	c := newConn(peer, &h.cfg)
	if fast {
		h.serveConn(c)
	} else {
		_ = h.server.ServeConn(c)
	}
	s.out = peer.out.String()
	return s
}

// FuzzFastPath checks that for any bytes on a connection the fast path makes no difference: neither to what the handler sees, and
// so to where a request and its body end, nor to what the client gets.
func FuzzFastPath(f *testing.F) {
	plain := post("{}")
	head := strings.Replace(plain, "\r\n\r\n{}", "\r\n", 1) // its lines
	with := func(lines string) string { return head + lines + "\r\n{}" }
	length := func(s string) string { return strings.Replace(plain, "Content-Length: 2", s, 1) }
	line := func(s string) string { return strings.Replace(plain, "POST /mcp HTTP/1.1", s, 1) }
	host := func(s string) string { return strings.Replace(plain, "Host: localhost", s, 1) }
	for _, odd := range []string{
		"", "\r\n", "x", "POST", with("Content-Length: 2\r\n"), with("Content-Length: 3\r\n"), with("content-length: 2\r\n"),
		with("Transfer-Encoding: chunked\r\n"), with("Transfer-Encoding: identity\r\n"), with("Transfer-Encoding : chunked\r\n"), with("Transfer-Encoding: xchunked\r\n"),
		with("transfer-encoding:\tchunked\r\n"), with("X: a\r\n b\r\n"), with("X: a\r\n Content-Length: 9\r\n"), with("X: a\nTransfer-Encoding: chunked\r\n"), with("X: a\rY: b\r\n"),
		with("X : a\r\n"), with("X: \x00\r\n"), with("X: \x7f\r\n"), with(": a\r\n"), with("X\r\n"), with("Expect: 100-continue\r\n"), with("Expect: x\r\n"), with("Upgrade: h2c\r\nConnection: Upgrade\r\n"),
		with("Connection: close\r\n"), with("Connection: Close\r\n"), with("Connection: keep-alive\r\n"), with("Connection: keep-alive, close\r\n"), with("Connection: keep-alive\r\nConnection: close\r\n"),
		with("Trailer: X\r\n"), with("Cookie: a=b; c\r\n"), with("TE: trailers\r\n"), with("Origin: http://localhost\r\n"), with("Origin: http://evil\r\n"), with("Origin: http://page\r\n"), strings.Replace(with("Connection: keep-alive\r\n"), "HTTP/1.1", "HTTP/1.0", 1), with("Content-Encoding: identity\r\n"), with("Content-Encoding: gzip\r\n"),
		with("Mcp-Session-Id: s\r\n"), with("Mcp-Session-Id: s\r\nmcp-session-id: t\r\n"), with("MCP-Protocol-Version: 1\r\n"), with("MCP-Protocol-Version: 1\r\nMCP-PROTOCOL-VERSION: 2\r\n"),
		with("Authorization: Bearer token\r\n"), with("Authorization: Bearer other\r\n"), with(tokenHeader + ": token\r\n"), with(tokenHeader + ": token\r\nAuthorization: Bearer server\r\n"), with("Authorization: Bearer token\r\nAuthorization: Bearer token\r\n"),
		with("X-Answer: Mcp-Session-Id\r\nX-Other: s\r\n"), with("X-Answer: content-type\r\nX-Other: text/plain\r\n"), with("X-Answer: x-ANSWER\r\nX-Other: a  b\r\n"),
		with("MCP-method: a\r\nmCP-Param-x: b\r\nMcp-Param-X: c\r\n"), with("X_y: a\r\nX.z: b\r\n"), with("Last-Event-ID: 1\r\n"), with("Host: localhost\r\n"), with(strings.Repeat("X-Long: 0123456789\r\n", 60)),
		length("Content-Length: +2"), length("Content-Length: -2"), length("Content-Length: 0x2"), length("Content-Length: 02"), length("Content-Length: 2 2"), length("Content-Length: 2,2"), length("Content-Length:2"),
		length("Content-Length:  2  "), length("Content-Length: 0"), length("Content-Length: "), length("Content-Length: 99"), length("Content-Length: 101"), length("Content-Length: 99999999999999999999"), length("Content-Length: 2\x00"), length("Content-Length : 2"),
		length("X: y"), length("cOnTent-lengTH: 2"), length("Content-Length: 1"), length("Content-Length:\t2"), length("Content-Length: 2;x"), length("Transfer-Encoding: chunked\r\nContent-Length: 2"),
		strings.Replace(length("Transfer-Encoding: chunked"), "\r\n\r\n{}", "\r\n\r\n2;x=y\r\n{}\r\n0\r\n\r\n", 1),
		line("POST /mcp HTTP/1.0"), line("POST /mcp HTTP/1.2"), line("POST http://localhost/mcp HTTP/1.1"), line("POST http://evil/mcp HTTP/1.1"), line("POST  /mcp HTTP/1.1"), line("POST /mcp  HTTP/1.1"), line("POST /mcp HTTP/1.1 "), line("post /mcp HTTP/1.1"),
		line("POST /mcp?x HTTP/1.1"), line("POST /mcp/ HTTP/1.1"), line("POST //mcp HTTP/1.1"), line("POST /%6dcp HTTP/1.1"), line("POST /mcp"), line("GET /mcp HTTP/1.1"), line("DELETE /mcp HTTP/1.1"), line("HEAD /mcp HTTP/1.1"), line("PUT /mcp HTTP/1.1"), line("\r\nPOST /mcp HTTP/1.1"), line("POST\t/mcp HTTP/1.1"),
		host("X: y"), host("Host: "), host("Host: localhost\r\nHost: localhost"), host("Host: evil"), host("host: LOCALHOST:1"), host("Host: localhost, evil"), host("Host:localhost"),
		strings.ReplaceAll(plain, "\r\n", "\n"), strings.Replace(plain, "\r\n\r\n", "\n\n", 1), strings.Replace(plain, "\r\n\r\n", "\r\n\n", 1), strings.Replace(plain, "application/json\r", "text/plain\r", 1),
		post("[]"), post("!"), post("-"), post("?"), post("x"), post("xx"), post(strings.Repeat("x", 40)), post(strings.Repeat(" ", 101)), getHead + "\r\n", plain[:len(plain)-1], plain[:20],
	} {
		for i, s := range []string{odd, plain + odd, plain + odd + plain, odd + plain + odd, plain + post("{ }") + odd} {
			f.Add([]byte(s), [...]byte{0, 0, 0, 7, 150}[i], i%2 == 1)
		}
	}
	f.Fuzz(func(t *testing.T, in []byte, size byte, guarded bool) {
		var tokens []string
		if guarded {
			tokens = []string{"token"}
			in = bytes.ReplaceAll(in, []byte("Accept:"), []byte("Authorization: Bearer token\r\nAccept:"))
		}
		fast, slow := serveTwin(in, int(size), tokens, true), serveTwin(in, int(size), tokens, false)
		if a, b := strings.Join(fast.calls, "\n\n"), strings.Join(slow.calls, "\n\n"); a != b {
			t.Errorf("%q\nthe handler sees\n%.2000s\nwith fasthttp alone\n%.2000s", in, a, b)
		}
		if fast.out != slow.out {
			t.Errorf("%q\nthe client gets\n%.2000q\nwith fasthttp alone\n%.2000q", in, fast.out, slow.out)
		}
	})
}
