//go:build !race

package bench

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
	"github.com/dragoman-proxy/dragoman/translate"
)

// over is how many bytes of memory the process may use in addition to limits.in_hand.
const over = 100_000_000

// TestMemoryStaysWithinInHand checks that many large messages at one time use no more of the
// system's memory than limits.in_hand and over, and that the memory is released afterwards. With
// MEMORY_LOAD=full the messages have the maximum size:
//
//	TEST_SETS=measurements MEMORY_LOAD=full MEMORY_LOAD_MIB=512 go test ./bench -run MemoryStays -v
func TestMemoryStaysWithinInHand(t *testing.T) {
	testset.Need(t, testset.Measurements)
	inHand, upload, answer, limit := 64<<20, 3_000_000, 16_000_000, "20MiB"
	if os.Getenv("MEMORY_LOAD") == "full" {
		inHand, upload, answer, limit = 512<<20, 9_500_000, 60_000_000, "64MiB"
		if n, err := strconv.Atoi(os.Getenv("MEMORY_LOAD_MIB")); err == nil {
			inHand = n << 20
		}
	}
	binary := filepath.Join(t.TempDir(), "dragoman")
	if out, err := exec.Command("go", "build", "-o", binary, "../cmd/dragoman").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	server := httptest.NewServer(largeServer(answer))
	defer server.Close()
	web, pipe := []string{server.URL}, []string{"--", os.Args[0], "-test.run=^TestLargePipeServer$", pipeServer, strconv.Itoa(answer)}
	for _, load := range []struct {
		name   string
		server []string
		tool   string
		calls  int
		size   int
		slow   bool
		modern bool // the client has no sessions: its messages are translated
	}{
		{"uploads", web, "small", 40, upload, false, false},
		{"answers", web, "large", 16, 0, false, false},
		{"answers to slow readers", web, "large", 16, 0, true, false},
		{"answers as events", web, "event", 16, 0, false, false},
		{"events to slow readers", web, "event", 16, 0, true, false},
		{"answers to uploads", web, "large", 40, upload, false, false},
		{"events to uploads", web, "event", 40, upload, false, false},
		{"translated uploads", web, "small", 40, upload, false, true},
		{"translated answers", web, "large", 16, 0, false, true},
		{"translated events", web, "event", 16, 0, false, true},
		{"uploads to a command", pipe, "small", 40, upload, false, false},
		{"answers of a command", pipe, "large", 16, 0, false, false},
		{"answers of a command to slow readers", pipe, "large", 16, 0, true, false},
	} {
		t.Run(load.name, func(t *testing.T) {
			p := startProxy(t, binary, inHand, load.server, "DRAGOMAN_LIMITS_UPSTREAM_MESSAGE="+limit)
			p.tool, p.modern = load.tool, load.modern
			idle := p.resident(t, "VmRSS")
			var good atomic.Int64
			var calls sync.WaitGroup
			for range load.calls {
				calls.Go(func() {
					if p.call(t, load.size, load.slow) {
						good.Add(1)
					}
				})
			}
			calls.Wait()
			peak, ended := p.resident(t, "VmHWM"), time.Now()
			after := p.resident(t, "VmRSS")
			for after > idle+60_000_000 && time.Since(ended) < 5*time.Second {
				time.Sleep(100 * time.Millisecond)
				after = p.resident(t, "VmRSS")
			}
			t.Logf("%-36s %3d of %3d good, idle %4d MB, peak %4d MB of %4d, %.1f s later %4d MB",
				load.name, good.Load(), load.calls, idle/1e6, peak/1e6, (inHand+over)/1e6, time.Since(ended).Seconds(), after/1e6)
			if peak > inHand+over {
				t.Errorf("the peak is %d MB, want at most %d", peak/1e6, (inHand+over)/1e6)
			}
			if after > idle+60_000_000 {
				t.Errorf("%d MB are left, %d were there before", after/1e6, idle/1e6)
			}
			if got := good.Load(); got == 0 || load.size == 0 && got < int64(load.calls) {
				t.Error("calls got no answer")
			}
		})
	}
}

type measured struct {
	url, session, tool string
	modern             bool
	pid                int
}

func startProxy(t *testing.T, binary string, inHand int, server []string, env ...string) *measured {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	ln.Close()
	cmd := exec.Command(binary, append([]string{"serve", "--listen", addr}, server...)...)
	cmd.Env = append(append(os.Environ(), env...), fmt.Sprintf("DRAGOMAN_LIMITS_IN_HAND=%d", inHand), "DRAGOMAN_ADMIN_LISTEN=127.0.0.1:0")
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%.3000s", said.String())
		}
	})
	p := &measured{url: "http://" + addr + "/mcp", pid: cmd.Process.Pid}
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		res, err := p.post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
		if err == nil {
			p.session = res.Header.Get("Mcp-Session-Id")
			res.Body.Close()
			return p
		}
		if time.Now().After(end) {
			t.Fatalf("the proxy does not answer: %v\n%s", err, said.String())
		}
	}
}

func (p *measured) post(body string) (*http.Response, error) {
	req, err := http.NewRequest(http.MethodPost, p.url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	switch {
	case p.modern:
		req.Header.Set("MCP-Protocol-Version", translate.Modern())
		req.Header.Set("Mcp-Method", "tools/call")
		req.Header.Set("Mcp-Name", p.tool)
	case p.session != "":
		req.Header.Set("Mcp-Session-Id", p.session)
	}
	return http.DefaultClient.Do(req)
}

// call calls a tool with an argument of size bytes, and reports whether there was a
// result. A call that is refused for lack of memory has no result, and is not an error.
func (p *measured) call(t *testing.T, size int, slow bool) bool {
	meta := ""
	if p.modern {
		meta = fmt.Sprintf(`,"_meta":{"io.modelcontextprotocol/protocolVersion":%q,"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"}}`, translate.Modern())
	}
	res, err := p.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":{"text":%q}%s}}`, p.tool, strings.Repeat("x", size), meta))
	if err != nil {
		t.Error(err)
		return false
	}
	defer res.Body.Close()
	head := make([]byte, 200)
	n, _ := io.ReadFull(res.Body, head)
	piece := make([]byte, 1<<20)
	for {
		if _, err = io.ReadFull(res.Body, piece); err != nil {
			break
		}
		if slow {
			time.Sleep(50 * time.Millisecond)
		}
	}
	ok := res.StatusCode == 200 && bytes.Contains(head[:n], []byte(`"result"`))
	if !ok && !bytes.Contains(head[:n], []byte("the memory for messages is full (limits.in_hand); try again later")) {
		t.Errorf("%d %.200s", res.StatusCode, head[:n])
	}
	return ok
}

// resident returns a value of the process's status in /proc, in bytes.
func (p *measured) resident(t *testing.T, name string) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == name+":" {
			kb, _ := strconv.Atoi(f[1])
			return kb << 10
		}
	}
	t.Fatalf("there is no %s", name)
	return 0
}

// largeServer answers calls of the tool large with size bytes, and so those of the tool
// event, in an event.
func largeServer(size int) http.Handler {
	text := strings.Repeat("a", size)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		id := gjson.GetBytes(body, "id").Raw
		result := `{}`
		switch gjson.GetBytes(body, "method").Str {
		case "initialize":
			result = `{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"s","version":"1"}}`
		case "tools/call":
			result = `{"content":[{"type":"text","text":"ok"}]}`
			tool := gjson.GetBytes(body, "params.name").Str
			if tool == "small" {
				break
			}
			head, tail := `{"jsonrpc":"2.0","id":`+id+`,"result":{"content":[{"type":"text","text":"`, `"}]}}`
			if tool == "event" {
				w.Header().Set("Content-Type", "text/event-stream")
				head, tail = "data: "+head, tail+"\n\n"
			} else {
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("Content-Length", strconv.Itoa(len(head)+size+len(tail)))
			}
			for _, part := range []string{head, text, tail} {
				_, _ = io.WriteString(w, part)
			}
			return
		}
		if id == "" {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
	})
}

// pipeServer is the argument that makes TestLargePipeServer a server on stdin and stdout.
const pipeServer = "serve-a-pipe"

// TestLargePipeServer is not a test: TestMemoryStaysWithinInHand runs it as the command of a server.
func TestLargePipeServer(t *testing.T) {
	args := flag.Args()
	if len(args) != 2 || args[0] != pipeServer {
		t.Skip("it is run by another test")
	}
	size, err := strconv.Atoi(args[1])
	if err != nil {
		t.Fatal(err)
	}
	server := largeServer(size)
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			os.Exit(0) // so that the test binary prints nothing
		}
		answer := httptest.NewRecorder()
		server.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(line)))
		if answer.Body.Len() > 0 {
			answer.Body.WriteByte('\n')
			_, _ = os.Stdout.Write(answer.Body.Bytes())
		}
	}
}
