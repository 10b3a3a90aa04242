package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/dragoman-proxy/dragoman/cmd/command/comingfrom"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
)

// lineServerArg as the first argument makes the test binary the server of newLineServer on stdio.
const lineServerArg = "serve-lines-on-stdio"

// newLineServer is a server that says what it got: a variable of its environment, and a header of the request.
func newLineServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "lines", Version: "1"}, nil)
	type in struct {
		Text string `json:"text,omitempty"`
		Name string `json:"name,omitempty"`
	}
	add := func(name string, do func(*mcp.CallToolRequest, in) string) {
		mcp.AddTool(s, &mcp.Tool{Name: name}, func(_ context.Context, r *mcp.CallToolRequest, a in) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: do(r, a)}}}, nil, nil
		})
	}
	add("echo", func(_ *mcp.CallToolRequest, a in) string { return a.Text })
	add("variable", func(_ *mcp.CallToolRequest, a in) string { return os.Getenv(a.Name) })
	add("header", func(r *mcp.CallToolRequest, a in) string {
		if r.Extra == nil {
			return ""
		}
		return r.Extra.Header.Get(a.Name)
	})
	return s
}

var installOthers = sync.OnceValues(func() (modules, error) { return installModules("others") })

// programs are the files that the commands of the tools run.
var programs = map[string]string{
	"mcp-remote":   "mcp-remote/dist/proxy.js",
	"supergateway": "supergateway/dist/index.js",
	"mcp-proxy":    "mcp-proxy/dist/bin/mcp-proxy.mjs",
}

// publishedLines are lines that the documentation of the tools has, and many configurations. HTTP and SSE stand for the URLs of a server, PORT
// for a free port, COMMAND for a server's command, in one word for a shell. The client of a line with a port connects to at.
var publishedLines = []struct {
	line, at string
	over     transport
	env      string // NAME=value
	headers  map[string]string
}{
	{line: "mcp-remote HTTP"},
	{line: "mcp-remote HTTP --header Authorization:${AUTH}", env: "AUTH=Bearer lines"},
	{line: "mcp-remote SSE --transport sse-only --allow-http"},
	{line: "mcp-remote SSE --debug"},
	{line: "mcp-remote HTTP --transport http-only --header Authorization:Basic_bGluZXM= --silent"},
	{line: "supergateway --stdio COMMAND --port PORT", at: "/sse", over: withSSE},
	{line: "supergateway --stdio COMMAND --port PORT --baseUrl http://localhost:PORT --ssePath /events --messagePath /message", at: "/events", over: withSSE},
	{line: "supergateway --stdio COMMAND --outputTransport streamableHttp --stateful --port PORT", at: "/mcp", over: streamable},
	{line: "supergateway --stdio COMMAND --outputTransport streamableHttp --port PORT", at: "/mcp", over: streamable},
	{line: "supergateway --sse SSE --oauth2Bearer lines"},
	{line: "supergateway --streamableHttp HTTP --header Authorization:_Bearer_lines"},
	{line: "mcp-proxy --port PORT --shell -- COMMAND", at: "/mcp", over: streamable},
	{line: "mcp-proxy --port PORT -- COMMAND", at: "/sse", over: withSSE},
	{line: "mcp-proxy COMMAND", env: "MCP_PROXY_PORT=PORT", at: "/mcp", over: streamable},
	{line: "mcp-proxy --port PORT --apiKey a-key-of-32-characters-or-even-more --server stream -- COMMAND", at: "/mcp", over: streamable,
		headers: map[string]string{"X-API-Key": "a-key-of-32-characters-or-even-more"}},
	{line: "mcp-proxy --port PORT --stateless -- COMMAND", at: "/mcp", over: streamable},
	{line: "tbxark -config FILE", at: "/lines/sse", over: withSSE},
	{line: "tbxark --config FILE", at: "/lines/mcp", over: streamable},
	{line: "tbxark --config=FILE -expand-env=true", at: "/lines/sse", over: withSSE},
	{line: "tbxark -http-timeout 5 -config=FILE", at: "/lines/mcp", over: streamable},
	{line: "tbxark -config FILE -expand-env", at: "/lines/mcp", over: streamable, headers: map[string]string{"Authorization": "a-key-of-32-characters-or-even-more"}},
}

// fileOf is the configuration of TBXark's tool for a line.
func fileOf(t *testing.T, port string, over transport, key string) string {
	kind := "sse"
	if over == streamable {
		kind = "streamable-http"
	}
	options := map[string]any{}
	if key != "" {
		options["authTokens"] = []string{key}
	}
	text, err := json.Marshal(map[string]any{
		"mcpProxy":   map[string]any{"baseURL": "http://localhost:" + port, "addr": ":" + port, "name": "lines", "version": "1", "type": kind, "options": options},
		"mcpServers": map[string]any{"lines": map[string]any{"command": os.Args[0], "args": []string{lineServerArg}, "env": map[string]string{"GITHUB_TOKEN": "for-the-server"}}},
	})
	file := filepath.Join(t.TempDir(), "config.json")
	if err := errors.Join(err, os.WriteFile(file, text, 0o600)); err != nil {
		t.Fatal(err)
	}
	return file
}

// installTBXark returns the command of TBXark's tool: E2E_TBXARK, or one that Go installs.
var installTBXark = sync.OnceValues(func() (string, error) {
	if built := os.Getenv("E2E_TBXARK"); built != "" {
		return built, nil
	}
	install := exec.Command("go", "install", "github.com/TBXark/mcp-proxy@v0.43.2")
	install.Env = append(os.Environ(), "GOBIN="+binaries)
	out, err := install.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return filepath.Join(binaries, "mcp-proxy"), err
})

// TestLinesOfOtherTools: a published client gets the same through a tool and through "dragoman as" with the same line.
func TestLinesOfOtherTools(t *testing.T) {
	testset.Need(t, testset.Peers, "node", "npm")
	t.Parallel()
	sdk := filepath.Join(string(nodePeers(t)), "sdk-1.32.2")
	others, err := installOthers()
	if err != nil {
		t.Fatal(err)
	}
	fresh := func(*http.Request) *mcp.Server { return newLineServer() }
	mux := http.NewServeMux()
	mux.Handle("/mcp", mcp.NewStreamableHTTPHandler(fresh, nil))
	streams := mcp.NewSSEHandler(fresh, nil)
	mux.HandleFunc("/sse", func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.URL.RawQuery == "" { // which that handler answers with 400, at which mcp-remote gives up
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		streams.ServeHTTP(w, r)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	bin := string(build(t))
	for _, l := range publishedLines {
		t.Run(l.line, func(t *testing.T) {
			t.Parallel()
			turns <- struct{}{}
			defer func() { <-turns }()
			name, _, _ := strings.Cut(l.line, " ")
			original := []string{"node", filepath.Join(string(others), programs[name])}
			if name == "tbxark" {
				tbxark, err := installTBXark()
				if err != nil {
					t.Skip(err)
				}
				original = []string{tbxark}
			}
			run := func(program ...string) map[string]any {
				port := freePort(t)
				var args []string
				for _, word := range strings.Fields(l.line)[1:] {
					if word == "COMMAND" && name != "supergateway" {
						args = append(args, os.Args[0], lineServerArg)
						continue
					}
					if before, is := strings.CutSuffix(word, "FILE"); is {
						args = append(args, before+fileOf(t, port, l.over, l.headers["Authorization"]))
						continue
					}
					args = append(args, strings.NewReplacer("HTTP", server.URL+"/mcp", "SSE", server.URL+"/sse", "PORT", port, "COMMAND", os.Args[0]+" "+lineServerArg, "_", " ").Replace(word))
				}
				env := append(os.Environ(), "GITHUB_TOKEN=for-the-server", "DRAGOMAN_ADMIN_LISTEN=127.0.0.1:0", strings.ReplaceAll(cmp.Or(l.env, "X="), "=PORT", "="+port))
				to := endpoint{over: l.over, url: "http://localhost:" + port + l.at, stderr: &output{}}
				asked := map[string]any{"sdk": sdk, "headers": l.headers}
				if l.at == "" {
					name, value, _ := strings.Cut(l.env, "=")
					to.over, to.command = stdio, append(program, args...)
					asked["env"] = map[string]string{name: value, "MCP_REMOTE_CONFIG_DIR": t.TempDir()}
				} else {
					tool := exec.Command(program[0], append(program[1:], args...)...)
					tool.Env = env
					log := &output{}
					tool.Stderr, tool.Stdout = log, log
					tool.Stdin, _ = os.Open(os.DevNull)
					if err := tool.Start(); err != nil {
						t.Fatal(err)
					}
					ended := make(chan struct{})
					go func() { _ = tool.Wait(); close(ended) }()
					defer func() {
						_ = tool.Process.Signal(os.Interrupt)
						<-ended
						if t.Failed() {
							t.Log(tail(log.String()))
						}
					}()
					if err := listens(t.Context(), port, ended); err != nil {
						t.Fatal(program, err, log.String())
					}
				}
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				out, err := runNode(ctx, "line.mjs", to, asked)
				var got map[string]any
				if err := errors.Join(err, json.Unmarshal(out, &got)); err != nil || got["failed"] != nil {
					t.Fatalf("%s: %v %s\n%s", program, err, out, tail(to.stderr.String()))
				}
				return got
			}
			theirs := run(original...)
			if ours := run(bin, "as", name); !reflect.DeepEqual(ours, theirs) {
				t.Errorf("%s\n got  %v\n want %v", l.line, ours, theirs)
			}
		})
	}
}

// TestEndsOfOtherTools: a wrong line, and one whose server's command does not exist, end with the same exit code.
func TestEndsOfOtherTools(t *testing.T) {
	testset.Need(t, testset.Peers, "node", "npm")
	t.Parallel()
	others, err := installOthers()
	if err != nil {
		t.Fatal(err)
	}
	bin := string(build(t))
	for _, line := range []string{
		"mcp-remote", "mcp-remote no-url", "mcp-remote --help", "mcp-remote --version",
		"supergateway", "supergateway --stdio x --sse y", "supergateway --stdio x --logLevel y", "supergateway --sse http://127.0.0.1:1/sse --outputTransport ws",
		"supergateway --stdio no-such-command --port PORT", "supergateway --help",
		"mcp-proxy", "mcp-proxy --server x -- y", "mcp-proxy --eventStoreMaxEvents 0 -- y", "mcp-proxy --port PORT -- no-such-command", "mcp-proxy --version",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			turns <- struct{}{}
			defer func() { <-turns }()
			words := strings.Fields(line)
			code := func(program ...string) int {
				args := slices.Concat(program[1:], words[1:])
				for i := range args {
					args[i] = strings.ReplaceAll(args[i], "PORT", freePort(t))
				}
				cmd := exec.CommandContext(t.Context(), program[0], args...)
				cmd.Env = append(os.Environ(), "DRAGOMAN_ADMIN_LISTEN=127.0.0.1:0")
				_ = cmd.Run()
				return cmd.ProcessState.ExitCode()
			}
			theirs := code("node", filepath.Join(string(others), programs[words[0]]))
			if ours := code(bin, "as", words[0]); ours != theirs {
				t.Errorf("ends with %d, the tool with %d", ours, theirs)
			}
		})
	}
}

// TestRowsHaveEveryOption: the rows have each option that the tools name in their help, or compare words with.
func TestRowsHaveEveryOption(t *testing.T) {
	nodePeers(t)
	others, err := installOthers()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		tool, err := comingfrom.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		program := filepath.Join(string(others), programs[name])
		text, _ := exec.CommandContext(t.Context(), "node", program, "--help").CombinedOutput()
		if name == "mcp-remote" { // whose help does not list them
			files, _ := filepath.Glob(filepath.Join(filepath.Dir(program), "*.js"))
			for _, file := range files {
				source, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				text = append(text, source...)
			}
		}
		found := 0
		for _, option := range regexp.MustCompile(`(?m)(?:^ +|")(--[a-z][A-Za-z0-9-]*)`).FindAllSubmatch(text, -1) {
			if found++; tool.Row(string(option[1])) == nil {
				t.Errorf("%s: no row for %s", name, option[1])
			}
		}
		if found < 15 {
			t.Errorf("%s: found %d options", name, found)
		}
	}
}

// listens waits until a program listens on a port of this machine.
func listens(ctx context.Context, port string, ended chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		c, err := net.Dial("tcp", "localhost:"+port)
		if err == nil {
			return c.Close()
		}
		select {
		case <-ended:
			return errors.New("ended before it listened")
		case <-ctx.Done():
			return fmt.Errorf("does not listen: %w", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
