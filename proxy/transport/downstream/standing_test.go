package downstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// parkedStream is the stream of a GET that is parked whenever it has nothing to send.
type parkedStream struct {
	events chan string
	wakers chan mcp.Waker // of the parked stream
	done   chan error     // receives why the request has ended
}

func newParkedStream() *parkedStream {
	return &parkedStream{events: make(chan string, 10), wakers: make(chan mcp.Waker, 1), done: make(chan error, 1)}
}

func (p *parkedStream) get(q *Request, r *Response) {
	ctx := q.Ctx
	r.Done = func() { p.done <- context.Cause(ctx) }
	r.Listen = func(client mcp.Peer, w mcp.Waker) error {
		for ctx.Err() == nil {
			select {
			case data, ok := <-p.events:
				if !ok {
					return nil
				}
				if data == "panic" {
					panic(data)
				}
				if err := client.Send(sse.Event{Data: []byte(data)}); err != nil {
					return err
				}
			default:
				p.wakers <- w
				return ErrParked
			}
		}
		return nil
	}
}

// wake waits until the stream is parked, does what wakes it, and wakes it.
func (p *parkedStream) wake(t *testing.T, why func()) {
	t.Helper()
	select {
	case w := <-p.wakers:
		why()
		w.Wake()
	case <-time.After(peertest.Patience):
		t.Fatal("the stream is not parked")
	}
}

func (p *parkedStream) ended(t *testing.T, want error) {
	t.Helper()
	select {
	case err := <-p.done:
		if !errors.Is(err, want) {
			t.Errorf("ended with %v, want %v", err, want)
		}
	case <-time.After(peertest.Patience):
		t.Fatal("the stream has not ended")
	}
}

// TestParkedStreamGoesOn as if it had not been parked, and ends so.
func TestParkedStreamGoesOn(t *testing.T) {
	p := newParkedStream()
	s := start(t, fakeHandler{get: p.get}, HTTPConfig{})
	res, _, _ := listen(t, s, getHead+"\r\n")
	events := sse.NewReader(res.Body, 1<<20)
	for _, data := range []string{"one", "two", strings.Repeat("x", largeData+1)} {
		p.wake(t, func() { p.events <- data })
		if e, err := events.Next(); err != nil || string(e.Data) != data {
			t.Fatalf("got %.20q, %v", e.Data, err)
		}
	}
	p.wake(t, func() { close(p.events) })
	if _, err := events.Next(); err != io.EOF {
		t.Errorf("ended with %v", err)
	}
	p.ended(t, nil)
}

// TestParkedStreamHasNoGoroutine, and comments come on it.
func TestParkedStreamHasNoGoroutine(t *testing.T) {
	p := newParkedStream()
	s := start(t, fakeHandler{get: p.get}, HTTPConfig{Heartbeat: time.Millisecond})
	res, _, _ := listen(t, s, getHead+"\r\n")
	body := bufio.NewReader(res.Body)
	for range 3 {
		if line, err := body.ReadString('\n'); err != nil || line[0] != ':' {
			t.Fatalf("got %q, %v", line, err)
		}
		if line, err := body.ReadString('\n'); err != nil || line != "\n" {
			t.Fatalf("got %q, %v", line, err)
		}
	}
	p.wake(t, func() {
		peertest.Eventually(t, "no goroutine runs the stream", func() bool {
			var all strings.Builder
			_ = pprof.Lookup("goroutine").WriteTo(&all, 2)
			return !strings.Contains(all.String(), "(*standing).run")
		})
		close(p.events)
	})
	p.ended(t, nil)
}

// TestClientThatLeavesAParkedStream ends its request, and a shutdown waits for the stream.
func TestClientThatLeavesAParkedStream(t *testing.T) {
	for _, leaves := range []bool{true, false} {
		t.Run(fmt.Sprintf("leaves=%t", leaves), func(t *testing.T) {
			p := newParkedStream()
			inside := make(chan struct{})
			s := start(t, fakeHandler{get: func(q *Request, r *Response) {
				p.get(q, r)
				done, over := r.Done, make(chan struct{})
				r.Done = func() { close(over); done() }
				context.AfterFunc(q.Ctx, func() {
					select {
					case w := <-p.wakers:
						w.Wake()
					case <-over: // before it was parked
					}
				})
				close(inside)
			}}, HTTPConfig{})
			_, _, client := listen(t, s, getHead+"\r\n")
			<-inside
			if leaves {
				_ = client.Close()
				p.ended(t, ErrClientLeft)
				return
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := s.Shutdown(ctx); err != context.Canceled {
				t.Errorf("shutdown: %v", err)
			}
			select {
			case err := <-p.done:
				if err != ErrStopped {
					t.Errorf("ended with %v", err)
				}
			default:
				t.Error("the shutdown has not waited")
			}
		})
	}
}

// TestPanicOfAWokenStream cuts its body.
func TestPanicOfAWokenStream(t *testing.T) {
	p := newParkedStream()
	s := start(t, fakeHandler{get: p.get}, HTTPConfig{})
	res, _, _ := listen(t, s, getHead+"\r\n")
	p.wake(t, func() { p.events <- "panic" })
	if _, err := io.ReadAll(res.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("ended with %v", err)
	}
	p.ended(t, nil)
	if res.StatusCode != http.StatusOK {
		t.Errorf("status %d", res.StatusCode)
	}
}
