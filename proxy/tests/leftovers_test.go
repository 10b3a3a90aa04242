package tests

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// children returns the running child processes of this one, or nil if the system does not list
// them.
func children() (pids []string) {
	files, _ := filepath.Glob("/proc/self/task/*/children")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil {
			pids = append(pids, strings.Fields(string(text))...)
		}
	}
	pids = slices.DeleteFunc(pids, func(pid string) bool { // without processes of other tests
		line, err := os.ReadFile("/proc/" + pid + "/cmdline")
		return err == nil && string(line) == "dragoman-orphans\x00"
	})
	slices.Sort(pids)
	return pids
}

// TestNothingIsLeftOfWhatIsUnderWay: when Serve is told to stop, a call is open that does not end
// by itself, and streams are open on both sides. Nothing of them may remain.
func TestNothingIsLeftOfWhatIsUnderWay(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	for _, server := range []string{"http", "sse", "stdio"} {
		t.Run("to "+server, func(t *testing.T) {
			running := children()
			var ends []func()
			for _, client := range []string{"http", "sse", "stdio"} {
				ends = append(ends, beginInTheMidst(t, client, server))
			}
			if server == "stdio" && runtime.GOOS == "linux" {
				eventually(t, "one child more for each client", func() bool { return len(children()) == len(running)+len(ends) })
			}
			if ours() == "" {
				t.Error("goroutines of ours would not be seen")
			}
			var all sync.WaitGroup
			for _, end := range ends { // at the same time, since a server may take its time
				all.Go(end)
			}
			all.Wait()
			if now := children(); fmt.Sprint(now) != fmt.Sprint(running) {
				t.Errorf("children %s, were %s", now, running)
			}
			eventually(t, "no goroutine of ours is left", func() bool { return ours() == "" })
		})
	}
}

// beginInTheMidst begins a call that does not end by itself. end ends the proxy, and returns when that is done.
func beginInTheMidst(t *testing.T, over, server string) (end func()) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	t.Cleanup(cancel)
	cfg := config.Default()
	cfg.Shutdown.Drain = 50 * time.Millisecond
	const revision = "2025-06-18"
	if server == "stdio" {
		cfg.Upstream.Command = []string{os.Args[0]}
		cfg.Upstream.Env = map[string]string{serverRevision: revision}
	} else {
		release := make(chan struct{})
		one := hangingServer(release)
		var handler http.Handler = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return one }, nil)
		if server == "sse" {
			handler = mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return one }, nil)
		}
		web := httptest.NewServer(handler)
		t.Cleanup(func() {
			close(release)
			web.CloseClientConnections()
			web.Close()
		})
		cfg.Upstream.URL = web.URL
	}

	h := &heard{seen: map[string]int{}, told: make(chan struct{}, 1)}
	web := &http.Client{Transport: new(http.Transport)}
	srv, err := proxy.New(cfg, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	serving, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	ended := make(chan error, 1)
	var transport mcp.Transport
	if over == "stdio" {
		in, toServer := io.Pipe()
		fromServer, out := io.Pipe()
		transport = &mcp.IOTransport{Reader: fromServer, Writer: toServer}
		go func() {
			err := srv.ServePipe(serving, in, out)
			out.Close()
			ended <- err
		}()
	} else {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		transport = &mcp.StreamableClientTransport{Endpoint: "http://" + ln.Addr().String() + "/mcp", HTTPClient: web, MaxRetries: -1}
		if over == "sse" {
			transport = &mcp.SSEClientTransport{Endpoint: "http://" + ln.Addr().String() + "/sse", HTTPClient: web}
		}
		go func() { ended <- srv.Serve(serving, ln) }()
	}
	client, err := sdkClient(h).Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatal(err)
	}
	returned := make(chan error, 1)
	go func() {
		p := &mcp.CallToolParams{Name: "hang"}
		p.SetProgressToken("hang")
		_, err := client.CallTool(ctx, p)
		returned <- err
	}()
	eventually(t, "call is under way", func() bool { return h.count("progress") == 1 })
	return func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("%s: serving ended with %v", over, err)
		}
		if err := <-returned; err == nil {
			t.Errorf("%s: the call has succeeded", over)
		}
		_ = client.Close()
		web.CloseIdleConnections()
	}
}

// hangingServer has a tool that begins, and returns when released.
func hangingServer(release <-chan struct{}) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "hanging", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "hang"}, func(ctx context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: 1})
		<-release
		return &mcp.CallToolResult{}, nil, err
	})
	return s
}

// ours returns the stacks of goroutines that run code of this module other than tests.
func ours() (stacks string) {
	all := make([]byte, 4<<20)
	for stack := range strings.SplitSeq(string(all[:runtime.Stack(all, true)]), "\n\n") {
		for line := range strings.Lines(stack) {
			if strings.Contains(line, "/proxy/") && strings.Contains(line, ".go:") && !strings.Contains(line, "_test.go:") && !strings.Contains(line, "/pkg/mod/") {
				stacks += stack + "\n\n"
				break
			}
		}
	}
	return stacks
}
