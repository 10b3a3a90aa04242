package downstream

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
)

const bothTypes = "application/json, text/event-stream"

// waitingPost is a request with these headers, each with its line end.
func waitingPost(accept, more, body string) string {
	return fmt.Sprintf("POST /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: %s\r\n%sContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", accept, more, len(body), body)
}

// TestAResponseThatIsAwaitedBeginsEarly: after the time of a heartbeat, a client that reads event streams gets the head of one.
func TestAResponseThatIsAwaitedBeginsEarly(t *testing.T) {
	const body = `{"jsonrpc":"2.0","id":7,"method":"tools/call"}`
	for _, c := range []struct {
		name, accept, more string
		beat               time.Duration
		awaits, early      bool
	}{
		{"both types", bothTypes, "", time.Millisecond, true, true},
		{"not on the fast path", bothTypes, "Origin: http://localhost\r\n", time.Millisecond, true, true},
		{"with parameters", `text/event-stream; q=0.5;x=y , application/json`, "", time.Millisecond, true, true},
		{"any type", "*/*", "", time.Millisecond, true, false},
		{"any text", "application/json, text/*", "", time.Millisecond, true, false},
		{"no heartbeats", bothTypes, "", 0, true, false},
		{"an answer that is not awaited", bothTypes, "", time.Millisecond, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			begun := make(chan struct{})
			handler := fakeHandler{post: func(q *Request, r *Response) {
				if c.awaits {
					q.Await("7")
				}
				select {
				case <-begun:
				case <-time.After(50 * time.Millisecond):
					if c.early {
						select {
						case <-begun:
						case <-t.Context().Done(): // the test has failed
						}
					}
				}
				if string(q.Body) != body {
					t.Errorf("the handler's message has become %q", q.Body)
				}
				r.Body = []byte(`{"jsonrpc":"2.0","id":7,"result":{}}`)
			}}
			beat := c.beat
			if beat == 0 {
				beat = -1
			}
			s := start(t, handler, HTTPConfig{Heartbeat: beat})
			nc := dial(t, s.addr)
			br := bufio.NewReader(nc)
			for range 2 { // the connection serves on
				_, _ = io.WriteString(nc, waitingPost(c.accept, c.more, body))
				res, err := http.ReadResponse(br, &http.Request{Method: "POST"})
				if err != nil {
					t.Fatal(err)
				}
				if c.early {
					comments := make([]byte, len(":\n\n:\n\n"))
					if _, err := io.ReadFull(res.Body, comments); string(comments) != ":\n\n:\n\n" {
						t.Fatalf("%q, %v", comments, err)
					}
					begun <- struct{}{}
				}
				text, err := io.ReadAll(res.Body)
				if err != nil {
					t.Fatal(err)
				}
				if kind := res.Header.Get("Content-Type"); res.StatusCode != 200 || kind == "text/event-stream" != c.early {
					t.Errorf("%d %s", res.StatusCode, kind)
				}
				got := strings.ReplaceAll(string(text), ":\n\n", "")
				if c.early {
					got = strings.TrimPrefix(strings.TrimSpace(got), "event: message\ndata: ")
				}
				if got != `{"jsonrpc":"2.0","id":7,"result":{}}` {
					t.Errorf("%q", text)
				}
			}
		})
	}
}

// TestAnEarlyHeadAndAnAnswerAtTheSameTime: whichever comes first, the client gets one whole response.
func TestAnEarlyHeadAndAnAnswerAtTheSameTime(t *testing.T) {
	const beat = 2 * time.Millisecond
	s := start(t, fakeHandler{post: func(q *Request, r *Response) {
		id := strings.TrimSuffix(strings.TrimPrefix(string(q.Body), `{"id":`), "}")
		q.Await(id)
		time.Sleep(beat + time.Duration(rand.Int64N(int64(beat)))/4 - beat/8)
		switch rand.IntN(3) {
		case 0:
			r.Body = []byte(`{"answer":` + id + `}`)
		case 1:
			_ = q.Client.Send(sse.Event{Data: []byte(`{"event":` + id + `}`)})
			r.Last = sse.Event{Data: []byte(`{"answer":` + id + `}`)}
		case 2:
			said, begun := q.Settle()
			if r.Body = []byte(`{"answer":` + id + `}`); begun {
				r.Body = []byte(`{"answer":` + string(said) + `}`)
			} else {
				r.Status, r.Header = 404, []mcp.Header{{Name: "Retry-After", Value: "1"}}
			}
		}
	}}, HTTPConfig{Heartbeat: beat})
	var clients sync.WaitGroup
	var early atomic.Int32
	for n := range 8 {
		clients.Go(func() {
			nc := dial(t, s.addr)
			br := bufio.NewReader(nc)
			for i := range 60 {
				more := ""
				if n%2 == 1 {
					more = "Origin: http://localhost\r\n"
				}
				id := fmt.Sprint(n*1000 + i)
				_, _ = io.WriteString(nc, waitingPost(bothTypes, more, `{"id":`+id+`}`))
				res, err := http.ReadResponse(br, &http.Request{Method: "POST"})
				if err != nil {
					t.Errorf("client %d, request %d: %v", n, i, err)
					return
				}
				text, err := io.ReadAll(res.Body)
				if err != nil {
					t.Errorf("client %d, request %d: %v", n, i, err)
					return
				}
				got := string(text)
				if res.Header.Get("Content-Type") == "text/event-stream" {
					if strings.HasPrefix(got, ":") {
						early.Add(1)
					}
					got = ""
					for events := sse.NewReader(strings.NewReader(string(text)), 1<<20); ; {
						e, err := events.Next()
						if err != nil {
							break
						}
						got += string(e.Data)
					}
					got = strings.TrimPrefix(got, `{"event":`+id+`}`)
				}
				if got != `{"answer":`+id+`}` {
					t.Errorf("client %d, request %d: %d %q", n, i, res.StatusCode, text)
				}
			}
		})
	}
	clients.Wait()
	if early.Load() == 0 {
		t.Error("no response has begun early")
	}
}
