package downstream

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
)

// script is a connection whose peer has sent everything already.
type script struct {
	in  *bytes.Reader
	out bytes.Buffer
}

func (s *script) Read(p []byte) (int, error)       { return s.in.Read(p) }
func (s *script) Write(p []byte) (int, error)      { return s.out.Write(p) }
func (s *script) Close() error                     { return nil }
func (s *script) LocalAddr() net.Addr              { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 8808} }
func (s *script) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 2), Port: 1} }
func (s *script) SetDeadline(time.Time) error      { return nil }
func (s *script) SetReadDeadline(time.Time) error  { return nil }
func (s *script) SetWriteDeadline(time.Time) error { return nil }

// FuzzHTTP checks for any bytes on a connection that the output is a sequence of whole
// HTTP responses, that the handler sees only bodies within the limit and from allowed
// hosts, and that Done is called once for each of its responses.
func FuzzHTTP(f *testing.F) {
	for _, s := range []string{
		"", "\r\n\r\n", post("{}"), post("{}") + post("[]"), getHead + "\r\n", "DELETE /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n",
		postHead + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n" + post("1"),
		postHead + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
		postHead + "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}",
		postHead + "Content-Length: 200\r\n\r\n{}", post(strings.Repeat("x", 101)),
		strings.Replace(post("{}"), "localhost", "evil.example", 1),
		strings.Replace(post("{}"), "POST /mcp", "POST http://evil.example/mcp", 1),
		strings.Replace(post("{}"), "HTTP/1.1", "HTTP/1.0", 1),
		"HEAD /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		sseHead + "\r\n", sseHead + "Last-Event-ID: x\r\n\r\n" + post("{}"), strings.Replace(sseHead, "HTTP/1.1", "HTTP/1.0", 1) + "\r\n",
		postTo("/messages?session=%00", "", "{}"), postTo("/messages", "", "{}") + sseHead + "\r\n",
		strings.Replace(getHead, "HTTP/1.1", "HTTP/1.0", 1) + "\r\n", getHead + "Content-Length: 9999\r\n\r\n",
		postHead + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
		post("[]") + post("{}") + post("[]"), "HEAD /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n" + post("[]"), strings.Replace(post("[]"), "HTTP/1.1", "HTTP/1.0", 1),
		"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n" + post("[]") + "GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET /x HTTP/1.1\r\nHost: [::1]:\r\n\r\n", getHead + "Origin: null\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		const limit = 100
		open := 0
		begin := func(q *Request, r *Response) {
			if len(q.Body) > limit {
				t.Errorf("body of %d bytes", len(q.Body))
			}
			if q.Ctx.Err() != nil {
				t.Error("context is over before the exchange")
			}
			open++
			done := false
			r.Done = func() {
				if done {
					t.Error("Done twice")
				}
				done = true
				open--
			}
		}
		h := NewHTTP(fakeHandler{
			post: func(q *Request, r *Response) {
				begin(q, r)
				if bytes.HasPrefix(q.Body, []byte(`[`)) { // an event stream
					stream(&three{event: sse.Event{Data: []byte("x")}}, q, r)
					return
				}
				echo(q, r)
			},
			get: func(q *Request, r *Response) {
				begin(q, r)
				stream(&three{event: sse.Event{Data: []byte("x")}}, q, r)
			},
			del: func(q *Request, r *Response) { begin(q, r); r.Status = http.StatusAccepted },
		}, HTTPConfig{MaxBody: limit, Pipes: openFunc(func(p Pipe, q *Request, r *Response) PipeSession {
			if strings.HasSuffix(q.LastEventID, "x") {
				return nil
			}
			open++
			_ = p.Write([]byte("{}"))
			p.Close()
			return fakeSession{left: func(error) { open-- }}
		})})
		peer := &script{in: bytes.NewReader(in)}
		h.serveConn(newConn(peer, &h.cfg))
		h.serving.Wait()
		if open != 0 {
			t.Errorf("%d responses are not done with", open)
		}
		br := bufio.NewReader(&peer.out)
		for {
			if _, err := br.Peek(1); err == io.EOF {
				return
			}
			res, err := http.ReadResponse(br, nil)
			if err != nil {
				t.Fatalf("%q: %v", in, err)
			}
			if bytes.Contains(in, []byte("HEAD")) {
				return // the reader would expect a body
			}
			if _, err := io.ReadAll(res.Body); err != nil {
				t.Fatalf("%q: %v", in, err)
			}
		}
	})
}
