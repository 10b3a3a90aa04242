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

// binaries is the folder of what the tests build.
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

// args are the arguments of a proxy in front of a server, or of none when the endpoint is nowhere.
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

// serve runs do against "dragoman serve", as a client that comes over a transport finds it, then stops that, and returns
// the first thing that went wrong. What the proxy said goes to stderr.
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

// serving waits until the proxy says where it serves.
func serving(ctx context.Context, log *output, ended chan error) (url string, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
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

// stop asks the proxy to end and expects it to say that all is well.
func stop(proxy *os.Process, ended chan error) error {
	if runtime.GOOS == "windows" { // there is nothing to ask with
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
	case <-time.After(30 * time.Second):
		_ = proxy.Kill()
		<-ended
		return errors.New("the proxy, asked to stop, went on for 30 s")
	}
}

// output collects what a process and those that it started write, from any goroutine.
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

// errorLines are the lines of a log that a run without trouble must not hold.
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
