package command

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/term"

	"github.com/dragoman-proxy/dragoman/cmd/command/comingfrom"
)

// TestLinesOfOtherToolsThatFail: the error has the option of the tool, no secrets, and the exit code of the tool.
func TestLinesOfOtherToolsThatFail(t *testing.T) {
	for _, c := range []struct {
		args string // apart at |
		code int
		want string
	}{
		{"npx|x", 2, `as: "npx" is not one of ` + strings.Join(comingfrom.Names(), ", ")},
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
		{"mcp-proxy|--port|1|--|no-such-command", 1, `as mcp-proxy: the server's command cannot be started: exec: "no-such-command": executable file not found in $PATH`},
	} {
		for _, name := range []string{"DRAGOMAN_CORS_ORIGINS", "DRAGOMAN_OAUTH_PUBLIC_URL"} {
			t.Setenv(name, "") // which other lines have set
		}
		t.Setenv("DRAGOMAN_UPSTREAM_COOKIES", "balancers")
		args := append([]string{"as"}, strings.Split(c.args, "|")...)
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
