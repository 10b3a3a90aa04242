package upstream

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

func TestAnswersAreDelivered(t *testing.T) {
	batch := "[" + answer + "]"
	big := `{"jsonrpc":"2.0","id":1,"result":{"text":"` + strings.Repeat("x", 3<<20) + `"}}`
	bigChunks := jsonHead + "Transfer-Encoding: chunked\r\n\r\n"
	for rest := big; rest != ""; {
		n := min(len(rest), 50_000)
		bigChunks += fmt.Sprintf("%x\r\n%s\r\n", n, rest[:n])
		rest = rest[n:]
	}
	chunk := fmt.Sprintf("%x;ext=1\r\n%s\r\n", len(answer), answer)
	event := "id: 7\ndata: " + answer + "\n\n"
	for _, c := range []struct {
		name, reply string
		want        []string
	}{
		{"json", jsonReply(answer), []string{answer}},
		{"batch in one event", jsonReply(batch), []string{batch}},
		{"content type with parameter", strings.Replace(jsonReply(answer), "/json", "/JSON ; charset=utf-8", 1), []string{answer}},
		{"chunked", jsonHead + "Transfer-Encoding: chunked\r\n\r\n" + chunk + "0\r\nTrailer: x\r\n\r\n", []string{answer}},
		{"until close", jsonHead + "\r\n" + answer, []string{answer}},
		{"http/1.0", strings.Replace(jsonReply(answer), "1.1", "1.0", 1), []string{answer}},
		{"interim answers first", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + jsonReply(answer), []string{answer}},
		{"head larger than most", jsonHead + "X: " + strings.Repeat("x", 30<<10) + "\r\nContent-Length: 2\r\n\r\n{}", []string{"{}"}},
		{"large", jsonReply(big), []string{big}},
		{"large in chunks", bigChunks + "0\r\n\r\n", []string{big}},
		{"events until close", eventHead + "\r\n" + event + event, []string{answer, answer}},
		{"priming event", eventHead + "\r\nid: 1\ndata:\n\n" + event, []string{"", answer}},
		{"events in chunks", eventHead + "Transfer-Encoding: chunked\r\n\r\n" +
			fmt.Sprintf("%x\r\n%s\r\n3\r\ndat\r\n6\r\na: {}\n\r\n1\r\n\n\r\n0\r\n\r\n", len(event), event), []string{answer, "{}"}},
		{"events of known length", eventHead + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(event), event), []string{answer}},
		{"an event of 1 MB", eventHead + "\r\ndata: " + big + "\n\n", []string{big}},
	} {
		t.Run(c.name, func(t *testing.T) {
			peertest.NoLeaks(t)
			h := newHTTP(t, HTTPConfig{URL: serve(t, once(c.reply)).url()})
			got, err := said(t.Context(), h.Session("", ""))
			wantMessages(t, got, err, c.want...)
		})
	}
}

func TestBadAnswersAreClearErrors(t *testing.T) {
	const limit = 100 << 10
	tooLarge := strings.Repeat("x", limit+1)
	for _, c := range []struct{ name, reply, want string }{
		{"nothing", "", "read: unexpected EOF"},
		{"half a head", jsonHead + "Set-Cookie: s3cr3t", "read: unexpected EOF"},
		{"no HTTP", "SSH-2.0-s3cr3t\r\n\r\n", "read: malformed HTTP response"},
		{"bad header", "HTTP/1.1 200 OK\r\nSet-Cookie s3cr3t\r\n\r\n", "read: malformed HTTP response"},
		{"head without end", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 100<<10), "read: malformed HTTP response"},
		{"interim answers for ever", strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 100), "read: malformed HTTP response"},
		{"two lengths", jsonHead + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}", "read: malformed HTTP response"},
		{"html", "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: 6\r\n\r\n<html>",
			`response of type "text/html; charset=utf-8"`},
		{"no type", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "response without a Content-Type"},
		{"not compressed as it says", jsonHead + "Content-Encoding: gzip\r\nContent-Length: 12\r\n\r\n{\"a\":\"abcd\"}", "the gzip content of the response: gzip: invalid header"},
		{"compressed in an unknown way", jsonHead + "Content-Encoding: compress\r\nContent-Length: 2\r\n\r\n{}", `response with the Content-Encoding "compress"`},
		{"compressed twice", jsonHead + "Content-Encoding: gzip, br\r\nContent-Length: 2\r\n\r\n{}", `response with the Content-Encoding "gzip, br": only one is decoded`},
		{"no body", jsonHead + "Content-Length: 0\r\n\r\n", "response without a body"},
		{"session id with a blank", jsonHead + "Mcp-Session-Id: a b\r\nContent-Length: 2\r\n\r\n{}", "malformed Mcp-Session-Id"},
		{"session id that is too long", jsonHead + "Mcp-Session-Id: " + strings.Repeat("x", maxSessionID+1) + "\r\nContent-Length: 2\r\n\r\n{}", "malformed Mcp-Session-Id"},
		{"body cut short", jsonHead + "Content-Length: 100\r\n\r\n{", "read: unexpected EOF"},
		{"body too large", jsonReply(tooLarge), "larger than the limit of 102400 bytes"},
		{"body too large in chunks", jsonHead + "Transfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\r\n%s", len(tooLarge), tooLarge), "larger than the limit of 102400 bytes"},
		{"body too large until close", jsonHead + "\r\n" + tooLarge, "larger than the limit of 102400 bytes"},
		{"event too large", eventHead + "\r\ndata: " + tooLarge + "\n\n", "larger than the limit of 102400 bytes"},
		{"dead between chunks", jsonHead + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n", "read: unexpected EOF"},
		{"dead in a chunk", jsonHead + "Transfer-Encoding: chunked\r\n\r\nff\r\n{}", "read: unexpected EOF"},
		{"dead before the last line", jsonHead + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n", "read: unexpected EOF"},
		{"no chunk", jsonHead + "Transfer-Encoding: chunked\r\n\r\n{}\r\n", "read: malformed chunked body"},
		{"chunk of 2^60", jsonHead + "Transfer-Encoding: chunked\r\n\r\n1000000000000000\r\n{}", "read: malformed chunked body"},
		{"length of a chunk without end", jsonHead + "Transfer-Encoding: chunked\r\n\r\n1;" + strings.Repeat("x", 100<<10), "read: malformed chunked body"},
		{"chunk longer than said", jsonHead + "Transfer-Encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n", "read: malformed chunked body"},
		{"chunk extensions for ever", jsonHead + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1;"+strings.Repeat("x", 100)+"\r\n \r\n", 200), "read: malformed chunked body"},
		{"trailers for ever", jsonHead + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n" + strings.Repeat("X: y\r\n", 10_000), "read: malformed chunked body"},
		{"events dead between chunks", eventHead + "Transfer-Encoding: chunked\r\n\r\na\r\ndata: {}\n\n\r\n", "read: unexpected EOF"},
		{"event cut in two", eventHead + "\r\ndata: {}\n\ndata: {\"jso", "read: unexpected EOF"},
		{"event cut before its end", eventHead + "\r\ndata: {}\n", "read: unexpected EOF"},
	} {
		t.Run(c.name, func(t *testing.T) {
			peertest.NoLeaks(t)
			h := newHTTP(t, HTTPConfig{URL: serve(t, once(c.reply)).url(), MaxMessage: limit})
			_, err := said(t.Context(), h.Session("", ""))
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("ended with %v", err)
			}
			if !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "upstream 127.0.0.1:") {
				t.Errorf("error %q, want %q in it", err, c.want)
			}
			if strings.Contains(err.Error(), "s3cr3t") {
				t.Errorf("secret in %q", err)
			}
			if strings.Contains(c.want, "EOF") && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%v is no io.ErrUnexpectedEOF", err)
			}
		})
	}
}

func TestBodyOneByteLargerThanTheLimit(t *testing.T) {
	peertest.NoLeaks(t)
	const limit = 64 << 20
	srv := serve(t, func(c net.Conn, in *bufio.Reader) {
		if _, ok := take(in); !ok {
			return
		}
		io.WriteString(c, jsonHead+"Transfer-Encoding: chunked\r\n\r\n4000001\r\n")
		block := bytes.Repeat([]byte("x"), 1<<20)
		for range 64 {
			c.Write(block)
		}
		io.WriteString(c, "x\r\n0\r\n\r\n")
	})
	h := newHTTP(t, HTTPConfig{URL: srv.url()})
	_, err := said(t.Context(), h.Session("", ""))
	var e *TooLargeError
	if !errors.As(err, &e) || e.Limit != limit {
		t.Errorf("ended with %v", err)
	}
}

func TestEventsBeforeABrokenConnectionAreDelivered(t *testing.T) {
	h := newHTTP(t, HTTPConfig{URL: serve(t, once(eventHead+"\r\ndata: {}\n\ndata: {\"jso")).url()})
	got, err := said(t.Context(), h.Session("", ""))
	if len(got) != 1 || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestRefusalsAreStatusErrors(t *testing.T) {
	peertest.NoLeaks(t)
	const body = `{"jsonrpc":"2.0","error":{"code":-32001,"message":"no"}}`
	for _, c := range []struct{ status, header, text string }{
		{"401 Unauthorized", "WWW-Authenticate: Bearer resource_metadata=\"x\"\r\nWWW-Authenticate: Basic\r\nSet-Cookie: s3cr3t\r\n", "upstream answered 401 Unauthorized"},
		{"404 Not Found", "Content-Type: application/json\r\n", "upstream answered 404 Not Found"},
		{"429 Slow down", "Retry-After: 7\r\n", "upstream answered 429 Too Many Requests"},
		{"307 Moved", "Location: http://user:s3cr3t@127.0.0.1/\r\n", "upstream answered 307 Temporary Redirect to http://127.0.0.1/"},
		{"202 Accepted", "", "upstream answered 202 Accepted"},
		{"599 What", "", "upstream answered 599"},
	} {
		srv := serve(t, always("HTTP/1.1 "+c.status+"\r\n"+c.header+fmt.Sprintf("Content-Length: %d\r\n\r\n", len(body))+body))
		h := newHTTP(t, HTTPConfig{URL: srv.url()})
		for range 3 {
			_, err := said(t.Context(), h.Session("", ""))
			var e *StatusError
			if !errors.As(err, &e) {
				t.Fatalf("%s: ended with %v", c.status, err)
			}
			if e.Error() != c.text || string(e.Body) != body {
				t.Errorf("%s: error %q with body %q", c.status, e, e.Body)
			}
			var header string
			for _, h := range e.Header {
				header += h.Name + ": " + h.Value + "\r\n"
			}
			for line := range strings.SplitSeq(header, "\r\n") {
				if !strings.Contains(c.header, line) {
					t.Errorf("%s: header %q", c.status, line)
				}
			}
			if strings.Contains(header, "s3cr3t") || c.status[0] == '4' && header == "" {
				t.Errorf("%s: header %q", c.status, header)
			}
		}
		if n := srv.conns.Load(); n != 1 {
			t.Errorf("%s: %d connections, a refusal is read to its end", c.status, n)
		}
	}
}

func TestRefusalWithEndlessBodyIsCut(t *testing.T) {
	h := newHTTP(t, HTTPConfig{URL: serve(t, once("HTTP/1.1 500 Oh\r\nContent-Length: 1000000\r\n\r\n"+strings.Repeat("x", 1_000_000))).url()})
	_, err := said(t.Context(), h.Session("", ""))
	var e *StatusError
	if !errors.As(err, &e) || len(e.Body) != maxErrorBody+len(ellipsis) || !strings.HasSuffix(string(e.Body), ellipsis) {
		t.Errorf("ended with %v", err)
	}
}

func TestNotificationsWaitForAcceptance(t *testing.T) {
	peertest.NoLeaks(t)
	for _, c := range []struct {
		reply string
		ok    bool
	}{
		{"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", true},
		{"HTTP/1.1 204 No Content\r\n\r\n", true},
		{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", true},
		{"HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\nno", false},
		{"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n", false},
	} {
		srv := serve(t, always(c.reply))
		s := newHTTP(t, HTTPConfig{URL: srv.url()}).Session("", "")
		for range 3 {
			stream, err := s.Send(t.Context(), &Outgoing{Body: []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)})
			if stream != nil || (err == nil) != c.ok {
				t.Errorf("%q: %v, %v", c.reply, stream, err)
			}
			var e *StatusError
			if err != nil && !errors.As(err, &e) {
				t.Errorf("%q: %v", c.reply, err)
			}
		}
		if n := srv.conns.Load(); n != 1 {
			t.Errorf("%q: %d connections", c.reply, n)
		}
	}
}

func TestRequestOnTheWire(t *testing.T) {
	server := peertest.NewServer(t, peertest.HTTP, func(u *peertest.Turn) {
		u.Web.Header().Set("MCP-Session-Id", "abc")
		if u.Text == "GET" {
			u.Refuse(405)
			return
		}
		u.Answer(200, answer)
	})
	server.Every = true
	h := newHTTP(t, HTTPConfig{URL: server.At().URL + "/a%20b?c=d", Header: []mcp.Header{{Name: "X-Fixed", Value: "mine"}}})
	s := h.Session("", "")
	ctx := t.Context()
	stream, err := s.Send(ctx, &Outgoing{Body: []byte(ping), Request: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := First(stream); err != nil {
		t.Fatal(err)
	}
	id := stream.SessionID()
	stream.Close()
	s.SetSession(id, "2025-06-18")
	if _, err := s.Send(ctx, &Outgoing{Body: []byte("{}"), Header: []mcp.Header{{Name: "Authorization", Value: bearer}, {Name: "x-fixed", Value: "theirs"}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Listen(ctx, ListenOptions{LastEventID: "e1", Header: []mcp.Header{{Name: "Authorization", Value: bearer}}}); err != ErrNoStream {
		t.Fatal(err)
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	both := "application/json, text/event-stream"
	want := []string{
		ping + "|" + both + "|identity|application/json|||||mine|" + mcp.UserAgent(),
		"{}|" + both + "|identity|application/json|abc|2025-06-18||" + bearer + "|mine|" + mcp.UserAgent(),
		"GET|text/event-stream|identity||abc|2025-06-18|e1|" + bearer + "|mine|" + mcp.UserAgent(),
		"DELETE||identity||abc|2025-06-18||" + bearer + "|mine|" + mcp.UserAgent(), // the last one seen
	}
	var got []string
	for _, m := range server.Heard() {
		if m.Target != "/a%20b?c=d" {
			t.Errorf("target %s", m.Target)
		}
		line := m.Text
		for _, name := range []string{"Accept", "Accept-Encoding", "Content-Type", "Mcp-Session-Id", "MCP-Protocol-Version", "Last-Event-ID", "Authorization", "X-Fixed", "User-Agent"} {
			line += "|" + m.Header.Get(name)
		}
		got = append(got, line)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestLargeMessagesArriveWhole(t *testing.T) {
	var conns atomic.Int32
	count := func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			conns.Add(1)
		}
	}
	plain := peertest.NewServer(t, peertest.HTTP, echo)
	plain.ConnState = count
	secure := peertest.NewServer(t, peertest.HTTP, echo)
	secure.ConnState, secure.TLS = count, new(tls.Config)
	for _, c := range []HTTPConfig{{URL: plain.At().URL}, {URL: secure.At().URL, TLS: trusting(secure)}} {
		s := newHTTP(t, c).Session("", "")
		for _, n := range []int{1, 3800, 4096, 70_000, 2 << 20} {
			body := strings.Repeat("x", n)
			stream, err := s.Send(t.Context(), &Outgoing{Body: []byte(body), Request: true})
			if err != nil {
				t.Fatal(err)
			}
			if e, err := First(stream); err != nil || string(e.Data) != body {
				t.Errorf("%s: %d bytes came back as %d, %v", c.URL, n, len(e.Data), err)
			}
			stream.Close()
		}
	}
	if n := conns.Load(); n != 2 {
		t.Errorf("%d connections to two servers", n)
	}
}

func echo(u *peertest.Turn) { u.Answer(200, u.Text) }

// trusting trusts the certificate of a server.
func trusting(s *peertest.Server) *tls.Config {
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return &tls.Config{RootCAs: roots}
}

func TestUntrustedCertificateIsATLSError(t *testing.T) {
	peertest.NoLeaks(t)
	server := peertest.NewServer(t, peertest.HTTP, echo)
	server.TLS = new(tls.Config)
	_, err := said(t.Context(), newHTTP(t, HTTPConfig{URL: server.At().URL}).Session("", ""))
	var e *Error
	if !errors.As(err, &e) || e.Op != "tls" {
		t.Errorf("ended with %v", err)
	}
}

func TestConnectionRefused(t *testing.T) {
	_, err := said(t.Context(), newHTTP(t, HTTPConfig{URL: "http://" + peertest.NoListener}).Session("", ""))
	var e *Error
	if !errors.As(err, &e) || e.Op != "connect" || e.Timeout() {
		t.Fatalf("ended with %v", err)
	}
	if runtime.GOOS != "windows" && err.Error() != "upstream "+peertest.NoListener+": connect: connection refused" {
		t.Errorf("error %q", err)
	}
}

func TestBadConfiguration(t *testing.T) {
	for _, c := range []struct {
		config HTTPConfig
		want   string
	}{
		{HTTPConfig{URL: "127.0.0.1:3000"}, "upstream url: not a URL"},
		{HTTPConfig{URL: "/mcp"}, "upstream url: missing scheme"},
		{HTTPConfig{URL: "ws://127.0.0.1"}, `upstream url: unexpected scheme "ws": must be http or https`},
		{HTTPConfig{URL: "http://:80"}, "upstream url: missing host"},
		{HTTPConfig{URL: "http://u:s3cr3t@127.0.0.1"}, "upstream url: must not contain user and password: send them in a header"},
		{HTTPConfig{URL: "http://h/?a b"}, "upstream url: the query must not have spaces"},
		{HTTPConfig{URL: "http://h/%zz?s3cr3t"}, "upstream url: not a URL"},
		{HTTPConfig{URL: "http://h", Header: []mcp.Header{{Name: "A", Value: "s3cr3t\r\n"}}}, `upstream: header "A": value with a byte that no header may have`},
		{HTTPConfig{URL: "http://h", Header: []mcp.Header{{Name: "A B", Value: "s3cr3t"}}}, `upstream: header "A B": name with a byte that no header may have`},
		{HTTPConfig{URL: "http://h", Header: []mcp.Header{{Name: "", Value: "s3cr3t"}}}, `upstream: header "": no name`},
		{HTTPConfig{URL: "http://h", Header: []mcp.Header{{Name: "transfer-encoding", Value: "chunked"}}}, `upstream: header "transfer-encoding": belongs to the connection or to the protocol`},
	} {
		if _, err := NewHTTP(c.config); err == nil || err.Error() != c.want {
			t.Errorf("%s: error %v, want %s", c.config.URL, err, c.want)
		}
	}
}

// TestHeaderWithoutAValueIsSent: an argument that is the empty string differs from one that is absent.
func TestHeaderWithoutAValueIsSent(t *testing.T) {
	var got []string
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Values("Mcp-Param-A")
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer)
	}))
	defer ts.Close()
	h := newHTTP(t, HTTPConfig{URL: ts.URL})
	st, err := h.Session("", "").Send(t.Context(), &Outgoing{Body: []byte(ping), Request: true, Header: []mcp.Header{{Name: "Mcp-Param-A", Value: ""}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := First(st); err != nil {
		t.Fatal(err)
	}
	st.Close()
	if !slices.Equal(got, []string{""}) {
		t.Errorf("%q", got)
	}
}

func TestMalformedHeadersAreNotSent(t *testing.T) {
	srv := serve(t, always(jsonReply(answer)))
	h := newHTTP(t, HTTPConfig{URL: srv.url()})
	for _, f := range []mcp.Header{{Name: "Authorization", Value: "s3cr3t\r\nX: y"}, {Name: "Content-Length", Value: "5"}, {Name: "A:", Value: "s3cr3t"}, {Name: "Expect", Value: "100-continue"}} {
		_, err := h.Session("", "").Send(t.Context(), &Outgoing{Body: []byte(ping), Request: true, Header: []mcp.Header{f}})
		var e *HeaderError
		if !errors.As(err, &e) || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%q: error %v", f, err)
		}
	}
	if _, err := said(t.Context(), h.Session("a\r\nb", "")); err == nil {
		t.Error("a session id with a line break was sent")
	}
	if n := srv.conns.Load(); n != 0 {
		t.Errorf("%d connections", n)
	}
}
