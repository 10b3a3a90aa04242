package upstream

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
)

// largeReplies returns answers of more than 64 KiB that contain text, one of each kind.
func largeReplies(text string) map[string]string {
	message := `{"jsonrpc":"2.0","id":1,"result":{"text":"` + strings.Repeat(text, 300<<10/len(text)) + `"}}`
	return map[string]string{
		"length": fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", jsonHead, len(message), message),
		"chunks": fmt.Sprintf("%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", jsonHead, len(message), message),
		"events": fmt.Sprintf("%sTransfer-Encoding: chunked\r\n\r\n%x\r\ndata: %s\n\n\r\n0\r\n\r\n", eventHead, len(message)+8, message),
	}
}

// TestLargeMessageIsCountedWhileInHand checks also that its memory is used for the next
// message.
func TestLargeMessageIsCountedWhileInHand(t *testing.T) {
	for name, reply := range largeReplies("abc") {
		t.Run(name, func(t *testing.T) {
			s := serve(t, always(reply))
			m := large.NewMemory(1 << 30)
			session := newHTTP(t, HTTPConfig{URL: s.url(), Memory: m}).Session("", "")
			var first *byte
			for range 2 {
				st, err := session.Send(t.Context(), &Outgoing{Body: []byte(ping), Request: true})
				if err != nil {
					t.Fatal(err)
				}
				e, err := First(st)
				if err != nil {
					t.Fatal(err)
				}
				if taken := m.Budget.Taken(); taken < int64(len(e.Data)) || taken > 2<<20 {
					t.Errorf("%d bytes are taken with a message of %d in hand", taken, len(e.Data))
				}
				if first != nil && first != &e.Data[0] {
					t.Error("the second message had fresh memory")
				}
				first = &e.Data[0]
				st.Release()
				st.Close()
				if taken := m.Budget.Taken(); taken != 0 {
					t.Errorf("%d bytes are taken at the end", taken)
				}
			}
		})
	}
}

// TestMessageOutlivesClose: one goroutine may close a stream while another one still
// reads its last message.
func TestMessageOutlivesClose(t *testing.T) {
	small := map[string]string{"small": fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", jsonHead, len(answer), answer), "small event": replies["events"]}
	for _, of := range []map[string]string{small, largeReplies("abc")} {
		for name, reply := range of {
			t.Run(name, func(t *testing.T) {
				other := strings.NewReplacer("abc", "xyz", `"result"`, `"tluser"`).Replace(reply)
				var asked atomic.Int32
				one := serve(t, func(c net.Conn, in *bufio.Reader) {
					for say := reply; ; {
						if _, ok := take(in); !ok {
							return
						}
						if asked.Add(1) > 1 {
							say = other
						}
						io.WriteString(c, say)
					}
				})
				m := large.NewMemory(1 << 30)
				h := newHTTP(t, HTTPConfig{URL: one.url(), Memory: m})
				st, err := h.Session("", "").Send(t.Context(), &Outgoing{Body: []byte(ping), Request: true})
				if err != nil {
					t.Fatal(err)
				}
				e, err := First(st)
				if err != nil {
					t.Fatal(err)
				}
				want := string(e.Data)
				st.Close()
				if taken := m.Budget.Taken(); taken != 0 {
					t.Errorf("%d bytes are counted of what was given up", taken)
				}
				for range 3 {
					next, err := h.Session("", "").Send(t.Context(), &Outgoing{Body: []byte(ping), Request: true})
					if err != nil {
						t.Fatal(err)
					}
					First(next)
					next.Release()
					next.Close()
				}
				if string(e.Data) != want {
					t.Errorf("became %.100q", e.Data)
				}
				if _, err := First(st); err != ErrClosed && err != io.EOF {
					t.Errorf("ended with %v", err)
				}
			})
		}
	}
}

// TestAnswerWaitsForMemory checks that the server waits meanwhile, and that an answer
// without room fails after the time that the server may be silent, after which the next
// one is read.
func TestAnswerWaitsForMemory(t *testing.T) {
	for name, reply := range largeReplies("abc") {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := large.NewMemory(1 << 20)
				h := newHTTP(t, HTTPConfig{URL: "http://server", Memory: m, IdleTimeout: time.Minute})
				inMemory(t, h, always(reply))
				next := func() (int, error) {
					st := send(t, t.Context(), h.Session("", ""))
					defer st.Close()
					defer st.Release()
					e, err := First(st)
					return len(e.Data), err
				}
				if err := m.Budget.Take(t.Context(), large.Copy, 2<<20); err != nil {
					t.Fatal(err)
				}
				_, err := next()
				if full, ok := errors.AsType[*large.NoRoomError](err); !ok || full.Bytes < 300<<10 {
					t.Errorf("err = %v", err)
				}
				time.AfterFunc(30*time.Second, func() { m.Budget.Give(large.Copy, 2<<20) })
				if n, err := next(); err != nil || n < 300<<10 {
					t.Errorf("%d bytes, %v", n, err)
				}
				if taken := m.Budget.Taken(); taken != 0 {
					t.Errorf("%d bytes are taken at the end", taken)
				}
			})
		})
	}
}

// TestLargeBodyLeavesRoomToGrow, also if the body nearly fills a buffer: translation changes it in place.
func TestLargeBodyLeavesRoomToGrow(t *testing.T) {
	for _, size := range []int{100_000, 1<<20 - 300, 1 << 20, 1<<20 + 300, 5 << 20} {
		body := `"` + strings.Repeat("x", size-2) + `"`
		s := serve(t, always(fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", jsonHead, size, body)))
		x := send(t, t.Context(), newHTTP(t, HTTPConfig{URL: s.url()}).Session("", ""))
		e, err := First(x)
		if room := cap(e.Data) - len(e.Data); err != nil || len(e.Data) != size || room < large.Growth {
			t.Errorf("%d bytes: %d, with room for %d more, %v", size, len(e.Data), room, err)
		}
		x.Close()
	}
}
