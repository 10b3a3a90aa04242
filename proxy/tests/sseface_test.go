package tests

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// listening serves f on a port until the test ends or stop is called.
func listening(t *testing.T, f *fakeServer, change ...func(*config.Config)) (base string, stop func() error) {
	t.Helper()
	leavesNothing(t)
	cfg := config.Default()
	for _, c := range change {
		c(&cfg)
	}
	srv, err := proxy.NewWith(cfg, zap.NewNop(), f.origin())
	if err != nil {
		t.Fatal(err)
	}
	return startServing(t, srv)
}

func TestSSEClient(t *testing.T) {
	bothTransports(t, func(t *testing.T, piped bool) {
		f := newFake(initializing("2025-06-18", func(m string) ([]string, error) {
			if !strings.Contains(m, "tools/call") {
				return nil, nil
			}
			return one(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`,
				`{"jsonrpc":"2.0","id":`+gjson.Get(m, "id").Raw+`,"result":{"content":[],"meta":1}}`)
		}))
		f.piped = piped
		base, stop := listening(t, f)
		c := peertest.NewSSEClient(t, base)
		c.Post(initialize("2024-11-05", `{}`), "Traceparent", "00-a", "Authorization", "Bearer b")
		if got := c.Next(); !strings.Contains(got, `"protocolVersion":"2024-11-05"`) {
			t.Fatalf("got %s", got)
		}
		c.Post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		c.Post(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"x"}}`, "Traceparent", "00-c")
		if got := c.Next(); !strings.Contains(got, "notifications/message") {
			t.Errorf("got %s", got)
		}
		if got := c.Next(); got != `{"jsonrpc":"2.0","id":2,"result":{"content":[],"meta":1}}` {
			t.Errorf("got %s", got)
		}
		seen := fmt.Sprint(f.Heard())
		for _, want := range []string{"00-a", "Bearer b", "00-c"} {
			if !strings.Contains(seen, want) {
				t.Errorf("%s did not go on: %s", want, seen)
			}
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if _, err := c.In.ReadByte(); err != io.EOF {
			t.Errorf("the stream ends with %v", err)
		}
		if n := f.ends(); n != 1 {
			t.Errorf("closed %d times", n)
		}
	})
}

// TestSSESessionEndsWithItsStream, and its place becomes free.
func TestSSESessionEndsWithItsStream(t *testing.T) {
	f := newFake(initializing("2024-11-05", nil))
	f.piped = true
	base, _ := listening(t, f, func(cfg *config.Config) { cfg.Session.Max = 1 })
	c := peertest.NewSSEClient(t, base)
	c.Post(initialize("2024-11-05", `{}`))
	c.Next()
	res, err := c.HTTP.Get(base + "/sse")
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != 503 {
		t.Errorf("one session too many: %d", res.StatusCode)
	}
	_ = c.Body.Close()
	eventually(t, "the session's end", f.ended)
	eventually(t, "a free place", func() bool {
		res, err := c.HTTP.Get(base + "/sse")
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		return res.StatusCode == 200
	})
}

// TestPipesLeaveWhileTheServerEnds: the client and the server may end a pipe at the same time, and
// each waits for the other.
func TestPipesLeaveWhileTheServerEnds(t *testing.T) {
	for range 10 {
		base, stop := listening(t, newFake(nil))
		var clients []*peertest.SSEClient
		for range 20 {
			clients = append(clients, peertest.NewSSEClient(t, base))
		}
		ended := make(chan error, 1)
		go func() { ended <- stop() }()
		for _, c := range clients {
			_ = c.Body.Close()
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
}
