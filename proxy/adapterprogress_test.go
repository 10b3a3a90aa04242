package proxy

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// TestAnswersThatComeInParts: while an adapter's answer comes in parts, a client that has asked for
// progress is told their number.
//
// https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/progress: "progress
// notifications … MUST only reference tokens that were provided in an active request".
func TestAnswersThatComeInParts(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for i := range 3 {
			if i == 2 {
				time.Sleep(300 * time.Millisecond)
			}
			fmt.Fprintf(w, "{\"message\":{\"content\":\"part %d\"}}\n", i)
			w.(http.Flusher).Flush()
		}
	}))
	t.Cleanup(api.Close)
	dir := adapterDir(t, map[string]string{"items-adapter.md": adapterFile("items-api", api.URL, `
  read:
    - name: chat
      maps_to: "GET /chat"
      description: Chat
      response: {as: ndjson, join: message.content}
`)})
	t.Setenv("DRAGOMAN_TEST_API_TOKEN", "t")
	change := func(c *config.Config) { c.Adapters.Sources = []string{dir} }
	const answer = `{"success":true,"data":"part 0part 1part 2"}`
	call := func(meta string) string {
		return `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"mcp_aql_read","arguments":{"operation":"chat"}` + meta + `}}`
	}
	check := func(t *testing.T, messages []string, token, message string) {
		t.Helper()
		want := []string{`{"progressToken":` + token + `,"progress":1` + strings.Replace(message, "N", "0", 1) + `}`, `{"progressToken":` + token + `,"progress":3` + strings.Replace(message, "N", "2", 1) + `}`}
		for i, m := range messages {
			switch {
			case i == len(messages)-1:
				if text(m) != answer || gjson.Get(m, "id").Raw != "7" {
					t.Error(m)
				}
			case i >= len(want) || !sameAs([]string{gjson.Get(m, "params").Raw}, want[i:i+1]) || gjson.Get(m, "method").String() != "notifications/progress" || gjson.Get(m, "id").Exists():
				t.Errorf("%d: %s", i, m)
			}
		}
		if len(messages) != 3 {
			t.Errorf("%d messages: %q", len(messages), messages)
		}
	}
	for _, c := range []struct{ version, token, message string }{
		{"2024-11-05", `12`, ""}, {"2025-06-18", `"a token"`, `,"message":"part N"`}, {"2025-11-25", `-1`, `,"message":"part N"`},
	} {
		asking := `,"_meta":{"progressToken":` + c.token + `}`
		srv := front(t, listing(c.version, nil, nil), change)
		session := srv.initialize(c.version)
		check(t, srv.post(session, call(asking)).events, c.token, c.message)
		pipe, _ := pipeClient(t, listing(c.version, nil, nil), change)
		pipe.initialize(c.version, "{}")
		pipe.say(call(asking))
		check(t, []string{pipe.hear(), pipe.hear(), pipe.hear()}, c.token, c.message)
		pipe.say(call("")) // without a token there is no progress notification
		if got := pipe.hear(); text(got) != answer {
			t.Error(got)
		}
	}
	srv := front(t, listing("2025-11-25", nil, nil), change)
	check(t, srv.modernly(call(","+meta(`{}`, `"progressToken":"m"`))).events, `"m"`, `,"message":"part N"`)
}
