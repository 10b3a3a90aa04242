//lint:file-ignore SA1019 sampling, roots and logging are deprecated in the newest revision and all that the older ones have.

package tests

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// serverRevision in the environment makes the test binary a server on its stdin and stdout.
const serverRevision = "DRAGOMAN_TEST_SERVER_REVISION"

// TestMain ends a child with syscall.Exit: with the race detector, os.Exit waits for a second, and
// each test with a process would wait for that.
func TestMain(m *testing.M) {
	if how := os.Getenv(badChild); how != "" {
		beBadChild(how)
		syscall.Exit(0)
	}
	if revision := os.Getenv(serverRevision); revision != "" {
		serve := sdkServer
		if revision == modernOnly {
			serve = modernSDKServer
		}
		if err := serve(revision).Run(context.Background(), &mcp.StdioTransport{}); err != nil && err != io.EOF {
			fmt.Fprintln(os.Stderr, err)
			syscall.Exit(1)
		}
		syscall.Exit(0)
	}
	peertest.WaitTogether()
	before := runtime.NumGoroutine()
	code := m.Run()
	chosen := func(name string) bool { return flag.Lookup(name).Value.String() != "" }
	alone := !chosen("test.bench") && !chosen("test.fuzz") // a benchmark keeps a reader that blocks, and fuzzing waits for signals
	if code == 0 && alone && !peertest.GoroutinesFallTo(before) {
		code = 1
	}
	peertest.RemoveWire()
	os.Exit(code)
}

// sdkServer is the official Go SDK's server, which supports one revision. Its tools send clients
// all kinds of messages.
func sdkServer(revision string) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "sdk", Title: "SDK", Version: "1"}, &mcp.ServerOptions{
		SupportedProtocolVersions: []string{revision},
		Capabilities:              &mcp.ServerCapabilities{Logging: &mcp.LoggingCapabilities{}},
	})
	say := func(format string, args ...any) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}, nil, nil
	}
	type none struct{}
	add := func(name string, do func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, any, error)) {
		mcp.AddTool(s, &mcp.Tool{Name: name, Title: "T " + name}, func(ctx context.Context, r *mcp.CallToolRequest, _ none) (*mcp.CallToolResult, any, error) {
			return do(ctx, r)
		})
	}
	add("hello", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, any, error) { return say("hello") })
	add("sample", func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, any, error) {
		res, err := r.Session.CreateMessage(ctx, &mcp.CreateMessageParams{MaxTokens: 5, Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: "q"}}}})
		if err != nil {
			return nil, nil, err
		}
		return say("%s", res.Content.(*mcp.TextContent).Text)
	})
	add("roots", func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, any, error) {
		res, err := r.Session.ListRoots(ctx, nil)
		if err != nil {
			return nil, nil, err
		}
		return say("%s", res.Roots[0].URI)
	})
	add("elicit", func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, any, error) {
		res, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: "?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}}}`)})
		if err != nil {
			return nil, nil, err
		}
		return say("%s %v", res.Action, res.Content["name"])
	})
	add("progress", func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, any, error) {
		for i := range 3 {
			err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1), Total: 3})
			if err != nil {
				return nil, nil, err
			}
		}
		return say("done")
	})
	add("log", func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, any, error) {
		if err := r.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "error", Data: "logged"}); err != nil {
			return nil, nil, err
		}
		return say("done")
	})
	add("grow", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, any, error) {
		add("grown", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, any, error) { return say("grown") })
		return say("done")
	})
	add("crash", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, any, error) {
		syscall.Exit(3)
		return nil, nil, nil
	})
	// for hang: it is called, then cancelled; seen tells the next call
	var mu sync.Mutex
	cancelled := make(chan struct{})
	add("hang", func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, any, error) {
		if err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: 1}); err != nil {
			return nil, nil, err
		}
		<-ctx.Done()
		mu.Lock()
		defer mu.Unlock()
		close(cancelled)
		return nil, nil, ctx.Err()
	})
	add("was-cancelled", func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, any, error) {
		select {
		case <-cancelled:
			return say("yes")
		case <-ctx.Done():
			return say("no")
		}
	})
	return s
}

// heard holds what the client's handlers received.
type heard struct {
	mu   sync.Mutex
	seen map[string]int
	told chan struct{}
}

func (h *heard) note(what string) {
	h.mu.Lock()
	h.seen[what]++
	h.mu.Unlock()
	select {
	case h.told <- struct{}{}:
	default:
	}
}

func (h *heard) count(what string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.seen[what]
}

func sdkClient(h *heard) *mcp.Client {
	c := mcp.NewClient(&mcp.Implementation{Name: "sdk", Version: "1"}, &mcp.ClientOptions{
		CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			return &mcp.CreateMessageResult{Role: "assistant", Model: "m", Content: &mcp.TextContent{Text: "sampled"}}, nil
		},
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "ann"}}, nil
		},
		ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) { h.note("progress") },
		LoggingMessageHandler:       func(context.Context, *mcp.LoggingMessageRequest) { h.note("log") },
		ToolListChangedHandler:      func(context.Context, *mcp.ToolListChangedRequest) { h.note("list_changed") },
	})
	c.AddRoots(&mcp.Root{URI: "file:///root", Name: "root"})
	return c
}

// TestSDKPeersOverEveryTransport: clients and servers of different revisions, over each combination
// of transports, work as with a peer of their own revision.
func TestSDKPeersOverEveryTransport(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	pairs := [][2]string{
		{"2024-11-05", "2025-11-25"}, {"2025-11-25", "2024-11-05"}, {"2025-03-26", "2025-06-18"},
		{"2025-06-18", "2025-11-25"}, {"2025-11-25", "2025-03-26"}, {"2025-06-18", "2025-06-18"},
	}
	for _, client := range []string{"http", "sse", "stdio"} {
		for _, server := range []string{"http", "sse", "stdio"} {
			for _, pair := range pairs {
				t.Run(fmt.Sprintf("%s %s to %s %s", client, pair[0], server, pair[1]), func(t *testing.T) {
					talk(t, pair[0], pair[1], client, server)
				})
			}
		}
	}
}

func talk(t *testing.T, vc, vu, over, server string) {
	leavesNothing(t)
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()

	cfg := config.Default()
	cfg.Shutdown.Drain = patience
	switch server {
	case "stdio":
		cfg.Upstream.Command = []string{os.Args[0]}
		cfg.Upstream.Env = map[string]string{serverRevision: vu}
	case "sse":
		one := sdkServer(vu)
		web := httptest.NewServer(mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return one }, nil))
		defer web.Close()
		defer web.CloseClientConnections()
		cfg.Upstream.URL = web.URL
	default:
		one := sdkServer(vu)
		web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return one }, nil))
		defer web.Close()
		defer web.CloseClientConnections()
		cfg.Upstream.URL = web.URL
	}
	connected(ctx, t, cfg, vc, over, func(client *mcp.ClientSession, h *heard) { converse(ctx, t, client, h, vc) })
}

// connected connects a client of revision vc through a proxy with this configuration.
func connected(ctx context.Context, t *testing.T, cfg config.Config, vc, over string, talk func(*mcp.ClientSession, *heard)) {
	core, logs := observer.New(zap.DebugLevel)
	srv, err := proxy.New(cfg, zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	serving, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	var transport mcp.Transport
	if over == "stdio" {
		transport = overPipe(serving, srv, ended)
	} else {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		web := &http.Client{Transport: new(http.Transport)}
		defer web.CloseIdleConnections()
		transport = &mcp.StreamableClientTransport{Endpoint: "http://" + ln.Addr().String() + "/mcp", HTTPClient: web}
		if over == "sse" {
			transport = &mcp.SSEClientTransport{Endpoint: "http://" + ln.Addr().String() + "/sse", HTTPClient: web}
		}
		go func() { ended <- srv.Serve(serving, ln) }()
	}
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("serving ended with %v", err)
		}
		for _, l := range logs.All() {
			if l.Level >= zap.ErrorLevel {
				t.Errorf("logged: %s %v", l.Message, l.ContextMap())
			}
		}
	}()

	h := &heard{seen: map[string]int{}, told: make(chan struct{}, 1)}
	client, err := sdkClient(h).Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: vc})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	talk(client, h)
}

// overPipe returns the transport of a client on stdio, which srv serves. ended gets what ServePipe returns.
func overPipe(serving context.Context, srv *proxy.Server, ended chan<- error) mcp.Transport {
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	go func() {
		ended <- srv.ServePipe(serving, in, out)
		out.Close()
	}()
	return &mcp.IOTransport{Reader: fromServer, Writer: toServer}
}

// converse plays one client's scenario.
func converse(ctx context.Context, t *testing.T, client *mcp.ClientSession, h *heard, vc string) {
	if got := client.InitializeResult().ProtocolVersion; got != vc {
		t.Errorf("negotiated %s", got)
	}
	list, err := client.ListTools(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if hasTitle := list.Tools[0].Title != ""; hasTitle != (vc >= "2025-06-18") {
		t.Errorf("title %q for a client of %s", list.Tools[0].Title, vc)
	}
	call := func(tool string) (string, bool) {
		t.Helper()
		p := &mcp.CallToolParams{Name: tool}
		p.SetProgressToken("token")
		r, err := client.CallTool(ctx, p)
		if err != nil {
			t.Fatalf("%s: %v", tool, err)
		}
		return r.Content[0].(*mcp.TextContent).Text, r.IsError
	}
	want := func(tool, text string) {
		t.Helper()
		if got, isError := call(tool); got != text || isError {
			t.Errorf("%s: %q, error %t", tool, got, isError)
		}
	}
	want("hello", "hello")
	want("sample", "sampled")
	want("roots", "file:///root")
	if vc >= "2025-06-18" { // servers of older revisions may send it all the same
		want("elicit", "accept ann")
	} else if got, isError := call("elicit"); !isError || !strings.Contains(got, "elicit") {
		t.Errorf("elicit: %q, error %t", got, isError)
	}
	want("progress", "done")
	eventually(t, "three steps of progress", func() bool { return h.count("progress") == 3 })
	if err := client.SetLoggingLevel(ctx, &mcp.SetLoggingLevelParams{Level: "info"}); err != nil {
		t.Error(err)
	}
	want("log", "done")
	eventually(t, "log message", func() bool { return h.count("log") == 1 })
	want("grow", "done")
	eventually(t, "tools/list_changed", func() bool { return h.count("list_changed") > 0 })
	want("grown", "grown")

	hanging, cancel := context.WithCancel(ctx)
	returned := make(chan error)
	go func() {
		p := &mcp.CallToolParams{Name: "hang"}
		p.SetProgressToken("hang")
		_, err := client.CallTool(hanging, p)
		returned <- err
	}()
	eventually(t, "call is under way", func() bool { return h.count("progress") == 4 })
	cancel()
	if err := <-returned; err == nil {
		t.Error("cancelled call returned without an error")
	}
	want("was-cancelled", "yes")
	if err := client.Ping(ctx, nil); err != nil {
		t.Error(err)
	}
	var names []string
	for tool, err := range client.Tools(ctx, nil) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
	}
	if !slices.Contains(names, "grown") {
		t.Errorf("tools %q", names)
	}
}
