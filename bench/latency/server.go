package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
	"github.com/valyala/fasthttp"

	"github.com/dragoman-proxy/dragoman/bench/compare/process"
	"github.com/dragoman-proxy/dragoman/bench/corpus"
	"github.com/dragoman-proxy/dragoman/bench/proxies"
	"github.com/dragoman-proxy/dragoman/translate"
)

// The kinds of calls, as indexes into responder.answers.
const (
	small = iota
	list
	kinds
)

func kindNames() [kinds]string { return [kinds]string{"small call", "list of 50 tools"} }

const maxRequest = 1 << 20

// responder answers requests as a server of one revision, with prepared answers.
type responder struct {
	speaks  *translate.Revision
	answers [kinds]answer
	bytes   string // the text of the call "sized", which has as many bytes as it asks for
}

// answer is an answer without its id.
type answer struct{ before, after []byte }

func split(message []byte) answer {
	id := gjson.GetBytes(message, "id")
	return answer{message[:id.Index], message[id.Index+len(id.Raw):]}
}

func (a answer) to(id string) []byte {
	out := make([]byte, 0, len(a.before)+len(id)+len(a.after)+1)
	return append(append(append(out, a.before...), id...), a.after...)
}

// newResponder returns a server of a revision whose list has as many tools as tools, one of the lists of the corpus.
func newResponder(speaks *translate.Revision, tools int) (*responder, error) {
	c, err := corpus.New(max(1<<20, tools<<11))
	if err != nil {
		return nil, err
	}
	written := speaks
	if speaks.Modern {
		written = translate.Latest()
	}
	messages := c.In(written)
	s := &responder{speaks: speaks}
	for i, name := range [kinds]string{"call_result", "tools_list_" + strconv.Itoa(tools)} {
		m := corpus.Find(messages, name)
		if m == nil {
			return nil, fmt.Errorf("the corpus has no %s", name)
		}
		raw := m.Raw
		if speaks.Modern {
			if raw, err = sjson.SetBytes(raw, "result.resultType", "complete"); err != nil {
				return nil, err
			}
		}
		s.answers[i] = split(bytes.TrimSpace(raw))
	}
	return s, nil
}

// answer returns the answer to a message; nil for a notification.
func (s *responder) answer(message []byte) []byte {
	id := gjson.GetBytes(message, "id").Raw
	if id == "" {
		return nil
	}
	method := gjson.GetBytes(message, "method").Str
	reply := func(member, value string) []byte {
		return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,%q:%s}`, id, member, value)
	}
	const who = `{"name":"latency","version":"1"}`
	switch {
	case method == "tools/list":
		return s.answers[list].to(id)
	case method == "tools/call":
		if n := gjson.GetBytes(message, "params.arguments.bytes").Int(); n > 0 && n <= int64(len(s.bytes)) {
			return reply("result", `{"content":[{"type":"text","text":"`+s.bytes[:n]+`"}]}`)
		}
		return s.answers[small].to(id)
	case method == "ping":
		return reply("result", "{}")
	case s.speaks.Modern && method == "server/discover":
		return reply("result", fmt.Sprintf(`{"resultType":"complete","supportedVersions":[%q],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":%s}}`, s.speaks.Name, who))
	case s.speaks.Modern:
		return reply("error", fmt.Sprintf(`{"code":-32022,"message":"Unsupported protocol version","data":{"supported":[%q],"requested":"?"}}`, s.speaks.Name))
	case method == "initialize":
		return reply("result", fmt.Sprintf(`{"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":%s}`, s.speaks.Name, who))
	}
	return reply("error", `{"code":-32601,"message":"Method not found"}`)
}

// serveRole runs one of the other processes of a measurement, and returns when ctx ends.
func serveRole(ctx context.Context, role, revision string, tools int, upstream string) error {
	if role == "stdio" {
		s, err := newResponder(translate.Lookup(revision), tools)
		if err != nil {
			return err
		}
		return s.serveStdio(os.Stdin, os.Stdout)
	}
	addr := "127.0.0.1:0"
	if role == "sessions" {
		addr = upstream
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	url := "http://" + ln.Addr().String() + "/mcp"
	if role == "fasthttp" {
		process.Announce(url)
		return proxies.ServeBare(ctx, ln, upstream)
	}
	s, err := newResponder(translate.Lookup(revision), tools)
	if err != nil {
		return err
	}
	switch role {
	case "sessions":
		process.Announce(url)
		return s.serveHTTP(ctx, ln, true)
	case "http":
		s.bytes = strings.Repeat("sunny, with a breeze from the west. ", largest/36+1)[:largest]
		process.Announce(url)
		return s.serveHTTP(ctx, ln, false)
	case "sse":
		process.Announce(strings.TrimSuffix(url, "/mcp") + "/sse")
		return s.serveSSE(ctx, ln)
	}
	return fmt.Errorf("-serve: %q is none of stdio, http, sse, sessions, fasthttp", role)
}

func (s *responder) serveStdio(r io.Reader, w io.Writer) error {
	in := bufio.NewReaderSize(r, maxRequest)
	for {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if reply := s.answer(line); reply != nil {
			if _, err := w.Write(append(reply, '\n')); err != nil {
				return nil // the client has left
			}
		}
	}
}

// serveHTTP serves Streamable HTTP. A strict server answers 404 to a session that it has not begun: the process before it began those.
func (s *responder) serveHTTP(ctx context.Context, ln net.Listener, strict bool) error {
	var sessions atomic.Int64
	process := rand.Text()
	return proxies.ServeHTTP(ctx, ln, func(c *fasthttp.RequestCtx) {
		if c.IsDelete() {
			return
		}
		if !c.IsPost() {
			c.SetStatusCode(fasthttp.StatusMethodNotAllowed)
			return
		}
		body := c.PostBody()
		if id := c.Request.Header.Peek("Mcp-Session-Id"); strict && len(id) > 0 && !bytes.HasPrefix(id, []byte(process)) {
			c.SetStatusCode(fasthttp.StatusNotFound)
			return
		}
		reply := s.answer(body)
		if reply == nil {
			c.SetStatusCode(fasthttp.StatusAccepted)
			return
		}
		if s.speaks.Modern && bytes.HasPrefix(reply, []byte(`{"jsonrpc":"2.0","id":`)) && gjson.GetBytes(body, "method").Str == "initialize" {
			c.SetStatusCode(fasthttp.StatusBadRequest)
		}
		if !s.speaks.Modern && bytes.Contains(body, []byte(`"initialize"`)) {
			c.Response.Header.Set("Mcp-Session-Id", process+fmt.Sprintf("%012x", sessions.Add(1)))
		}
		c.SetContentType("application/json")
		c.Response.SetBodyRaw(reply)
	})
}

// serveSSE serves the transport of 2024-11-05. See
// https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse.
func (s *responder) serveSSE(ctx context.Context, ln net.Listener) error {
	var (
		mu      sync.Mutex
		streams = map[string]chan []byte{}
		last    int
	)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /sse", func(w http.ResponseWriter, r *http.Request) {
		answers := make(chan []byte, 64)
		mu.Lock()
		last++
		name := strconv.Itoa(last)
		streams[name] = answers
		mu.Unlock()
		defer func() {
			mu.Lock()
			delete(streams, name)
			mu.Unlock()
		}()
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "event: endpoint\ndata: /message?session=%s\n\n", name)
		flush := http.NewResponseController(w)
		for flush.Flush() == nil {
			select {
			case reply := <-answers:
				fmt.Fprintf(w, "event: message\ndata: %s\n\n", reply)
			case <-r.Context().Done():
				return
			case <-ctx.Done():
				return
			}
		}
	})
	mux.HandleFunc("POST /message", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest))
		if err != nil {
			return
		}
		mu.Lock()
		answers := streams[r.URL.Query().Get("session")]
		mu.Unlock()
		if answers == nil {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.WriteHeader(http.StatusAccepted)
		if reply := s.answer(body); reply != nil {
			select {
			case answers <- reply:
			case <-r.Context().Done():
			}
		}
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
