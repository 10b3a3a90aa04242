package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// dragoman is the path of the built command.
type dragoman string

// binaries is the folder with the commands that the tests build.
var binaries string

var proxyBinary = sync.OnceValues(func() (string, error) {
	return goBuild("dragoman", "github.com/dragoman-proxy/dragoman/cmd/dragoman")
})

// build builds the command, once for all tests.
func build(t *testing.T) dragoman {
	t.Helper()
	bin, err := proxyBinary()
	if err != nil {
		t.Fatal(err)
	}
	return dragoman(bin)
}

func goBuild(name, what string) (bin string, err error) {
	bin = filepath.Join(binaries, name)
	if runtime.GOOS == "windows" {
		bin += ".exe"
	}
	if out, err := exec.Command("go", "build", "-o", bin, what).CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build %s: %w\n%s", what, err, out)
	}
	return bin, nil
}

// args returns the arguments of a proxy in front of the server at an endpoint, or without a server if the endpoint is
// empty.
func (d dragoman) args(command string, to endpoint, flags ...string) []string {
	args := append([]string{string(d), command}, flags...)
	switch to.over {
	case "":
		return args
	case stdio:
		return append(append(args, "--"), to.command...)
	}
	return append(args, "--upstream", to.url)
}

// serve starts "dragoman serve", runs do with its endpoint for a transport, stops it, and returns the first error. The
// proxy's output goes to stderr.
func (d dragoman) serve(ctx context.Context, over transport, to endpoint, flags []string, do func(endpoint) error) error {
	args := d.args("serve", to, append(flags, "--listen", "127.0.0.1:0")...)
	proxy := exec.Command(args[0], args[1:]...)
	proxy.Stderr = to.stderr
	if err := proxy.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- proxy.Wait() }()
	url, err := serving(ctx, to.stderr, ended)
	if err == nil {
		if over == withSSE {
			url = strings.TrimSuffix(url, "/mcp") + "/sse"
		}
		err = do(endpoint{over: over, url: url, stderr: to.stderr})
	}
	return errors.Join(err, stop(proxy.Process, ended))
}

var servingLine = regexp.MustCompile(`"msg":"serving","url":"([^"]+)"`)

// serving waits until the proxy logs the URL that it serves at.
func serving(ctx context.Context, log *output, ended chan error) (url string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		if line := servingLine.FindStringSubmatch(log.String()); line != nil {
			return line[1], nil
		}
		select {
		case err := <-ended:
			ended <- err
			return "", errors.New("the proxy ended before it served")
		case <-ctx.Done():
			return "", errors.New("the proxy does not say that it serves")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// stop signals the proxy to end, and returns an error unless it exits with code 0. On Windows it kills the proxy.
func stop(proxy *os.Process, ended chan error) error {
	if runtime.GOOS == "windows" { // Windows has no such signal
		defer func() { <-ended }()
		return proxy.Kill()
	}
	if err := proxy.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case err := <-ended:
		if err != nil {
			return fmt.Errorf("the proxy, asked to stop: %w", err)
		}
		return nil
	case <-time.After(patience):
		_ = proxy.Kill()
		<-ended
		return fmt.Errorf("the proxy, asked to stop, went on for %v", patience)
	}
}

// endTime is how long the Go SDK's client waits for the end of a command after the end of its input, and again after a signal. The
// proxy must end by itself; a published server may need the signal after the SDK's own 5 s.
func endTime(command []string) time.Duration {
	if filepath.Dir(command[0]) == binaries {
		return patience
	}
	return 0
}

// markOf returns an argument by which the processes of one run are found, also while another process runs the same tests.
func markOf(run string) string { return fmt.Sprintf("e2e-mark-%d-%s", os.Getpid(), run) }

// output collects the output of a process and of its child processes. It is safe for concurrent use.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// errorLines returns the lines of a log that the log of a successful run must not contain.
func errorLines(log string) (lines []string) {
	for line := range strings.Lines(log) {
		var l struct{ Level string }
		if json.Unmarshal([]byte(line), &l) == nil {
			switch strings.ToLower(l.Level) {
			case "error", "dpanic", "panic", "fatal":
				lines = append(lines, strings.TrimSpace(line))
			}
		} else if strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}
