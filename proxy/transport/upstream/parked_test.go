package upstream

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// wakes receives a value for each call of Wake.
type wakes chan struct{}

func (w wakes) Wake() { w <- struct{}{} }

// parking reads a stream, and parks it whenever it can.
type parking struct {
	Stream
	woken wakes
	parks int
}

// next returns the next event.
func (p *parking) next(t *testing.T) (sse.Event, error) {
	t.Helper()
	for {
		e, err := First(p)
		if err != sse.ErrInterrupted {
			return e, err
		}
		p.park(t)
		p.wait(t)
	}
}

func (p *parking) park(t *testing.T) {
	t.Helper()
	if !p.Park(p.woken) {
		t.Fatal("not parked")
	}
	p.parks++
}

func (p *parking) wait(t *testing.T) {
	t.Helper()
	select {
	case <-p.woken:
	case <-time.After(patience):
		t.Fatal("a parked stream was not woken")
	}
}

func needsWatch(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("no stream is parked on this system")
	}
}

// TestParkedStreamLosesNothing, wherever in an event the server pauses. While it is parked it has no large buffer.
func TestParkedStreamLosesNothing(t *testing.T) {
	needsWatch(t)
	cert := httptest.NewUnstartedServer(nil)
	cert.StartTLS()
	t.Cleanup(cert.Close)
	roots := x509.NewCertPool()
	roots.AddCert(cert.Certificate())
	long := strings.Repeat("long ", 1000)
	event := func(id int, data string) string { return fmt.Sprintf("id: %d\nevent: message\ndata: %s\n\n", id, data) }
	chunk := func(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }
	pieces := []string{"", ": comment\n\n", event(1, "one") + event(2, "two"), "id: 3\nda", "ta: thr", "ee\n", "\n" + event(4, long), "data: five\r\n\r", "\n"}
	var want []string
	for _, data := range []string{"one", "two", "three", long, "five"} {
		want = append(want, strings.TrimSpace(data))
	}
	for _, chunked := range []bool{true, false} {
		for _, over := range []string{"tcp", "tls"} {
			t.Run(fmt.Sprintf("%s chunked=%t", over, chunked), func(t *testing.T) {
				peertest.NoLeaks(t)
				further := make(chan struct{})
				srv := serve(t, func(c net.Conn, in *bufio.Reader) {
					if over == "tls" {
						c = tls.Server(c, &tls.Config{Certificates: cert.TLS.Certificates})
						in = bufio.NewReader(c)
					}
					if _, ok := take(in); !ok {
						return
					}
					head := eventHead
					if chunked {
						head += "Transfer-Encoding: chunked\r\n"
					}
					io.WriteString(c, head+"\r\n")
					for _, piece := range pieces {
						select {
						case <-further:
						case <-t.Context().Done():
							return
						}
						if chunked && piece != "" {
							piece = chunk(piece)
						}
						io.WriteString(c, piece)
					}
					if chunked {
						io.WriteString(c, "0\r\n\r\n")
					}
				})
				config := HTTPConfig{URL: srv.url()}
				if over == "tls" {
					config.URL, config.TLS = "https"+strings.TrimPrefix(srv.url(), "http"), &tls.Config{RootCAs: roots}
				}
				h := newHTTP(t, config)
				h.parkAfter = time.Millisecond
				st, err := h.Session("", "").Listen(t.Context(), ListenOptions{Parks: true})
				if err != nil {
					t.Fatal(err)
				}
				defer st.Close()
				p := &parking{Stream: st, woken: make(wakes, 1)}
				var got []string
				pauses := 0
				for {
					e, err := First(p)
					if err == sse.ErrInterrupted {
						p.park(t)
						if size := st.(*exchange).conn.in.Size(); size > streamBuffer {
							t.Errorf("a buffer of %d bytes while parked", size)
						}
						select {
						case <-p.woken: // more has come just now
						default:
							if pauses < len(pieces) {
								pauses++
								further <- struct{}{}
							}
							if pauses == 1 {
								pauses++
								further <- struct{}{} // the first piece is empty
							}
							p.wait(t)
						}
						continue
					}
					if err == io.EOF {
						break
					}
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, string(e.Data))
				}
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("got %.300q", got)
				}
				if p.parks < len(pieces)-1 {
					t.Errorf("parked %d times", p.parks)
				}
			})
		}
	}
}

// TestParkedStreamIsWoken by whatever ends it.
func TestParkedStreamIsWoken(t *testing.T) {
	needsWatch(t)
	for name, c := range map[string]struct {
		end  func(h *HTTP, st Stream, cancel func(), server func())
		want error
	}{
		"close":            {func(_ *HTTP, st Stream, _, _ func()) { st.Close() }, ErrClosed},
		"context":          {func(_ *HTTP, _ Stream, cancel, _ func()) { cancel() }, context.Canceled},
		"all are closed":   {func(h *HTTP, _ Stream, _, _ func()) { h.Close() }, ErrClosed},
		"server":           {func(_ *HTTP, _ Stream, _, server func()) { server() }, io.EOF},
		"closed, woken":    {func(_ *HTTP, st Stream, _, server func()) { st.Close(); server() }, ErrClosed},
		"context and more": {func(h *HTTP, _ Stream, cancel, server func()) { cancel(); h.Close(); server() }, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			peertest.NoLeaks(t)
			over := make(chan struct{})
			srv := serve(t, func(c net.Conn, in *bufio.Reader) {
				if _, ok := take(in); ok {
					io.WriteString(c, eventHead+"\r\n")
					<-over
				}
			})
			h := newHTTP(t, HTTPConfig{URL: srv.url()})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			st, err := h.Session("", "").Listen(ctx, ListenOptions{Parks: true})
			if err != nil {
				t.Fatal(err)
			}
			defer st.Close()
			p := &parking{Stream: st, woken: make(wakes, 10)}
			if _, err := First(p); err != sse.ErrInterrupted {
				t.Fatalf("ended with %v", err)
			}
			p.park(t)
			end := func() {
				select {
				case <-over:
				default:
					close(over)
				}
			}
			defer end()
			c.end(h, st, cancel, end)
			p.wait(t)
			if _, err := First(p); !errors.Is(err, c.want) {
				t.Errorf("ended with %v", err)
			}
			if p.Park(p.woken) {
				t.Error("parked after its end")
			}
			st.Close()
			h.Close()
			if len(p.woken) > 0 {
				t.Error("woken twice")
			}
		})
	}
}

// TestStreamThatCannotBeParkedWaits on a connection without a socket.
func TestStreamThatCannotBeParkedWaits(t *testing.T) {
	peertest.NoLeaks(t)
	h := newHTTP(t, HTTPConfig{URL: "http://server"})
	h.parkAfter = time.Millisecond
	further := make(chan struct{})
	inMemory(t, h, func(c net.Conn, in *bufio.Reader) {
		if _, ok := take(in); !ok {
			return
		}
		io.WriteString(c, eventHead+"\r\n")
		<-further
		io.WriteString(c, "data: one\n\n")
	})
	st, err := h.Session("", "").Listen(t.Context(), ListenOptions{Parks: true})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if _, err := First(st); err != sse.ErrInterrupted {
		t.Fatalf("ended with %v", err)
	}
	if st.Park(make(wakes)) {
		t.Fatal("parked")
	}
	close(further)
	if e, err := First(st); err != nil || string(e.Data) != "one" {
		t.Errorf("%q, %v", e.Data, err)
	}
	if _, err := First(st); err != io.EOF {
		t.Errorf("ended with %v", err)
	}
}

// TestParkedStreamIsCutAnywhere: the stream is parked before each byte of its body, those of chunks included.
func TestParkedStreamIsCutAnywhere(t *testing.T) {
	needsWatch(t)
	peertest.NoLeaks(t)
	const body = "e;x=1\r\nid: 1\r\ndata: o\r\n5\r\nne\r\n\r\r\n3\r\n\n:\n\r\n0a\r\ndata: two\r\r\n1\r\n\r\r\n0\r\nTrailer: x\r\n\r\n"
	further := make(chan struct{})
	srv := serve(t, func(c net.Conn, in *bufio.Reader) {
		if _, ok := take(in); !ok {
			return
		}
		io.WriteString(c, eventHead+"Transfer-Encoding: chunked\r\n\r\n")
		for i := range len(body) {
			select {
			case <-further:
			case <-t.Context().Done():
				return
			}
			io.WriteString(c, body[i:i+1])
		}
	})
	h := newHTTP(t, HTTPConfig{URL: srv.url()})
	h.parkAfter = time.Millisecond
	st, err := h.Session("", "").Listen(t.Context(), ListenOptions{Parks: true})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	p := &parking{Stream: st, woken: make(wakes, 1)}
	got := ""
	for {
		e, err := First(p)
		if err == io.EOF {
			break
		}
		if err == sse.ErrInterrupted {
			p.park(t)
			select {
			case further <- struct{}{}:
				p.wait(t)
			case <-p.woken: // by the byte before, which was late
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		got += fmt.Sprintf("%s=%s ", e.ID, e.Data)
	}
	if got != "1=one =two " {
		t.Errorf("got %q", got)
	}
	if p.parks < len(body) {
		t.Errorf("parked %d times, not %d", p.parks, len(body))
	}
}

// TestParkedStreamIsWokenOnce although several things happen to it at the same time.
func TestParkedStreamIsWokenOnce(t *testing.T) {
	needsWatch(t)
	peertest.NoLeaks(t)
	speak := make(chan struct{})
	srv := serve(t, func(c net.Conn, in *bufio.Reader) {
		if _, ok := take(in); ok {
			io.WriteString(c, eventHead+"\r\n")
			<-speak
			io.WriteString(c, "data: one\n\n")
		}
	})
	for range 100 {
		h := newHTTP(t, HTTPConfig{URL: srv.url()})
		ctx, cancel := context.WithCancel(t.Context())
		st, err := h.Session("", "").Listen(ctx, ListenOptions{Parks: true})
		if err != nil {
			t.Fatal(err)
		}
		p := &parking{Stream: st, woken: make(wakes, 10)}
		if _, err := First(p); err != sse.ErrInterrupted {
			t.Fatalf("ended with %v", err)
		}
		p.park(t)
		var all sync.WaitGroup
		for _, do := range []func(){func() { speak <- struct{}{} }, cancel, func() { st.Close() }, func() { h.Close() }} {
			all.Go(do)
		}
		p.wait(t)
		all.Wait()
		if len(p.woken) > 0 {
			t.Fatal("woken twice")
		}
	}
}
