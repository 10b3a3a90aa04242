package command

import (
	"bufio"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/peertest"
)

// A process is the command itself, which runs apart from the test.
type process struct {
	*exec.Cmd
	log   *syncBuffer
	ended chan struct{}
	err   error // of Wait, after ended
}

// startProcess starts the command with these arguments. prepare may change how it starts.
func startProcess(t *testing.T, prepare func(*exec.Cmd), args ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(os.Args[0], args...), log: new(syncBuffer), ended: make(chan struct{})}
	p.Env = append(os.Environ(), beDragoman+"=1", "DRAGOMAN_ADMIN_LISTEN=")
	p.Stderr = p.log
	if prepare != nil {
		prepare(p.Cmd)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.Process.Kill()
		<-p.ended
	})
	return p
}

// says waits for the nth log line with this message, and returns it.
func (p *process) says(t *testing.T, message string, n int) gjson.Result {
	t.Helper()
	var all []gjson.Result
	peertest.Eventually(t, "the log says "+message, func() bool {
		all = p.lines(message)
		return len(all) >= n
	})
	return all[n-1]
}

// lines returns the log lines with this message.
func (p *process) lines(message string) (all []gjson.Result) {
	for lines := bufio.NewScanner(strings.NewReader(p.log.String())); lines.Scan(); {
		if line := gjson.Parse(lines.Text()); line.Get("msg").Str == message {
			all = append(all, line)
		}
	}
	return all
}

// url waits until the process serves, and returns its endpoint.
func (p *process) url(t *testing.T) string {
	t.Helper()
	return p.says(t, "serving", 1).Get("url").Str
}

// environ returns the environment of the process with further variables.
func environ(more ...string) func(*exec.Cmd) {
	return func(cmd *exec.Cmd) { cmd.Env = slices.Concat(cmd.Env, more) }
}
