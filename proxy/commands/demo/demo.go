// Package demo is a small MCP server of the oldest revision that runs in this process. dragoman serves it if there is
// no other server yet. To the proxy it is a server on a pipe.
package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// server is one session with the demo server, an [upstream.Conn].
type server struct {
	out    chan []byte
	ctx    context.Context
	stop   context.CancelFunc
	calls  sync.WaitGroup
	mu     sync.Mutex
	cancel map[string]context.CancelFunc // cancels slow calls, by id
	shown  map[string]Watcher            // watchers of requests, by id
}

// Open returns a connection to a new instance of the demo server. The client has to send initialize
// first.
func Open(context.Context) (upstream.Conn, error) {
	d := &server{out: make(chan []byte, 16), cancel: make(map[string]context.CancelFunc), shown: make(map[string]Watcher)}
	d.ctx, d.stop = context.WithCancel(context.Background())
	return d, nil
}

// Watcher observes one message: Heard gets the request as the server receives it, Said the answer as
// the server sends it. A Watcher is called concurrently and must not keep the slices.
type Watcher interface {
	Heard(sent []byte)
	Said(answer []byte)
}

type watcherKey struct{}

// WithWatcher returns a context that makes w observe the message sent with it.
func WithWatcher(ctx context.Context, w Watcher) context.Context {
	return context.WithValue(ctx, watcherKey{}, w)
}

type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string          `json:"name"`
		URI       string          `json:"uri"`
		RequestID json.RawMessage `json:"requestId"`
		Arguments struct {
			Text  string  `json:"text"`
			A     float64 `json:"a"`
			B     float64 `json:"b"`
			Steps int     `json:"steps"`
			Topic string  `json:"topic"`
		} `json:"arguments"`
		Meta struct {
			ProgressToken json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
	} `json:"params"`
}

// Send sends one message to the demo server. The answer and all further messages come on the stream of
// Listen.
func (d *server) Send(ctx context.Context, out *upstream.Outgoing) (upstream.Stream, error) {
	if err := d.ctx.Err(); err != nil {
		return nil, upstream.ErrClosed
	}
	var m message
	if err := json.Unmarshal(out.Body, &m); err != nil {
		if m.ID != nil {
			d.fail(m.ID, -32602, "Invalid params")
		}
		return nil, nil
	}
	if w, ok := ctx.Value(watcherKey{}).(Watcher); ok {
		w.Heard(out.Body)
		if m.ID != nil {
			d.mu.Lock()
			d.shown[string(m.ID)] = w
			d.mu.Unlock()
		}
	}
	switch m.Method {
	case "notifications/cancelled":
		d.mu.Lock()
		if cancel := d.cancel[string(m.Params.RequestID)]; cancel != nil {
			cancel()
		}
		delete(d.shown, string(m.Params.RequestID))
		d.mu.Unlock()
	case "initialize":
		d.result(m.ID, `{"protocolVersion":"`+translate.Oldest().Name+
			`","capabilities":{"tools":{},"resources":{},"prompts":{}},"serverInfo":{"name":"dragoman-demo","version":"1"},`+
			`"instructions":"A small built-in server. Try the tools echo, add and slow."}`)
	case "ping":
		d.result(m.ID, `{}`)
	case "tools/list":
		d.result(m.ID, tools)
	case "tools/call":
		d.call(&m)
	case "resources/list":
		d.result(m.ID, `{"resources":[{"uri":"demo://greeting","name":"greeting","mimeType":"text/plain"}]}`)
	case "resources/templates/list":
		d.result(m.ID, `{"resourceTemplates":[]}`)
	case "resources/read":
		if m.Params.URI != "demo://greeting" {
			d.fail(m.ID, -32002, "Resource not found")
			break
		}
		d.result(m.ID, `{"contents":[{"uri":"demo://greeting","mimeType":"text/plain","text":"Hello from a server of `+
			translate.Oldest().Name+`."}]}`)
	case "prompts/list":
		d.result(m.ID, `{"prompts":[{"name":"explain","description":"Asks for an explanation","arguments":[{"name":"topic","required":true}]}]}`)
	case "prompts/get":
		if m.Params.Name != "explain" {
			d.fail(m.ID, -32602, "Unknown prompt")
			break
		}
		d.result(m.ID, `{"messages":[{"role":"user","content":`+textBlock("Explain "+m.Params.Arguments.Topic+" in one sentence.")+`}]}`)
	default:
		if m.Method != "" && m.ID != nil {
			d.fail(m.ID, -32601, "Method not found: "+m.Method)
		}
	}
	return nil, nil
}

const tools = `{"tools":[` +
	`{"name":"echo","description":"Says the text again","inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}},` +
	`{"name":"add","description":"Adds two numbers","inputSchema":{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}},"required":["a","b"]}},` +
	`{"name":"slow","description":"Takes its time and reports progress","inputSchema":{"type":"object","properties":{"steps":{"type":"integer","minimum":1,"maximum":20}}}}]}`

func (d *server) call(m *message) {
	a := &m.Params.Arguments
	switch m.Params.Name {
	case "echo":
		d.text(m.ID, a.Text)
	case "add":
		d.text(m.ID, strconv.FormatFloat(a.A+a.B, 'g', -1, 64))
	case "slow":
		d.slow(m)
	default:
		d.fail(m.ID, -32602, "Unknown tool: "+m.Params.Name)
	}
}

// slow works in the background, a step every 200 ms.
func (d *server) slow(m *message) {
	steps := min(max(m.Params.Arguments.Steps, 1), 20)
	id, token := string(m.ID), m.Params.Meta.ProgressToken
	ctx, cancel := context.WithCancel(d.ctx)
	d.mu.Lock()
	d.cancel[id] = cancel
	d.mu.Unlock()
	d.calls.Go(func() {
		defer func() {
			d.mu.Lock()
			delete(d.cancel, id)
			d.mu.Unlock()
			cancel()
		}()
		for i := 1; i <= steps; i++ {
			select {
			case <-time.After(200 * time.Millisecond):
			case <-ctx.Done():
				return
			}
			if token != nil {
				d.say(mcp.Notification(wire.Progress, fmt.Sprintf(`{"progressToken":%s,"progress":%d,"total":%d}`, token, i, steps)))
			}
		}
		d.text([]byte(id), fmt.Sprintf("done in %d steps", steps))
	})
}

func textBlock(s string) string {
	return `{"type":"text","text":` + string(wire.AppendQuoted(nil, s)) + `}`
}

func (d *server) text(id []byte, s string) { d.result(id, `{"content":[`+textBlock(s)+`]}`) }

func (d *server) result(id []byte, result string) { d.answer(id, mcp.AppendResult(nil, id, result)) }

func (d *server) fail(id []byte, code int, text string) {
	d.answer(id, mcp.AppendError(nil, id, code, text, nil))
}

func (d *server) answer(id, said []byte) {
	d.mu.Lock()
	w := d.shown[string(id)]
	delete(d.shown, string(id))
	d.mu.Unlock()
	if w != nil {
		w.Said(said)
	}
	d.say(said)
}

func (d *server) say(said []byte) {
	select {
	case d.out <- said:
	case <-d.ctx.Done():
	}
}

// Listen returns the stream of all messages of the server.
func (d *server) Listen(ctx context.Context, _ upstream.ListenOptions) (upstream.Stream, error) {
	s := &stream{d: d}
	s.ctx, s.stop = context.WithCancel(ctx)
	return s, nil
}

// Close ends the session.
func (d *server) Close(context.Context) error {
	d.stop()
	d.calls.Wait()
	return nil
}

type stream struct {
	upstream.Plain
	d    *server
	ctx  context.Context
	stop context.CancelFunc
}

// Events gives the messages of the server until the session ends.
func (s *stream) Events(yield func(sse.Event, error) bool) {
	for {
		select {
		case m := <-s.d.out:
			if !yield(sse.Event{Data: m}, nil) {
				return
			}
		case <-s.d.ctx.Done():
			yield(sse.Event{}, io.EOF)
			return
		case <-s.ctx.Done():
			yield(sse.Event{}, context.Cause(s.ctx))
			return
		}
	}
}

func (s *stream) Close() error {
	s.stop()
	return nil
}
