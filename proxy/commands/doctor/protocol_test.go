package doctor

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/translate"
)

// someTime matches times in lines.
var someTime = regexp.MustCompile(`\d+(\.\d+)? m?s`)

// TestProtocol checks the lines about each way in which a server answers the handshake.
func TestProtocol(t *testing.T) {
	modern := translate.Modern()
	for name, c := range map[string]struct {
		change func(*fake)
		want   []string
	}{
		"sound": {func(*fake) {}, []string{
			"ok URL: revision 2025-11-25, with a handshake, answered in TIME", "info the server is demo/Some Server 2", "info capabilities: tools", "ok URL: two calls are answered; the server has no sessions (it sends no Mcp-Session-Id)",
		}},
		"with sessions": {func(f *fake) { f.SessionID = "s1" }, []string{
			"ok URL: revision 2025-11-25, with a handshake, answered in TIME", "info the server is demo/Some Server 2", "info capabilities: tools", "ok URL: the session is kept over two calls",
		}},
		"second call, no sessions": {failSecond, []string{
			"ok URL: revision 2025-11-25, with a handshake, answered in TIME", "info the server is demo/Some Server 2", "info capabilities: tools",
			"FAIL URL: the second call after the handshake (tools/list) fails: upstream answered 503 Service Unavailable: busy → the server's own log says more",
		}},
		"older":       {func(f *fake) { f.Results["initialize"] = initialized("2024-11-05", `{}`) }, []string{"ok URL: revision 2024-11-05, with a handshake, answered in TIME", "info the server is demo/Some Server 2", "warn URL: the server has no capabilities: neither tools nor prompts nor resources → is it configured? many servers list nothing without a credential", "ok URL: two calls are answered; the server has no sessions (it sends no Mcp-Session-Id)"}},
		"no result":   {func(f *fake) { f.Results["initialize"] = "" }, []string{`FAIL URL: the answer to initialize has no result: {"jsonrpc":"2.0","id":1} → this is a mistake of the server`}},
		"no revision": {func(f *fake) { f.Results["initialize"] = `{"capabilities":{}}` }, []string{`FAIL URL: the answer to initialize has no protocolVersion: {"jsonrpc":"2.0","id":1,"result":{"capabilities":{}}} → this is a mistake of the server`}},
		"unknown revision": {func(f *fake) { f.Results["initialize"] = initialized("2023-01-01", `{}`) }, []string{
			`FAIL URL: the server answers with revision "2023-01-01", which dragoman does not speak → update dragoman or the server; dragoman speaks ` + strings.Join(translate.Names(), ", "),
		}},
		"modern revision": {func(f *fake) { f.Results["initialize"] = initialized(modern, `{}`) }, []string{
			"FAIL URL: the server answers initialize with revision " + modern + ", which has no initialize → this is a mistake of the server; upstream.version: " + translate.Latest().Name,
		}},
		"no capabilities": {func(f *fake) { f.Results["initialize"] = `{"protocolVersion":"2025-11-25","serverInfo":{}}` }, []string{
			`FAIL URL: the answer to initialize has no capabilities: {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","serverInfo":{}}} → this is a mistake of the server`,
		}},
		"no name": {func(f *fake) {
			f.Results["initialize"] = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}}}`
		}, []string{
			`warn URL: the answer to initialize has no serverInfo: {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}}}} → many clients refuse such a server: this is a mistake of the server`,
			"ok URL: revision 2025-11-25, with a handshake, answered in TIME", "info capabilities: tools", "ok URL: two calls are answered; the server has no sessions (it sends no Mcp-Session-Id)",
		}},
		"refused": {func(f *fake) { f.Errors["initialize"] = `{"code":-32602,"message":"no"}` }, []string{
			`FAIL URL: initialize is refused: {"code":-32602,"message":"no"}; server/discover too: {"code":-32601,"message":"Method not found"} → the errors say why; upstream.version sets the revision that initialize proposes`,
		}},
		"without handshake": {func(f *fake) {
			f.Errors["initialize"] = `{"code":-32601,"message":"Method not found"}`
			f.Results["server/discover"] = `{"supportedVersions":["` + modern + `"],"capabilities":{"tools":{}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"m","version":"3"}}}`
		}, []string{"ok URL: revision " + modern + ", without a handshake, answered in TIME", "info the server is m 3", "info capabilities: tools", "ok URL: two calls are answered; no session is needed"}},
		"wrong discover": {func(f *fake) {
			f.Errors["initialize"] = `{"code":-32601,"message":"Method not found"}`
			f.Results["server/discover"] = `{"supportedVersions":["2031-01-01"],"capabilities":{}}`
		}, []string{"FAIL URL: the answer to server/discover has no capabilities, or " + modern + ` is not among its supportedVersions: {"jsonrpc":"2.0","id":2,"result":{"supportedVersions":["2031-01-01"],"capabilities":{}}} → this is a mistake of the server, or update dragoman`}},
		"first call": {func(f *fake) { f.Errors["tools/list"] = `{"code":-32000,"message":"not ready"}` }, []string{
			"ok URL: revision 2025-11-25, with a handshake, answered in TIME", "info the server is demo/Some Server 2", "info capabilities: tools",
			"info URL: tools/list is answered with an error",
		}},
		"session lost": {loseSession, []string{
			"ok URL: revision 2025-11-25, with a handshake, answered in TIME", "info the server is demo/Some Server 2", "info capabilities: tools",
			"FAIL URL: the second call after the handshake (tools/list) fails: upstream answered 404 Not Found: Session not found → is a balancer in between that sends each request to another process? it must send all requests with one Mcp-Session-Id to the same one",
		}},
		"notification refused": {func(f *fake) {
			f.refuse = func(u *peertest.Turn) bool {
				if u.Method != "notifications/initialized" {
					return false
				}
				u.Refuse(http.StatusInternalServerError)
				return true
			}
		}, []string{"FAIL URL: notifications/initialized is refused: upstream answered 500 Internal Server Error → this is a mistake of the server"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			c.change(f)
			at := "http://" + serve(t, f) + "/mcp"
			got := examine(t, atURL(at), "http", "protocol")
			for i := range got {
				got[i] = someTime.ReplaceAllString(strings.ReplaceAll(got[i], at, "URL"), "TIME")
			}
			want(t, got, c.want...)
		})
	}
}

// loseSession makes the server know a session only for the first call in it, as behind a balancer.
func loseSession(f *fake) {
	f.SessionID = "s1"
	calls := 0
	f.refuse = func(u *peertest.Turn) bool {
		if u.Method != "tools/list" {
			return false
		}
		if calls++; calls == 1 && u.Header.Get("Mcp-Session-Id") == "s1" && u.Header.Get("MCP-Protocol-Version") == "2025-11-25" {
			return false
		}
		u.Answer(http.StatusNotFound, "Session not found")
		return true
	}
}

// failSecond makes the second call fail.
func failSecond(f *fake) {
	calls := 0
	f.refuse = func(u *peertest.Turn) bool {
		if u.Method != "tools/list" {
			return false
		}
		if calls++; calls == 1 {
			return false
		}
		u.Answer(http.StatusServiceUnavailable, "busy")
		return true
	}
}

// TestServersQuestionsAreAnswered checks that a server that asks something before it answers gets its answer.
func TestServersQuestionsAreAnswered(t *testing.T) {
	answered := make(chan string, 8)
	addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if !strings.Contains(string(body), `"method"`) {
			answered <- string(body)
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, m := range []string{`{"jsonrpc":"2.0","id":"p","method":"ping"}`, `{"jsonrpc":"2.0","id":"r","method":"roots/list"}`, `{"jsonrpc":"2.0","id":"s","method":"sampling/createMessage"}`, `{"jsonrpc":"2.0","method":"notifications/message"}`} {
			fmt.Fprintf(w, "data: %s\n\n", m)
		}
		fmt.Fprintf(w, "data: [{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":%s}]\n\n", initialized("2025-03-26", `{}`))
	}))
	want(t, examine(t, atURL("http://"+addr+"/mcp"), "http"), "ok http://"+addr+"/mcp: answers over Streamable HTTP")
	for _, wanted := range []string{`{"jsonrpc":"2.0","id":"p","result":{}}`, `{"jsonrpc":"2.0","id":"r","result":{"roots":[]}}`, `{"jsonrpc":"2.0","id":"s","error":{"code":-32601,"message":"Method not found"}}`} {
		if got := <-answered; got != wanted {
			t.Errorf("got %s, want %s", got, wanted)
		}
	}
}
