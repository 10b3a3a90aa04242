package tests

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// forgetfulServer answers all that tests ask, and keeps nothing.
func forgetfulServer(t *testing.T, modern bool) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		said := gjson.ParseBytes(body)
		id, method := said.Get("id").Raw, said.Get("method").String()
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.Method != http.MethodPost:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case id == "":
			w.WriteHeader(http.StatusAccepted)
		case modern && method == "initialize":
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, rpcError(id, `"code":-32022,"message":"no","data":{"supported":["2026-07-28"],"requested":"x"}`))
		case modern && method == "server/discover":
			_, _ = io.WriteString(w, result(id, `"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"logging":{}},"ttlMs":0,"cacheScope":"private"`))
		case method == "initialize":
			w.Header().Set("Mcp-Session-Id", "named")
			_, _ = io.WriteString(w, result(id, helloOf("2025-11-25", `{"tools":{},"logging":{},"resources":{"subscribe":true}}`)))
		case method == "tools/list":
			_, _ = io.WriteString(w, result(id, `"resultType":"complete","tools":[],"ttlMs":0,"cacheScope":"private"`))
		default:
			_, _ = io.WriteString(w, result(id, `"resultType":"complete"`))
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestSessionsKeepNoMoreThanIsCounted: what clients say stays in the heap only as far as it is counted, wherever it is kept. Each case
// is played with a short text and with a long one.
func TestSessionsKeepNoMoreThanIsCounted(t *testing.T) {
	const sessions, long = 80 / effort, 12 << 10
	hello := func(client, can, more string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":%s,"clientInfo":{"name":"c","version":"1"%s}%s}}`, can, client, more)
	}
	plain := hello("", "{}", "")
	for _, c := range []struct {
		name  string
		hello string // with a mark for the text, as the others
		then  []string
	}{
		{"clientInfo", hello(`,"title":"TEXT"`, `{}`, ""), nil},
		{"capabilities", hello("", `{"experimental":{"x":{"y":"TEXT"}}}`, ""), nil},
		{"_meta", hello("", `{}`, `,"_meta":{"x/y":"TEXT"}`), nil},
		{"the id of initialize", strings.Replace(plain, `"id":0`, `"id":"TEXT"`, 1), nil},
		{"a level", plain, []string{`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"info","_meta":{"x/y":"TEXT"}}}`}},
		{"a request id", plain, []string{`{"jsonrpc":"2.0","id":"TEXT","method":"tools/list"}`}},
		{"a progress token", plain, []string{`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"progressToken":"TEXT"}}}`}},
		{"a cursor", plain, []string{`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"TEXT"}}`}},
		{"a method", plain, []string{`{"jsonrpc":"2.0","id":1,"method":"TEXT"}`}},
		{"the name of a tool", plain, []string{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"TEXT"}}`}},
		{"a subscription", plain, []string{`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"a:TEXT"}}`}},
		{"a cancellation", plain, []string{`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"TEXT","reason":"TEXT"}}`}},
		{"a notification", plain, []string{`{"jsonrpc":"2.0","method":"notifications/initialized","params":{"_meta":{"x/y":"TEXT"}}}`}},
	} {
		for kind, modern := range map[string]bool{"modern server": true, "handshake server": false} {
			t.Run(kind+"/"+c.name, func(t *testing.T) {
				url := forgetfulServer(t, modern)
				played := func(length int) (heap, counted int64) {
					srv := frontOfWeb(t, url, func(c *config.Config) { c.Limits.InHand = 64 << 20 })
					play := func(n int) {
						text := fmt.Sprintf("%06d", n) + strings.Repeat("x", length)
						session := srv.post("", strings.ReplaceAll(c.hello, "TEXT", text)).header["Mcp-Session-Id"]
						for _, m := range c.then {
							srv.post(session, strings.ReplaceAll(m, "TEXT", text))
						}
					}
					for n := range 4 {
						play(n) // what all sessions share
					}
					before, kept := liveHeap(), srv.Host.Memory().Kept()
					for n := range sessions {
						play(1000 + n)
					}
					heap = liveHeap() - before
					counted = srv.Host.Memory().Kept() - kept
					runtime.KeepAlive(srv)
					return heap, counted
				}
				for try := 1; ; try++ { // what pools have at the moment is noise
					short, few := played(10)
					heap, counted := played(long)
					if effort > 1 { // the race detector is not asked for the heap
						return
					}
					switch more := heap - short - (counted - few); {
					case more <= sessions*long/2:
						return
					case try == 5:
						t.Fatalf("%d sessions keep %d KiB more with texts of %d KiB each, of which %d KiB are counted", sessions, (heap-short)>>10, long>>10, (counted-few)>>10)
					}
				}
			})
		}
	}
}

// liveHeap returns how many bytes of the heap are in use.
func liveHeap() int64 {
	var m runtime.MemStats
	for range 3 { // pools let go in two steps
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
