package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestConfigurationsOfClients: they are told from dragoman's own, and the error says what to write for their servers, without secrets.
func TestConfigurationsOfClients(t *testing.T) {
	const unread = "for a server in it write dragoman serve URL, or dragoman serve -- COMMAND [ARG...]"
	for text, want := range map[string]string{
		`{"mcpServers": {"a": {"command": "npx", "args": ["-y", "x"]}}}`:                          `for its server "a" write dragoman serve -- npx -y x`,
		`{"mcpServers": {"a": {"command": "npx", "args": ["--token", "canary-canary"]}}}`:         `for its server "a" write dragoman serve -- npx --token …`,
		`{"mcpServers": {"a": {"url": "https://ann:canary@x.example/mcp?key=canary"}}}`:           `for its server "a" write dragoman serve https://x.example/mcp?…`,
		`{"mcpServers": {"a": {"httpUrl": "https://x.example/mcp", "headers": {"A": "canary"}}}}`: `for its server "a" write dragoman serve https://x.example/mcp`,
		`{"mcpServers": {"a b": {"command": "/opt/my server", "args": ["it's"]}}}`:                `for its server "a b" write dragoman serve -- '/opt/my server' 'it'\''s'`,
		`{"servers": {"a": {"type": "stdio", "command": "npx"}}, "inputs": []}`:                   `for its server "a" write dragoman serve -- npx`,
		`{"mcp": {"servers": {"a": {"command": "npx"}}}, "editor.fontSize": 12}`:                  `for its server "a" write dragoman serve -- npx`,
		`{"mcp": {"a": {"type": "local", "command": ["npx", "-y", "x"]}}}`:                        `for its server "a" write dragoman serve -- npx -y x`,
		`{"context_servers": {"a": {"command": {"path": "npx"}}}}`:                                unread,
		`{"mcpServers": {}}`: unread,
		`{"mcpServers": 5}`:  unread,
		"{\n  // mine\n  \"mcpServers\": {\"a\": {\"command\": \"canary\"}}\n}": unread,
		"[mcp_servers.a]\ncommand = \"canary\"\n":                               unread,
		`{"mcpServers": {"a": {"url": "http://a/"}, "b": {"url": "http://b/"}, "c": {"url": "http://c/"}, "d": {"url": "http://d/"}, "e": {"url": "http://e/"}}}`: `for its servers "a", "b" and 3 more write` +
			"\n  dragoman serve http://a/\n  dragoman serve http://b/",
		`{"mcpServers": {"a": {"url": "http://a/"}, "b": {"command": "npx"}}}`: `for its servers "a" and "b" write` + "\n  dragoman serve http://a/\n  dragoman serve -- npx",
		"listen: 127.0.0.1:1": "", "": "", "{": "", "upstream: {url: 'http://a/'}": "", "serverz: {}": "", "# \"mcpServers\": later\nlisten: 127.0.0.1:1\n": "",
	} {
		file := filepath.Join(t.TempDir(), "c")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := OfClient(file, "dragoman serve")
		if full := file + ": is the configuration of a client, not dragoman's; " + want; want == "" && err != nil || want != "" && (err == nil || err.Error() != full) {
			t.Errorf("%s:\n got  %v\n want %s", text, err, want)
		}
		_, read := Sources{File: file}.Read()
		if want != "" && (read == nil || read.Error() != err.Error()) || read != nil && strings.Contains(read.Error(), "canary") {
			t.Errorf("%s: %v", text, read)
		}
	}
	if err := OfClient("/nowhere", "dragoman serve"); err != nil {
		t.Error(err)
	}
}
