package transform

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// TestTerminalOutputIsShownAsItWasLeft checks a result over its budget only because of what is not on the screen any
// more, and reading on in one that is cut.
func TestTerminalOutputIsShownAsItWasLeft(t *testing.T) {
	e := engine(t, "transform: {}")
	var log, shown strings.Builder
	for i := range 200 {
		for k := range 10 {
			fmt.Fprintf(&log, "\r\x1b[Klayer %d: %d %%", i, k*10)
		}
		fmt.Fprintf(&log, "\r\x1b[K\x1b[32mlayer %d: done\x1b[0m\n", i)
		fmt.Fprintf(&shown, "layer %d: done\n", i)
	}
	in := textResult(log.String())
	out, r := e.Apply(nil, in, &Call{Tool: "x", Session: "s", Schemas: None, MaxTokens: 1500})
	texts, _ := seen(t, out)
	if texts[0] != shown.String() || r.OverBudget {
		t.Errorf("%q %+v", texts, r)
	}
	out, r = e.Apply(nil, in, &Call{Tool: "x", Session: "s", Schemas: None, MaxTokens: 300})
	if texts, _ = seen(t, out); strings.ContainsAny(texts[0], "\x1b\r") || !strings.Contains(texts[0], "layer 199: done") {
		t.Errorf("%q", texts)
	}
	more, _ := seen(t, e.More(context.Background(), "s", "", fmt.Appendf(nil, `{"cursor":%q,"from":100,"count":3}`, r.Cursor)))
	if more[0] != "layer 100: done\nlayer 101: done\nlayer 102: done" {
		t.Errorf("%q", more)
	}
	found, _ := seen(t, e.More(context.Background(), "s", "", fmt.Appendf(nil, `{"cursor":%q,"find":"layer 77:"}`, r.Cursor)))
	if !strings.HasPrefix(found[0], "77: layer 77: done") {
		t.Errorf("%q", found)
	}
	whole, _ := seen(t, e.More(context.Background(), "s", "", fmt.Appendf(nil, `{"cursor":%q,"raw":true,"from":0,"count":40}`, r.Cursor)))
	if !strings.HasPrefix(log.String(), whole[0]) {
		t.Errorf("raw: %q", whole)
	}
}
