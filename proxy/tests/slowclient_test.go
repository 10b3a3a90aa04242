package tests

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// TestNothingIsLostOnASlowClient: the server waits for the client, also in calls in which it may
// ask.
func TestNothingIsLostOnASlowClient(t *testing.T) {
	const many = 20 * 256 // the capacity of an outbox
	for _, capabilities := range []string{`{}`, `{"elicitation":{}}`} {
		f := legacyServer(`{"tools":{}}`, func(id, _, _ string) ([]string, error) {
			var events []string
			for n := range many {
				events = append(events, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p%s","progress":%d}}`, id, n))
			}
			return one(append(events, result(id, `"content":[]`))...)
		})
		f.NoGet = true
		srv := front(t, f)
		r := srv.modernly(modernRequestOf("7", "tools/call", `"name":"t",`+meta(capabilities, `"progressToken":"tk"`)))
		if len(r.events) != many+1 {
			t.Fatalf("%d events of %d", len(r.events), many+1)
		}
		for n, e := range r.events[:many] {
			if gjson.Get(e, "params.progress").Int() != int64(n) {
				t.Fatalf("event %d is %s", n, e)
			}
		}
		if !strings.Contains(r.events[many], `"complete"`) {
			t.Error(r.events[many])
		}
	}
}

// TestCallIsGivenUpWhileItsServerWaits: the call is cancelled, although its server waits for a
// client that reads nothing.
func TestCallIsGivenUpWhileItsServerWaits(t *testing.T) {
	f := legacyServer(`{"tools":{}}`, func(id, _, _ string) ([]string, error) {
		var events []string
		for n := range 2 * 256 {
			events = append(events, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p%s","progress":%d}}`, id, n))
		}
		return one(append(events, hang)...)
	})
	f.NoGet = true
	srv := front(t, f)
	body := modernRequestOf("7", "tools/call", `"name":"t",`+meta(`{"elicitation":{}}`, `"progressToken":"tk"`))
	_, resp := srv.begin(t.Context(), "POST", "", body, modernHeader(body)...)
	if resp.Stream == nil {
		t.Fatal("no stream")
	}
	resp.Stream.Close()
	resp.Done()
	eventually(t, "the server is told", func() bool { return len(f.said("notifications/cancelled")) == 1 })
}
