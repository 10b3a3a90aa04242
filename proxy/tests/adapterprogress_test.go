package tests

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

// inParts is an adapter for an API whose answer comes in three parts. three returns the three messages that a client must
// get for it; the last part comes a while after report was called.
func inParts(t *testing.T) (use func(*config.Config), report func(), three func(next func() string) []string) {
	t.Helper()
	reported := make(chan struct{}, 1) // the first part was: the last one comes after the pause between two notifications
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		const part = `{"message":{"content":"part %d"}}` + "\n"
		fmt.Fprintf(w, part+part, 0, 1)
		w.(http.Flusher).Flush()
		select {
		case <-reported:
			time.Sleep(300 * time.Millisecond)
		case <-r.Context().Done():
		}
		fmt.Fprintf(w, part, 2)
	}))
	t.Cleanup(api.Close)
	report = func() { reported <- struct{}{} }
	three = func(next func() string) []string {
		first := next()
		report()
		return []string{first, next(), next()}
	}
	dir := adapterDir(t, map[string]string{"items-adapter.md": adapterFile("items-api", api.URL, `
  read:
    - name: chat
      maps_to: "GET /chat"
      description: Chat
      response: {as: ndjson, join: message.content}
`)})
	return func(c *config.Config) { c.Adapters.Sources = []string{dir} }, report, three
}

// TestAnswersThatComeInParts: while an adapter's answer comes in parts, a client that has asked for
// progress is told their number.
//
// https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/progress: "progress
// notifications … MUST only reference tokens that were provided in an active request".
func TestAnswersThatComeInParts(t *testing.T) {
	t.Setenv("DRAGOMAN_TEST_API_TOKEN", "t")
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
	}
	for _, c := range []struct{ version, token, message string }{
		{"2024-11-05", `12`, ""}, {"2025-06-18", `"a token"`, `,"message":"part N"`}, {"2025-11-25", `-1`, `,"message":"part N"`},
	} {
		runTogether(t, c.version, func(t *testing.T) {
			change, report, three := inParts(t)
			asking := `,"_meta":{"progressToken":` + c.token + `}`
			srv := front(t, listing(c.version, nil, nil), change)
			session := srv.initialize(c.version)
			check(t, overHTTP(srv.open("POST", session, call(asking)), three), c.token, c.message)
			pipe, _ := pipeClient(t, listing(c.version, nil, nil), change)
			pipe.initialize(c.version, "{}")
			pipe.say(call(asking))
			check(t, three(pipe.hear), c.token, c.message)
			report()
			pipe.say(call("")) // without a token there is no progress notification
			if got := pipe.hear(); text(got) != answer {
				t.Error(got)
			}
		})
	}
	runTogether(t, modernOnly, func(t *testing.T) {
		change, _, three := inParts(t)
		srv := front(t, listing("2025-11-25", nil, nil), change)
		modern := call("," + meta(`{}`, `"progressToken":"m"`))
		check(t, overHTTP(srv.open("POST", "", modern, modernHeader(modern)...), three), `"m"`, `,"message":"part N"`)
	})
}

func overHTTP(r *reader, three func(next func() string) []string) []string {
	messages := three(func() string { return string(r.next().Data) })
	r.ends()
	return messages
}
