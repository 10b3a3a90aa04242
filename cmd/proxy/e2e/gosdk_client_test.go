//lint:file-ignore SA1019 sampling, roots and logging are deprecated in the newest revision and all that the older ones have.

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// goClient runs the scenario with the Go SDK's client and writes its transcript: of what the SDK decoded, not of the
// bytes.
type goClient struct {
	client  *mcp.Client
	root    *mcp.Root
	session *mcp.ClientSession
	listed  map[string]bool // names of tools and prompts, folders of resources

	mu    sync.Mutex
	asked []any            // requests of the server, never nil
	heard map[string][]any // notifications by method
	came  chan struct{}    // closed and replaced when a message comes
	last  mcp.Result       // the result of the last request
}

// goSDK returns the Go SDK's client that requests a revision. It runs the steps of the scenario for which all of these
// functions return true.
func goSDK(revision string, these ...func(scene) bool) *client {
	return &client{name: "Go SDK 1.8.0", revision: revision, transports: all, reads: true, run: func(ctx context.Context, to endpoint) (transcript, error) {
		return runGoClient(ctx, revision, &mcp.ClientSessionOptions{ProtocolVersion: revision}, to, these)
	}}
}

// goSDKAsItIs returns the Go SDK's client with its defaults: it first tries a server without a handshake, and falls
// back to the newest revision with one.
func goSDKAsItIs(these ...func(scene) bool) *client {
	const revision = "2025-11-25"
	return &client{name: "Go SDK 1.8.0 as it is", revision: revision, transports: all, reads: true, run: func(ctx context.Context, to endpoint) (transcript, error) {
		return runGoClient(ctx, revision, nil, to, these)
	}}
}

// runGoClient runs the scenario with the capabilities of a client of a revision.
func runGoClient(ctx context.Context, revision string, options *mcp.ClientSessionOptions, to endpoint, these []func(scene) bool) (_ transcript, err error) {
	c := &goClient{listed: map[string]bool{}, asked: []any{}, heard: map[string][]any{}, came: make(chan struct{})}
	capabilities := &mcp.ClientCapabilities{RootsV2: &mcp.RootCapabilities{ListChanged: true}, Sampling: &mcp.SamplingCapabilities{}}
	switch revision {
	case "2024-11-05", "2025-03-26":
	case "2025-06-18":
		capabilities.Elicitation = &mcp.ElicitationCapabilities{}
	default:
		capabilities.Elicitation = &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{}}
	}
	handlers := &mcp.ClientOptions{Capabilities: capabilities}
	if revision == "2025-11-25" {
		handlers.CreateMessageWithToolsHandler = sampleBlocks // the SDK decodes a single block as a list of one
	} else {
		handlers.CreateMessageHandler = sample
	}
	if capabilities.Elicitation != nil {
		handlers.ElicitationHandler = elicit
	}
	root := &mcp.Root{URI: "file:///e2e/root", Name: "root"}
	client := mcp.NewClient(&mcp.Implementation{Name: "dragoman-e2e", Version: "1.0.0"}, handlers)
	c.client, c.root = client, root
	client.AddRoots(root)
	client.AddReceivingMiddleware(c.receive)
	client.AddSendingMiddleware(c.send)
	if err := mcp.AddSendingCustomMethod[*noParams, *noResult](client, unknownMethod); err != nil {
		return nil, err
	}

	var transport mcp.Transport
	var child *exec.Cmd
	switch to.over {
	case stdio:
		child = exec.Command(to.command[0], to.command[1:]...)
		child.Stderr = to.stderr
		transport = &mcp.CommandTransport{Command: child, TerminateDuration: endTime(to.command)}
	case withSSE:
		transport = &mcp.SSEClientTransport{Endpoint: to.url}
	default:
		transport = &mcp.StreamableClientTransport{Endpoint: to.url}
	}
	if c.session, err = client.Connect(ctx, transport, options); err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	steps := transcript{{Step: "initialize", Result: plain(c.session.InitializeResult())}}
	for _, s := range scenario() {
		if slices.ContainsFunc(these, func(is func(scene) bool) bool { return !is(s) }) {
			continue
		}
		if s, ok := c.choose(s); ok {
			steps = append(steps, c.run(ctx, s))
		}
	}
	err = c.session.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	asked := plain(c.asked)
	for _, a := range asked.([]any) {
		if at(a, "params.mode") == "" { // there was none
			remove(a, "params.mode")
		}
	}
	steps = append(steps, entry{Step: "asked", Result: asked}, entry{Step: "heard", Result: plain(c.heard)})
	if child != nil {
		code := child.ProcessState.ExitCode()
		steps = append(steps, entry{Step: "exit", Result: plain(map[string]any{"code": code})})
	} else if err != nil {
		return nil, fmt.Errorf("close: %w", err)
	}
	return steps, nil
}

// unknownMethod is the unknown method of the scenario.
const unknownMethod = "x/no-such-method"

type (
	noParams struct{ mcp.ParamsBase }
	noResult struct{ mcp.ResultBase }
)

func sample(_ context.Context, r *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
	last := r.Params.Messages[len(r.Params.Messages)-1].Content
	return &mcp.CreateMessageResult{Role: "assistant", Model: "e2e", StopReason: "endTurn", Content: sampled(last)}, nil
}

func sampleBlocks(_ context.Context, r *mcp.CreateMessageWithToolsRequest) (*mcp.CreateMessageWithToolsResult, error) {
	blocks := r.Params.Messages[len(r.Params.Messages)-1].Content
	content := []mcp.Content{sampled(blocks[len(blocks)-1])}
	return &mcp.CreateMessageWithToolsResult{Role: "assistant", Model: "e2e", StopReason: "endTurn", Content: content}, nil
}

func sampled(last mcp.Content) mcp.Content {
	said := "nothing"
	if text, ok := last.(*mcp.TextContent); ok {
		said = text.Text
	}
	return &mcp.TextContent{Text: "sampled " + said}
}

// elicit fills in a form as the TypeScript clients do: with the first value that is valid.
func elicit(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	if r.Params.Mode == "url" {
		return &mcp.ElicitResult{Action: "accept"}, nil
	}
	type option struct{ Const string }
	var form struct {
		Properties map[string]struct {
			Type, Format string
			Enum         []string
			OneOf        []option
			Minimum      *float64
			Items        struct {
				Enum  []string
				AnyOf []option
			}
		}
	}
	schema, err := json.Marshal(r.Params.RequestedSchema)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(schema, &form); err != nil {
		return nil, err
	}
	formats := map[string]string{"email": "peer@example.com", "uri": "https://example.com/", "date": "2025-01-02", "date-time": "2025-01-02T03:04:05Z"}
	content := map[string]any{}
	for name, p := range form.Properties {
		switch {
		case p.Type == "boolean":
			content[name] = !isLaterOption(name)
		case p.Type == "array" && len(p.Items.Enum) > 0:
			content[name] = []any{p.Items.Enum[0]}
		case p.Type == "array":
			content[name] = []any{p.Items.AnyOf[0].Const}
		case len(p.Enum) > 0:
			content[name] = p.Enum[0]
		case len(p.OneOf) > 0:
			content[name] = p.OneOf[0].Const
		case p.Minimum != nil:
			content[name] = *p.Minimum
		case p.Type == "number" || p.Type == "integer":
			content[name] = 7.0
		case p.Format != "":
			content[name] = formats[p.Format]
		default:
			content[name] = "text"
		}
	}
	return &mcp.ElicitResult{Action: "accept", Content: content}, nil
}

// isLaterOption reports whether a boolean of a form stands for an option of a list that is not its first ("p.1"): only the
// first is chosen, as where the list itself is asked for.
func isLaterOption(name string) bool {
	dot := strings.LastIndexByte(name, '.')
	return dot >= 0 && name[dot:] != ".0"
}

func (c *goClient) receive(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		c.mu.Lock()
		if strings.HasPrefix(method, "notifications/") {
			c.heard[method] = append(c.heard[method], r.GetParams())
		} else {
			c.asked = append(c.asked, map[string]any{"method": method, "params": r.GetParams()})
		}
		close(c.came)
		c.came = make(chan struct{})
		c.mu.Unlock()
		return next(ctx, method, r)
	}
}

func (c *goClient) send(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		result, err := next(ctx, method, r)
		if !strings.HasPrefix(method, "notifications/") {
			c.last = result
		}
		return result, err
	}
}

// until waits until a condition, which it evaluates under the lock, is true.
func (c *goClient) until(ctx context.Context, wait time.Duration, found func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		c.mu.Lock()
		ok, came := found(), c.came
		c.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-came:
		case <-ctx.Done():
			return false
		}
	}
}

// choose returns the first alternative of a step that the server has.
func (c *goClient) choose(s scene) (scene, bool) {
	if len(s.Any) == 0 {
		return s, true
	}
	for _, params := range s.Any {
		var p struct {
			Name, URI string
			Ref       struct{ Name, URI string }
		}
		if err := json.Unmarshal(params, &p); err != nil {
			panic(err)
		}
		if c.listed[p.Name] || c.listed[folder(p.URI)] || c.listed[p.Ref.Name] || c.listed[folder(p.Ref.URI)] {
			s.Params = params
			return s, true
		}
	}
	return s, false
}

// folder returns a URI up to its last slash, which a listed resource and its neighbours have in common.
func folder(uri string) string { return uri[:max(strings.LastIndexByte(uri, '/'), 0)] }

func (c *goClient) run(ctx context.Context, s scene) entry {
	e := entry{Step: s.Step}
	switch {
	case s.Await != "":
		seen := c.until(ctx, time.Duration(s.Seconds)*time.Second, func() bool {
			return c.heard[s.Await] != nil || slices.ContainsFunc(c.asked, func(a any) bool { return a.(map[string]any)["method"] == s.Await })
		})
		e.Result = plain(map[string]any{"seen": seen})
	case s.Notify != "":
		c.client.AddRoots(c.root) // the SDK notifies the server, though it had this one
		e.Result = plain(map[string]any{})
	case s.Cancel:
		ctx, cancel := context.WithCancel(ctx)
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			c.until(ctx, patience, func() bool { return c.progress(s.Step, 0) > 0 })
			cancel()
		}()
		_, err := c.call(ctx, s)
		cancel()
		<-watched
		e.Result = plain(map[string]any{"cancelled": errors.Is(err, context.Canceled)})
	default:
		result, err := c.call(ctx, s)
		if wire := (*jsonrpc.Error)(nil); errors.As(err, &wire) {
			e.Error = plain(wire)
		} else if err != nil {
			e.Error = plain(map[string]any{"message": err.Error()})
		} else {
			e.Result = plain(result)
		}
		if s.Progress && err == nil {
			c.until(ctx, 20*time.Second, func() bool { return c.progress(s.Step, 1) > 0 })
			c.mu.Lock()
			e.Progress = plain(c.reports(s.Step))
			c.mu.Unlock()
		}
	}
	return e
}

// reports returns the params of the progress notifications of a step. The name of the step is its progress token.
func (c *goClient) reports(step string) (reports []any) {
	for _, p := range c.heard["notifications/progress"] {
		if p.(*mcp.ProgressNotificationParams).ProgressToken == step {
			reports = append(reports, p)
		}
	}
	return reports
}

// progress counts the progress notifications of a step that have reached at least this part of their total.
func (c *goClient) progress(step string, part float64) (n int) {
	for _, p := range c.reports(step) {
		if p := p.(*mcp.ProgressNotificationParams); p.Progress >= part*p.Total {
			n++
		}
	}
	return n
}

func (c *goClient) call(ctx context.Context, s scene) (any, error) {
	var err error
	switch s.Method {
	case "ping":
		return struct{}{}, c.session.Ping(ctx, nil)
	case "tools/list":
		return c.list(func(cursor string) (string, error) {
			r, err := c.session.ListTools(ctx, &mcp.ListToolsParams{Cursor: cursor})
			if err != nil {
				return "", err
			}
			for _, t := range r.Tools {
				c.listed[t.Name] = true
			}
			return r.NextCursor, nil
		})
	case "prompts/list":
		return c.list(func(cursor string) (string, error) {
			r, err := c.session.ListPrompts(ctx, &mcp.ListPromptsParams{Cursor: cursor})
			if err != nil {
				return "", err
			}
			for _, p := range r.Prompts {
				c.listed[p.Name] = true
			}
			return r.NextCursor, nil
		})
	case "resources/list":
		return c.list(func(cursor string) (string, error) {
			r, err := c.session.ListResources(ctx, &mcp.ListResourcesParams{Cursor: cursor})
			if err != nil {
				return "", err
			}
			for _, r := range r.Resources {
				c.listed[folder(r.URI)] = true
			}
			return r.NextCursor, nil
		})
	case "resources/templates/list":
		return c.list(func(cursor string) (string, error) {
			r, err := c.session.ListResourceTemplates(ctx, &mcp.ListResourceTemplatesParams{Cursor: cursor})
			if err != nil {
				return "", err
			}
			for _, r := range r.ResourceTemplates {
				c.listed[folder(r.URITemplate)] = true
			}
			return r.NextCursor, nil
		})
	case "tools/call":
		p := read[mcp.CallToolParams](s.Params)
		if s.Progress || s.Cancel {
			p.SetProgressToken(s.Step)
		}
		return c.session.CallTool(ctx, p)
	case "prompts/get":
		return c.session.GetPrompt(ctx, read[mcp.GetPromptParams](s.Params))
	case "resources/read":
		return c.session.ReadResource(ctx, read[mcp.ReadResourceParams](s.Params))
	case "completion/complete":
		return c.session.Complete(ctx, read[mcp.CompleteParams](s.Params))
	case "resources/subscribe":
		err = c.session.Subscribe(ctx, read[mcp.SubscribeParams](s.Params))
	case "resources/unsubscribe":
		err = c.session.Unsubscribe(ctx, read[mcp.UnsubscribeParams](s.Params))
	case "logging/setLevel":
		err = c.session.SetLoggingLevel(ctx, read[mcp.SetLoggingLevelParams](s.Params))
	default:
		_, err = mcp.CallCustomMethod[*noParams, *noResult](ctx, c.session, s.Method, &noParams{})
	}
	return struct{}{}, err
}

// list fetches page after page and returns them all.
func (c *goClient) list(next func(cursor string) (string, error)) (any, error) {
	var pages []any
	for cursor := ""; ; {
		var err error
		if cursor, err = next(cursor); err != nil {
			return nil, err
		}
		pages = append(pages, plain(c.last))
		if cursor == "" {
			return pages, nil
		}
	}
}

func read[T any](params json.RawMessage) *T {
	p := new(T)
	if err := json.Unmarshal(params, p); err != nil {
		panic(err) // the scenario is ours
	}
	return p
}
