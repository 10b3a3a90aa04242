package tests

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// TestSessionsLeaveNothing counts the objects on the heap while sessions come and go. With GROWTH=2500 ten thousand of each kind do:
//
//	GROWTH=2500 go test ./proxy/tests -run SessionsLeaveNothing -v
func TestSessionsLeaveNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		each := 100
		if n, err := strconv.Atoi(os.Getenv("GROWTH")); err == nil {
			each = n
		}
		sessions := 0
		server := peertest.Web(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			id := gjson.GetBytes(body, "id").Raw
			stream := func(event string) {
				w.Header().Set("Content-Type", "text/event-stream")
				fmt.Fprint(w, event)
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			}
			switch method := gjson.GetBytes(body, "method").Str; {
			case r.Method == http.MethodGet:
				stream(": here\n\n")
			case method == "initialize":
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("Mcp-Session-Id", "s")
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}`, id)
			case method == "tools/call":
				stream(`data: {"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"City?","requestedSchema":{"type":"object","properties":{}}}}` + "\n\n")
			default:
				w.WriteHeader(http.StatusAccepted)
			}
		}))
		cfg := config.Default()
		cfg.Upstream.URL = server.URL
		cfg.Bridge.ParkTimeout, cfg.Bridge.Coalesce = 100*time.Millisecond, time.Millisecond
		srv := newOf(t, cfg, zap.NewNop())
		base, _ := startServing(t, srv)
		at := strings.TrimPrefix(base, "http://")
		dial := func() (net.Conn, *bufio.Reader) {
			t.Helper()
			c := peertest.Dial(t, at)
			_ = c.SetDeadline(time.Now().Add(patience))
			return c, bufio.NewReader(c)
		}
		send := func(c net.Conn, in *bufio.Reader, method, path, body string, header ...string) *http.Response {
			t.Helper()
			head := method + " " + path + " HTTP/1.1\r\nHost: " + at + "\r\nAccept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"
			for i := 0; i < len(header); i += 2 {
				head += header[i] + ": " + header[i+1] + "\r\n"
			}
			fmt.Fprintf(c, "%sContent-Length: %d\r\n\r\n%s", head, len(body), body)
			res, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			return res
		}
		begin := initialize("2025-06-18", `{}`)
		const began = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
		for _, kind := range []struct {
			name    string
			session func(n int)
		}{
			{"HTTP+SSE", func(int) {
				c, in := dial()
				defer c.Close()
				fmt.Fprintf(c, "GET /sse HTTP/1.1\r\nHost: %s\r\nAccept: text/event-stream\r\n\r\n", at)
				res, err := http.ReadResponse(in, nil)
				if err != nil {
					t.Fatal(err)
				}
				lines := bufio.NewScanner(res.Body)
				next := func() string {
					for lines.Scan() {
						if data, is := strings.CutPrefix(lines.Text(), "data: "); is {
							return data
						}
					}
					t.Fatal("the stream has ended")
					return ""
				}
				to := next()
				p, from := dial()
				defer p.Close()
				send(p, from, "POST", to, begin).Body.Close()
				if got := next(); !strings.Contains(got, `"result"`) {
					t.Fatalf("got %s", got)
				}
				send(p, from, "POST", to, began).Body.Close()
			}},
			{"HTTP", func(int) {
				c, in := dial()
				defer c.Close()
				res := send(c, in, "POST", "/mcp", begin)
				_, _ = io.Copy(io.Discard, res.Body)
				id := res.Header.Get("Mcp-Session-Id")
				send(c, in, "POST", "/mcp", began, "Mcp-Session-Id", id).Body.Close()
				s, events := dial()
				send(s, events, "GET", "/mcp", "", "Mcp-Session-Id", id)
				s.Close()
				send(c, in, "DELETE", "/mcp", "", "Mcp-Session-Id", id).Body.Close()
			}},
			{"parked", func(n int) {
				c, in := dial()
				defer c.Close()
				body := modernRequestOf(strconv.Itoa(n), "tools/call", `"name":"ask","arguments":{},`+meta(`{"elicitation":{}}`))
				res := send(c, in, "POST", "/mcp", body, modernHeader(body)...)
				if got, _ := io.ReadAll(res.Body); gjson.GetBytes(got, "result.resultType").Str != "input_required" {
					t.Fatalf("%d %s", res.StatusCode, got)
				}
			}},
		} {
			// Pools and caches settle, and what they hold at a count differs by dozens; what sessions leave grows with their number. So
			// a doubt is answered with more sessions.
			if effort > 1 { // the race detector is not asked for the heap
				for range each / effort {
					sessions++
					kind.session(sessions)
				}
				continue
			}
			var counts []int
			half, grown := 0, 0 // of the rounds, the first that counts, and the objects since
			for len(counts) < 4 || len(counts) < 16 && grown > (len(counts)-1-half)*each/2 {
				for range each {
					sessions++
					kind.session(sessions)
				}
				counts = append(counts, objectsLeft(t))
				half = (len(counts) - 1) / 2
				grown = counts[len(counts)-1] - counts[half]
			}
			t.Logf("%s: objects after each %d sessions: %d", kind.name, each, counts)
			if of := (len(counts) - 1 - half) * each; grown > of/2 { // each takes dozens
				t.Errorf("%s: %d objects are left of %d sessions", kind.name, grown, of)
			}
		}
	})
}

// objectsLeft returns the number of objects on the heap when it no longer falls.
func objectsLeft(t *testing.T) int {
	t.Helper()
	time.Sleep(time.Minute) // what has ended is let go
	var s runtime.MemStats
	least, same := int(^uint(0)>>1), 0
	for end := time.Now().Add(patience); same < 5; time.Sleep(20 * time.Millisecond) {
		runtime.GC()
		runtime.ReadMemStats(&s)
		if now := int(s.HeapObjects); now < least {
			least, same = now, 0
		} else {
			same++
		}
		if time.Now().After(end) {
			t.Fatal("the heap does not settle")
		}
	}
	return least
}
