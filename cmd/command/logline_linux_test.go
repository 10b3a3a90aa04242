package command

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// TestTerminalGetsText checks the form of the log of a process whose stderr is a terminal, and is none.
func TestTerminalGetsText(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		terminal bool
		env      []string
		want     string
	}{
		"a terminal":              {true, []string{"TERM=xterm", "NO_COLOR="}, `(?m)^\x1b\[2m[0-9:]{8}\x1b\[0m \x1b\[32mINFO \x1b\[0m serving\x1b\[2m url=http://127\.0\.0\.1:[0-9]+/mcp\x1b\[0m`},
		"without colours":         {true, []string{"TERM=xterm", "NO_COLOR=1"}, `(?m)^[0-9:]{8} INFO  serving url=http://127\.0\.0\.1:[0-9]+/mcp server=`},
		"a dumb terminal":         {true, []string{"TERM=dumb", "NO_COLOR="}, `(?m)^[0-9:]{8} INFO  serving url=http`},
		"json on a terminal":      {true, []string{"DRAGOMAN_LOG_FORMAT=json"}, `(?m)^\{"level":"info","ts":"[^"]+","msg":"serving"`},
		"a pipe":                  {false, nil, `(?m)^\{"level":"info","ts":"[^"]+","msg":"serving"`},
		"text on a pipe":          {false, []string{"DRAGOMAN_LOG_FORMAT=text", "TERM=xterm", "NO_COLOR="}, `(?m)^[0-9:]{8} INFO  serving url=http`},
		"a warning on a terminal": {true, []string{"TERM=dumb"}, `(?m)^[0-9:]{8} WARN  upstream is not ready: .* → .*$`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log *syncBuffer
			p := startProcess(t, func(cmd *exec.Cmd) {
				cmd.Env = append(cmd.Env, c.env...)
				if c.terminal {
					var prepare func(*exec.Cmd)
					prepare, log, _ = onItsTerminal(t)
					prepare(cmd)
				}
			}, "serve", "--listen", "127.0.0.1:0", "http://127.0.0.1:1/mcp")
			if log == nil {
				log = p.log
			}
			peertest.Eventually(t, "the log has "+c.want, func() bool {
				return regexp.MustCompile(c.want).MatchString(strings.ReplaceAll(log.String(), "\r\n", "\n"))
			})
		})
	}
}

// TestReloadedLogFormatIsUsed checks that a change of log.format needs no restart.
func TestReloadedLogFormatIsUsed(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "c.yaml")
	write(t, file, `log: {format: json}`)
	p := startProcess(t, nil, "serve", "--config", file, "--listen", "127.0.0.1:0", "http://127.0.0.1:1/mcp")
	p.runs(t)
	write(t, file, `log: {format: text}`)
	peertest.Eventually(t, "the log says as text that the configuration is new", func() bool {
		return regexp.MustCompile(`(?m)^[0-9:]{8} INFO  new configuration because=`).MatchString(p.log.String())
	})
}
