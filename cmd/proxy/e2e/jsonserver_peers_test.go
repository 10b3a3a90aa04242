package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
)

// crudeTools are the tools of adapters.
var crudeTools = []string{"mcp_aql_create", "mcp_aql_read", "mcp_aql_update", "mcp_aql_delete", "mcp_aql_execute"}

// caller is a connected client that calls tools.
type caller interface {
	tools(t *testing.T) []string
	// call returns the text of the result and whether the tool failed.
	call(t *testing.T, tool, arguments string) (text string, failed bool)
	close() error
}

// asking makes a client call adapters, by the tool of a category, and checks isError of the result.
func asking(c caller) asks {
	return func(t *testing.T, category, request string) string {
		t.Helper()
		text, failed := c.call(t, "mcp_aql_"+category, request)
		var r struct{ Error struct{ Code string } }
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Fatalf("%s: %v in %q", request, err, text)
		}
		// A model can correct its request after all errors but these.
		area, _, _ := strings.Cut(r.Error.Code, "_")
		if want := slices.Contains([]string{"INTERNAL", "TRANSPORT", "SERIALIZATION", "AUTH", "PLUGIN", "PROTOCOL"}, area); failed != want {
			t.Errorf("%s: isError is %v, want %v", text, failed, want)
		}
		return text
	}
}

// nodeCaller is a published TypeScript client.
type nodeCaller struct {
	process *exec.Cmd
	stdin   io.WriteCloser
	lines   *bufio.Scanner
	names   []string
}

func (m modules) caller(ctx context.Context, sdk string, to endpoint) (caller, error) {
	return newNodeCaller(ctx, map[string]any{"sdk": filepath.Join(string(m), "sdk-"+sdk)}, to)
}

func newNodeCaller(ctx context.Context, config map[string]any, to endpoint) (*nodeCaller, error) {
	config = withAll(config, map[string]any{"transport": to.over, "url": to.url})
	if to.over == stdio {
		config["command"], config["args"] = to.command[0], to.command[1:]
	}
	arg, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	c := &nodeCaller{process: exec.CommandContext(ctx, "node", filepath.Join("peers", "caller.mjs"), string(arg))}
	c.process.Stderr = to.stderr
	if c.stdin, err = c.process.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := c.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.lines = bufio.NewScanner(stdout)
	c.lines.Buffer(nil, 32<<20)
	if err := c.process.Start(); err != nil {
		return nil, err
	}
	var first struct{ Tools []string }
	if err := c.read(&first); err != nil {
		return nil, errors.Join(err, c.close())
	}
	c.names = first.Tools
	return c, nil
}

func (c *nodeCaller) read(v any) error {
	if !c.lines.Scan() {
		return errors.Join(errors.New("the client ended"), c.lines.Err())
	}
	return json.Unmarshal(c.lines.Bytes(), v)
}

func (c *nodeCaller) tools(*testing.T) []string { return c.names }

func (c *nodeCaller) call(t *testing.T, tool, arguments string) (string, bool) {
	t.Helper()
	r := c.result(t, tool, json.RawMessage(arguments))
	if len(r.Content) != 1 {
		t.Fatalf("%s: %+v", arguments, r)
	}
	return textOf(t, r.Content[0]), r.IsError
}

// result is the result of a call, as the client decoded it.
func (c *nodeCaller) result(t *testing.T, tool string, arguments any) *mcp.CallToolResult {
	t.Helper()
	call, err := json.Marshal(map[string]any{"name": tool, "arguments": arguments})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.stdin.Write(append(call, '\n')); err != nil {
		t.Fatal(err)
	}
	var r struct {
		Result *mcp.CallToolResult
		Error  string
	}
	if err := c.read(&r); err != nil || r.Error != "" || r.Result == nil {
		t.Fatalf("%s: %v %+v", call, err, r)
	}
	return r.Result
}

func (c *nodeCaller) close() error {
	return errors.Join(c.stdin.Close(), c.process.Wait())
}

// goCaller is the Go SDK's client.
type goCaller struct {
	ctx     context.Context
	session *mcp.ClientSession
}

func newGoCaller(ctx context.Context, revision string, to endpoint) (caller, error) {
	var transport mcp.Transport
	switch to.over {
	case streamable:
		transport = &mcp.StreamableClientTransport{Endpoint: to.url}
	case withSSE:
		transport = &mcp.SSEClientTransport{Endpoint: to.url}
	default:
		command := exec.CommandContext(ctx, to.command[0], to.command[1:]...)
		command.Stderr = to.stderr
		transport = &mcp.CommandTransport{Command: command, TerminateDuration: endTime(to.command)}
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "dragoman-e2e", Version: "1.0.0"}, nil)
	session, err := client.Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		return nil, err
	}
	if got := session.InitializeResult().ProtocolVersion; got != revision {
		return nil, errors.Join(fmt.Errorf("the client got %s, not %s", got, revision), session.Close())
	}
	return &goCaller{ctx, session}, nil
}

func (c *goCaller) tools(t *testing.T) (names []string) {
	t.Helper()
	for tool, err := range c.session.Tools(c.ctx, nil) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
	}
	return names
}

func (c *goCaller) call(t *testing.T, tool, arguments string) (string, bool) {
	t.Helper()
	r, err := c.session.CallTool(c.ctx, &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(arguments)})
	if err != nil || len(r.Content) != 1 {
		t.Fatalf("%s: %v %+v", arguments, err, r)
	}
	return r.Content[0].(*mcp.TextContent).Text, r.IsError
}

func (c *goCaller) close() error { return c.session.Close() }

// TestJSONServerThroughClients calls the published API through dragoman serve and dragoman stdio, with published clients of
// four revisions, over all transports, with a published server behind dragoman and without one.
func TestJSONServerThroughClients(t *testing.T) {
	testset.Need(t, testset.Peers)
	t.Parallel()
	m, proxy := nodePeers(t), build(t)
	typescript := func(sdk string) func(context.Context, endpoint) (caller, error) {
		return func(ctx context.Context, to endpoint) (caller, error) { return m.caller(ctx, sdk, to) }
	}
	goClient := func(revision string) func(context.Context, endpoint) (caller, error) {
		return func(ctx context.Context, to endpoint) (caller, error) { return newGoCaller(ctx, revision, to) }
	}
	everything := endpoint{over: stdio, command: m.everything("2025.7.1", "2025-03-26").command("", "adapters")}
	for _, c := range []struct {
		name    string
		connect func(context.Context, endpoint) (caller, error)
		over    transport
		beside  endpoint
	}{
		{"TypeScript SDK 1.0.4, 2024-11-05", typescript("1.0.4"), withSSE, endpoint{}},
		{"TypeScript SDK 1.12.3, 2025-03-26, beside a server", typescript("1.12.3"), streamable, everything},
		{"TypeScript SDK 1.32.2, 2025-11-25", typescript("1.32.2"), stdio, endpoint{}},
		{"Go SDK, 2024-11-05, beside a server", goClient("2024-11-05"), stdio, everything},
		{"Go SDK, 2025-06-18", goClient("2025-06-18"), streamable, endpoint{}},
		{"Go SDK, 2025-11-25, beside a server", goClient("2025-11-25"), withSSE, everything},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			flags := []string{"--adapters", adapterFor(t, jsonServer(t))}
			up := c.beside
			up.stderr = new(output)
			do := func(to endpoint) error {
				client, err := c.connect(ctx, to)
				if err != nil {
					return err
				}
				names := client.tools(t)
				if n := len(names) - len(crudeTools); n < 0 || !slices.Equal(names[n:], crudeTools) || (n > 0) != (c.beside.over != "") {
					t.Errorf("tools: %s", names)
				}
				walk(t, steps, asking(client))
				if c.beside.over != "" {
					if got, failed := client.call(t, "echo", `{"message":"still there"}`); failed || !strings.Contains(got, "still there") {
						t.Error(got)
					}
				}
				return client.close()
			}
			var err error
			if c.over == stdio {
				err = do(endpoint{over: stdio, command: proxy.args("stdio", up, flags...), stderr: up.stderr})
			} else {
				err = proxy.serve(ctx, c.over, up, flags, do)
			}
			if err != nil || len(errorLines(up.stderr.String())) > 0 {
				t.Errorf("%v\n%s", err, up.stderr)
			}
		})
	}
}

// httpStatus returns the HTTP status of the plain endpoints for an error code.
func httpStatus(code string) int {
	switch code {
	case "":
		return http.StatusOK
	case "VALIDATION_ENDPOINT_MISMATCH":
		return http.StatusMethodNotAllowed
	case "CONFIRMATION_REQUIRED":
		return http.StatusPreconditionRequired
	case "TOKEN_SCOPE_MISMATCH":
		return http.StatusForbidden
	case "TRANSPORT_TIMEOUT":
		return http.StatusGatewayTimeout
	}
	switch area, _, _ := strings.Cut(code, "_"); area {
	case "NOT":
		return http.StatusNotFound
	case "TRANSPORT", "SERIALIZATION", "INTERNAL":
		return http.StatusBadGateway
	}
	return http.StatusBadRequest
}

// post sends one request to a plain endpoint, as curl does.
func post(t *testing.T, url, body string) (status int, result string) {
	t.Helper()
	res, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if kind := res.Header.Get("Content-Type"); !strings.HasPrefix(kind, "application/json") {
		t.Errorf("%s: a %s", body, kind)
	}
	return res.StatusCode, string(b)
}

// TestJSONServerThroughPlainEndpoints does the same through the plain endpoints.
func TestJSONServerThroughPlainEndpoints(t *testing.T) {
	testset.Need(t, testset.Peers)
	up := endpoint{stderr: new(output)}
	err := build(t).serve(t.Context(), streamable, up, []string{"--adapters", adapterFor(t, jsonServer(t))}, func(to endpoint) error {
		base := strings.TrimSuffix(to.url, "/mcp") + "/adapters"
		walk(t, steps, func(t *testing.T, category, request string) string {
			t.Helper()
			status, result := post(t, base+"/json-server/"+category, request)
			var r struct{ Error struct{ Code string } }
			if err := json.Unmarshal([]byte(result), &r); err != nil {
				t.Fatalf("%v in %q", err, result)
			}
			if want := httpStatus(r.Error.Code); status != want {
				t.Errorf("%s: status %d, want %d: %s", request, status, want, result)
			}
			return result
		})
		for path, want := range map[string]string{"": `"name":"json-server"`, "/json-server": `"operation_count":`, "/json-server/operations/get_post": `"name":"get_post"`, "/json-server/types": `"types":[`} {
			res, err := http.Get(base + path)
			if err != nil {
				return err
			}
			b, _ := io.ReadAll(res.Body)
			res.Body.Close()
			if res.StatusCode != 200 || !bytes.Contains(b, []byte(want)) {
				t.Errorf("GET %s: %d %s", path, res.StatusCode, b)
			}
		}
		return nil
	})
	if err != nil || len(errorLines(up.stderr.String())) > 0 {
		t.Errorf("%v\n%s", err, up.stderr)
	}
}

// TestTargetsThatMisbehave puts listeners that are not an API behind an adapter, and checks that clients get an error for
// each, and that the proxy goes on.
func TestTargetsThatMisbehave(t *testing.T) {
	testset.Need(t, testset.Peers)
	behave := map[string]func(net.Conn){
		"well":    func(c net.Conn) { io.WriteString(c, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"well\":true}") },
		"close":   func(net.Conn) {},
		"cut":     func(c net.Conn) { io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"a\":") },
		"garbage": func(c net.Conn) { c.Write(bytes.Repeat([]byte{0, 0xff, '\r', '\n', 7}, 1000)) },
		"binary": func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nConnection: close\r\n\r\n\x89PNG\r\n")
		},
		"silence":  func(c net.Conn) { io.Copy(io.Discard, c) },
		"trickle":  func(c net.Conn) { drip(c, "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n[", "1,") },
		"huge":     func(c net.Conn) { flood(c, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n[") },
		"headers":  func(c net.Conn) { flood(c, "HTTP/1.1 200 OK\r\nX: ") },
		"announce": func(c net.Conn) { io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n") },
	}
	target := listen(t, behave)
	folder := t.TempDir()
	var ops strings.Builder
	for name := range behave {
		fmt.Fprintf(&ops, "  - {name: %s, maps_to: GET /%s, description: Odd, timeout_ms: 600000}\n", name, name)
	}
	for _, name := range []string{"silence", "trickle"} {
		fmt.Fprintf(&ops, "  - {name: %s_briefly, maps_to: GET /%s, description: Odd, timeout_ms: 500}\n", name, name)
	}
	file := "---\nname: odd\ntype: adapter\nversion: \"1.0.0\"\ndescription: Sockets that misbehave on purpose\ntarget: {base_url: \"http://" + target + "\", transport: http, protocol: rest, serialization: json}\noperations:\n  read:\n" + ops.String() + "---\n"
	if err := os.WriteFile(filepath.Join(folder, "odd-adapter.md"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	var odd []step
	for name, want := range map[string]string{
		"close": "TRANSPORT_NETWORK_ERROR", "cut": "TRANSPORT_NETWORK_ERROR", "garbage": "TRANSPORT_NETWORK_ERROR", "binary": "SERIALIZATION_PARSE_ERROR",
		"silence_briefly": "TRANSPORT_TIMEOUT", "trickle_briefly": "TRANSPORT_TIMEOUT", "huge": "VALIDATION_PAYLOAD_TOO_LARGE", "headers": "TRANSPORT_NETWORK_ERROR", "announce": "VALIDATION_PAYLOAD_TOO_LARGE",
	} {
		odd = append(odd, step{category: "read", request: `{"operation":"` + name + `"}`, want: `{"success":false,"error":{"code":"` + want + `",…}}`},
			step{category: "read", request: `{"operation":"well"}`, want: `{"success":true,"data":{"well":true}}`})
	}
	up := endpoint{stderr: new(output)}
	err := build(t).serve(t.Context(), streamable, up, []string{"--adapters", folder}, func(to endpoint) error {
		client, err := newGoCaller(t.Context(), "2025-06-18", to)
		if err != nil {
			return err
		}
		walk(t, odd, asking(client))
		walk(t, odd, func(t *testing.T, category, request string) string {
			_, result := post(t, strings.TrimSuffix(to.url, "/mcp")+"/adapters/odd/"+category, request)
			return result
		})
		return client.close()
	})
	if err != nil || len(errorLines(up.stderr.String())) > 0 {
		t.Errorf("%v\n%s", err, up.stderr)
	}
}

// listen starts a server whose behavior depends on the path of the request.
func listen(t *testing.T, behave map[string]func(net.Conn)) (address string) {
	t.Helper()
	return listenTo(t, func(c net.Conn, path, _ string) {
		if f := behave[path]; f != nil {
			f(c)
		}
	})
}

// listenTo starts a server that calls a function with the path and the head of each connection's first request.
func listenTo(t *testing.T, answer func(c net.Conn, path, head string)) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { // ends with its connection
				defer c.Close()
				var head strings.Builder
				r, err := http.ReadRequest(bufio.NewReader(io.TeeReader(c, &head)))
				if err == nil {
					answer(c, strings.Trim(r.URL.Path, "/"), head.String())
				}
			})
		}
	})
	t.Cleanup(func() { l.Close(); running.Wait() })
	return l.Addr().String()
}

// flood writes until the connection is closed.
func flood(c net.Conn, head string) {
	more := strings.Repeat(" ", 64<<10)
	for _, err := io.WriteString(c, head); err == nil; _, err = io.WriteString(c, more) {
	}
}

// drip writes a little at a time until the connection is closed.
func drip(c net.Conn, head, drop string) {
	for _, err := io.WriteString(c, head); err == nil; _, err = io.WriteString(c, drop) {
		time.Sleep(20 * time.Millisecond)
	}
}
