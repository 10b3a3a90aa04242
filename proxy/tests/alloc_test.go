//go:build !race

package tests

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// frugal is a server and a client that allocate nothing for a call, over sockets.
type frugal struct {
	conn    net.Conn
	request []byte
	in      []byte
	size    int // of the response; 0 if it is not known yet
}

// wholeMessage returns the length of the HTTP message at the start of b, which is 0 if it has not come completely.
func wholeMessage(b []byte) int {
	head := bytes.Index(b, []byte("\r\n\r\n"))
	if head < 0 {
		return 0
	}
	head += 4
	at := bytes.Index(b[:head], []byte("Content-Length: "))
	length := 0
	for at += len("Content-Length: "); at < head && b[at] >= '0' && b[at] <= '9'; at++ {
		length = 10*length + int(b[at]-'0')
	}
	if len(b) < head+length {
		return 0
	}
	return head + length
}

// serveFrugally answers requests whose body has one of the texts with the result behind it, and all others with 202.
func serveFrugally(conn net.Conn, header string, results [][2]string) {
	in, out, body := make([]byte, 64<<10), make([]byte, 0, 64<<10), make([]byte, 0, 64<<10)
	for have := 0; ; {
		n, err := conn.Read(in[have:])
		if err != nil {
			return
		}
		have += n
		size := wholeMessage(in[:have])
		if size == 0 {
			continue
		}
		body = body[:0]
		for _, r := range results {
			if !bytes.Contains(in[:size], []byte(r[0])) {
				continue
			}
			at := bytes.LastIndex(in[:size], []byte(`"id":`)) + len(`"id":`)
			body = append(append(body, `{"jsonrpc":"2.0","id":`...), in[at:at+bytes.IndexAny(in[at:size], ",}")]...)
			body = append(append(body, ','), r[1]...)
			break
		}
		switch {
		case bytes.HasPrefix(in, []byte("GET ")):
			out = append(out[:0], "HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n"...)
		case len(body) == 0:
			out = append(out[:0], "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"...)
		default:
			out = append(out[:0], "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"...)
			out = append(append(out, header...), "Content-Length: "...)
			out = append(append(strconv.AppendInt(out, int64(len(body)), 10), "\r\n\r\n"...), body...)
		}
		have = 0
		if _, err := conn.Write(out); err != nil {
			return
		}
	}
}

// do sends the request and reads the response.
func (c *frugal) do() error {
	if _, err := c.conn.Write(c.request); err != nil {
		return err
	}
	for have := 0; ; {
		n, err := c.conn.Read(c.in[have:])
		if err != nil {
			return err
		}
		have += n
		if c.size == 0 {
			c.size = wholeMessage(c.in[:have])
		}
		if c.size > 0 && have >= c.size {
			return nil
		}
	}
}

// dialFrugally connects a client with the proxy at base, and opens a session for a client of this revision.
func dialFrugally(t *testing.T, base, version, message string) *frugal {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	c := &frugal{conn: conn, in: make([]byte, 128<<10)}
	header := ""
	ask := func(message string) string {
		c.size = 0
		c.request = fmt.Appendf(nil, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n%sContent-Length: %d\r\n\r\n%s", header, len(message), message)
		if err := c.do(); err != nil {
			t.Fatal(err)
		}
		return string(c.in[:c.size])
	}
	if version == modernOnly {
		names := modernHeader(message)
		for i := 0; i < len(names); i += 2 {
			header += names[i] + ": " + names[i+1] + "\r\n"
		}
	} else {
		_, id, _ := strings.Cut(ask(initialize(version, `{}`)), "Mcp-Session-Id: ")
		id, _, _ = strings.Cut(id, "\r\n")
		header = "Mcp-Session-Id: " + id + "\r\n"
		ask(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	}
	for range 20 { // what is learnt once, and buffers
		if said := ask(message); !strings.Contains(said, "It will rain.") {
			t.Fatalf("answered with %.500q", said)
		}
	}
	return c
}

// TestCallsAllocateLittle from socket to socket, all of the proxy.
func TestCallsAllocateLittle(t *testing.T) {
	var tools []string
	for i := range 50 {
		tools = append(tools, fmt.Sprintf(`{"name":"tool-%d","title":"Tool","description":"It will rain. %s","inputSchema":{"type":"object"}}`, i, strings.Repeat("words ", 100)))
	}
	const said, complete = `"content":[{"type":"text","text":"It will rain."}]`, `"resultType":"complete",`
	list := `"tools":[` + strings.Join(tools, ",") + `]`
	legacy := [][2]string{
		{`"initialize"`, `"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"2"}}}`},
		{`"server/discover"`, `"error":{"code":-32601,"message":"Method not found"}}`},
		{`"tools/call"`, `"result":{` + said + `}}`},
		{`"tools/list"`, `"result":{` + list + `}}`},
	}
	modern := [][2]string{
		{`"initialize"`, `"error":{"code":-32022,"message":"no","data":{"supported":["2026-07-28"]}}}`},
		{`"server/discover"`, `"result":{` + complete + `"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}}`},
		{`"tools/call"`, `"result":{` + complete + said + `}}`},
		{`"tools/list"`, `"result":{` + complete + `"ttlMs":0,"cacheScope":"private",` + list + `}}`},
	}
	const session = "Mcp-Session-Id: 5f2c7a90\r\n"
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"tool-1","arguments":{"query":"what the weather will be"}}}`
	for _, c := range []struct {
		name, client, message string
		header                string // of the server
		server                [][2]string
		most                  float64 // allocations
		size                  float64 // bytes: the collector's work is proportional to them
	}{
		{"small call", "2024-11-05", call, session, legacy, 4, 1000},
		{"small call, equal revisions", "2025-06-18", call, session, legacy, 4, 1000},
		{"list from the memo", "2024-11-05", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, session, legacy, 4, 1000},
		{"modern client, legacy server", modernOnly, modernRequestOf("1", "tools/call", `"name":"tool-1","arguments":{},`+meta(`{}`)), session, legacy, 6, 1200},
		{"modern client that can be asked, legacy server", modernOnly, modernRequestOf("1", "tools/call", `"name":"tool-1","arguments":{},`+meta(`{"elicitation":{}}`)), session, legacy, 6, 1200},
		{"legacy client, modern server", "2024-11-05", call, "", modern, 7, 1300},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := config.Default()
			cfg.Upstream.URL = "http://" + peertest.Accept(t, func(conn net.Conn) { serveFrugally(conn, c.header, c.server) }) + "/mcp"
			base, _ := startServing(t, newOf(t, cfg, zap.NewNop()))
			client := dialFrugally(t, base, c.client, c.message)
			const rounds, calls = 5, 100
			n, size := math.Inf(1), math.Inf(1) // of the best round: a collection empties the pools, and what earlier tests left may still end
			for range rounds {
				n = min(n, testing.AllocsPerRun(calls, func() {
					if err := client.do(); err != nil && err != io.EOF {
						t.Fatal(err)
					}
				}))
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				for range calls {
					if err := client.do(); err != nil && err != io.EOF {
						t.Fatal(err)
					}
				}
				runtime.ReadMemStats(&after)
				size = min(size, float64(after.TotalAlloc-before.TotalAlloc)/calls)
			}
			t.Logf("%v allocations, %.0f bytes", n, size)
			if n > c.most {
				t.Errorf("%v allocations, want at most %v", n, c.most)
			}
			if size > c.size {
				t.Errorf("%.0f bytes, want at most %v", size, c.size)
			}
		})
	}
}
