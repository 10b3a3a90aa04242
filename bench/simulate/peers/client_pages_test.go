package peers

import (
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

// TestPagesThatUsersOpen: in the midst of a call, and before it, which is sent again when its client is told that the page was opened.
func TestPagesThatUsersOpen(t *testing.T) {
	for _, c := range []struct{ transport, client, plan, want string }{
		{"http", "2025-11-25", "ask=url opens=300ms", "asked #1|replies accept #1|completed #1|answered c1.1 done 1"},
		{"stdio", "2025-11-25", "ask=url,sample opens=300ms", "asked #1|replies accept #1|completed #1|asked #2|replies c1.1 answer 2 #2|answered c1.1 done 1"},
		{"http", "2025-11-25", "ask=visit,elicit opens=2s", "asked #1|replies accept #1|completed #1|asked #2|replies accept c1.1 answer 2 #2|answered c1.1 done 1"},
		{"sse", "2025-11-25", "ask=visit opens=2s", "asked #1|replies accept #1|completed #1|answered c1.1 done 1"},
		{"http", "2025-11-25 lacks=stream", "ask=visit opens=2s", "asked #1|replies accept #1|answered c1.1 done 1"},
		{"stdio", "2025-11-25", "ask=visit reply=decline", "asked #1|replies decline #1|answered FAILED -32042 The user must open pages"},
		{"stdio", "2025-11-25 lacks=url", "ask=visit,url needs=yes", "answered FAILED -32042 The user must open pages"},
		{"stdio", "2025-11-25 lacks=url", "ask=url needs=yes", "asked #1|replies error -32602 #1|answered FAILED -32050 c1.1 failed 1"},
		{"stdio", "2025-11-25 lacks=url", "ask=visit,url", "answered c1.1 done 1"},
		{"stdio", "2025-11-25 lacks=form", "ask=elicit,url", "asked #2|replies accept #2|completed #2|answered c1.1 done 1"},
		{"http", "2026-07-28", "ask=url,visit together=yes", "asked #1|asked #2|replies accept #1|replies accept #2|answered c1.1 done 1"},
	} {
		revision, _, _ := strings.Cut(c.client, " ")
		all := direct(t, c.transport, c.client, revision, "c1 begin\nwait 1s\nc1 call 1 "+c.plan+"\nwait 20s")
		var got []string
		for _, e := range all {
			line := string(e.Kind)
			switch e.Kind {
			case trace.Asked, trace.Completed, trace.Replies:
				if e.Kind == trace.Replies {
					line += " " + e.Text
				}
				line += " #" + string(rune('0'+e.N))
			case trace.Answered:
				if line += " " + e.Text; e.Failed != "" {
					line += "FAILED " + e.Failed
				}
			default:
				continue
			}
			if e.Who == "c1" && e.Mark == "c1.1" {
				got = append(got, line)
			}
		}
		if got := strings.Join(got, "|"); got != c.want {
			t.Errorf("%s over %s, %s:\n got %s\nwant %s", c.client, c.transport, c.plan, got, c.want)
		}
		for _, wrong := range right(all) {
			t.Errorf("%s over %s, %s: %s", c.client, c.transport, c.plan, wrong)
		}
	}
}
