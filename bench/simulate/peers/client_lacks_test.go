package peers

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

// TestClientThatLacksSomething: it opens no stream, or does not declare a capability, and so is not asked.
func TestClientThatLacksSomething(t *testing.T) {
	for _, revision := range []string{"2025-03-26", "2025-11-25", "2026-07-28"} {
		for _, lacks := range []string{"", "stream", "sampling", "stream,sampling,roots"} {
			all := direct(t, "http", revision+" lacks="+lacks, revision, `
c1 begin
c1 call 1 ask=sample
c1 leave
c1 back
wait 5s`)
			opened, asked := false, false
			for _, e := range all {
				opened = opened || e.Kind == trace.Opened
				asked = asked || e.Kind == trace.Asks
				if e.Kind == trace.Begins && revision != modernRevision {
					if declared := bytes.Contains(e.Raw, []byte(`"roots"`)); declared != (lacks != "stream,sampling,roots") {
						t.Errorf("%s without %q declares %s", revision, lacks, e.Raw)
					}
				}
			}
			if got, want := fmt.Sprint(opened, asked), fmt.Sprint(!slices.Contains([]string{"stream", "stream,sampling,roots"}, lacks), lacks == "" || lacks == "stream"); got != want {
				t.Errorf("%s without %q: opened and asked %s, not %s", revision, lacks, got, want)
			}
			for _, wrong := range right(all) {
				t.Errorf("%s without %q: %s", revision, lacks, wrong)
			}
		}
	}
}

// TestCallThatNeedsAnAnswer: the server fails it when its question is refused, and not when it is answered.
func TestCallThatNeedsAnAnswer(t *testing.T) {
	for _, c := range []struct{ plan, want string }{
		{"ask=sample needs=yes", ""},
		{"ask=sample reply=error", ""},
		{"ask=sample reply=error needs=yes", "-32050 c1.1 failed 1"},
		{"how=nameless", "-32050 c1.1 failed 1"},
	} {
		for _, e := range direct(t, "http", "2025-06-18", "2025-06-18", "c1 call 1 "+c.plan+"\nwait 5s") {
			if e.Kind == trace.Answered && e.Mark == "c1.1" && e.Failed != c.want {
				t.Errorf("%s ends with %q, not %q", c.plan, e.Failed, c.want)
			}
		}
	}
	for _, e := range direct(t, "http", "2026-07-28", "2026-07-28", "c1 call 1 how=nameless\nwait 5s") {
		if e.Kind == trace.Answered && e.Mark == "c1.1" && e.Failed != "a question without a method" {
			t.Errorf("a question without a method: %q", e.Failed)
		}
	}
}
