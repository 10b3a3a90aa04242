package tests

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/store"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// aMinuteLater answers a request as a server of 2025-06-18 that takes a minute for a call.
func aMinuteLater(message []byte) string {
	var m struct {
		ID     json.RawMessage
		Method string
	}
	if json.Unmarshal(message, &m) != nil || m.ID == nil {
		return ""
	}
	result := `{}`
	switch m.Method {
	case "initialize":
		result = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"a","version":"1"}}`
	case "tools/call":
		time.Sleep(time.Minute)
		result = `{"content":[{"type":"text","text":"done"}]}`
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

// serveHTTPInMemory answers the requests of connections at ln until it is closed.
func serveHTTPInMemory(ln net.Listener) {
	for {
		nc, err := ln.Accept()
		if err != nil {
			return
		}
		go func() {
			defer nc.Close()
			for in := bufio.NewReader(nc); ; {
				req, err := http.ReadRequest(in)
				if err != nil {
					return
				}
				body, _ := io.ReadAll(req.Body)
				answer, status := "", "202 Accepted"
				if req.Method == http.MethodPost {
					answer = aMinuteLater(body)
				} else {
					status = "405 Method Not Allowed"
				}
				if answer != "" {
					status = "200 OK\r\nMcp-Session-Id: s1\r\nContent-Type: application/json"
				}
				fmt.Fprintf(nc, "HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s", status, len(answer), answer)
			}
		}()
	}
}

// startInMemory starts the same server as a process in memory.
func startInMemory(*upstream.Stdio) (*upstream.Process, error) {
	in, toServer := net.Pipe()
	fromServer, out := net.Pipe()
	heard, complaint := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer complaint.Close()
		defer out.Close()
		for lines := bufio.NewScanner(in); lines.Scan(); {
			if answer := aMinuteLater(lines.Bytes()); answer != "" {
				if _, err := io.WriteString(out, answer+"\n"); err != nil {
					return
				}
			}
		}
	}()
	return &upstream.Process{
		In: toServer, Out: fromServer, Err: heard,
		Wait: func() error { <-ended; return nil }, Terminate: func() bool { return false }, Kill: func() { in.Close() }, Release: func() {},
	}, nil
}

// servedInABubble is a whole server in a bubble of synctest, with a listener in memory.
type servedInABubble struct {
	*proxy.Server
	ln   *peertest.MemoryListener
	stop func()
}

// serveInABubble begins to serve. The test must call stop, which returns when nothing is left.
func serveInABubble(t *testing.T, w origin.World, upstream config.Upstream) *servedInABubble {
	t.Helper()
	cfg := config.Default()
	cfg.Upstream.URL, cfg.Upstream.Command = upstream.URL, upstream.Command
	return serveAtInABubble(t, w, cfg, peertest.ListenInMemory(8080))
}

func serveAtInABubble(t *testing.T, w origin.World, cfg config.Config, ln *peertest.MemoryListener) *servedInABubble {
	t.Helper()
	cfg.Listen = ln.Addr().String()
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	srv, err := proxy.NewIn(w, cfg, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error)
	go func() { served <- srv.Serve(ctx, ln) }()
	return &servedInABubble{srv, ln, func() {
		cancel()
		select {
		case err := <-served:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(5 * time.Minute): // timers of the server keep the bubble alive
			panic("the server does not end")
		}
	}}
}

// memoryClient is a client over Streamable HTTP on one connection in memory.
type memoryClient struct {
	net.Conn
	in      *bufio.Reader
	session string
}

func (s *servedInABubble) client(t *testing.T) *memoryClient {
	t.Helper()
	nc, err := s.ln.Dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	return &memoryClient{Conn: nc, in: bufio.NewReader(nc)}
}

func (c *memoryClient) send(t *testing.T, method, body string) {
	t.Helper()
	req, err := http.NewRequest(method, "http://127.0.0.1:8080/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Content-Type", "application/json")
	if c.session != "" {
		req.Header.Set("Mcp-Session-Id", c.session)
		req.Header.Set("MCP-Protocol-Version", "2025-06-18")
	}
	if err := req.Write(c); err != nil {
		t.Fatal(err)
	}
}

// post returns the response to a message.
func (c *memoryClient) post(t *testing.T, body string) string {
	t.Helper()
	c.send(t, http.MethodPost, body)
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
		c.session = id
	}
	return string(answer)
}

const (
	initializeInBubble = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	callInBubble       = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"wait","arguments":{}}}`
)

// TestWholeServerInABubble: a server, its clients and the MCP server live on virtual time and on connections in memory.
func TestWholeServerInABubble(t *testing.T) {
	for _, c := range worldsInABubble() {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, end := c.make()
				srv := serveInABubble(t, w, c.upstream)
				client := srv.client(t)
				if got := client.post(t, initializeInBubble); !strings.Contains(got, `"protocolVersion":"2025-06-18"`) {
					t.Errorf("initialize: %s", got)
				}
				client.post(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
				began := time.Now()
				if got := client.post(t, callInBubble); !strings.Contains(got, "done") {
					t.Errorf("the call: %s", got)
				}
				if took := time.Since(began); took != time.Minute {
					t.Errorf("the call took %v", took)
				}
				client.Close()
				srv.stop()
				end()
			})
		})
	}
}

// worldInABubble is a world with one server.
type worldInABubble struct {
	name     string
	upstream config.Upstream
	make     func() (w origin.World, end func())
}

func worldsInABubble() []worldInABubble {
	return []worldInABubble{
		{"http", config.Upstream{URL: "http://127.0.0.1:9000/mcp"}, func() (origin.World, func()) {
			ln := peertest.ListenInMemory(9000)
			go serveHTTPInMemory(ln)
			return origin.World{Dial: ln.Dial}, func() {
				ln.Close()
				time.Sleep(2 * time.Minute) // the server may be busy with a call
			}
		}},
		{"stdio", config.Upstream{Command: []string{"no such program"}}, func() (origin.World, func()) {
			return origin.World{Start: startInMemory}, func() {}
		}},
	}
}

// TestNothingIsHeldOfClientsThatHaveLeft in the midst of a call, over HTTP and over a pipe.
func TestNothingIsHeldOfClientsThatHaveLeft(t *testing.T) {
	for _, c := range worldsInABubble() {
		t.Run("http to "+c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, end := c.make()
				srv := serveInABubble(t, w, c.upstream)
				time.Sleep(time.Second) // it has looked at the server
				if h := srv.Held(); h != (proxy.Held{}) {
					t.Errorf("before the first client: %+v", h)
				}
				client := srv.client(t)
				client.post(t, initializeInBubble)
				client.post(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
				client.send(t, http.MethodPost, callInBubble)
				synctest.Wait()
				h := srv.Held()
				if h.Connections != 1 || h.Requests != 1 || h.Sessions != 1 || h.Calls != 1 || h.Exchanges != 1 || h.Sent+h.InUse != 1 || h.Processes != len(c.upstream.Command) {
					t.Errorf("in the midst of a call: %+v", h)
				}
				client.Close()
				time.Sleep(3 * srv.Now().Config.Session.IdleTimeout)
				if h := srv.Held(); h != (proxy.Held{}) {
					t.Errorf("the client has left, and its session has ended: %+v", h)
				}
				srv.stop()
				end()
			})
		})
		t.Run("pipe to "+c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, end := c.make()
				cfg := config.Default()
				cfg.Upstream.URL, cfg.Upstream.Command = c.upstream.URL, c.upstream.Command
				srv, err := proxy.NewIn(w, cfg, zap.NewNop())
				if err != nil {
					t.Fatal(err)
				}
				in, toServer := net.Pipe()
				fromServer, out := net.Pipe()
				served := make(chan error)
				go func() { served <- srv.ServePipe(t.Context(), in, out) }()
				answers := bufio.NewReader(fromServer)
				io.WriteString(toServer, initializeInBubble+"\n")
				if got, err := answers.ReadString('\n'); err != nil || !strings.Contains(got, "protocolVersion") {
					t.Errorf("initialize: %s, %v", got, err)
				}
				io.WriteString(toServer, callInBubble+"\n")
				synctest.Wait()
				h := srv.Held()
				if h.Sessions != 1 || h.Calls != 1 || h.Processes != len(c.upstream.Command) {
					t.Errorf("in the midst of a call: %+v", h)
				}
				go io.Copy(io.Discard, answers)
				toServer.Close()
				if err := <-served; err != nil {
					t.Error(err)
				}
				out.Close()
				if h := srv.Held(); h != (proxy.Held{}) {
					t.Errorf("the client has left: %+v", h)
				}
				end()
			})
		})
	}
}

// TestReplicasInABubble find each other in a store that is memory, and forward by the connections of their world.
func TestReplicasInABubble(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(base64.StdEncoding.EncodeToString(make([]byte, sealed.KeyBytes))), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		at := map[string]*peertest.MemoryListener{}
		w := origin.World{
			Store: store.NewMemory(store.Bounds{}),
			Start: startInMemory,
			Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
				return at[address].Dial(ctx, network, address)
			},
		}
		var all []*servedInABubble
		for port := 8080; port < 8082; port++ {
			ln := peertest.ListenInMemory(port)
			at[ln.Addr().String()] = ln
			cfg := config.Default()
			cfg.Upstream.Command = []string{"no such program"}
			cfg.Session.KeyFile, cfg.Store.URL, cfg.Store.Advertise = file, "redis://in.memory:6379", ln.Addr().String()
			all = append(all, serveAtInABubble(t, w, cfg, ln))
		}
		client := all[0].client(t)
		client.post(t, initializeInBubble)
		elsewhere := all[1].client(t)
		elsewhere.session = client.session
		if got := elsewhere.post(t, callInBubble); !strings.Contains(got, "done") {
			t.Errorf("the call at the other replica: %s", got)
		}
		client.Close()
		elsewhere.Close()
		for _, srv := range all {
			srv.stop()
		}
	})
}
