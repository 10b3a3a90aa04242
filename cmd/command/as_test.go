package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/term"

	"github.com/dragoman-proxy/dragoman/cmd/command/comingfrom"
)

// TestLinesOfOtherToolsThatFail: the error has the option of the tool, no secrets, and the exit code of the tool.
func TestLinesOfOtherToolsThatFail(t *testing.T) {
	names := strings.Join(comingfrom.Names(), ", ")
	dir := t.TempDir()
	for name, text := range map[string]string{"two.json": `{"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}}}`, "torn.json": `{"mcpProxy":`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	for _, c := range []struct {
		args string // apart at |
		code int
		want string
	}{
		{"npx|x", 2, `as: "npx" is not one of ` + names},
		{"npx|-y|mcp-remote@latest|https://a.example/mcp?key=canary", 2, `as: "npx" is not one of ` + names + "; write dragoman as mcp-remote …"},
		{"uv|tool|run|mcp-proxy|--port|1|x", 2, `as: "uv" is not one of ` + names + "; write dragoman as mcp-proxy-py …"},
		{"mcp-remot|https://a.example/mcp", 2, `as: "mcp-remot" is not one of ` + names + "; did you mean mcp-remote?"},
		{"TBXark|-config|x", 2, `as: "TBXark" is not one of ` + names + "; did you mean tbxark?"},
		{"mcp-proxy-npm|x", 2, `as: "mcp-proxy-npm" is not one of ` + names + "; mcp-proxy is npm's, mcp-proxy-py Python's, and tbxark TBXark's"},
		{"mcp-remote-client|https://a.example/mcp", 2, `as: "mcp-remote-client" is not one of ` + names + "; write dragoman probe URL"},
		{"", 2, "as: no tool is named: write dragoman as TOOL and its arguments; the tools are " + names},
		{"mcp-remote|https://ann:canary@a.example/mcp", 1, "as mcp-remote: URL: holds a password; use upstream.headers (--header)"},
		{"mcp-remote", 1, "as mcp-remote: no server is named: write the URL of the server first"},
		{"mcp-remote@latest", 1, "as mcp-remote: no server is named: write the URL of the server first"},
		{"mcp-remote|a.example/mcp", 1, `as mcp-remote: "a.example/mcp" is not a URL; did you mean https://a.example/mcp?`},
		{"supergateway|--sse|ftp://ann:canary@a.example", 1, "as supergateway: --sse: must begin with http:// or https://"},
		{"mcp-proxy-py|http://", 2, "as mcp-proxy-py: command_or_url: missing host"},
		{"mcp-remote|https://a.example/mcp|--authorize-param|state=canary", 1, "as mcp-remote: --authorize-param: state is set by dragoman and cannot be configured"},
		{"mcp-remote|https://a.example/mcp|--header|canary", 1, "as mcp-remote: --header: expected 'Name: value'"},
		{"mcp-remote|https://a.example/mcp|--header|A: ${NO_SUCH_VARIABLE}", 1, "as mcp-remote: --header: A: environment variable NO_SUCH_VARIABLE is not set"},
		{"mcp-remote|https://ann:canary@a.example/mcp|--transport|canary", 1, `as mcp-remote: --transport: "canary" is not one of http-first, sse-first, http-only, sse-only`},
		{"mcp-remote|https://a.example/mcp|--static-oauth-client-info|{\"client_secret\": canary}", 1, "as mcp-remote: --static-oauth-client-info: expected a JSON object, or @ and the file of one"},
		{"supergateway|--stdio|no-such-command -y", 127, `as supergateway: the server's command cannot be started: exec: "no-such-command": executable file not found in $PATH`},
		{"supergateway|--stdio|go version|--port|99999", 1, `as supergateway: --port: ":99999" has a port above 65535`},
		{"supergateway|--stdio|go version|--baseUrl|x", 1, `as supergateway: --baseUrl: "x/mcp" is not an http or https URL without a query`},
		{"supergateway|--stdio|go version|--cors|page.example", 1, `as supergateway: --cors: "page.example" is neither an origin such as https://page.example:8443 nor *`},
		{"mcp-proxy|--apiKey|canary|--|go|version", 1, "as mcp-proxy: --apiKey: is shorter than 16 characters, and other machines can reach the address in listen: use a random one (openssl rand -base64 32), or set DRAGOMAN_AUTH_TRUST_NETWORK=true where the network keeps others out"},
		{"mcp-proxy-py|--cwd|nowhere|go|version", 1, "as mcp-proxy-py: the server's command cannot be started: stat nowhere: no such file or directory"},
		{"mcp-proxy|--host|192.0.2.1|--port|0|--|go|version", 1, "listen tcp 192.0.2.1:0: bind: cannot assign requested address: --host chooses another address: one of this machine, such as 127.0.0.1:8808, or 0.0.0.0:8808 for all"},
		{"tbxark|-config|two.json", 2, "as tbxark: two.json: has 2 servers; choose one: DRAGOMAN_UPSTREAM_PASS_ENV='*' dragoman serve --config two.json --server NAME, which is one of a b"},
		{"tbxark|-config|torn.json", 2, "as tbxark: torn.json:1: not JSON: did not find expected node content"},
		{"mcp-proxy|--port|1|--|no-such-command", 1, `as mcp-proxy: the server's command cannot be started: exec: "no-such-command": executable file not found in $PATH`},
	} {
		for _, name := range []string{"DRAGOMAN_CORS_ORIGINS", "DRAGOMAN_OAUTH_PUBLIC_URL", "DRAGOMAN_AUTH_HEADER", "DRAGOMAN_AUTH_TOKENS", "DRAGOMAN_UPSTREAM_PASS_ENV"} {
			t.Setenv(name, "") // which other lines have set
		}
		t.Setenv("DRAGOMAN_UPSTREAM_COOKIES", "balancers")
		args := append([]string{"as"}, strings.FieldsFunc(c.args, func(r rune) bool { return r == '|' })...)
		err := command(args).ExecuteContext(t.Context())
		if err == nil || err.Error() != c.want || exitCode(err) != c.code {
			t.Errorf("%s\n got  %v, %d\n want %s, %d", c.args, err, exitCode(err), c.want, c.code)
		}
		if !isUnserved(append([]string{"dragoman"}, args...), err) && !term.IsTerminal(int(os.Stdin.Fd())) {
			t.Errorf("%s: the client gets no answer", c.args)
		}
	}
}

// TestRowsWriteFlags: the flags that rows write are flags of serve or stdio.
func TestRowsWriteFlags(t *testing.T) {
	for _, name := range comingfrom.Names() {
		tool, err := comingfrom.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range tool.Rows {
			for _, word := range r.Flags {
				flag, ok := strings.CutPrefix(word, "--")
				if ok && serveCommand().Flags().Lookup(flag) == nil && stdioCommand().Flags().Lookup(flag) == nil {
					t.Errorf("%s %s: there is no flag %s", name, r.Theirs, word)
				}
			}
		}
	}
}

// TestLineSaysThatNoKeyIsNeeded: where other machines can use the server without a key, the line on stderr says so.
func TestLineSaysThatNoKeyIsNeeded(t *testing.T) {
	for _, name := range []string{"DRAGOMAN_AUTH_TOKENS", "DRAGOMAN_AUTH_NAMED_TOKENS", "DRAGOMAN_AUTH_TOKEN_FILE", "DRAGOMAN_CONFIG"} {
		t.Setenv(name, "")
	}
	says := func(flags ...string) bool { return reach(&comingfrom.Line{Command: "serve", Flags: flags}) != "" }
	if !says("--listen", ":8000") || !says("--listen", "0.0.0.0:8000") || !says("--listen", "10.1.2.3:8000") {
		t.Error("other machines can connect, and it says nothing")
	}
	if says("--listen", "127.0.0.1:8000") || says("--listen", "[::1]:8000") || says("--log-level", "debug") {
		t.Error("other machines cannot connect, and it says that they can")
	}
	if t.Setenv("DRAGOMAN_AUTH_TOKENS", "a"); says("--listen", ":8000") {
		t.Error("they need a key, and it says that they do not")
	}
}

// TestACommandIsLookedForInItsFolder: a relative path is one of the folder that the command starts in.
func TestACommandIsLookedForInItsFolder(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "server.exe"), nil, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if err := startable(&comingfrom.Line{Program: "./server.exe", Flags: []string{"--cwd", dir}}); err != nil {
		t.Error(err)
	}
	if startable(&comingfrom.Line{Program: "./server.exe"}) == nil || startable(&comingfrom.Line{Program: "./other.exe", Flags: []string{"--cwd", dir}}) == nil {
		t.Error("a program that does not exist is found")
	}
}
