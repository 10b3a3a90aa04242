package downstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
)

// listen opens a stream and returns its body.
func listen(t *testing.T, s *server, request string) (*http.Response, *bufio.Reader, io.Closer) {
	t.Helper()
	nc := dial(t, s.addr)
	if _, err := io.WriteString(nc, request); err != nil {
		t.Fatal(err)
	}
	br := bufio.NewReader(nc)
	res, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatal(err)
	}
	return res, br, nc
}

func TestEventsAreFlushedOneByOne(t *testing.T) {
	for _, request := range []string{post("{}"), getHead + "\r\n"} {
		t.Run(request[:4], func(t *testing.T) {
			events := newEvents()
			var done atomic.Int32
			give := func(q *Request, r *Response) { r.Done = func() { done.Add(1) }; stream(events, q, r) }
			s := start(t, fakeHandler{post: give, get: give, del: echo}, HTTPConfig{})
			nc := dial(t, s.addr)
			_, _ = io.WriteString(nc, request)
			br := bufio.NewReader(nc)
			if request[0] == 'P' { // the head comes with the first event
				events.send(t, "zero")
			}
			res, err := http.ReadResponse(br, nil)
			if err != nil {
				t.Fatal(err)
			}
			for name, want := range map[string]string{"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "X-Accel-Buffering": "no"} {
				if got := res.Header.Get(name); got != want {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
			}
			r := sse.NewReader(res.Body, 10<<20)
			if request[0] == 'P' {
				if e, err := r.Next(); err != nil || string(e.Data) != "zero" {
					t.Fatalf("got %q, %v", e.Data, err)
				}
			}
			for _, data := range []string{"one", "two words", strings.Repeat("x", 3*piece+1), ""} {
				events.send(t, data)
				if e, err := r.Next(); err != nil || string(e.Data) != data {
					t.Fatalf("got %.20q (%d bytes), %v", e.Data, len(e.Data), err)
				}
			}
			if done.Load() != 0 {
				t.Error("Done before the end")
			}
			close(events.ch)
			if _, err := r.Next(); err != io.EOF {
				t.Errorf("err = %v, want EOF", err)
			}
			if request[0] == 'P' { // the connection serves on
				_, _ = io.WriteString(nc, "DELETE /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n")
				if res, _ := answer(t, br, "DELETE"); res.StatusCode != 200 {
					t.Errorf("status %d", res.StatusCode)
				}
			} else if _, err := br.ReadByte(); err != io.EOF || !res.Close {
				t.Errorf("the connection is open: %v", err)
			}
			_ = s.Shutdown(context.Background())
			if done.Load() != 1 || events.closed.Load() == 0 {
				t.Errorf("Done %d times, Close %d times", done.Load(), events.closed.Load())
			}
		})
	}
}

func TestBrokenStreamCutsTheBody(t *testing.T) {
	events := newEvents()
	s := start(t, fakeHandler{get: func(q *Request, r *Response) { stream(events, q, r) }}, HTTPConfig{})
	res, _, _ := listen(t, s, getHead+"\r\n")
	events.send(t, "one")
	_ = events.Close()
	body, err := io.ReadAll(res.Body)
	if string(body) != "event: message\ndata: one\n\n" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %q, %v", body, err)
	}
}

func TestHeartbeatsComeOnAQuietStream(t *testing.T) {
	for _, request := range []string{post("{}"), getHead + "\r\n"} {
		t.Run(request[:4], func(t *testing.T) {
			events := newEvents()
			give := func(q *Request, r *Response) { stream(events, q, r) }
			s := start(t, fakeHandler{post: give, get: give}, HTTPConfig{Heartbeat: time.Millisecond})
			go func() { events.ch <- sse.Event{Data: []byte("x")} }()
			res, _, _ := listen(t, s, request)
			body := bufio.NewReader(res.Body)
			for line := ""; line != "data: x\n"; { // comments may come before it
				var err error
				if line, err = body.ReadString('\n'); err != nil {
					t.Fatal(err)
				}
			}
			if line, err := body.ReadString('\n'); line != "\n" || err != nil {
				t.Fatalf("got %q, %v", line, err)
			}
			for range 3 {
				for _, want := range []string{":\n", "\n"} {
					if line, err := body.ReadString('\n'); line != want || err != nil {
						t.Fatalf("got %q, %v", line, err)
					}
				}
			}
			close(events.ch)
			if rest, err := io.ReadAll(body); err != nil || strings.Trim(string(rest), ":\n") != "" {
				t.Errorf("got %q, %v", rest, err)
			}
		})
	}
}

func TestHeartbeatsNeverInterleaveWithEvents(t *testing.T) {
	events := newEvents()
	s := start(t, fakeHandler{get: func(q *Request, r *Response) { stream(events, q, r) }}, HTTPConfig{Heartbeat: time.Microsecond})
	res, _, _ := listen(t, s, getHead+"\r\n")
	const n = 300
	go func() {
		for i := range n {
			events.ch <- sse.Event{Data: []byte(strings.Repeat(fmt.Sprint(i, ","), i*10))}
		}
		close(events.ch)
	}()
	r := sse.NewReader(res.Body, 1<<20)
	for i := range n {
		if e, err := r.Next(); err != nil || string(e.Data) != strings.Repeat(fmt.Sprint(i, ","), i*10) {
			t.Fatalf("event %d: %.40q, %v", i, e.Data, err)
		}
	}
	if _, err := r.Next(); err != io.EOF {
		t.Error(err)
	}
}

// TestStreamOfAClientThatDoesNotReadIsClosed: such a client fills its socket's buffers, and
// WriteTimeout ends the write.
func TestStreamOfAClientThatDoesNotReadIsClosed(t *testing.T) {
	done := make(chan struct{}, 1)
	finish := func() { done <- struct{}{} }
	big := []byte(strings.Repeat("x", 64<<20))
	for _, c := range []struct {
		name string
		give func(*Request, *Response)
	}{
		{"body", func(q *Request, r *Response) { r.Body, r.Done = big, finish }},
		{"stream", func(q *Request, r *Response) { r.Done = finish; stream(&flood{data: big}, q, r) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := start(t, fakeHandler{post: c.give}, HTTPConfig{WriteTimeout: 50 * time.Millisecond})
			_, _ = io.WriteString(dial(t, s.addr), post("{}"))
			recv(t, done, "the end of it")
		})
	}
}

// TestHeartbeatDetectsAClientThatDoesNotRead has a comment whose write blocks.
func TestHeartbeatDetectsAClientThatDoesNotRead(t *testing.T) {
	done := make(chan struct{}, 1)
	events := newEvents()
	s := start(t, fakeHandler{get: func(q *Request, r *Response) { r.Done = func() { done <- struct{}{} }; stream(events, q, r) }},
		HTTPConfig{Heartbeat: time.Nanosecond, WriteTimeout: 50 * time.Millisecond})
	nc := dial(t, s.addr)
	_, _ = io.WriteString(nc, getHead+"\r\n")
	recv(t, done, "the end of the stream")
}

type flood struct{ data []byte }

func (f *flood) Next() (sse.Event, error) { return sse.Event{Data: f.data}, nil }
func (f *flood) Close() error             { return nil }

func TestContextEndsWithTheExchange(t *testing.T) {
	ctxs := make(chan context.Context, 1)
	s := start(t, fakeHandler{post: func(q *Request, r *Response) { ctxs <- q.Ctx; echo(q, r) }}, HTTPConfig{})
	nc := dial(t, s.addr)
	_, _ = io.WriteString(nc, post("{}"))
	answer(t, bufio.NewReader(nc), "POST")
	ctx := recv(t, ctxs, "the request")
	recv(t, ctx.Done(), "the end of the exchange")
	if cause := context.Cause(ctx); !errors.Is(cause, ErrOver) {
		t.Errorf("cause = %v", cause)
	}
}

// TestEventsOfEverySizeArriveWhole, whether they are copied, gathered or written in pieces.
func TestEventsOfEverySizeArriveWhole(t *testing.T) {
	sizes := []int{2, largeData, largeData + 1, 100 << 10, gathered - 100, gathered, piece, 2*piece + 1}
	text := func(n int) string { return strings.Repeat("0123456", n/7+1)[:n] }
	s := start(t, fakeHandler{post: func(q *Request, r *Response) {
		for i, n := range sizes {
			e := sse.Event{Data: []byte(text(n)), ID: fmt.Append(nil, i), HasID: true}
			if i == len(sizes)-1 {
				r.Last = e
			} else if err := q.Client.Send(e); err != nil {
				t.Error(err)
			}
		}
	}}, HTTPConfig{})
	nc := dial(t, s.addr)
	br := bufio.NewReader(nc)
	for range 2 { // the second one on the same connection
		if _, err := io.WriteString(nc, post("{}")); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		r := sse.NewReader(res.Body, 4<<20)
		for i, n := range sizes {
			if e, err := r.Next(); err != nil || string(e.Data) != text(n) || string(e.ID) != fmt.Sprint(i) {
				t.Fatalf("event of %d bytes: %d bytes, %v", n, len(e.Data), err)
			}
		}
		if _, err := r.Next(); err != io.EOF {
			t.Errorf("ended with %v", err)
		}
	}
}
