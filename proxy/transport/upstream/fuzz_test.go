package upstream

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// script is a connection on which a response comes in pieces.
type script struct {
	net.Conn
	rest  []byte
	sizes []byte // of the pieces, in turn; 0 means all that is left
	n     int
	eager bool // the last bytes come with io.EOF, as from TLS 1.2 if the alert behind them has come
}

func (s *script) Read(p []byte) (int, error) {
	if len(s.rest) == 0 {
		return 0, io.EOF
	}
	size := len(s.rest)
	if len(s.sizes) > 0 {
		if k := int(s.sizes[s.n%len(s.sizes)]); k > 0 {
			size = min(size, k)
		}
		s.n++
	}
	n := copy(p, s.rest[:size])
	s.rest = s.rest[n:]
	if s.eager && len(s.rest) == 0 {
		return n, io.EOF
	}
	return n, nil
}

func (*script) Write(p []byte) (int, error)      { return len(p), nil }
func (*script) Close() error                     { return nil }
func (*script) SetReadDeadline(time.Time) error  { return nil }
func (*script) SetWriteDeadline(time.Time) error { return nil }

// FuzzResponse checks that a response has the same messages and the same failure in
// whatever pieces it comes and however its end is told, and that the failure does not quote the response.
func FuzzResponse(f *testing.F) {
	event := "id: 1\r\nretry: 10\rdata: {\"a\":1}\n\n"
	for _, seed := range []string{
		jsonReply(answer),
		jsonHead + "\r\n" + answer,
		jsonHead + "\r\n" + `{"jsonrpc":"2.0","id":1,"result":{"a":"` + strings.Repeat("x", 9000) + `"}}`,
		jsonReply(`{"jsonrpc":"2.0","id":1,"result":{"a":"` + strings.Repeat("x", 9000) + `"}}`),
		jsonHead + "Transfer-Encoding: chunked\r\n\r\n3;x=y\r\n{\"a\r\n4\r\n\":1}\r\n0\r\nX: y\r\n\r\n",
		jsonHead + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
		jsonHead + "Transfer-Encoding: chunked\r\n\r\n2\n{}\n0\n\n",
		jsonHead + "Transfer-Encoding: chunked\r\n\r\n0000000000000000002\r\n{}\r\n0\r\n\r\n",
		jsonHead + "Content-Length: 99999999999999999999\r\n\r\n{}",
		jsonHead + "Content-Length: -1\r\n\r\n{}",
		jsonHead + "Content-Length: 0\r\n\r\n",
		jsonHead + "Content-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
		"HTTP/1.1 100 Continue\r\n\r\n" + jsonReply(answer),
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\nx",
		"HTTP/1.1 204 No Content\r\n\r\n",
		"HTTP/1.1 401 No\r\nWWW-Authenticate: Basic\r\nContent-Length: 2\r\n\r\nno",
		"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{}",
		"HTTP/1.1 200\r\nContent-Type: application/json\r\n\r\n{}",
		"\r\n\r\n" + jsonReply(answer),
		"\r\n",
		jsonHead + "X:\r\n folded\r\n\r\n{}",
		jsonHead + "Content-Length : 2\r\n\r\n{}",
		jsonHead + "Set-Cookie: " + strings.Repeat("x", 5000) + "\r\nContent-Length: 2\r\n\r\n{}",
		jsonHead + strings.Repeat("X: y\r\n", 20_000),
		eventHead + "\r\n" + event + event,
		eventHead + "\r\n\xef\xbb\xbf" + event + ": hi\n\ndata\ndata:\n\ndata: cut",
		eventHead + "Transfer-Encoding: chunked\r\n\r\n5\r\ndata:\r\n4\r\n {}\n\r\n1\r\n\n\r\n0\r\n\r\n",
		eventHead + "Transfer-Encoding: chunked\r\n\r\n5\r\ndata:\r\n",
	} {
		for _, sizes := range []string{"\x01", "\x07\x01\x03", "\xff"} {
			f.Add([]byte(seed), []byte(sizes))
		}
	}
	f.Fuzz(func(t *testing.T, response, sizes []byte) {
		whole, wholeErr := hearScript(t, &script{rest: response})
		for how, s := range map[string]*script{
			"in pieces": {rest: response, sizes: sizes}, "with the end": {rest: response, eager: true}, "in pieces with the end": {rest: response, sizes: sizes, eager: true},
		} {
			pieces, piecesErr := hearScript(t, s)
			if strings.Join(whole, "\n") != strings.Join(pieces, "\n") || len(whole) != len(pieces) {
				t.Errorf("whole %q, %s %q", whole, how, pieces)
			}
			if wholeErr != piecesErr {
				t.Errorf("whole it ends with %q, %s with %q", wholeErr, how, piecesErr)
			}
		}
	})
}

func hearScript(t *testing.T, s *script) ([]string, string) {
	h, err := NewHTTP(HTTPConfig{URL: "http://server", MaxMessage: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	h.pool.dial = func(context.Context) (*conn, error) {
		return newConn(s, s), nil
	}
	messages, err := said(t.Context(), h.Session("", ""))
	return messages, err.Error()
}
