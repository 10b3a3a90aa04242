package command

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// A process is the command itself, which runs apart from the test.
type process struct {
	*exec.Cmd
	log      *syncBuffer
	in       io.WriteCloser // of stdio
	out      *bufio.Scanner // of stdio
	closeOut func()         // closes the other end of its stdout
	ended    chan struct{}
	err      error // of Wait, after ended
}

// startProcess starts the command with these arguments. prepare may change how it starts.
func startProcess(t *testing.T, prepare func(*exec.Cmd), args ...string) *process {
	t.Helper()
	return startPiped(t, args[0] == "stdio", prepare, args...)
}

// startPiped is startProcess; piped says whether the process has a client at its stdin and stdout.
func startPiped(t *testing.T, piped bool, prepare func(*exec.Cmd), args ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(os.Args[0], args...), log: new(syncBuffer), ended: make(chan struct{})}
	p.Env = append(os.Environ(), beDragoman+"=1", "DRAGOMAN_ADMIN_LISTEN=")
	p.Stderr = p.log
	if piped {
		theirIn, in, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		out, theirOut, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		p.Stdin, p.Stdout, p.in, p.out, p.closeOut = theirIn, theirOut, in, bufio.NewScanner(out), func() { out.Close() }
		defer theirIn.Close()
		defer theirOut.Close()
		t.Cleanup(func() { in.Close(); out.Close() })
	}
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

// asks sends a request to a process on stdio, and returns the response.
func (p *process) asks(t *testing.T, method string) gjson.Result {
	t.Helper()
	fmt.Fprintf(p.in, `{"jsonrpc":"2.0","id":1,"method":%q,"params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`+"\n", method)
	for p.out.Scan() {
		if line := gjson.Parse(p.out.Text()); line.Get("id").Int() == 1 {
			return line
		}
	}
	t.Fatalf("%s: no response: %v\n%s", method, p.out.Err(), p.log)
	return gjson.Result{}
}

// says waits for the first log line with this message, and returns it.
func (p *process) says(t *testing.T, message string) gjson.Result {
	t.Helper()
	var all []gjson.Result
	peertest.Eventually(t, "the log says "+message, func() bool {
		all = p.lines(message)
		return len(all) > 0
	})
	return all[0]
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

// runs waits until the process serves: until it is ready for signals, too. It returns the endpoint of serve.
func (p *process) runs(t *testing.T) (url string) {
	t.Helper()
	if p.in != nil {
		p.asks(t, "initialize")
		return ""
	}
	return p.says(t, "serving").Get("url").Str
}

// endsInOrder waits for the end of the process, which must be one without an error.
func (p *process) endsInOrder(t *testing.T) {
	t.Helper()
	<-p.ended
	if p.err != nil {
		t.Errorf("%v\n%s", p.err, p.log)
	}
}

// environ returns a change of a command's start: further variables.
func environ(more ...string) func(*exec.Cmd) {
	return func(cmd *exec.Cmd) { cmd.Env = slices.Concat(cmd.Env, more) }
}
