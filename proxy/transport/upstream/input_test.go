package upstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// TestBusyChildIsNotEnded: a child that works at a call reads nothing else, for longer than a child may that has nothing to do.
func TestBusyChildIsNotEnded(t *testing.T) {
	s := role("is busy")
	s.UnreadTimeout = 20 * time.Millisecond
	c := start(t, s)
	stream := hear(t, c)
	call := func(text string) *Outgoing {
		return &Outgoing{Body: []byte(text), Request: true, FirstByte: patience, Silence: patience}
	}
	if _, err := c.Send(t.Context(), call(ping)); err != nil {
		t.Fatal(err)
	}
	big := `{"x":"` + strings.Repeat("x", 300<<10) + `"}`
	var senders sync.WaitGroup
	for range 3 {
		senders.Go(func() {
			if _, err := c.Send(t.Context(), call(big)); err != nil {
				t.Error(err)
			}
		})
	}
	wantNext(t, stream, ping)
	for range 3 {
		wantNext(t, stream, big)
	}
	senders.Wait()
}

// TestChildThatReadsNothing: without a call in flight, a child that does not read its input is stopped after a time.
func TestChildThatReadsNothing(t *testing.T) {
	s := role("does not read")
	s.UnreadTimeout, s.CloseGrace = 50*time.Millisecond, time.Millisecond
	c := start(t, s)
	big := []byte(`{"x":"` + strings.Repeat("x", 4<<20) + `"}`)
	var senders sync.WaitGroup
	for range 3 {
		senders.Go(func() {
			_, err := c.Send(t.Context(), &Outgoing{Body: big, Request: true})
			unread, is := errors.AsType[*UnreadError](err)
			if !is || unread.After != s.UnreadTimeout {
				t.Errorf("ended with %v", err)
			}
		})
	}
	senders.Wait()
}

// fullChild returns a Child whose input nobody reads but the test, from the returned file. The pipe has no room left.
func fullChild(t *testing.T) (c *Child, r *os.File) {
	t.Helper()
	peertest.NoLeaks(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c = &Child{exited: make(chan struct{})}
	c.input = input{file: w, timeout: time.Hour, exited: c.exited, wake: make(chan struct{}, 1), closed: func() {}}
	c.running.Go(c.input.write)
	t.Cleanup(func() {
		close(c.exited)
		w.Close()
		c.running.Wait()
		r.Close()
	})
	if err := w.SetWriteDeadline(time.Now().Add(time.Hour)); err != nil {
		t.Skip("this system has no deadlines for pipes")
	}
	if _, err := c.Send(t.Context(), &Outgoing{Body: []byte(strings.Repeat("f", keepBuffer-1)), Request: true}); err != nil {
		t.Fatal(err)
	}
	return c, r
}

// reads returns what the child gets behind what has filled the pipe, up to the line "end", which it is sent.
func reads(t *testing.T, c *Child, r *os.File) string {
	t.Helper()
	go c.Send(context.Background(), &Outgoing{Body: []byte("end")}) //nolint:errcheck // the test sees it
	var all strings.Builder
	for in := bufio.NewReader(r); !strings.HasSuffix(all.String(), "\nend\n"); {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString(line)
	}
	text := strings.TrimSuffix(strings.TrimPrefix(all.String(), strings.Repeat("f", keepBuffer-1)+"\n"), "end\n")
	return text
}

func describe(text string) string {
	if len(text) > 200 {
		return fmt.Sprintf("%d bytes %.20q…%q", len(text), text, text[len(text)-20:])
	}
	return fmt.Sprintf("%q", text)
}

// TestRequestThatAChildDoesNotRead: at its limit or the end of its context, a request is taken back if none of it was written;
// else it is written to its end, from memory of its own.
func TestRequestThatAChildDoesNotRead(t *testing.T) {
	const small, large = 5000, 200 << 10
	for _, c := range []struct {
		name    string
		size    int
		begun   bool // a part of it is written
		waits   bool // it waits behind another one
		limit   bool // else its context ends
		written bool
		sent    bool // Send returns no error
		mayHave bool // the error does not say that the server has not got it
	}{
		{name: "next, limit", size: small, limit: true},
		{name: "next, context", size: small},
		{name: "next, large, limit", size: large, limit: true},
		{name: "next, large, context", size: large},
		{name: "waits, limit", size: small, waits: true, limit: true},
		{name: "waits, context", size: large, waits: true},
		{name: "begun, limit", size: small, begun: true, limit: true, written: true, mayHave: true},
		{name: "begun, context", size: small, begun: true, written: true, sent: true},
		{name: "begun, large, limit", size: large, begun: true, limit: true, written: true, mayHave: true},
		{name: "begun, large, context", size: large, begun: true, written: true, sent: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			child, r := fullChild(t)
			want := ""
			if c.begun {
				if _, err := io.CopyN(io.Discard, r, 4096); err != nil { // what a pipe has room for again
					t.Fatal(err)
				}
			}
			if c.waits {
				first := strings.Repeat("1", small)
				want = first + "\n"
				go child.Send(context.Background(), &Outgoing{Body: []byte(first), Request: true}) //nolint:errcheck // the test sees it
				peertest.Eventually(t, "the first is being written", func() bool {
					child.input.mu.Lock()
					defer child.input.mu.Unlock()
					return child.input.current != nil
				})
			}
			body := []byte(strings.Repeat("x", c.size))
			if c.written {
				want += string(body) + "\n"
			}
			o := &Outgoing{Body: body, Request: true}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.limit {
				o.FirstByte = 20 * time.Millisecond
			} else {
				time.AfterFunc(20*time.Millisecond, cancel)
			}
			_, err := child.Send(ctx, o)
			clear(body) // its memory is the sender's again
			switch {
			case c.sent && err != nil, !c.sent && err == nil:
				t.Errorf("sent with %v", err)
			case c.limit && (NeverSent(err) == c.mayHave || !isTimeout(err)):
				t.Errorf("sent with %v, never: %t", err, NeverSent(err))
			case !c.limit && !c.sent && err != context.Canceled:
				t.Errorf("sent with %v", err)
			}
			got := reads(t, child, r)
			if c.begun {
				got = strings.TrimLeft(got, "f")
				got = strings.TrimPrefix(got, "\n")
			}
			if got != want {
				t.Errorf("the child got %s", describe(got))
			}
		})
	}
}

// TestNotificationsAndAnswersWaitWithoutTheirSender: their senders go on at once, or when their context ends.
func TestNotificationsAndAnswersWaitWithoutTheirSender(t *testing.T) {
	c, r := fullChild(t)
	want := ""
	for n := range 100 {
		text := fmt.Sprintf(`{"n":%d}`, n)
		want += text + "\n"
		if _, err := c.Send(t.Context(), &Outgoing{Body: []byte(text)}); err != nil {
			t.Fatal(err)
		}
	}
	answer := []byte(strings.Repeat("a", 2*keepBuffer))
	want += string(answer) + "\n"
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	waits := func() bool {
		c.input.mu.Lock()
		defer c.input.mu.Unlock()
		return c.input.last != nil && len(c.input.last.b) >= len(answer)
	}
	go func() {
		for ; ctx.Err() == nil && !waits(); time.Sleep(time.Millisecond) {
		}
		cancel()
	}()
	if _, err := c.Send(ctx, &Outgoing{Body: answer}); err != nil {
		t.Fatal(err)
	}
	clear(answer)
	if got := reads(t, c, r); got != want {
		t.Errorf("the child got %s", describe(got))
	}
}

// TestWhatWaitsWithoutASenderIsBounded: beyond a bound the sender waits.
func TestWhatWaitsWithoutASenderIsBounded(t *testing.T) {
	c, r := fullChild(t)
	text := strings.Repeat("n", keepBuffer/2)
	sent := 0
	for ; ; sent++ {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, err := c.Send(ctx, &Outgoing{Body: []byte(text)})
		cancel()
		if err == context.DeadlineExceeded {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if bytes := sent * len(text); bytes > maxAlone || bytes < maxAlone/2 {
		t.Errorf("%d bytes wait", bytes)
	}
	if got, want := reads(t, c, r), strings.Repeat(text+"\n", sent); got != want {
		t.Errorf("the child got %s", describe(got))
	}
	c.input.mu.Lock()
	defer c.input.mu.Unlock()
	if c.input.posted > len("end\n") {
		t.Errorf("%d bytes are counted after all was read", c.input.posted)
	}
}

// lastInput is the standard input of a child that ends as soon as it has read something.
type lastInput struct{ exited chan struct{} }

func (f *lastInput) Write(b []byte) (int, error) {
	close(f.exited)
	return len(b), nil
}

func (f *lastInput) Close() error { return nil }

// TestChildThatEndsWithWhatItReads: a request that was written counts as sent, also if its sender hears of the child's end at the same time. It would
// otherwise learn of that before the reader of what the child has written, which starts another one, and send its next request to none.
func TestChildThatEndsWithWhatItReads(t *testing.T) {
	for range 100 {
		c := &Child{exited: make(chan struct{})}
		c.input = input{file: &lastInput{c.exited}, timeout: time.Hour, exited: c.exited, wake: make(chan struct{}, 1), closed: func() {}}
		c.running.Go(c.input.write)
		if _, err := c.Send(t.Context(), &Outgoing{Body: []byte("last"), Request: true}); err != nil {
			t.Fatal(err)
		}
		c.running.Wait()
	}
}
