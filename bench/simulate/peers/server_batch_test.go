package peers

import (
	"io"
	"strings"
	"testing"
)

// TestServerThatBatches: what is due within a moment is one array, in sessions of 2025-03-26 alone.
func TestServerThatBatches(t *testing.T) {
	for _, c := range []struct{ transport, revision string }{{"http", "2025-03-26"}, {"sse", "2025-03-26"}, {"stdio", "2025-03-26"}, {"stdio", "2025-06-18"}} {
		all := direct(t, c.transport, c.revision, c.revision, `
server batches
c1 begin
wait 1s
c1 call 1 progress=3 logs=2 how=sse
c1 call 2 progress=2 gap=100ms ask=sample
c1 call 3 how=json
c1 call 4 progress=1 how=behind
c1 call 5 progress=1 how=status
server announce 3
wait 2s`)
		var lines []string
		for _, e := range all {
			if e.Who == "c1" && e.Mark != "" {
				lines = append(lines, string(e.Kind)+" "+e.Mark)
			}
		}
		text := strings.Join(lines, "\n")
		for what, n := range map[string]int{"progressed c1.1": 3, "logged c1.1": 2, "progressed c1.2": 2, "asked c1.2": 1, "progressed c1.4": 1, "progressed c1.5": 1, "answered": 5} {
			if got := strings.Count(text, what); got != n {
				t.Errorf("%s %s: %d times %s, not %d", c.transport, c.revision, got, what, n)
			}
		}
		for _, wrong := range right(all) {
			t.Errorf("%s %s: %s", c.transport, c.revision, wrong)
		}
	}
}

// TestArrays are those on a pipe: the messages of a call, and its answer.
func TestArrays(t *testing.T) {
	tryServer(t, "stdio", "2025-03-26", func(w *serverTrial) {
		w.do("server batches")
		go io.WriteString(w.in, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"act","arguments":{"mark":"c1.1","plan":"progress=2"},"_meta":{"progressToken":"c1.1"}}}
`)
		for i, want := range []int{1, 3} {
			line, err := readLine(w.lines)
			if err != nil {
				t.Fatal(err)
			}
			if all, array, err := readMessages(line); err != nil || len(all) != want || array != (i == 1) {
				t.Errorf("line %d has %d messages, %v %v: %s", i+1, len(all), array, err, line)
			}
		}
	})
}
