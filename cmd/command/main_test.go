package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/translate"
)

// run executes the command line and returns what it wrote.
func run(ctx context.Context, in string, args ...string) (out, errOut string, err error) {
	cmd := command(args)
	var o, e bytes.Buffer
	cmd.SetIn(strings.NewReader(in))
	cmd.SetOut(&o)
	cmd.SetErr(&e)
	err = cmd.ExecuteContext(ctx)
	return o.String(), e.String(), err
}

func TestMistakesOnTheCommandLine(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte("limits:\n  reply: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		want string
	}{
		{"nonsense", `unknown command "nonsense"`},
		{"stdio https://x/ --verify none", "upstream.verify: none cannot be used with upstream.auth.type: login, as any machine on the way could take the token; add --login never"},
		{"serve https://x/ --insecure", "unknown flag --insecure; write --verify none"},
		{"login https://x/ --cacert f", "unknown flag --cacert; write --ca FILE"},
		{"serve", "no server is named: write dragoman serve URL, dragoman serve -- COMMAND [ARG...], or dragoman serve --adapters DIR"},
		{"stdio", "no server is named: write dragoman stdio URL, dragoman stdio -- COMMAND [ARG...], or dragoman stdio --adapters DIR"},
		{"serve cat", "write -- before the server's command: dragoman serve -- cat"},
		{"serve --upstream http://x/ -- cat", "two servers are given, a URL and a command: keep one"},
		{"serve localhost:3000/mcp", "upstream.url: must begin with http:// or https://; did you mean http://localhost:3000/mcp?"},
		{"serve http://x/ -- cat", "two servers"},
		{"serve http://x/ --upstream http://y/", "two servers"},
		{"stdio http://x/ cat", `"cat" follows the server's URL: dragoman stdio takes one URL`},
		{"serve npx -y server", "write -- before the server's command: dragoman serve -- npx -y server"},
		{"probe npx --yes server", "write -- before the server's command: dragoman probe -- npx --yes server"},
		{"serv", `unknown command "serv"; did you mean dragoman serve?`},
		{"config chek", `unknown command "chek"; did you mean dragoman config check?`},
		{"login", "takes 1 argument, and none is given; usage: dragoman login URL | --list"},
		{"version x", `takes no argument such as "x"; usage: dragoman version`},
		{"adapter diff x", "takes 2 arguments, and 1 is given; usage: dragoman adapter diff FILE DOCUMENT"},
		{"serve --upstream x", "upstream.url: must begin with"},
		{"login x", `"x" is not a URL such as https://mcp.example.com/mcp`},
		{"logout x", `"x" is not a URL such as https://mcp.example.com/mcp`},
		{"serve --upstream http://x/ --header nonsense", "--header: expected 'Name: value'"},
		{"serve --upstream http://x/ --header A:${DRAGOMAN_NOT_SET_EVER}", "--header A: environment variable DRAGOMAN_NOT_SET_EVER is not set"},
		{"serve --upstream http://x/ --oauth client_id=x", "--oauth: has no effect without a sign-in in upstream.auth"},
		{"serve --upstream http://x/ --profile x", "--profile: has no effect without a sign-in in upstream.auth"},
		{"footprint --upstream http://x/ --baseline /nowhere/x", "--baseline: open /nowhere/x"},
		{"serve --upstream http://x/ --upstream-version 1", "upstream.version:"},
		{"serve --upstream http://x/ --log-level loud", "log.level:"},
		{"serve --upstream http://x/ --config " + file, "c.yaml:2: limits.reply: unknown setting; did you mean limits.replay?"},
		{"serve --upstream http://x/ --listen " + busy.Addr().String(), "address already in use: --listen (listen) chooses another address; dragoman doctor --listen " + busy.Addr().String() + " says which process has this one"},
		{"serve --upstream http://x/ --listen 192.0.2.1:0", "--listen (listen) chooses another address"},
		{"--listen " + busy.Addr().String(), "address already in use: --listen (listen) chooses another address; dragoman doctor --listen " + busy.Addr().String() + " says which process has this one"},
		{"translate --from 2025-06-18 --to x", `--to: "x" is not a revision`},
		{"translate", "--from is missing: write --from REVISION --to REVISION, each one of "},
		{"translate --nonsense", "unknown flag --nonsense; see dragoman translate --help"},
		{"translate --edge left", `--edge: "left" is not client or server`},
		{"translate --explain=everything", `--explain: "everything" is not words or json`},
		{"translate --from-client --from-server", "--from-client and --from-server exclude each other: keep one"},
		{"login --device --list", "--device and --list exclude each other: keep one"},
		{"translate --explain --report", "--explain and --report exclude each other: keep one"},
	} {
		_, _, err := run(t.Context(), "", strings.Fields(c.args)...)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v; want %q", c.args, err, c.want)
		}
		if code := exitCode(err); (code == exitUsage) == strings.Contains(c.want, "chooses another address") {
			t.Errorf("%s: exit code %d", c.args, code)
		}
	}
}

func TestASignalIsNamed(t *testing.T) {
	ctx, end := context.WithCancelCause(t.Context())
	failed := &exitError{exitServer, fmt.Errorf("sign in: %w", context.Canceled)}
	if err := causeOf(ctx, failed); err != error(failed) {
		t.Error(err)
	}
	end(errors.New("interrupt signal received"))
	if err := causeOf(ctx, failed); err.Error() != "interrupt signal received" || exitCode(err) != exitServer {
		t.Error(err)
	}
	other := errors.New("other")
	if causeOf(ctx, other) != other || causeOf(ctx, nil) != nil {
		t.Error("another error is replaced")
	}
}

func TestVersion(t *testing.T) {
	for _, arg := range []string{"version", "--version"} {
		out, _, err := run(t.Context(), "", arg)
		if err != nil || !strings.HasPrefix(out, "dragoman ") || !strings.Contains(out, "go1") || !strings.Contains(out, translate.Oldest().Name) {
			t.Errorf("%s: %q, %v", arg, out, err)
		}
	}
}

func TestAnArgumentCanBeTheServersURL(t *testing.T) {
	if got := settingsOf(t, "https://mcp.example.com/mcp"); got.Upstream.URL != "https://mcp.example.com/mcp" || got.Upstream.Command != nil {
		t.Errorf("%+v", got.Upstream)
	}
}

func TestExitCodes(t *testing.T) {
	t.Setenv("DRAGOMAN_ADMIN_LISTEN", "") // its default may be in use
	noKey := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(noKey, []byte("session: {key_file: /nowhere/key}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(t.TempDir(), "api.yaml")
	if err := os.WriteFile(empty, []byte("openapi: 3.0.0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	budget := filepath.Join(t.TempDir(), "budget.yaml")
	write(t, budget, "transform: {default_max_tokens: 4000}\n")
	adapter := "../../deploy/adapters/github-adapter.md"
	for args, want := range map[string]int{
		"version":                              0,
		"serve --upstream-version 1 http://x/": exitUsage, "serve": exitUsage, "serve --nonsense": exitUsage, "version x": exitUsage, "nonsense": exitUsage,
		"probe http://127.0.0.1:1/": exitServer, "footprint http://127.0.0.1:1/": exitServer, "probe -- false": exitServer,
		"translate": exitUsage, "transform": exitUsage, "adapter new A": exitUsage, "adapter import /nowhere/x": exitUsage,
		"serve --adapters /nowhere": exitUsage, "stdio --adapters /nowhere": exitUsage, "serve http://x/ --config " + noKey: exitUsage,
		"serve http://x/ --listen 0.0.0.0:0 --header A:b":   exitUsage,
		"serve https://x/ --listen 0.0.0.0:0 --verify none": exitUsage, "serve https://x/ --ca /nowhere/x": exitUsage, "login https://x/ --ca /nowhere/x": exitUsage,
		"serve http://x/ --listen 127.0.0.1:0 --record /nowhere/x": exitUsage, "inspect /nowhere/x": exitUsage, "inspect " + noKey: exitUsage,
		"transform --output-schema /nowhere --config " + budget: exitUsage, "transform --output-schema " + budget + " --config " + budget: exitUsage,
		"adapter diff " + adapter + " --fetch https://127.0.0.1:1/x": exitOther, "adapter diff " + adapter + " " + empty: exitUsage,
		"adapter import https://x.example/": exitUsage, "adapter import --fetch http://x.example/x": exitUsage, "adapter import --fetch http://127.0.0.1:1/x": exitServer,
		"adapter import --fetch https://ann:secret@x.example/": exitUsage, "adapter import --fetch https://[": exitUsage,
		"adapter import --fetch https://127.0.0.1:1/x": exitServer, "adapter import " + empty: exitUsage, "adapter import " + filepath.Dir(empty): exitUsage,
	} {
		if _, _, err := run(t.Context(), "", strings.Fields(args)...); exitCode(err) != want {
			t.Errorf("%s: %d (%v), want %d", args, exitCode(err), err, want)
		} else if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", args, err)
		}
	}
}

func TestTranslate(t *testing.T) {
	const in = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}
{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"t","title":"T","inputSchema":{"type":"object"}}]}}
`
	args := []string{"translate", "--from", "2025-06-18", "--to", "2024-11-05"}
	want := strings.Replace(in, `"title":"T",`, "", 1)
	out, notes, err := run(t.Context(), in, args...)
	if err != nil || out != want || notes != "" {
		t.Errorf("%q, %q, %v", out, notes, err)
	}
	out, notes, err = run(t.Context(), in, append(args, "--report")...)
	if err != nil || out != want || !strings.Contains(notes, `"rule":"C01"`) {
		t.Errorf("%q, %q, %v", out, notes, err)
	}
	out, notes, err = run(t.Context(), in, append(args, "--explain")...)
	if err != nil || out != want || !strings.Contains(notes, "line 2: tools/list result: 1 change\n  C01 title: moves a tool's title") || !strings.HasSuffix(notes, "\n    removed   result.tools[0].title\n") {
		t.Errorf("%q, %q, %v", out, notes, err)
	}
	out, notes, err = run(t.Context(), in, append(args, "--explain=json")...)
	if err != nil || out != want || !strings.Contains(notes, `"change":"removed","before":"result.tools[0].title"`) {
		t.Errorf("%q, %q, %v", out, notes, err)
	}
}

// TestTheExampleOfExplainIsTrue compares the explanation in the documentation with that of the command.
func TestTheExampleOfExplainIsTrue(t *testing.T) {
	page, err := os.ReadFile("../../docs/revisions-and-losses.md")
	if err != nil {
		t.Fatal(err)
	}
	const in = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}
{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"add","title":"Add","inputSchema":{"type":"object"},"outputSchema":{"type":"object"}}]}}
`
	_, notes, err := run(t.Context(), in, "translate", "--from", "2025-11-25", "--to", "2025-03-26", "--explain")
	example := "--explain < messages.jsonl > translated.jsonl\n    " + strings.ReplaceAll(strings.TrimSpace(notes), "\n", "\n    ") + "\n\n"
	if err != nil || !strings.Contains(string(page), example) {
		t.Errorf("%v: the page lacks\n%s", err, example)
	}
}

func TestFlagsOverrideTheFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	text := "listen: 127.0.0.1:1\nlog: {level: warn}\nupstream: {command: [cat], share_child: true, headers: {A: file, B: file}}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("DRAGOMAN_LISTEN", "127.0.0.1:2")
	t.Setenv("DRAGOMAN_SESSION_MAX", "7")
	t.Setenv("TOKEN", "secret")
	got := settingsOf(t, "--config", file, "--listen", "127.0.0.1:3", "--upstream", "http://127.0.0.1/mcp", "--header", "A: Bearer ${TOKEN}", "--pass-env", "X")
	if got.Listen != "127.0.0.1:3" || got.Session.Max != 7 || got.Log.Level != "warn" ||
		got.Upstream.URL != "http://127.0.0.1/mcp" || got.Upstream.Command != nil ||
		got.Upstream.Headers["A"] != "Bearer secret" || got.Upstream.Headers["B"] != "file" {
		t.Errorf("%+v", got)
	}
}

func TestShareChildFlag(t *testing.T) {
	if got := settingsOf(t, "--share-child", "--", "cat"); !got.Upstream.ShareChild {
		t.Error("each session has its own")
	}
	if got := settingsOf(t, "--", "cat"); got.Upstream.ShareChild {
		t.Error("shared by default")
	}
}

func TestMaxTokensFlag(t *testing.T) {
	if got := settingsOf(t, "--max-tokens", "1500", "--", "cat"); got.Transform == nil || !got.Transform.Enabled || got.Transform.DefaultMaxTokens != 1500 || got.Transform.Adapters.Capper.Model != "o200k_base" {
		t.Errorf("%+v", got.Transform)
	}
	file := filepath.Join(t.TempDir(), "c.yaml")
	write(t, file, "transform: {enabled: false, default_max_tokens: 700, adapters: {capper: {model: gpt-4o}}}")
	if got := settingsOf(t, "--config", file, "--max-tokens", "1500", "--", "cat"); !got.Transform.Enabled || got.Transform.DefaultMaxTokens != 1500 || got.Transform.Adapters.Capper.Model != "gpt-4o" {
		t.Errorf("%+v", got.Transform)
	}
	if got := settingsOf(t, "--", "cat"); got.Transform != nil {
		t.Errorf("%+v", got.Transform)
	}
}

func TestBuiltInServerAndItsTranscript(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	r, w := io.Pipe()
	cmd := command([]string{"--listen", "127.0.0.1:0", "--log-level", "error"})
	cmd.SetOut(w)
	ended := make(chan error, 1)
	go func() {
		ended <- cmd.ExecuteContext(ctx)
		w.Close()
	}()
	text := make([]byte, 8192)
	n, err := io.ReadAtLeast(r, text, 1000)
	if err != nil {
		t.Fatal(err)
	}
	said := string(text[:n])
	shown := make(chan string, 1)
	go func() {
		rest, _ := io.ReadAll(r)
		shown <- string(rest)
	}()
	url := regexp.MustCompile(`http://[^\s"]+/mcp`).FindString(said)
	if !strings.Contains(said, translate.Latest().Name) || !strings.Contains(said, `{"mcpServers"`) {
		t.Errorf("%s", said)
	}
	// Send the messages of the introduction, as it says.
	client := &http.Client{Transport: new(http.Transport), Timeout: patience}
	session := ""
	var answers []string
	for _, m := range regexp.MustCompile(`-d '([^']+)'`).FindAllStringSubmatch(said, -1) {
		req, err := http.NewRequest("POST", url, strings.NewReader(m[1]))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		req.Header.Set("Mcp-Session-Id", session)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode > 202 {
			t.Errorf("%s: %d %s %v", m[1], resp.StatusCode, body, err)
		}
		if session == "" {
			session = resp.Header.Get("Mcp-Session-Id")
		}
		answers = append(answers, string(body))
	}
	if len(answers) != 4 || !strings.Contains(answers[2], `"hello"`) || !strings.Contains(answers[3], "done in 3 steps") {
		t.Errorf("%q", answers)
	}
	client.CloseIdleConnections()
	stop()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
	transcript := <-shown
	for _, want := range []string{
		"#1 initialize · client of " + translate.Latest().Name + " · server of " + translate.Oldest().Name + "\n  client sent   {",
		`~ result.protocolVersion "` + translate.Oldest().Name + `" → "` + translate.Latest().Name + `"`,
		"+ result.capabilities.completions {}",
		"#3 tools/call", `  server got    {"jsonrpc":"2.0","id":`, `  client got    {"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"done in 3 steps"}]}}`,
	} {
		if !strings.Contains(transcript, want) {
			t.Errorf("the transcript does not have %q:\n%s", want, transcript)
		}
	}
}

// settingsOf returns the configuration for a command line of serve.
func settingsOf(t *testing.T, args ...string) config.Config {
	t.Helper()
	cmd := serveCommand()
	cmd.ResetFlags()
	s := newSettings(cmd, listenFlags, upstreamFlags, transformFlags)
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	cfg, err := s.config(cmd.Flags().Args())
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}
