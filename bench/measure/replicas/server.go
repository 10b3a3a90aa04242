package replicas

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/translate"
)

const (
	longLines     = 80              // of the tool long
	serverSession = 2 * time.Minute // how long the server keeps an idle session
)

// startServer starts a published server of one revision, with tools for everything that a service is tested with. To close it, close its
// Config, which does not wait for what still runs: a call whose question was lost with its replica waits for the answer for ever, and the
// request that deletes its session waits for the call.
func startServer(revision string) (*httptest.Server, error) {
	modern := translate.Modern() == revision
	one := newServer(revision)
	// The options of the SDK differ by era: a modern server has no sessions.
	options := &mcp.StreamableHTTPOptions{Stateless: modern, SessionTimeout: serverSession}
	if modern {
		options.SessionTimeout = 0
	}
	web := httptest.NewUnstartedServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return one }, options))
	ln, err := net.Listen("tcp", net.JoinHostPort(outside(), "0"))
	if err != nil {
		return nil, err
	}
	web.Listener.Close()
	web.Listener = ln
	web.Start()
	return web, nil
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

func say(format string, args ...any) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
}

// newServer returns a server of one revision.
func newServer(revision string) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "replicas", Version: "1"}, &mcp.ServerOptions{
		SupportedProtocolVersions: []string{revision},
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
