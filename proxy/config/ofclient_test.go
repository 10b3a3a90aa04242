package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// mcpFile writes a configuration to a new file.
func mcpFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "mcp.json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestServersOfClientConfigurations: what an entry sets, in the forms of the clients.
func TestServersOfClientConfigurations(t *testing.T) {
	for text, want := range map[string]Upstream{
		`{"mcpServers": {"a": {"command": "npx", "args": ["-y", "x"], "env": {"A": "b", "N": 123456789012345678, "T": true, "U": null}, "cwd": "/tmp"}}}`: {
			Command: []string{"npx", "-y", "x"}, Env: map[string]string{"A": "b", "N": "123456789012345678", "T": "true"}, Dir: "/tmp",
		},
		"\ufeff{\n\t// mine\n\t\"servers\": {\n\t\t\"a\": {\"type\": \"http\", \"url\": \"https://x.example/mcp\", /* later */ \"headers\": {\"X-A\": \"b\",},},\n\t},\n\t\"inputs\": [],\n}": {
			URL: "https://x.example/mcp", Headers: map[string]string{"X-A": "b"},
		},
		`{"mcp": {"servers": {"a": {"command": "npx"}}}, "editor.fontSize": 12}`:                                                                {Command: []string{"npx"}},
		`{"mcp": {"a": {"type": "local", "command": ["npx", "-y", "x"], "environment": {"A": "\ud83d\ude00"}}}}`:                                {Command: []string{"npx", "-y", "x"}, Env: map[string]string{"A": "😀"}},
		`{"mcp": {"a": {"type": "remote", "url": "http://x.example/"}}}`:                                                                        {URL: "http://x.example/"},
		`{"context_servers": {"a": {"command": "npx", "args": []}}}`:                                                                            {Command: []string{"npx"}},
		`{"mcpServers": {"a": {"serverUrl": "http://x.example/sse", "type": "sse"}}}`:                                                           {URL: "http://x.example/sse", Transport: "sse"},
		`{"mcpServers": {"a": {"httpUrl": "http://x.example/mcp"}}}`:                                                                            {URL: "http://x.example/mcp"},
		`{"mcpServers": {"a": {"url": "http://x.example/mcp", "transportType": "streamable-http"}}, "mcpProxy": {"addr": ":9090"}}`:             {URL: "http://x.example/mcp"},
		`{"mcpServers": {"a": {"command": "npx", "disabled": true}, "b": {"command": "uvx"}, "c": {"command": "c", "enabled": false}}}`:         {Command: []string{"uvx"}},
		`{"mcpServers": {"a": {"command": "${HOME}/x", "args": ["${env:WORD}", "${NONE:-d}", "$WORD"], "env": {"K": "x ${env:KEY}"}}}}`:         {Command: []string{"/h/x", "word", "d", "$WORD"}, Env: map[string]string{"K": "x key"}},
		`{"mcpServers": {"a": {"url": "http://${WORD:-x}.example/", "headers": {"Authorization": "Bearer ${KEY}", "X": "${NONE:-d}"}}}}`:        {URL: "http://word.example/", Headers: map[string]string{"Authorization": "Bearer key", "X": "d"}},
		`{"mcpServers": {"a": {"command": "${userHome}/x", "env": {"OF_A_SECRET": "${BRACES}"}}}}`:                                              {Command: []string{"/h/x"}, Env: map[string]string{"OF_A_SECRET": "a ${NOTHING} b"}},
		`{"mcpServers": {"a": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/home/me/dragoman", "dragoman"]}}}`: {Command: []string{"npx", "-y", "@modelcontextprotocol/server-filesystem", "/home/me/dragoman", "dragoman"}},
	} {
		want.Auth, want.Restart = Default().Upstream.Auth, Default().Upstream.Restart
		if want.Transport == "" {
			want.Transport = Default().Upstream.Transport
		}
		c, err := Sources{File: mcpFile(t, text), Environ: []string{"HOME=/h", "WORD=word", "KEY=key", "BRACES=a ${NOTHING} b"}, Server: new("")}.Read()
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		got := Upstream{URL: c.Upstream.URL, Transport: c.Upstream.Transport, Command: c.Upstream.Command, Dir: c.Upstream.Dir, Env: c.Upstream.Env, Headers: c.Upstream.Headers, Auth: want.Auth, Restart: want.Restart}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: -want +got\n%s", text, diff)
		}
	}
}

// TestClientConfigurationsThatCannotBeUsed: each error says what is wrong, and none has a value of the file.
func TestClientConfigurationsThatCannotBeUsed(t *testing.T) {
	const three = `{"mcpServers": {"a b": {"command": "canary"}, "b": {"url": "http://canary/"}, "c": {"url": "http://canary/"}}}`
	for _, c := range []struct{ text, server, want string }{
		{three, "", `FILE: has 3 servers; choose one: --server NAME, which is one of 'a b' b c`},
		{three, "x", `FILE: has no server x; --server names one of 'a b' b c`},
		{`{"mcpServers": {}}`, "", "FILE: mcpServers: expected servers by their names"},
		{`{"mcpServers": [{"name": "canary"}]}`, "", "FILE: mcpServers: expected servers by their names"},
		{`{"mcpServers": {"a": "canary"}}`, "", `FILE: has no server a; --server names one of a`},
		{`{"mcpServers": {"a": {}}}`, "", "FILE: mcpServers.a: expected a url, or a command with args"},
		{`{"mcpServers": {"a": {"type": "sse", "command": "canary"}}}`, "", "FILE: mcpServers.a: expected a url, or a command with args"},
		{`{"mcpServers": {"a": {"type": "ws", "url": "ws://canary/"}}}`, "", "FILE: mcpServers.a: its type is none of stdio, http and sse"},
		{`{"mcpServers": {"a": {"command": "npx", "args": "canary"}}}`, "", "FILE: mcpServers.a.args: expected a list of texts such as [a, b]"},
		{`{"mcpServers": {"a": {"command": {"path": "canary"}}}}`, "", "FILE: mcpServers.a: upstream.command[0]: expected a text"},
		{`{"mcpServers": {"a": {"command": "npx", "env": {"A": ["canary"]}}}}`, "", "FILE: mcpServers.a: upstream.env.A: expected a text"},
		{`{"mcpServers": {"a": {"command": "npx", "args": ["${NONE}"]}}}`, "", "FILE: mcpServers.a.args[0]: environment variable NONE is not set"},
		{`{"mcpServers": {"a": {"command": "npx", "env": {"K": "${env:NONE}"}}}}`, "", "FILE: mcpServers.a: upstream.env.K: environment variable NONE is not set"},
		{`{"servers": {"a": {"command": "npx", "env": {"K": "${input:key}"}}}, "inputs": [{"id": "key"}]}`, "", "FILE: servers.a.env.K: only the client can fill in ${input:key}: write ${NAME}, and set the variable NAME"},
		{"{\n  \"mcpServers\": {\n    \"a\": {\"command\" \"canary\"}}}", "", "FILE: is the configuration of a client, and not JSON in line 3; correct it, or write the URL or the command of its server"},
		{`{"mcpServers": {"a": {"command": "canary"`, "", "FILE: is the configuration of a client, and not JSON in line 1; correct it, or write the URL or the command of its server"},
		{"[mcp_servers.a]\ncommand = \"canary\"\n", "", "FILE: is the configuration of a client, and not JSON in line 1; correct it, or write the URL or the command of its server"},
		{`{"mcpServers": {"a": {"command": "/opt/dragoman.exe", "args": ["stdio", "https://x.example/mcp?key=canary"]}}}`, "", "FILE: mcpServers.a: starts dragoman itself; run that: /opt/dragoman.exe stdio https://x.example/mcp?…"},
		{`{"mcpServers": {"a": {"command": "env", "args": ["dragoman", "stdio", "--config", "mcp.json"]}}}`, "", "FILE: mcpServers.a: starts dragoman itself; run that: dragoman stdio --config mcp.json"},
		{"upstream: {url: 'http://a/'}", "a", "FILE: is not the configuration of a client: it has no servers from which --server can choose"},
		{"", "a", "FILE: is not the configuration of a client: it has no servers from which --server can choose"},
	} {
		file := mcpFile(t, c.text)
		_, err := Sources{File: file, Server: &c.server}.Read()
		if want := strings.ReplaceAll(c.want, "FILE", file); err == nil || err.Error() != want {
			t.Errorf("%s:\n got  %v\n want %s", c.text, err, want)
		}
		if of := strings.Contains(c.text, "ervers"); OfClient(file) != of {
			t.Errorf("%s: OfClient is %t", c.text, !of)
		}
		if _, err := (Sources{File: file}).Read(); err == nil && !strings.Contains(c.want, "is not the configuration") || err != nil && strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: without a choice of a server: %v", c.text, err)
		}
	}
	if OfClient("/nowhere") {
		t.Error("a file that does not exist is the configuration of a client")
	}
	for _, own := range []string{"listen: 127.0.0.1:1", "", "{}", `{"listen": "127.0.0.1:1"}`, "# \"mcpServers\": later\nlisten: 127.0.0.1:1\n"} {
		if _, err := (Sources{File: mcpFile(t, own), Server: new("")}).Read(); err != nil {
			t.Errorf("%s: %v", own, err)
		}
	}
	if _, err := (Sources{Server: new("a")}).Read(); err == nil || !strings.Contains(err.Error(), "--config FILE is missing") {
		t.Errorf("--server alone: %v", err)
	}
}

// TestConfigurationOfTBXarksProxy: what it says of its listener and of its clients counts, too.
func TestConfigurationOfTBXarksProxy(t *testing.T) {
	const proxy = `{"mcpProxy": {"baseURL": "https://mcp.example.com/all/", "addr": ":9090", "name": "n", "version": "1", "type": "sse", "options": {"logEnabled": true, "authTokens": ["${KEY}"], "toolFilter": {"list": ["x"]}}},
		"mcpServers": {"a": {"command": "npx"%s}, "off": {"url": "http://x.example/", "options": {"disabled": true}}}}`
	for options, tokens := range map[string][]string{``: {"of all"}, `, "options": {"panicIfInvalid": true}`: {"of all"}, `, "options": {"authTokens": ["own", "two"]}`: {"own", "two"}, `, "options": {"authTokens": []}`: {}} {
		c, err := Sources{File: mcpFile(t, fmt.Sprintf(proxy, options)), Environ: []string{"KEY=of all"}, Server: new("")}.Read()
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(c.Auth.Tokens, tokens) || c.Listen != ":9090" || c.Path != "/all/a/mcp" || !slices.Equal(c.AllowedHosts, []string{"mcp.example.com"}) || c.Upstream.Command[0] != "npx" || len(c.Remarks) > 0 {
			t.Errorf("%s: tokens %q, listen %s, path %s, hosts %q, command %q, %v", options, c.Auth.Tokens, c.Listen, c.Path, c.AllowedHosts, c.Upstream.Command, c.Remarks)
		}
		_ = c.EachSetting(func(path string, v reflect.Value) error {
			if path == "sse_path" && v.String() != "/all/a/sse" {
				t.Errorf("%s is %s", path, v)
			}
			return nil
		})
	}
	c, err := Sources{File: mcpFile(t, `{"mcpProxy": {}, "mcpServers": {"a": {"url": "http://x.example/", "transportType": "streamable-http", "timeout": 5}}}`), Server: new("")}.Read()
	if err != nil || c.Listen != ":80" || c.Path != "/a/mcp" || len(c.Auth.Tokens)+len(c.AllowedHosts) > 0 || len(c.Remarks) != 1 {
		t.Errorf("%s, %s, %v, %v", c.Listen, c.Path, c.Remarks, err)
	}
	for options, want := range map[string]string{
		`"toolFilter": {"mode": "block", "list": ["canary"]}`: ".toolFilter: dragoman passes all tools of the server on: take it out, and switch tools off in the client or the server",
		`"authTokens": "canary"`:                              ": auth.tokens: expected a list of texts such as [a, b]",
		`"authTokens": ["${NONE}"]`:                           ".authTokens[0]: environment variable NONE is not set",
	} {
		file := mcpFile(t, fmt.Sprintf(proxy, `, "options": {`+options+`}`))
		if _, err := (Sources{File: file, Environ: []string{"KEY=k"}, Server: new("a")}).Read(); err == nil || err.Error() != file+": mcpServers.a"+want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

// TestClientConfigurationBesideOtherSettings: variables and flags override it, but not with a second server, which would get its headers.
func TestClientConfigurationBesideOtherSettings(t *testing.T) {
	file := mcpFile(t, `{"mcpServers": {"a": {"url": "http://a.example/", "headers": {"A": "canary"}, "alwaysAllow": ["x"], "timeout": 60}}}`)
	c, err := Sources{File: file, Environ: []string{"DRAGOMAN_UPSTREAM_TRANSPORT=sse", "DRAGOMAN_LISTEN=127.0.0.1:1"}, Server: new("a")}.Read()
	if err != nil || c.Upstream.Transport != "sse" || c.Listen != "127.0.0.1:1" {
		t.Errorf("%q, %q, %v", c.Upstream.Transport, c.Listen, err)
	}
	if want := []Remark{{"not used: alwaysAllow, timeout", file + ": mcpServers.a", "write flags or the settings of dragoman for what they do"}}; !slices.Equal(c.Remarks, want) {
		t.Errorf("remarks %v", c.Remarks)
	}
	_, err = Sources{File: file, Environ: []string{"DRAGOMAN_UPSTREAM_URL=http://b.example/"}, Server: new("")}.Read()
	if want := "DRAGOMAN_UPSTREAM_URL: two servers are given, this one and " + file + ": mcpServers.a: keep one"; err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	bridge := mcpFile(t, `{"mcpServers": {"a": {"command": "cmd", "args": ["/c", "npx", "-y", "mcp-remote@latest", "http://a.example/"]}}}`)
	if c, err = (Sources{File: bridge, Server: new("")}).Read(); err != nil || len(c.Remarks) != 1 || !strings.HasPrefix(c.Remarks[0].What, "its command starts mcp-remote, ") {
		t.Errorf("%v, %v", c.Remarks, err)
	}
}

// TestValuesOfVariablesAreNotShown: what a client fills in may be a secret, wherever it stands.
func TestValuesOfVariablesAreNotShown(t *testing.T) {
	environ := []string{"KEY=canary"}
	c, err := Sources{File: mcpFile(t, `{"mcpServers": {"a": {"Command": "x", "Args": ["${KEY}", "--at", "u ${env:KEY}"]}}}`), Environ: environ, Server: new("")}.Read()
	if want := []string{"x", "${KEY}", "--at", "u ${env:KEY}"}; err != nil || !slices.Equal(c.Upstream.WrittenCommand(), want) || c.Upstream.Command[1] != "canary" {
		t.Errorf("%v %q", err, c.Upstream.WrittenCommand())
	}
	_, err = Sources{File: mcpFile(t, `{"mcpServers": {"a": {"command": "dragoman", "args": ["stdio", "-", "${KEY}", "--header", "X-A: ${KEY}"]}}}`), Environ: environ, Server: new("")}.Read()
	if err == nil || strings.Contains(err.Error(), "canary") || !strings.Contains(err.Error(), "'X-A: ${KEY}'") {
		t.Error(err)
	}
}

// TestHostileClientConfigurations: the error is short, however much is wrong.
func TestHostileClientConfigurations(t *testing.T) {
	long := strings.Repeat("y", 50_000)
	for name, text := range map[string]string{
		"many variables": `{"mcpServers": {"a": {"command": "x", "args": [` + strings.Repeat(`"${NONE}",`, 50_000) + `]}}}`,
		"a long one":     `{"mcpServers": {"a": {"url": "${a:` + long + `}"}}}`,
		"long names":     `{"mcpServers": {"` + long + `": {}, "b` + long + `": {}}}`,
		"deep":           `{"mcpServers": {"a": {"url": ` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}}}`,
	} {
		if _, err := (Sources{File: mcpFile(t, text), Server: new("")}).Read(); err == nil || len(err.Error()) > 2000 {
			t.Errorf("%s: %.3000v", name, err)
		}
	}
}

// TestHeaderFileThatIsNone: of a large file that has no headers, a few lines are told.
func TestHeaderFileThatIsNone(t *testing.T) {
	u := Upstream{HeaderFile: mcpFile(t, strings.Repeat("canary\n", 50_000))}
	if err := u.readHeaderFile(func(_, _ string) {}); err == nil || len(err.Error()) > 5000 || strings.Contains(err.Error(), "canary") {
		t.Errorf("%.3000v", err)
	}
}
