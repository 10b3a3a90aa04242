package tests

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// slowServer is a server over HTTP that takes a while for everything but the first answer, to initialize, and then answers
// tools/call with a status.
func slowServer(t *testing.T, status int, header ...string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		m := string(text)
		id := gjson.Get(m, "id").Raw
		switch method := gjson.Get(m, "method").String(); {
		case r.Method != http.MethodPost:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case id == "":
			w.WriteHeader(http.StatusAccepted)
		case method == "server/discover":
			w.WriteHeader(http.StatusNotFound)
		case method == "initialize":
			w.Header().Set("Mcp-Session-Id", "s")
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, result(id, `"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}`))
		case method == "tools/call":
			time.Sleep(200 * time.Millisecond)
			for n := 0; n < len(header); n += 2 {
				w.Header().Set(header[n], header[n+1])
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			if status == http.StatusOK {
				fmt.Fprint(w, result(id, `"content":[]`))
			}
		default:
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, result(id, ``))
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestLateAnswers: a client whose call waits for longer than a heartbeat gets the head of an event stream. What its status
// could not say any more is in the error, and the status of the next request.
func TestLateAnswers(t *testing.T) {
	waits(t)
	const beat = 30 * time.Millisecond
	for _, c := range []struct {
		name   string
		status int
		header []string
		data   string // of the error; "" for an answer
		next   int    // the status of a request that does not wait; 0 for none that says it
	}{
		{"an answer", 200, nil, "", 0},
		{"no credentials", 401, []string{"WWW-Authenticate", `Bearer realm="r"`}, `{"status":401,"challenge":"Bearer realm=\"r\""}`, 401},
		{"forbidden", 403, nil, `{"status":403}`, 403},
		{"unavailable, which has no status of its own within a session", 503, []string{"Retry-After", "3"}, "", 200},
		{"a session that is lost again and again", 404, nil, `{"status":404}`, 404},
		{"too many requests", 429, []string{"Retry-After", "7"}, `{"status":429,"retryAfter":"7"}`, 429},
	} {
		runTogether(t, c.name, func(t *testing.T) {
			url := slowServer(t, c.status, c.header...)
			client := serving(t, func(cfg *config.Config) { cfg.Upstream.URL, cfg.Heartbeat = url, beat })
			client.initialize()
			h := client.ask("POST", callOne)
			if h.status != 200 || h.header.Get("Content-Type") != "text/event-stream" || len(h.messages) != 1 || gjson.Get(h.messages[0], "id").Raw != "1" {
				t.Fatalf("%d %v %q", h.status, h.header, h.messages)
			}
			if data := gjson.Get(h.messages[0], "error.data").Raw; data != c.data {
				t.Errorf("%s", h.messages[0])
			}
			if c.next > 0 {
				if h := client.ask("POST", callOne, "Accept", "application/json, */*"); h.status != c.next {
					t.Errorf("the next: %d %q", h.status, h.messages)
				}
			}
		})
	}
}

// TestCallsOfAllKindsThatWait: for a server on stdio, for clients of all revisions and for each call of a batch. initialize gets
// its own head, which names the session.
func TestCallsOfAllKindsThatWait(t *testing.T) {
	waits(t)
	client := serving(t, func(cfg *config.Config) {
		cfg.Upstream.Command, cfg.Upstream.Env = []string{os.Args[0]}, map[string]string{badChild: "is busy"}
		cfg.Heartbeat = time.Millisecond
		cfg.Limits.Time = map[string]config.TimeLimit{"prompts/get": {FirstByte: 100 * time.Millisecond}}
	})
	streamed := func(name string, h heardAll, answers ...string) {
		t.Helper()
		if h.status != 200 || h.header.Get("Content-Type") != "text/event-stream" || len(h.messages) != len(answers) {
			t.Errorf("%s: %d %v %q", name, h.status, h.header, h.messages)
			return
		}
		slices.Sort(h.messages) // the answers of a batch may come in any order
		for n, want := range answers {
			if !strings.Contains(h.messages[n], want) {
				t.Errorf("%s: %q", name, h.messages[n])
			}
		}
	}
	if h := client.initialize(); h.header.Get("Content-Type") != "application/json" || client.session == "" {
		t.Errorf("initialize: %v", h.header)
	}
	streamed("session", client.ask("POST", callOf(1, "slow", "")), `"call 1"`)
	older := client.another()
	older.session = older.ask("POST", initialize("2025-03-26", `{}`)).header.Get("Mcp-Session-Id")
	streamed("batch", older.ask("POST", "["+callOf(1, "slow", "")+","+callOf(2, "fast", "")+"]"), `"call 1"`, `"call 2"`)
	if h := client.ask("POST", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}`); h.status != 202 {
		t.Errorf("notification: %d", h.status)
	}
	modern := client.another()
	call := modernRequestOf("7", "tools/call", meta(`{}`)+`,"name":"slow","arguments":{}`)
	streamed("2026-07-28", modern.ask("POST", call, "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "slow"), `"call 1"`)
}
