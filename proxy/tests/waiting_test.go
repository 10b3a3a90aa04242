package tests

import (
	"testing"

	"github.com/tidwall/gjson"
)

// TestDragomansOwnQuestionsWaitForUsers, as those of servers do, and the page learns which tool waits.
func TestDragomansOwnQuestionsWaitForUsers(t *testing.T) {
	for _, modern := range []bool{false, true} {
		srv := beside(t, listing("2025-06-18", nil, nil), asker("ours"))
		ring, end := observedBy(srv)
		defer end()
		answer := func() {}
		if modern {
			srv.modernly(modernRequestOf("1", "tools/call", `"name":"ours","arguments":{},`+meta(canBeAsked)))
		} else {
			session := srv.initializeWith("2025-11-25", canBeAsked)
			req, resp := srv.begin(t.Context(), "POST", session, callOurs(9, "ours", `{}`))
			e, err := resp.Stream.Next()
			if err != nil {
				t.Fatal(err)
			}
			answer = func() {
				srv.post(session, `{"jsonrpc":"2.0","id":`+gjson.GetBytes(e.Data, "id").Raw+`,"result":{"action":"accept","content":{}}}`)
				srv.read(req, resp)
			}
		}
		eventually(t, "the call waits", func() bool { return len(ring.Asking()) == 1 })
		a, q := ring.Asking()[0], srv.Live().Parked
		if len(q) != 1 || q[0].Method != "elicitation/create" || q[0].Call != a.N || q[0].Since.IsZero() || a.Tool != "ours" || a.Client != "c 1" || a.Server != "s 2" {
			t.Errorf("modern %v: %+v, %+v", modern, q, a)
		}
		if answer(); modern {
			continue
		}
		eventually(t, "nothing waits", func() bool { return len(ring.Asking()) == 0 && len(srv.Live().Parked) == 0 })
	}
}
