package command

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// TestAHeaderFileIsReadAgain checks that the session that had begun before sends the new headers of a file, and the last valid ones
// while the file is half written or gone.
func TestAHeaderFileIsReadAgain(t *testing.T) {
	t.Parallel()
	server, dir := newKeeper(t), t.TempDir()
	headers, ca := filepath.Join(mkdir(t, filepath.Join(dir, "headers")), "h"), filepath.Join(dir, "ca.pem")
	write(t, ca, text(server.Certificate()))
	write(t, headers, "# of the gateway\nAuthorization: Bearer canary-one\n")
	p := startProcess(t, func(c *exec.Cmd) { c.Env = append(c.Env, "DRAGOMAN_UPSTREAM_CA_FILE="+ca) }, "stdio", server.URL, "--header-file", headers)
	if got := p.asks(t, "initialize"); !got.Get("result").Exists() {
		t.Fatalf("%s\n%s", got.Raw, p.log.String())
	}
	fmt.Fprintln(p.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	sends := func(want string) bool {
		if got := p.asks(t, "tools/list"); !got.Get("result").Exists() {
			t.Fatalf("%s\n%s", got.Raw, p.log.String())
		}
		return server.authorization.Load() == "Bearer "+want
	}
	if !sends("canary-one") {
		t.Fatalf("sent %v", server.authorization.Load())
	}
	replace(t, headers, "Authorization: Bearer canary-two\n")
	peertest.Eventually(t, "the new header is sent", func() bool { return sends("canary-two") })
	for _, c := range []struct {
		state  string
		change func()
	}{
		{"no such file or directory", func() { os.Remove(headers) }},
		{"holds no header", func() { write(t, headers, "") }},
		{":1: Authorization has no value", func() { write(t, headers, "Authorization:") }},
	} {
		c.change()
		peertest.Eventually(t, "the log says: "+c.state, func() bool { return strings.Contains(p.log.String(), c.state) })
		if !sends("canary-two") {
			t.Errorf("%s: sent %v", c.state, server.authorization.Load())
		}
	}
	replace(t, headers, "authorization: Bearer canary-three\n")
	peertest.Eventually(t, "the header is sent again", func() bool { return sends("canary-three") })
	p.in.Close()
	p.endsInOrder(t)
	if strings.Contains(p.log.String(), "canary") {
		t.Errorf("the log has a secret:\n%s", p.log.String())
	}
}

// TestBearerEnv checks that the token of a variable is sent, and what a wrong line is told.
func TestBearerEnv(t *testing.T) {
	t.Setenv("CANARY_SET", "canary-value")
	t.Setenv("CANARY_EMPTY", "")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--bearer-env", "CANARY_NONE"}, "--bearer-env: upstream.headers.Authorization: environment variable CANARY_NONE is not set"},
		{[]string{"--bearer-env", "CANARY_EMPTY"}, `--bearer-env: upstream.headers.Authorization: "Bearer" has no token: is a variable not set?`},
		{[]string{"--bearer-env", "canary-value"}, "--bearer-env: expected the name of an environment variable, such as TOKEN, not the token"},
		{[]string{"--bearer-env="}, "--bearer-env: expected the name of an environment variable, such as TOKEN, not the token"},
		{[]string{"--bearer-env", "CANARY_SET", "--header", "authorization: Bearer canary-value"}, "--bearer-env: --header sets Authorization, too: keep one"},
		{[]string{"--bearer-env", "CANARY_SET", "--login", "auto"}, "upstream.auth.type: login cannot be set together with the Authorization in upstream.headers"},
	} {
		_, _, err := run(t.Context(), "", append([]string{"stdio", "http://127.0.0.1:1/mcp"}, c.args...)...)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "canary-value") {
			t.Errorf("%s: %v", c.args, err)
		}
	}
	if _, _, err := run(t.Context(), "", "stdio", "--bearer-env", "CANARY_SET", "--", "cat"); err == nil || !strings.Contains(err.Error(), "--bearer-env: applies only to a server at a URL") {
		t.Errorf("of a command: %v", err)
	}
	server, dir := newKeeper(t), t.TempDir()
	write(t, filepath.Join(dir, "ca.pem"), text(server.Certificate()))
	p := startProcess(t, func(c *exec.Cmd) { c.Env = append(c.Env, "DRAGOMAN_UPSTREAM_CA_FILE="+filepath.Join(dir, "ca.pem")) }, "stdio", server.URL, "--bearer-env", "CANARY_SET")
	if got := p.asks(t, "initialize"); !got.Get("result").Exists() || server.authorization.Load() != "Bearer canary-value" {
		t.Errorf("sent %v: %s\n%s", server.authorization.Load(), got.Raw, p.log.String())
	}
}
