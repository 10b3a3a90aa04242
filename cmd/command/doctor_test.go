package command

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/commands/doctor"
)

// TestDoctorExamines runs the whole examination against a server: dragoman itself stands between.
func TestDoctorExamines(t *testing.T) {
	const tools = `{"name":"a","title":"A","inputSchema":{"type":"object"}}`
	at := probed(t, tools)
	out, _, err := run(t.Context(), "", "doctor", "--listen", "127.0.0.1:0", at)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"version\n        dragoman ", "\n  ok    " + at + ": answers over Streamable HTTP\n", "\n        the server is s 2\n",
		"\n        clients of 2025-03-26 get everything; changed: C01 title to annotations.title (tool a)\n",
		"through dragoman\n  ok    a client of 2025-11-25 gets the same lists; ", `{"mcpServers": {"s": {"command": "`, "\nfine",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	out, _, err = run(t.Context(), "", "doctor", "--json", "--listen", "127.0.0.1:0", at)
	var r doctor.Report
	if e := json.Unmarshal([]byte(out), &r); e != nil || err != nil || r.Exit != 0 || len(r.Lines) < 10 || r.Lines[0].Check != "version" {
		t.Errorf("%v, %v: %s", e, err, out)
	}
}

func TestDoctorsExitCodes(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	write(t, bad, "listn: x\n")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"doctor", "--listen", "127.0.0.1:0"}, 0, "warn  upstream: no server is named"},
		{[]string{"doctor", "--config", bad}, doctor.ExitConfiguration, "bad.yaml:1: listn: unknown setting\n        → did you mean listen?"},
		{[]string{"doctor", "http://127.0.0.1:1/"}, doctor.ExitServer, "http, protocol, lists, through dragoman, clients\n  skip  not checked, because \"network\" failed"},
		{[]string{"doctor", "cat"}, doctor.ExitConfiguration, "write -- before the server's command"},
		{[]string{"config", "check", bad}, doctor.ExitConfiguration, "bad.yaml:1: listn: unknown setting"},
		{[]string{"config", "check", "--json", bad}, doctor.ExitConfiguration, `"what": "listn: unknown setting"`},
		{[]string{"config", "check"}, 0, "ok    no mistakes"},
	} {
		out, _, err := run(t.Context(), "", c.args...)
		if exitCode(err) != c.code || !strings.Contains(out, c.want) {
			t.Errorf("%q: exit code %d (%v), want %d and %q in\n%s", c.args, exitCode(err), err, c.code, c.want, out)
		}
	}
}

// TestDoctorCallsATool checks that the argument after the name of the tool is not taken for the server.
func TestDoctorCallsATool(t *testing.T) {
	out, _, err := run(t.Context(), "", "doctor", "--listen", "127.0.0.1:0", probed(t, ""), "--call", "a", `{"x": 1}`)
	if want := "call\n  ok    a: answered in "; err != nil || !strings.Contains(out, want) {
		t.Errorf("%v\n%s", err, out)
	}
	if runtime.GOOS == "windows" {
		return
	}
	out, _, err = run(t.Context(), "", "doctor", "--listen", "127.0.0.1:0", "--call", "a", `{"x": 1}`, "--", "sh", "-c", "exit 3")
	if exitCode(err) != doctor.ExitServer || !strings.Contains(out, "sh -c exit 3: it ended after ") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestChecksAgreeWithServe: a configuration that serve or stdio would refuse is no configuration that a check calls fine.
func TestChecksAgreeWithServe(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.ToSlash(filepath.Join(dir, name))
		write(t, path, text)
		return path
	}
	adapter := adapterFile("https://api.example.com", "")
	good, same := file("notes-adapter.md", adapter), file("again-adapter.md", adapter)
	broken := file("broken-adapter.md", strings.Replace(adapter, "maps_to: \"POST", "maps_to: \"POTS", 1))
	long := file("transform-adapter.md", strings.Replace(adapter, "      description: \"Add a note\"", "      description: \"Add a note\"\n      transform: {max_chars: -1}", 1))
	empty := file("empty.txt", "")
	recorded := file("recorded.jsonl", "")
	for _, c := range []struct{ settings, want string }{
		{"transform: {adapters: {notion: {output_format: banana}}}", "banana"},
		{"transform: {adapters: {linear: {include_commentz: true}}}", "include_commentz"},
		{"transform: {adapters: {jira: {}}}", "transform.adapters.jira"},
		{"transform: {rules: [{adapter: jira}]}", "rules[0].adapter"},
		{"transform: {rules: [{options: {a: 1}}]}", "rules[0].options"},
		{"transform: {adapters: {capper: {model: o300k_base}}}", "capper.model"},
		{"adapters: {prefix: Bad-Prefix}", "adapters.prefix"},
		{"adapters: {trust: {overrides: {a: b}}}", "adapters.trust.overrides.a"},
		{"adapters: {trust: {max_self_declared: very}}", "adapters.trust.max_self_declared"},
		{"adapters: {introspection: all}", "adapters.introspection"},
		{"adapters: {callers: {a: {Host: X-A}}}", "adapters.callers.a"},
		{"adapters: {instructions_text: '" + strings.Repeat("x", 501) + "'}", "adapters.instructions_text"},
		{"adapters: {sources: [" + broken + "]}", "maps_to"},
		{"adapters: {sources: [" + good + ", " + same + "]}", "Duplicate adapter name"},
		{"adapters: {sources: [" + long + "]}", "max_chars"},
		{"adapters: {sources: [" + good + "], tools: per_adapter, mode: search, prefix: " + strings.Repeat("p", 50) + "_}", "longer than 64"},
		{"adapters: {sources: [" + good + "], network: {ca_file: " + empty + "}}", "adapters.network.ca_file"},
		{"{adapters: {sources: [" + good + "]}, footprint: {enforce: true, max_bytes: 100}}", "footprint.enforce"},
		{"auth: {token_file: " + empty + "}", "auth.token_file"},
		{"session: {key_file: " + empty + "}", "session.key_file"},
		{"tls: {cert: " + empty + ", key: " + empty + "}", "tls"},
		{"record: {file: " + recorded + "}", "recorded.jsonl exists"},
		{"{upstream: {headers: {X-Key: k}}, listen: '0.0.0.0:0', admin: {listen: ''}}", "not a loopback address"},
		{"{auth: {tokens: [REPLACE]}, listen: '0.0.0.0:0', admin: {listen: ''}}", "auth.tokens[0] is a placeholder"},
		{"{auth: {named_tokens: {a: short}}, listen: '[::]:0', admin: {listen: ''}}", "auth.named_tokens.a is shorter than 16 characters"},
		{"inspect: {redact: {a: ['b..c']}}", "inspect.redact"},
	} {
		config := file("c.yaml", c.settings)
		const server = "http://127.0.0.1:1/mcp"
		listens := strings.Contains(c.settings, "listen")
		commands := [][]string{
			{"serve", "--config", config, server},
			{"config", "check", config},
			{"doctor", "--config", config, server},
			{"doctor", "--config", config},
		}
		if !listens {
			commands = append(commands, []string{"stdio", "--config", config, server})
		}
		if !listens && !strings.Contains(c.settings, filepath.ToSlash(dir)) && !strings.Contains(c.settings, "inspect") { // no file, and nothing that only serving makes
			commands = append(commands, []string{"translate", "--config", config, "--from", "2025-06-18", "--to", "2025-11-25"},
				[]string{"transform", "--config", config}, []string{"config", "print", "--config", config}, []string{"probe", "--config", config, server})
		}
		for _, args := range commands {
			if (args[0] == "serve" || args[0] == "doctor") && !listens {
				args = append(args, "--listen", "127.0.0.1:0")
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			out, errs, err := run(ctx, "", args...)
			if ctx.Err() != nil {
				t.Errorf("%s: %s %s went on", c.settings, args[0], args[1])
			}
			cancel()
			said := strings.ReplaceAll(out+errs, "\n", " ") + fmt.Sprint(err)
			if exitCode(err) != exitUsage || !strings.Contains(said, c.want) && !strings.Contains(said, "without a token") {
				t.Errorf("%s: %s %s: exit code %d, want %d and %q in\n%s%s%v", c.settings, args[0], args[1], exitCode(err), exitUsage, c.want, out, errs, err)
			}
		}
	}
	// dragoman is not its own server. The address is free again before it is given.
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	ln.Close()
	own := "http://" + addr + "/mcp"
	for _, args := range [][]string{
		{"serve", "--listen", addr, own},
		{"doctor", "--listen", addr, own},
		{"config", "check", file("own.yaml", "{listen: '"+addr+"', admin: {listen: ''}, upstream: {url: '"+own+"?key=canary'}}")},
	} {
		out, errs, err := run(t.Context(), "", args...)
		said := strings.ReplaceAll(out+errs, "\n", " ") + fmt.Sprint(err)
		if exitCode(err) != exitUsage || !strings.Contains(said, "is dragoman's own address: give the server's, or another --listen") || strings.Contains(said, "canary") {
			t.Errorf("%s: %v\n%s%s", args, err, out, errs)
		}
	}
	// What the checks call fine starts.
	for _, settings := range []string{"{}", "adapters: {sources: [" + good + "]}", "transform: {adapters: {notion: {output_format: markdown}, linear: {include_comments: false}}}"} {
		config := file("c.yaml", settings)
		out, _, err := run(t.Context(), "", "config", "check", config)
		if err != nil || !strings.Contains(out, "serve starts with it") {
			t.Errorf("%s: %v\n%s", settings, err, out)
		}
	}
}
