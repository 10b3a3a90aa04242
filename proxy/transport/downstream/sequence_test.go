package downstream

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
)

// FuzzSequence checks that for any sequence of two clients' steps each client gets the
// answers to its own requests, in order, and its own events on its streams, and that
// the server still serves. A byte of the program is one step of one of them.
func FuzzSequence(f *testing.F) {
	for _, program := range []string{
		"", "\x00\x80\x00\x80", "\x01\x81\x02\x82\x02\x82", "\x01\x02\x03\x02\x01\x02", "\x01\x04\x82\x00",
		"\x06\x86\x09\x89\x06", "\x07\x87\x07\x05\x85\x00", "\x01\x81\x08\x88\x03\x88\x83\x08", "\x0a\x8a\x01\x0a\x02\x0b\x8b\x00",
	} {
		f.Add([]byte(program))
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	mixed := make(chan string, 100)
	s := NewHTTP(
		fakeHandler{
			post: func(q *Request, r *Response) { r.Body = fmt.Appendf(nil, "%s|%s", q.Session, q.Body) },
			get: func(q *Request, r *Response) {
				e := newEvents()
				stream(e, q, r)
				event := sse.Event{Data: []byte(q.Session)}
				go func() {
					select {
					case e.ch <- event:
					case <-e.end:
					}
				}()
			},
		},
		HTTPConfig{
			MaxBody: 100 << 10, Heartbeat: time.Millisecond, ReadTimeout: patience,
			Pipes: openFunc(func(p Pipe, q *Request, r *Response) PipeSession {
				owner := q.Header("X-Who")
				return fakeSession{take: func(m []byte, header func(string) string) {
					if header("X-Who") != owner || !strings.Contains(string(m), owner) {
						mixed <- fmt.Sprintf("%s got %s", owner, m)
					}
					_ = p.Write(m)
				}}
			}),
		})
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	f.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		_ = s.Shutdown(ctx)
		<-served
	})
	f.Fuzz(func(t *testing.T, program []byte) {
		s := &server{addr: ln.Addr().String()}
		parties := [2]*party{{t: t, s: s, who: "alice"}, {t: t, s: s, who: "bob"}}
		for i, step := range program[:min(len(program), 50)] {
			parties[step>>7].step(int(step&0x7f), i, program[i:])
		}
		for _, p := range parties {
			p.step(0, -1, nil) // it is still served
			p.hangUp()
			if p.sse != nil {
				_ = p.sse.Close()
			}
		}
		select {
		case what := <-mixed:
			t.Fatal(what)
		default:
		}
	})
}

// party is one client of the two.
type party struct {
	t   *testing.T
	s   *server
	who string
	nc  net.Conn // nil when it has none
	br  *bufio.Reader
	sse *sseClient
	uri string // of the last pipe, also when it is over
}

func (p *party) hangUp() {
	if p.nc != nil {
		_ = p.nc.Close()
		p.nc = nil
	}
}

func (p *party) say(text string) {
	p.t.Helper()
	if p.nc == nil {
		p.nc = dial(p.t, p.s.addr)
		p.br = bufio.NewReader(p.nc)
	}
	if _, err := io.WriteString(p.nc, text); err != nil {
		p.t.Fatal(err)
	}
}

func (p *party) answered(status int, want string) {
	p.t.Helper()
	if res, body := answer(p.t, p.br, "POST"); res.StatusCode != status || status == 200 && body != want {
		p.t.Fatalf("%s got %d %.60q, want %d %.60q", p.who, res.StatusCode, body, status, want)
	}
}

func (p *party) headers() string { return "X-Who: " + p.who + "\r\nMcp-Session-Id: " + p.who + "\r\n" }

func (p *party) request(body string) string {
	return strings.Replace(post(body), "Host:", p.headers()+"Host:", 1)
}

func (p *party) step(what, i int, rest []byte) {
	p.t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","method":"%s","params":{"n":%d}}`, p.who, i)
	switch what % 12 {
	case 0: // a call
		p.say(p.request(body))
		p.answered(200, p.who+"|"+body)
	case 1: // a stream of HTTP+SSE
		if p.sse == nil {
			p.sse = openSSE(p.t, p.s, p.headers())
			p.uri = p.sse.uri
		}
	case 2: // a message for it
		if p.sse != nil {
			p.say(postTo(p.uri, p.headers(), body))
			p.answered(202, "")
			if got := p.sse.next(p.t, "message"); got != body {
				p.t.Fatalf("%s got %s, want %s", p.who, got, body)
			}
		}
	case 3: // which it leaves
		if p.sse != nil {
			_ = p.sse.Close()
			p.sse = nil
		}
	case 4: // noise
		p.say(string(rest))
		p.hangUp()
	case 5: // half a request
		text := p.request(body)
		p.say(text[:len(text)*(i%7+1)/9])
		p.hangUp()
	case 6: // several messages at once
		p.say(p.request("1") + p.request(body) + p.request("3"))
		for _, want := range []string{"1", body, "3"} {
			p.answered(200, p.who+"|"+want)
		}
	case 7: // a stream of Streamable HTTP
		p.hangUp()
		p.say(strings.Replace(getHead, "Host:", p.headers()+"Host:", 1) + "\r\n")
		res, err := http.ReadResponse(p.br, nil)
		if err != nil {
			p.t.Fatal(err)
		}
		if e, err := sse.NewReader(res.Body, 1000).Next(); err != nil || string(e.Data) != p.who {
			p.t.Fatalf("%s got %q, %v", p.who, e.Data, err)
		}
		p.hangUp()
	case 8: // a message for a pipe that may be over, of which the answer is not read
		if p.uri != "" && p.sse == nil {
			p.say(postTo(p.uri, p.headers(), body))
			p.hangUp()
		}
	case 9: // a large body in chunks
		large := strings.Repeat(p.who, 3000)
		head, _, _ := strings.Cut(p.request(""), "Content-Length")
		p.say(fmt.Sprintf("%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", head, len(large), large))
		p.answered(200, p.who+"|"+large)
	case 10: // a refused body that looks like the other's request
		other := strings.ReplaceAll(p.request(body), p.who, "mallory")
		p.say(fmt.Sprintf("POST /messages?session=x HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s%s",
			prefetched+len(other), strings.Repeat(" ", prefetched), other))
		p.answered(404, "")
		p.hangUp()
	case 11: // too large
		p.say(p.request(strings.Repeat("x", 100<<10+1)))
		p.answered(413, "")
		p.hangUp()
	}
}
