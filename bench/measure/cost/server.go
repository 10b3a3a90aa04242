package cost

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
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
	"github.com/valyala/fasthttp"

	"github.com/dragoman-proxy/dragoman/bench/corpus"
	"github.com/dragoman-proxy/dragoman/translate"
)

// The kinds of calls.
const (
	small    = iota
	list     // of 50 tools
	large    // a result of 1 MB
	streamed // a small call whose answer is an event stream, after notifications
	kinds
)

func kindNames() [kinds]string {
	return [kinds]string{"small call", "list of 50 tools", "result of 1 MB", "event stream"}
}

// toolNames returns the tools that are called; "" for the kind that calls none.
func toolNames() [kinds]string { return [kinds]string{"small", "", "large", "streamed"} }

const (
	maxRequest = 1 << 20
	notices    = 3 // notifications before the answer in an event stream
	note       = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","logger":"measure","data":"one step of three"}}`
	whoIs      = `{"name":"measure","version":"1"}`
)

// responder answers requests as a server of one revision, with prepared answers.
type responder struct {
	speaks  *translate.Revision
	answers [kinds]answer
}

// breeze is the text of the call "sized", of which it gets as many bytes as it asks for.
var breeze = sync.OnceValue(func() string {
	return strings.Repeat("sunny, with a breeze from the west. ", largest/36+1)[:largest]
})

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
	for i, name := range [kinds]string{"call_result", "tools_list_" + strconv.Itoa(tools), "call_text_1MiB", "call_result"} {
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

// kindOf returns the kind of a call of a tool.
func kindOf(name string) int {
	names := toolNames()
	return max(small, slices.Index(names[:], name))
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
	switch {
	case method == "tools/list":
		return s.answers[list].to(id)
	case method == "tools/call":
		name := gjson.GetBytes(message, "params.name").Str
		if n := gjson.GetBytes(message, "params.arguments.bytes").Int(); name == "sized" && n > 0 && n <= largest {
			return reply("result", `{"content":[{"type":"text","text":"`+breeze()[:n]+`"}]}`)
		}
		return s.answers[kindOf(name)].to(id)
	case method == "ping":
		return reply("result", "{}")
	case s.speaks.Modern && method == "server/discover":
		return reply("result", fmt.Sprintf(`{"resultType":"complete","supportedVersions":[%q],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":%s}}`, s.speaks.Name, whoIs))
	case s.speaks.Modern:
		return reply("error", fmt.Sprintf(`{"code":-32022,"message":"Unsupported protocol version","data":{"supported":[%q],"requested":"?"}}`, s.speaks.Name))
	case method == "initialize":
		return reply("result", fmt.Sprintf(`{"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":%s}`, s.speaks.Name, whoIs))
	}
	return reply("error", `{"code":-32601,"message":"Method not found"}`)
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
	return serveFast(ctx, ln, func(c *fasthttp.RequestCtx) {
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
		if gjson.GetBytes(body, "params.name").Str == toolNames()[streamed] {
			answerAfter(c, reply)
			return
		}
		c.SetContentType("application/json")
		c.Response.SetBodyRaw(reply)
	})
}

// answerAfter answers with an event stream, and writes each event when it is there, as servers do whose tools report
// what they are doing.
func answerAfter(c *fasthttp.RequestCtx, reply []byte) {
	c.SetContentType("text/event-stream")
	c.SetBodyStreamWriter(func(w *bufio.Writer) {
		for i := range notices + 1 {
			message := []byte(note)
			if i == notices {
				message = reply
			}
			fmt.Fprintf(w, "event: message\ndata: %s\n\n", message)
			if w.Flush() != nil {
				return // the client has left
			}
		}
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
	return serveStandard(ctx, ln, mux)
}
