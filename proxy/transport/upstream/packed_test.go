package upstream

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/proxy/transport/unpack"
)

// eachPacking runs a test with each way in which servers compress.
func eachPacking(t *testing.T, do func(t *testing.T, p peertest.Packing)) {
	for _, p := range peertest.Packings {
		t.Run(p.Name, func(t *testing.T) {
			peertest.NoLeaks(t)
			do(t, p)
		})
	}
}

// packedReply returns a response with this head, without its end, whose body is compressed.
func packedReply(head string, p peertest.Packing, content string) string {
	body := p.Pack(content)
	return fmt.Sprintf("%sContent-Encoding: %s\r\nContent-Length: %d\r\n\r\n%s", head, p.Encoding, len(body), body)
}

// TestCompressedAnswersAreDecoded, in each framing, and the connection is used again.
func TestCompressedAnswersAreDecoded(t *testing.T) {
	big := `{"jsonrpc":"2.0","id":1,"result":{"text":"` + strings.Repeat("text ", 300<<10) + `"}}`
	event := "id: 7\ndata: " + answer + "\n\n"
	eachPacking(t, func(t *testing.T, p peertest.Packing) {
		inChunks := func(head, content string) string {
			reply := head + "Content-Encoding: " + p.Encoding + "\r\nTransfer-Encoding: chunked\r\n\r\n"
			for body := p.Pack(content); len(body) > 0; {
				n := min(len(body), 7)
				reply += fmt.Sprintf("%x\r\n%s\r\n", n, body[:n])
				body = body[n:]
			}
			return reply + "0\r\n\r\n"
		}
		for name, c := range map[string]struct {
			reply string
			want  []string
			again bool // the connection is used again
		}{
			"json":            {packedReply(jsonHead, p, answer), []string{answer}, true},
			"json in chunks":  {inChunks(jsonHead, answer), []string{answer}, true},
			"json to close":   {jsonHead + "Content-Encoding: " + p.Encoding + "\r\n\r\n" + string(p.Pack(answer)), []string{answer}, false},
			"large":           {packedReply(jsonHead, p, big), []string{big}, true},
			"upper case":      {strings.Replace(packedReply(jsonHead, p, answer), "Encoding: "+p.Encoding, "Encoding: identity, "+strings.ToUpper(p.Encoding), 1), []string{answer}, true},
			"batch":           {packedReply(jsonHead, p, "["+answer+"]\n"), []string{"[" + answer + "]"}, true},
			"events":          {packedReply(eventHead, p, event+event), []string{answer, answer}, true},
			"in chunks":       {inChunks(eventHead, ": first\n\n"+event+event), []string{answer, answer}, true},
			"events to close": {eventHead + "Content-Encoding: " + p.Encoding + "\r\n\r\n" + string(p.Pack(event)), []string{answer}, false},
			"a large event":   {packedReply(eventHead, p, "data: "+big+"\n\n"+event), []string{big, answer}, true},
		} {
			handle := always(c.reply)
			if !c.again {
				handle = once(c.reply)
			}
			s := serve(t, handle)
			m := large.NewMemory(1 << 30)
			h := newHTTP(t, HTTPConfig{URL: s.url(), Memory: m})
			for range 3 {
				got, err := said(t.Context(), h.Session("", ""))
				wantMessages(t, got, err, c.want...)
			}
			if n := s.conns.Load(); c.again && n != 1 {
				t.Errorf("%s: %d connections", name, n)
			}
			if taken := m.Budget.Taken(); taken != 0 {
				t.Errorf("%s: %d bytes are taken at the end", name, taken)
			}
		}
	})
}

// TestACompressedAnswerBetweenPlainOnes: what is known of one head says nothing of the next.
func TestACompressedAnswerBetweenPlainOnes(t *testing.T) {
	eachPacking(t, func(t *testing.T, p peertest.Packing) {
		replies := []string{jsonReply(answer), packedReply(jsonHead, p, answer), jsonReply(answer), packedReply(eventHead, p, "data: "+answer+"\n\n"), jsonReply(answer), jsonReply(answer)}
		s := serve(t, func(c net.Conn, in *bufio.Reader) {
			for _, reply := range replies {
				if _, ok := take(in); !ok {
					return
				}
				io.WriteString(c, reply)
			}
		})
		session := newHTTP(t, HTTPConfig{URL: s.url()}).Session("", "")
		for range replies {
			got, err := said(t.Context(), session)
			wantMessages(t, got, err, answer)
		}
	})
}

// TestCompressedRefusalsAreRead: the body of a refusal is decoded, as much of it as is kept.
func TestCompressedRefusalsAreRead(t *testing.T) {
	const fault = `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no"}}`
	eachPacking(t, func(t *testing.T, p peertest.Packing) {
		bomb := strings.Repeat(" ", 1<<20)
		twice := strings.Replace(packedReply("HTTP/1.1 400 X\r\n", p, string(p.Pack(fault))), "Encoding: ", "Encoding: gzip, ", 1)
		for reply, want := range map[string]string{
			packedReply("HTTP/1.1 400 X\r\nContent-Type: application/json\r\n", p, fault):                          fault,
			packedReply("HTTP/1.1 401 X\r\nWWW-Authenticate: Bearer\r\nContent-Type: text/plain\r\n", p, "log in"): "log in",
			packedReply("HTTP/1.1 404 X\r\n", p, fault+"\n"):                                                       fault,
			packedReply("HTTP/1.1 500 X\r\n", p, ""):                                                               "",
			packedReply("HTTP/1.1 503 X\r\n", p, strings.Repeat("x", maxErrorBody)+bomb):                           strings.Repeat("x", maxErrorBody) + ellipsis,
			"HTTP/1.1 400 X\r\nContent-Encoding: " + p.Encoding + "\r\nContent-Length: 0\r\n\r\n":                  "",
			"HTTP/1.1 400 X\r\nContent-Encoding: compress\r\nContent-Length: 3\r\n\r\nabc":                         "",
			twice: "",
		} {
			m := large.NewMemory(64 << 20)
			_, err := said(t.Context(), newHTTP(t, HTTPConfig{URL: serve(t, always(reply)).url(), Memory: m}).Session("", ""))
			e, ok := errors.AsType[*StatusError](err)
			if !ok || string(e.Body) != want {
				t.Errorf("%.40q: %.100v, body %.100q, want %.100q", reply, err, e.Body, want)
			}
			if taken := m.Budget.Taken(); taken != 0 {
				t.Errorf("%.40q: %d bytes are taken at the end", reply, taken)
			}
		}
	})
}

// TestCompressedEventsComeAtOnce: each event that a real server flushes comes before the next one is sent, for a call and on a
// standing stream of both transports, also to another goroutine after an interruption.
func TestCompressedEventsComeAtOnce(t *testing.T) {
	eachPacking(t, func(t *testing.T, p peertest.Packing) {
		seen := make(chan struct{})
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			if r.URL.Path == "/sse" {
				io.WriteString(w, endpointEvent)
			}
			w.(http.Flusher).Flush()
			for i := range 5 {
				select {
				case <-seen:
				case <-r.Context().Done():
					return
				}
				fmt.Fprintf(w, "id: %d\ndata: {\"n\":%d,\"text\":%q}\n\n", i, i, strings.Repeat("x", 1000*i))
				w.(http.Flusher).Flush()
			}
		})
		srv := httptest.NewServer(p.Packed(handler))
		defer srv.Close()
		for transport, open := range map[string]func(h *HTTP) (Stream, error){
			"a call": func(h *HTTP) (Stream, error) {
				return h.Session("", "").Send(t.Context(), &Outgoing{Body: []byte(ping), Request: true})
			},
			"listen": func(h *HTTP) (Stream, error) {
				return h.Session("", "").Listen(t.Context(), ListenOptions{Parks: true})
			},
			"HTTP+SSE": func(h *HTTP) (Stream, error) { return h.SSESession().Listen(t.Context(), ListenOptions{}) },
		} {
			at := srv.URL + "/mcp"
			if transport == "HTTP+SSE" {
				at = srv.URL + "/sse"
			}
			m := large.NewMemory(256 << 20)
			h := newHTTP(t, HTTPConfig{URL: at, Memory: m})
			h.packs.Store(true) // it is not asked for another stream, whose handler would take what this one has to send
			st, err := open(h)
			if err != nil {
				t.Fatalf("%s: %v", transport, err)
			}
			for i := range 5 {
				if st.CanInterrupt() {
					done := make(chan error)
					go func() {
						_, err := First(st)
						done <- err
					}()
					st.Interrupt() // the next wait, or the one under way
					if err := <-done; err != sse.ErrInterrupted {
						t.Fatalf("%s: interrupted with %v", transport, err)
					}
				}
				seen <- struct{}{}
				e, err := First(st)
				if want := fmt.Sprintf("{\"n\":%d,\"text\":%q}", i, strings.Repeat("x", 1000*i)); err != nil || string(e.Data) != want {
					t.Fatalf("%s, event %d: %.100q, %v", transport, i, e.Data, err)
				}
				if taken := m.Budget.Taken(); taken < 64<<10 {
					t.Errorf("%s: %d bytes are taken while it is decoded", transport, taken)
				}
			}
			if st.Park(make(wakes, 1)) {
				t.Errorf("%s is parked", transport)
			}
			if _, err := First(st); err != io.EOF && transport != "HTTP+SSE" || err == nil {
				t.Errorf("%s ended with %v", transport, err)
			}
			st.Close()
			if taken := m.Budget.Taken(); taken != 0 {
				t.Errorf("%s: %d bytes are taken at the end", transport, taken)
			}
		}
	})
}

// TestStandingStreamsAreAskedForPlain: a standing stream that is compressed is asked for once more, in words that leave no doubt.
// What the server grants then is used, and if it is no better, it is not asked again.
func TestStandingStreamsAreAskedForPlain(t *testing.T) {
	const only = "identity, *;q=0"
	for name, c := range map[string]struct {
		second string // what the server does when it is asked in these words: "plain", "packed", "refused" or "silent"
		first  int    // the stream of the GET with this number is used …
		later  int    // … and how many GETs there are after a second stream was opened
	}{
		"understands":    {"plain", 2, 4},
		"packs anyway":   {"packed", 2, 3},
		"grants one":     {"refused", 1, 3},
		"closes at once": {"closed", 1, 3},
	} {
		t.Run(name, func(t *testing.T) {
			for transport, open := range map[string]func(h *HTTP) (Stream, error){
				"listen": func(h *HTTP) (Stream, error) {
					return h.Session("", "").Listen(t.Context(), ListenOptions{Parks: true})
				},
				"HTTP+SSE": func(h *HTTP) (Stream, error) { return h.SSESession().Listen(t.Context(), ListenOptions{}) },
			} {
				peertest.NoLeaks(t)
				var gets, left atomic.Int32
				stream := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Type", "text/event-stream")
					n := r.Header.Get("N")
					if transport == "HTTP+SSE" {
						io.WriteString(w, endpointEvent)
						w.(http.Flusher).Flush()
					}
					fmt.Fprintf(w, "data: %s\n\n", n)
					w.(http.Flusher).Flush()
					<-r.Context().Done()
					left.Add(1)
				})
				srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					r.Header.Set("N", fmt.Sprint(gets.Add(1)))
					asked := strings.Join(r.Header.Values("Accept-Encoding"), " | ")
					switch {
					case asked == "identity" || asked == only && c.second == "packed":
						peertest.Packings[0].Packed(stream).ServeHTTP(w, r)
					case asked != only:
						t.Errorf("asked for %q", asked)
					case c.second == "plain":
						stream.ServeHTTP(w, r)
					case c.second == "refused":
						http.Error(w, "one stream is enough", http.StatusConflict)
					default:
						panic(http.ErrAbortHandler)
					}
				}))
				defer srv.Close()
				h := newHTTP(t, HTTPConfig{URL: srv.URL})
				st, err := open(h)
				if err != nil {
					t.Fatal(err)
				}
				next := func(st Stream) string {
					for {
						e, err := First(st)
						if err == sse.ErrInterrupted {
							st.Park(nil)
							continue
						}
						if err != nil {
							t.Fatal(err)
						}
						return string(e.Data)
					}
				}
				if got := next(st); got != fmt.Sprint(c.first) {
					t.Errorf("%s: the stream of GET %s is read", transport, got)
				}
				if c.first == 2 { // the other one is closed
					peertest.Eventually(t, "the other stream is closed", func() bool { return left.Load() == 1 })
				}
				again, err := open(h)
				if err != nil {
					t.Fatal(err)
				}
				next(again)
				if got := gets.Load(); int(got) != c.later {
					t.Errorf("%s: %d GETs, want %d", transport, got, c.later)
				}
				st.Close()
				again.Close()
			}
		})
	}
}

// TestCompressedAnswersOfPosts: over HTTP+SSE, an answer in the body of a POST is decoded; what is none there is no failure.
func TestCompressedAnswersOfPosts(t *testing.T) {
	eachPacking(t, func(t *testing.T, p peertest.Packing) {
		for body, want := range map[string]string{
			string(p.Pack(answer)):        answer,
			string(p.Pack(`{"ok":true}`)): "",
			"not compressed":              "",
		} {
			handler := http.NewServeMux()
			handler.HandleFunc("GET /sse", func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				io.WriteString(w, "event: endpoint\ndata: /post\n\n")
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			})
			handler.HandleFunc("POST /post", func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("Content-Encoding", p.Encoding)
				io.WriteString(w, body)
			})
			srv := httptest.NewServer(handler)
			s := newHTTP(t, HTTPConfig{URL: srv.URL + "/sse"}).SSESession()
			st, err := s.Listen(t.Context(), ListenOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Send(t.Context(), &Outgoing{Body: []byte(ping), Request: true}); err != nil {
				t.Errorf("%.20q: %v", body, err)
			}
			if want != "" {
				wantNext(t, st, want)
			}
			st.Close()
			srv.Close()
		}
	})
}

// TestCompressedBombs: what comes out counts against the limit for a message and against the memory in hand, and so does what
// decodes it. The table is that of adapters.
func TestCompressedBombs(t *testing.T) {
	const limit = 1 << 20
	eachPacking(t, func(t *testing.T, p peertest.Packing) {
		blanks := strings.Repeat(" ", 12<<20/effort)
		bomb := packedReply(jsonHead, p, blanks)
		good := p.Pack(answer)
		event := "data: " + answer + "\n\n"
		for name, c := range map[string]struct {
			reply string
			inMem int64
			want  string // a part of the error; "" for none
			said  int    // messages that come
		}{
			"a bomb":                    {bomb, 128 << 20, "larger than the limit of 1048576 bytes", 0},
			"a bomb of events":          {packedReply(eventHead, p, strings.Repeat(event, 2_000)), 128 << 20, "", 2_000},
			"an event that is a bomb":   {packedReply(eventHead, p, event+"data: "+blanks+"\n\n"+event), 128 << 20, "", 2},
			"a line that is a bomb":     {packedReply(eventHead, p, event+": "+blanks+"\n\n"+event), 128 << 20, "", 2},
			"more than is in hand":      {packedReply(jsonHead, p, `"`+strings.Repeat("x", 700<<10)+`"`), 1 << 10, "", 1}, // one message is admitted, however large
			"cut off":                   {jsonHead + "Content-Encoding: " + p.Encoding + fmt.Sprintf("\r\nContent-Length: %d\r\n\r\n%s", len(good)-3, good[:len(good)-3]), 128 << 20, "unexpected EOF", 0},
			"nothing":                   {packedReply(jsonHead, p, ""), 128 << 20, "response without a body", 0},
			"no body at all":            {jsonHead + "Content-Encoding: " + p.Encoding + "\r\nContent-Length: 0\r\n\r\n", 128 << 20, "response without a body", 0},
			"plain, said to be packed":  {jsonHead + "Content-Encoding: " + p.Encoding + fmt.Sprintf("\r\nContent-Length: %d\r\n\r\n%s", len(answer), answer), 128 << 20, "content of the response", 0},
			"packed in a way not known": {strings.Replace(bomb, "Encoding: "+p.Encoding, "Encoding: lzma", 1), 128 << 20, "lzma", 0},
			"two encodings":             {strings.Replace(bomb, "Encoding: ", "Encoding: gzip, ", 1), 128 << 20, "only one is decoded", 0},
		} {
			m := large.NewMemory(c.inMem)
			h := newHTTP(t, HTTPConfig{URL: serve(t, once(c.reply)).url(), MaxMessage: limit, Memory: m})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			st, err := h.Session("", "").Send(t.Context(), &Outgoing{Body: []byte(ping), Request: true})
			if err != nil {
				t.Fatal(err)
			}
			said, most := 0, int64(0)
			for _, err = range st.Events {
				most = max(most, m.Budget.Taken())
				if err == nil {
					said++
				}
			}
			st.Close()
			runtime.ReadMemStats(&after)
			if err == io.EOF {
				err = nil
			}
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || said != c.said {
				t.Errorf("%s: %d messages, %v, want %d, %q", name, said, err, c.said, c.want)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > 24<<20 {
				t.Errorf("%s: took %d MiB", name, took>>20)
			}
			if most > 3*limit+2*unpack.MaxWindow || m.Budget.Taken() != 0 {
				t.Errorf("%s: %d bytes were in hand, %d are", name, most, m.Budget.Taken())
			}
		}
	})
}

// TestManyCompressedAnswersWaitForMemory: the windows of all that is decoded at one time are bounded, and nothing waits for ever.
func TestManyCompressedAnswersWaitForMemory(t *testing.T) {
	eachPacking(t, func(t *testing.T, p peertest.Packing) {
		text := `{"jsonrpc":"2.0","id":1,"result":{"text":"` + strings.Repeat("text ", 100<<10) + `"}}`
		m := large.NewMemory(24 << 20)
		h := newHTTP(t, HTTPConfig{URL: serve(t, always(packedReply(jsonHead, p, text))).url(), Memory: m, MaxMessage: 4 << 20})
		errs := make(chan error)
		const calls = 32
		for range calls {
			go func() {
				st, err := h.Session("", "").Send(t.Context(), &Outgoing{Body: []byte(ping), Request: true})
				if err == nil {
					e, no := First(st)
					if err = no; err == nil && !bytes.Equal(e.Data, []byte(text)) {
						err = errors.New("another text")
					}
					st.Close()
				}
				errs <- err
			}()
		}
		for range calls {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		if taken := m.Budget.Taken(); taken != 0 {
			t.Errorf("%d bytes are taken at the end", taken)
		}
	})
}
