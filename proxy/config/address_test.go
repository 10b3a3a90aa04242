package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/proxy/config/setting"
)

// TestMeantAddresses: what is nearly host:port is answered with what was probably meant.
func TestMeantAddresses(t *testing.T) {
	for addr, want := range map[string]string{
		"127.0.0.1:8808": "", "[::1]:8808": "", ":8808": "", "0.0.0.0:0": "", "[10.1.2.3]:8808": "", "localhost:http": "", "[fe80::1%eth0]:8808": "",
		"8808": "did you mean 127.0.0.1:8808?", "::1:8808": "did you mean [::1]:8808?", "2001:db8::7:443": "did you mean [2001:db8::7]:443?",
		"::1": "did you mean [::1]:7?", "[::1]": "did you mean [::1]:7?", "fe80::1": "did you mean [fe80::1]:7?", "::": "did you mean [::]:7?",
		"127.0.0.1": "did you mean 127.0.0.1:7?", "localhost": "did you mean localhost:7?", "http://localhost:9000": "did you mean localhost:9000?",
		"https://[::1]:9000/mcp": "did you mean [::1]:9000?", "http://a.example/": "did you mean a.example:7?",
		"http://ann:canary@a.example:1/": "; write host:port, such as 127.0.0.1:7", "[::1]8808": "write host:port, such as 127.0.0.1:7", "a b": "write host:port, such as 127.0.0.1:7",
		"127.0.0.1:70000": "has a port above 65535", "127.0.0.1:nope": `there is no port "nope"`, "unix:/x": "only listen may be a unix socket",
		"$(POD_IP):8808": "the container's env must set POD_IP before", "[$(POD_IP)]:8808": "holds $(POD_IP), which Kubernetes has not replaced", "$(X": "holds $(X)",
	} {
		var all setting.Mistakes
		validateAddress(&all, "admin.listen", addr, "7")
		if got := all.Err(); (got == nil) != (want == "") || got != nil && !strings.Contains(got.Error(), want) {
			t.Errorf("%s: %v, want %q", addr, got, want)
		}
	}
}

// TestHome: ~ at the beginning of a path is the home directory in every setting that is a path, and nowhere else.
func TestHome(t *testing.T) {
	read := func(text string, environ ...string) Config {
		t.Helper()
		file := filepath.Join(t.TempDir(), "c.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, _ := Sources{File: file, Environ: append(environ, "HOME=/home/ann")}.Read()
		return c
	}
	c := read("adapters: {sources: [~/a, '~', /b, '~bob/c', 'x~/d', ~]}\nsession: {key_file: ~/key}\nrecord: {file: ~/r.jsonl}\ncredentials: ~/tokens\n"+
		"listen: unix:~/d.sock\nupstream: {command: [~/server, ~/argument], dir: ~/w, auth: {token_file: ~/t}, headers: {X: ~/y}}\nauth: {tokens: [~/token]}\n", "DRAGOMAN_TLS_KEY=~/tls.key")
	for _, p := range []struct{ got, want string }{
		{strings.Join(c.Adapters.Sources, " "), "/home/ann/a /home/ann /b ~bob/c x~/d "}, {c.Session.KeyFile, "/home/ann/key"}, {c.Record.File, "/home/ann/r.jsonl"},
		{c.Credentials, "/home/ann/tokens"}, {c.Listen, "unix:/home/ann/d.sock"}, {strings.Join(c.Upstream.Command, " "), "/home/ann/server ~/argument"},
		{c.Upstream.Dir, "/home/ann/w"}, {c.Upstream.Auth.TokenFile, "/home/ann/t"}, {c.Upstream.Headers["X"], "~/y"}, {c.Auth.Tokens[0], "~/token"}, {c.TLS.Key, "/home/ann/tls.key"},
	} {
		if p.got != p.want {
			t.Errorf("%q, want %q", p.got, p.want)
		}
	}
	if got := file.AtHome("~/x", ""); got != "~/x" {
		t.Error(got)
	}
	given := []string{"~/server"}
	if _, err := (Sources{Environ: []string{"HOME=/home/ann"}, Flags: func(c *Config, _ *setting.Layers) { c.Upstream.Command = given }}).Read(); err != nil || given[0] != "~/server" {
		t.Errorf("the command line itself is changed: %q, %v", given, err)
	}
}
