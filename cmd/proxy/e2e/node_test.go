package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/cmd/proxy/e2e/nodetest"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
)

// patience bounds each wait for something that must come: it ends only a test that hangs. It is long because the start of
// Node.js alone, which reads hundreds of files, has taken more than three minutes on a busy machine. peers/sdk1.mjs has the same.
const patience = 10 * time.Minute

// modules is a folder of installed npm packages.
type modules string

var (
	installPeers       = sync.OnceValues(func() (modules, error) { return installModules("peers") })
	installConformance = sync.OnceValues(func() (modules, error) { return installModules("conformance") })
	installAPI         = sync.OnceValues(func() (modules, error) { return installModules("api") })
	installFiles       = sync.OnceValues(func() (modules, error) { return installModules("files") })
)

// nodePeers installs the published peers and returns them. It skips the test if there is no Node to run them.
func nodePeers(t *testing.T) modules {
	testset.Need(t, testset.Peers, "node", "npm")
	m, err := installPeers()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// installModules installs what the package-lock.json of a folder names.
func installModules(folder string) (modules, error) {
	lock, err := nodetest.ReadLock(folder)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := lock.Install(ctx); err != nil {
		return "", fmt.Errorf("install the packages of %s: %w", folder, err)
	}
	return modules(lock.Modules()), nil
}

// keepCompiled replaces "node" with a script that runs the Node.js of the conformance suite with a compile cache, because
// the tests start it hundreds of times. The cache stays beside what is installed, for the next run of the tests. The script sets the
// environment variable for the cache, since that would not reach servers that dragoman starts.
func keepCompiled() error {
	if runtime.GOOS == "windows" {
		return errors.New("the script is for a Unix shell")
	}
	if _, err := exec.LookPath("npm"); err != nil {
		return err
	}
	m, err := installConformance()
	if err != nil {
		return err
	}
	node := installedNodes(m)[0]
	if !filepath.IsAbs(node) {
		return fmt.Errorf("npm has no Node.js 22 for %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	bin, cache := filepath.Join(binaries, "bin"), filepath.Join(filepath.Dir(string(m)), "compiled")
	if err := os.Mkdir(bin, 0o755); err != nil {
		return err
	}
	script := fmt.Sprintf("#!/bin/sh\nNODE_COMPILE_CACHE='%s' exec '%s' \"$@\"\n", cache, node)
	if err := os.WriteFile(filepath.Join(bin, "node"), []byte(script), 0o755); err != nil {
		return err
	}
	return os.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// typescript returns the client of one published SDK of the 1.x line.
func (m modules) typescript(sdk, revision string, transports ...transport) *client {
	return &client{name: "TypeScript SDK " + sdk, revision: revision, transports: transports, run: func(ctx context.Context, to endpoint) (transcript, error) {
		return runNodeClient(ctx, to, map[string]any{"sdk": filepath.Join(string(m), "sdk-"+sdk), "revision": revision})
	}}
}

// runNodeClient runs the scenario with a published client.
func runNodeClient(ctx context.Context, to endpoint, config map[string]any) (transcript, error) {
	printed, err := runNode(ctx, "client.mjs", to, config)
	t, readErr := readTranscript(printed)
	if err != nil {
		return nil, fmt.Errorf("the client, after %d steps: %w", len(t), err)
	}
	return t, readErr
}

// everything returns the published server-everything of a version, which supports revision and perhaps older ones.
func (m modules) everything(version, revision string, transports ...transport) *server {
	return &server{
		name: "everything " + version, revision: revision, transports: transports, once: version == "2025.4.8",
		command: func(_, mark string) []string {
			return []string{"node", filepath.Join(string(m), "everything-"+version, "dist", "index.js"), "stdio", mark}
		},
		serve: func(_ string, over transport) (string, func(), error) {
			if version < "2025.7" { // which has one server for all its clients
				return m.serveEverything(version, over)
			}
			url, err := shared.at(fmt.Sprint("everything ", version, over), func() (string, func(), error) { return m.serveEverything(version, over) })
			return url, func() {}, err
		},
	}
}

// shared are the processes of servers on HTTP whose clients know nothing of each other: each serves all tests.
var shared processes

type processes struct {
	mu    sync.Mutex
	urls  map[string]func() (string, error) // by name
	stops []func()
}

// at returns the URL of a server, which the first caller starts.
func (p *processes) at(name string, start func() (url string, stop func(), err error)) (url string, err error) {
	p.mu.Lock()
	if p.urls == nil {
		p.urls = map[string]func() (string, error){}
	}
	if p.urls[name] == nil {
		p.urls[name] = sync.OnceValues(func() (string, error) {
			url, stop, err := start()
			if err == nil {
				p.mu.Lock()
				defer p.mu.Unlock()
				p.stops = append(p.stops, stop)
			}
			return url, err
		})
	}
	begun := p.urls[name]
	p.mu.Unlock()
	return begun()
}

// end ends all.
func (p *processes) end() {
	for _, stop := range p.stops {
		stop()
	}
}

// serveEverything starts a published server-everything over one of the transports on HTTP, until stop. It listens on
// 127.0.0.1, although it would by itself listen on all interfaces.
func (m modules) serveEverything(version string, over transport) (url string, stop func(), err error) {
	return m.serveEverythingAt("0", version, over)
}

// serveEverythingAt is serveEverything on a port.
func (m modules) serveEverythingAt(port, version string, over transport) (url string, stop func(), err error) {
	name, path := "streamableHttp", "/mcp"
	if over == withSSE {
		name, path = "sse", "/sse"
	}
	main := filepath.Join(string(m), "everything-"+version, "dist", "index.js")
	if strings.HasPrefix(version, "2025.4.") { // their index.js supports only stdio
		main = filepath.Join(filepath.Dir(main), name+".js")
	}
	base, stop, err := onLoopbackAt(port, "everything "+version, main, name)
	return base + path, stop, err
}

// onLoopback starts a published server on HTTP, until stop. It listens on 127.0.0.1, whatever its default is.
func onLoopback(what string, args ...string) (base string, stop func(), err error) {
	return onLoopbackAt("0", what, args...)
}

// onLoopbackAt is onLoopback on a port.
func onLoopbackAt(port, what string, args ...string) (base string, stop func(), err error) {
	node := exec.Command("node", append([]string{"--import", "./peers/loopback.mjs"}, args...)...)
	node.Env = append(os.Environ(), "LOOPBACK_PORT="+port)
	stderr, err := node.StderrPipe()
	if err != nil {
		return "", nil, err
	}
	if err := node.Start(); err != nil {
		return "", nil, err
	}
	found := make(chan string, 1)
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(found)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			if base, ok := strings.CutPrefix(lines.Text(), "loopback: "); ok {
				found <- base
			}
		}
	}()
	stop = func() {
		_ = node.Process.Kill()
		<-read
		_ = node.Wait()
	}
	select {
	case base, ok := <-found:
		if !ok {
			stop()
			return "", nil, errors.New(what + " ended before it listened")
		}
		return base, stop, nil
	case <-time.After(patience):
		stop()
		return "", nil, errors.New(what + " did not listen in time")
	}
}
