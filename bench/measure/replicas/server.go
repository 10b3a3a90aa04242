package replicas

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/translate"
)

const (
	longLines     = 80 // of the tool long
	uriPrefix     = "fleet://resource/"
	serverSession = 2 * time.Minute // how long the server keeps an idle session
)

// server is a published server of one revision, with tools for everything that a fleet is tested with.
type server struct {
	web *httptest.Server
}

// startServer starts a server of revision.
func startServer(revision string) (*server, error) {
	modern := translate.Modern() == revision
	one := newServer(revision)
	// The options of the SDK differ by era: a modern server has no sessions.
	options := &mcp.StreamableHTTPOptions{Stateless: modern, SessionTimeout: serverSession}
	if modern {
		options.SessionTimeout = 0
	}
	var handler http.Handler = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return one }, options)
	if !modern {
		handler = &tasks{next: handler, byID: map[string]task{}}
	}
	web := httptest.NewUnstartedServer(handler)
	ln, err := net.Listen("tcp", net.JoinHostPort(outside(), "0"))
	if err != nil {
		return nil, err
	}
	web.Listener.Close()
	web.Listener = ln
	web.Start()
	return &server{web: web}, nil
}

// outside returns an address of this machine that is not a loopback address: a server at one of those is
// taken for one beside the replica, which no other replica can reach. Without a network there is only loopback.
func outside() string {
	all, _ := net.InterfaceAddrs()
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && n.IP.To4() != nil {
			return n.IP.String()
		}
	}
	return "127.0.0.1"
}

func (s *server) url() string { return s.web.URL + "/mcp" }

// close closes all connections, and does not wait for what still runs: a call whose question was lost with its replica waits for the
// answer for ever, and the request that deletes its session waits for the call.
func (s *server) close() { _ = s.web.Config.Close() }

func say(format string, args ...any) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
}

// newServer returns a server of one revision.
func newServer(revision string) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "fleet", Version: "1"}, &mcp.ServerOptions{
		SupportedProtocolVersions: []string{revision},
		Capabilities:              &mcp.ServerCapabilities{Logging: &mcp.LoggingCapabilities{}},
		SubscribeHandler:          func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler:        func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	if revision == translate.Modern() {
		s.AddReceivingMiddleware(withoutHandshake)
	}
	tool := func(name string, call func(ctx context.Context, r *mcp.CallToolRequest, text string) (*mcp.CallToolResult, error)) {
		s.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}}}`)},
			func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return call(ctx, r, gjson.GetBytes(r.Params.Arguments, "text").Str)
			})
	}
	tool("echo", func(_ context.Context, _ *mcp.CallToolRequest, text string) (*mcp.CallToolResult, error) {
		return say("%s", text), nil
	})
	tool("ask", func(_ context.Context, r *mcp.CallToolRequest, text string) (*mcp.CallToolResult, error) {
		answer, ok := r.Params.InputResponses["city"].(*mcp.ElicitResult)
		if !ok {
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"city": &mcp.ElicitParams{
				Message: text, RequestedSchema: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"}}}`),
			}}}, nil
		}
		return say("%s in %v", text, answer.Content["city"]), nil
	})
	tool("long", func(_ context.Context, _ *mcp.CallToolRequest, text string) (*mcp.CallToolResult, error) {
		return say("%s", longText(text)), nil
	})
	tool("log", func(ctx context.Context, r *mcp.CallToolRequest, text string) (*mcp.CallToolResult, error) {
		for _, level := range []mcp.LoggingLevel{"info", "error"} {
			if err := r.Session.Log(ctx, &mcp.LoggingMessageParams{Level: level, Data: text}); err != nil {
				return nil, err
			}
		}
		return say("%s", text), nil
	})
	tool("touch", func(ctx context.Context, _ *mcp.CallToolRequest, text string) (*mcp.CallToolResult, error) {
		return say("%s", text), s.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: uriPrefix + text})
	})
	s.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: uriPrefix + "{name}", Name: "thing"},
		func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, Text: r.Params.URI}}}, nil
		})
	return s
}

// longText returns the result of the tool long.
func longText(text string) string {
	var b strings.Builder
	for i := range longLines {
		b.WriteString(longLine(text, i) + "\n")
	}
	return b.String()
}

func longLine(text string, i int) string {
	return fmt.Sprintf("line %d of %s has the number %d and the check %d.", i, text, i*i, i*7919%1009)
}

// withoutHandshake refuses initialize as a server does that has only the newest revision.
func withoutHandshake(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		if method == "initialize" {
			return nil, &jsonrpc.Error{Code: -32022, Message: "Unsupported protocol version", Data: json.RawMessage(`{"supported":["` + translate.Modern() + `"]}`)}
		}
		return next(ctx, method, r)
	}
}

// tasks adds the tasks of 2025-11-25 to a server, whose SDK has none: the tool job only runs as a task.
type tasks struct {
	next http.Handler

	mu   sync.Mutex
	last int
	byID map[string]task
}

type task struct {
	text string
	made time.Time
}

const (
	taskTime = 300 * time.Millisecond // how long a task works
	taskTTL  = time.Minute
	jobTool  = `{"name":"job","inputSchema":{"type":"object","properties":{"text":{"type":"string"}}},"execution":{"taskSupport":"required"}}`
)

func (t *tasks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		t.next.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	id, params := gjson.GetBytes(body, "id").Raw, gjson.GetBytes(body, "params")
	answer := func(result string) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
	}
	refuse := func() {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"no such task"}}`, id)
	}
	switch method := gjson.GetBytes(body, "method").Str; {
	case method == "initialize":
		t.rewrite(w, r, `"capabilities":{`, `"capabilities":{"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}},`)
	case method == "tools/list":
		t.rewrite(w, r, `"tools":[`, `"tools":[`+jobTool+`,`)
	case method == "tools/call" && params.Get("task").Exists():
		answer(`{"task":` + t.create(params.Get("arguments.text").Str) + `}`)
	case method == "tasks/get":
		if _, state, ok := t.find(params.Get("taskId").Str); ok {
			answer(state)
			return
		}
		refuse()
	case method == "tasks/result":
		one, _, ok := t.find(params.Get("taskId").Str)
		if !ok {
			refuse()
			return
		}
		select {
		case <-time.After(time.Until(one.made.Add(taskTime))):
		case <-r.Context().Done():
			return
		}
		text, _ := json.Marshal(one.text) // cannot fail for a string
		answer(fmt.Sprintf(`{"content":[{"type":"text","text":%s}],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":%q}}}`, text, params.Get("taskId").Str))
	default:
		t.next.ServeHTTP(w, r)
	}
}

// rewrite serves a request and replaces the first old in the response.
func (t *tasks) rewrite(w http.ResponseWriter, r *http.Request, old, text string) {
	rec := httptest.NewRecorder()
	t.next.ServeHTTP(rec, r)
	for name, values := range rec.Header() {
		w.Header()[name] = values
	}
	w.Header().Del("Content-Length")
	w.WriteHeader(rec.Code)
	_, _ = io.WriteString(w, strings.Replace(rec.Body.String(), old, text, 1))
}

func (t *tasks) create(text string) (state string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, old := range t.byID {
		if time.Since(old.made) > taskTTL {
			delete(t.byID, id)
		}
	}
	t.last++
	id := "task-" + strconv.Itoa(t.last)
	t.byID[id] = task{text: text, made: time.Now()}
	return t.byID[id].state(id)
}

func (t *tasks) find(id string) (one task, state string, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one, ok = t.byID[id]
	return one, one.state(id), ok
}

func (t task) state(id string) string {
	status := "working"
	if time.Since(t.made) >= taskTime {
		status = "completed"
	}
	at := t.made.UTC().Format(time.RFC3339)
	return fmt.Sprintf(`{"taskId":%q,"status":%q,"createdAt":%q,"lastUpdatedAt":%q,"ttl":%d,"pollInterval":100}`, id, status, at, at, taskTTL.Milliseconds())
}
