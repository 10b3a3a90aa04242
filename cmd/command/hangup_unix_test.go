//go:build unix

package command

import (
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
)

func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// needsHangup skips a test where what is started inherits that SIGHUP is ignored.
func needsHangup(t *testing.T) {
	t.Helper()
	if signal.Ignored(syscall.SIGHUP) {
		t.Skip("SIGHUP is ignored here, as behind nohup")
	}
}

// configured writes a configuration of a server that cannot be reached.
func configured(t *testing.T) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "c.yaml")
	write(t, file, "listen: 127.0.0.1:0\nupstream: {url: http://127.0.0.1:1/mcp}")
	return file
}

// TestHangupWithoutATerminalReloads checks that "serve" reads again at each SIGHUP, also with no file, and that "stdio" does so only
// with one. Without one it ends.
func TestHangupWithoutATerminalReloads(t *testing.T) {
	needsHangup(t)
	t.Parallel()
	for name, c := range map[string]struct {
		args    []string
		message string
	}{
		"serve":           {[]string{"serve", "http://127.0.0.1:1/mcp"}, "new configuration"},
		"serve, a file":   {[]string{"serve", "--config", configured(t)}, "new configuration"},
		"stdio, a file":   {[]string{"stdio", "--config", configured(t)}, "new configuration"},
		"stdio, adapters": {[]string{"stdio", "--adapters", t.TempDir()}, "new configuration"},
		"stdio":           {[]string{"stdio", "http://127.0.0.1:1/mcp"}, "stopping on SIGHUP"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startProcess(t, environ("DRAGOMAN_LISTEN=127.0.0.1:0"), c.args...)
			p.runs(t)
			p.signal(t, syscall.SIGHUP)
			p.says(t, c.message)
			if c.message == "new configuration" {
				p.signal(t, syscall.SIGTERM)
			}
			p.endsInOrder(t)
		})
	}
}

// TestStdinEndsStdioWithAFile checks that a process on stdio that watches files ends with its client.
func TestStdinEndsStdioWithAFile(t *testing.T) {
	t.Parallel()
	p := startProcess(t, nil, "stdio", "--config", configured(t))
	p.runs(t)
	p.in.Close()
	p.endsInOrder(t)
	if n := len(p.lines("new configuration")); n > 0 {
		t.Errorf("read again %d times", n)
	}
}
