//lint:file-ignore SA1019 sampling, roots and logging are deprecated in the newest revision and all that the older ones have.

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
)

// goServerArg as the first argument makes the test binary the Go SDK's server on stdio; the second is the one revision it
// speaks, the third the name of the tool that asks for roots.
const goServerArg = "serve-mcp-on-stdio"

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // saves a third of the processor time of the peers in this process, which never use much memory
	if stdio := (&mcp.StdioTransport{}); len(os.Args) > 1 && os.Args[1] == lineServerArg {
		_ = newLineServer().Run(context.Background(), stdio)
		syscall.Exit(0)
	} else if len(os.Args) > 3 && os.Args[1] == goServerArg {
		err := newGoServer(context.Background(), os.Args[2], os.Args[3]).Run(context.Background(), stdio)
		if err != nil && !errors.Is(err, context.Canceled) {
			fmt.Fprintln(os.Stderr, err)
			syscall.Exit(1)
		}
		syscall.Exit(0) // os.Exit of a program with the race detector waits for a second
	}
	if len(os.Args) > 2 && slices.Contains([]string{logInArg, agreeArg}, os.Args[1]) {
		if err := beOfALogin(os.Args[1], os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			syscall.Exit(1)
		}
		syscall.Exit(0)
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	peertest.WaitTogether()
	os.Setenv("E2E_TOKEN", e2eToken) // the guarded proxy's configuration refers to it
	os.Setenv("DRAGOMAN_UPSTREAM_HANDSHAKE_TIMEOUT", patience.String())
	var err error
	if binaries, err = os.MkdirTemp("", "dragoman-e2e-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(binaries)
	if testset.Chosen(testset.Peers) {
		if err := keepCompiled(); err != nil {
			fmt.Fprintln(os.Stderr, "every start of Node.js compiles its modules again:", err)
		}
	}
	defer drivers.End()
	defer shared.end()
	return m.Run()
}

// goServer is the Go SDK's server. It speaks one revision and no other.
func goServer(revision string) *server {
	transports, roots := all, "get-roots-list"
	if revision == newest {
		transports, roots = []transport{stdio, streamable}, "list-roots" // with the tool get-roots-list, clients wait to be asked outside of calls
	}
	return &server{
		name: "Go SDK 1.8.0", revision: revision, only: true, transports: transports,
		refuses: "unknown method", deaf: revision == newest,
		command: func(revision, mark string) []string { return []string{os.Args[0], goServerArg, revision, roots, mark} },
		serve: func(revision string, over transport) (string, func(), error) {
			ctx, cancel := context.WithCancel(context.Background())
			fresh := func(*http.Request) *mcp.Server { return newGoServer(ctx, revision, roots) }
			var handler http.Handler = mcp.NewStreamableHTTPHandler(fresh, nil)
			if revision == newest {
				one := newGoServer(ctx, revision, roots)
				handler = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return one }, &mcp.StreamableHTTPOptions{Stateless: true})
			}
			if over == withSSE {
				handler = mcp.NewSSEHandler(fresh, nil)
			}
			s := httptest.NewServer(handler)
			return s.URL, func() {
				cancel()
				s.CloseClientConnections() // streams that a client left open
				s.Close()
			}, nil
		},
	}
}

// bothEras stands for a server for clients with and without a handshake.
const bothEras = "both"

// goServerOfBothEras returns the Go SDK's server with its defaults. If it has sessions, its answer to server/discover
// names only revisions with a handshake.
func goServerOfBothEras(stateless bool) *server {
	const roots = "list-roots"
	name := "Go SDK 1.8.0 as it is"
	if stateless {
		name += ", stateless"
	}
	return &server{
		name: name, revision: "2025-11-25", refuses: "unknown method", deaf: true, transports: []transport{stdio, streamable},
		command: func(_, mark string) []string { return []string{os.Args[0], goServerArg, bothEras, roots, mark} },
		serve: func(string, transport) (string, func(), error) {
			ctx, cancel := context.WithCancel(context.Background())
			one := newGoServer(ctx, bothEras, roots)
			web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return one }, &mcp.StreamableHTTPOptions{Stateless: stateless}))
			return web.URL, func() {
				cancel()
				web.CloseClientConnections()
				web.Close()
			}, nil
		},
	}
}

// supported returns the revisions that a server is to support, or none for all.
func supported(revision string) []string {
	if revision == bothEras {
		return nil
	}
	return []string{revision}
}

const goResource = "demo://resource/dynamic/text/1"

// newGoServer returns a server with the tools, prompts and resources of the scenario, which have every optional member
// of the newest handshake revision, so that everything that older clients must not get is there.
//
// With the revision bothEras it supports every revision that the SDK does. Its calls end with ctx: the SDK does not end those
// whose stream a client without a session has closed.
func newGoServer(ctx context.Context, revision, roots string) *mcp.Server {
	icons := []mcp.Icon{{Source: "data:image/png;base64,iVBORw0KGgo=", MIMEType: "image/png", Sizes: []string{"8x8"}}}
	annotations := &mcp.Annotations{Audience: []mcp.Role{"user"}, Priority: 0.5, LastModified: "2025-01-02T03:04:05Z"}
	meta := mcp.Meta{"example.com/n": 1.0}
	var server *mcp.Server
	server = mcp.NewServer(&mcp.Implementation{Name: "go-sdk", Title: "Go SDK", Version: "1.8.0", WebsiteURL: "https://example.com/", Icons: icons}, &mcp.ServerOptions{
		Instructions:              "Call anything.",
		PageSize:                  5,
		SupportedProtocolVersions: supported(revision),
		Capabilities:              &mcp.ServerCapabilities{Logging: &mcp.LoggingCapabilities{}},
		RootsListChangedHandler: func(ctx context.Context, r *mcp.RootsListChangedRequest) {
			if _, err := r.Session.ListRoots(ctx, nil); err != nil {
				fmt.Fprintln(os.Stderr, "asking for roots:", err)
			}
		},
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
		CompletionHandler: func(_ context.Context, r *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{r.Params.Argument.Value + "ngineering"}, Total: 1}}, nil
		},
	})

	if revision == newest {
		server.AddReceivingMiddleware(withoutHandshake)
	}

	// Over HTTP the SDK answers methods that it does not know with status 400, and its own client then gives up the session.
	err := mcp.AddReceivingCustomMethod(server, unknownMethod, func(context.Context, *mcp.ServerSession, *noParams) (*noResult, error) {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "Method not found"}
	})
	if err != nil {
		panic(err)
	}

	tool := func(name, properties string, call func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error)) {
		t := &mcp.Tool{
			Meta: meta, Name: name, Title: "The " + name, Description: "Does " + name, Icons: icons,
			Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true},
			InputSchema: json.RawMessage(`{"type":"object","title":"Mine","properties":` + properties + `}`),
		}
		if name == "get-structured-content" {
			t.OutputSchema = json.RawMessage(`{"type":"object","properties":{"conditions":{"type":"string"},"temperature":{"type":"number"}}}`)
		}
		server.AddTool(t, call)
	}
	text := func(format string, args ...any) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...), Meta: meta}}}
	}
	// told returns the answer to a question that the client got, or the error.
	told := func(answer any, err error) (*mcp.CallToolResult, error) {
		if err != nil {
			return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: err.Error()}}}, nil
		}
		b, err := json.Marshal(answer)
		return text("%s", b), err
	}
	var cancellations atomic.Int32

	tool("echo", `{"message":{"type":"string"}}`, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var args struct{ Message string }
		err := json.Unmarshal(r.Params.Arguments, &args)
		return text("Echo: %s", args.Message), err
	})
	tool("get-sum", `{"a":{"type":"number","default":1},"b":{"type":"number"}}`, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var args struct{ A, B json.Number }
		if err := json.Unmarshal(r.Params.Arguments, &args); err != nil {
			return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: "a and b must be numbers"}}}, nil
		}
		a, _ := args.A.Int64()
		b, _ := args.B.Int64()
		return text("The sum of %d and %d is %d.", a, b, a+b), nil
	})
	ended := ctx.Done()
	tool("trigger-long-running-operation", `{"duration":{"type":"number"},"steps":{"type":"number"}}`, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var args struct{ Duration, Steps float64 }
		if err := json.Unmarshal(r.Params.Arguments, &args); err != nil {
			return nil, err
		}
		defer func() {
			if ctx.Err() != nil {
				cancellations.Add(1)
			}
		}()
		for i := 1.0; i <= args.Steps; i++ {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-ended:
				return nil, errors.New("the server ends")
			case <-time.After(time.Duration(args.Duration / args.Steps * float64(time.Second))):
			}
			if token := r.Params.GetProgressToken(); token != nil {
				// A client that cancels closes the stream first: an error of a notification there is no reason to stop.
				_ = r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: i, Total: args.Steps, Message: fmt.Sprintf("step %g", i)})
			}
		}
		return text("done"), nil
	})
	tool("get-cancellations", `{}`, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		// The notification and this call may overtake each other. Without a session the SDK learns of none over HTTP.
		wait := time.Now().Add(patience)
		if r.Extra != nil && r.Extra.Header != nil && r.Session.ID() == "" {
			wait = time.Now().Add(5 * time.Second)
		}
		for cancellations.Load() == 0 && time.Now().Before(wait) && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		return text("%d", cancellations.Load()), ctx.Err()
	})
	tool("get-tiny-image", `{}`, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.ImageContent{Data: []byte("image"), MIMEType: "image/png", Meta: meta, Annotations: annotations}}}, nil
	})
	tool("get-audio", `{}`, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.AudioContent{Data: []byte("some audio"), MIMEType: "audio/wav", Meta: meta}}}, nil
	})
	tool("get-annotated-message", `{}`, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "annotated", Annotations: annotations}}}, nil
	})
	tool("get-resource-reference", `{}`, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.EmbeddedResource{Meta: meta, Resource: &mcp.ResourceContents{URI: goResource, MIMEType: "text/plain", Text: "one", Meta: meta}}}}, nil
	})
	tool("get-resource-links", `{}`, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		size := int64(3)
		return &mcp.CallToolResult{Content: []mcp.Content{
			&mcp.ResourceLink{URI: goResource, Name: "one", Title: "The first", Description: "Text", MIMEType: "text/plain", Size: &size, Icons: icons, Meta: meta, Annotations: annotations},
			&mcp.ResourceLink{URI: "demo://bare", Name: "bare"},
		}}, nil
	})
	tool("get-structured-content", `{}`, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		result := text("Cloudy.")
		result.StructuredContent = json.RawMessage(`{"conditions":"Cloudy","temperature":33}`)
		return result, nil
	})
	// answered is the result of a call that asks the client a question.
	answered := func(ctx context.Context, r *mcp.CallToolRequest, question mcp.InputRequest) (any, *mcp.CallToolResult, error) {
		if revision != newest && revision != bothEras {
			answer, err := ask(ctx, r.Session, question)
			return answer, nil, err
		}
		if answer, ok := r.Params.InputResponses["q"]; ok {
			return bare(answer), nil, nil
		}
		return nil, &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"q": question}}, nil
	}
	// asks adds a tool that returns the client's answer to a question.
	asks := func(name string, question mcp.InputRequest) {
		tool(name, `{}`, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			answer, not, err := answered(ctx, r, question)
			if not != nil {
				return not, nil
			}
			return told(answer, err)
		})
	}
	tool("ask", `{"who":{"type":"string"}}`, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		who := gjson.GetBytes(r.Params.Arguments, "who").String()
		answer, not, err := answered(ctx, r, &mcp.ElicitParams{
			Message:         "Are you " + who + "?",
			RequestedSchema: json.RawMessage(`{"type":"object","properties":{"answer":{"type":"string"}},"required":["answer"]}`),
		})
		if not != nil || err != nil {
			return not, err
		}
		return text("%s: %v", who, at(answer, "answer")), nil
	})
	asks("trigger-sampling-request", &mcp.CreateMessageParams{
		MaxTokens: 20, IncludeContext: "thisServer", SystemPrompt: "Be brief.",
		Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: "say hi"}}},
	})
	asks("trigger-sampling-of-blocks", &mcp.CreateMessageWithToolsParams{
		MaxTokens: 20,
		Messages:  []*mcp.SamplingMessageV2{{Role: "user", Content: []mcp.Content{&mcp.TextContent{Text: "first"}, &mcp.TextContent{Text: "second"}}}},
	})
	asks("trigger-elicitation-request", &mcp.ElicitParams{Message: "Fill in", RequestedSchema: json.RawMessage(`{"type":"object","properties":{
		"agreed":{"type":"boolean","default":false},
		"colour":{"type":"string","title":"Colour","oneOf":[{"const":"r","title":"Red"},{"const":"g","title":"Green"}],"default":"g"},
		"fruits":{"type":"array","title":"Fruits","items":{"anyOf":[{"const":"a","title":"Apple"},{"const":"p","title":"Pear"}]},"default":["p"]},
		"name":{"type":"string","default":"nobody"}},"required":["fruits"]}`)})
	asks("trigger-url-elicitation", &mcp.ElicitParams{Mode: "url", Message: "open", URL: "https://example.com/e", ElicitationID: "e-1"})
	asks(roots, &mcp.ListRootsParams{})
	tool("toggle-subscriber-updates", `{}`, func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text("updated"), server.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: goResource})
	})
	tool("toggle-simulated-logging", `{}`, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text("logged"), r.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "warning", Logger: "e2e", Data: "hello"})
	})

	read := func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		contents := &mcp.ResourceContents{URI: r.Params.URI, MIMEType: "text/plain", Meta: meta}
		if strings.Contains(r.Params.URI, "/blob/") {
			contents.Blob = []byte("two")
		} else {
			contents.Text = "one"
		}
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{contents}}, nil
	}
	server.AddResource(&mcp.Resource{URI: goResource, Name: "one", Title: "The first", MIMEType: "text/plain", Size: 3, Icons: icons, Meta: meta, Annotations: annotations}, read)
	server.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "demo://resource/dynamic/text/{resourceId}", Name: "texts", Title: "All texts", Icons: icons, Meta: meta, Annotations: annotations}, read)
	server.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "demo://resource/dynamic/blob/{resourceId}", Name: "blobs"}, read)

	prompt := func(name string, content mcp.Content, arguments ...*mcp.PromptArgument) {
		server.AddPrompt(&mcp.Prompt{Name: name, Title: "The " + name, Icons: icons, Meta: meta, Arguments: arguments}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: content}}}, nil
		})
	}
	prompt("simple-prompt", &mcp.TextContent{Text: "simple", Meta: meta, Annotations: annotations})
	prompt("args-prompt", &mcp.AudioContent{Data: []byte("hum"), MIMEType: "audio/ogg"}, &mcp.PromptArgument{Name: "city", Title: "City", Required: true})
	prompt("resource-prompt", &mcp.ResourceLink{URI: goResource, Name: "one", Icons: icons})
	prompt("completable-prompt", &mcp.TextContent{Text: "completable"}, &mcp.PromptArgument{Name: "department", Title: "Department"})
	return server
}

// withoutHandshake refuses the handshake, which the SDK accepts whatever revisions it is set to support.
func withoutHandshake(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		if method == "initialize" {
			return nil, &jsonrpc.Error{Code: -32022, Message: "Unsupported protocol version", Data: json.RawMessage(`{"supported":["` + newest + `"]}`)}
		}
		return next(ctx, method, r)
	}
}

// ask asks a client with a session a question.
func ask(ctx context.Context, s *mcp.ServerSession, question mcp.InputRequest) (any, error) {
	switch q := question.(type) {
	case *mcp.CreateMessageParams:
		return s.CreateMessage(ctx, q)
	case *mcp.CreateMessageWithToolsParams:
		return s.CreateMessageWithTools(ctx, q)
	case *mcp.ElicitParams:
		answer, err := s.Elicit(ctx, q)
		if err != nil {
			return nil, err
		}
		return bare(answer), nil
	case *mcp.ListRootsParams:
		return s.ListRoots(ctx, q)
	}
	panic(fmt.Sprintf("%T", question))
}

// bare returns an answer without the members that only some clients and revisions add.
func bare(answer any) any {
	switch a := answer.(type) {
	case *mcp.ElicitResult:
		if a.Content == nil {
			return a.Action
		}
		return a.Content
	case *mcp.CreateMessageWithToolsResult:
		if len(a.Content) == 1 {
			return &mcp.CreateMessageResult{Content: a.Content[0], Model: a.Model, Role: a.Role, StopReason: a.StopReason}
		}
	}
	return answer
}
