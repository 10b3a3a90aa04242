package transform

import (
	"fmt"
	"testing"
)

// TestPathsThatMatchNothingAreReportedOnce checks that they are reported once
// for each tool, including paths of texts to shorten.
func TestPathsThatMatchNothingAreReportedOnce(t *testing.T) {
	e := engine(t, `transform: {rules: [{include_fields: [issues, totl], truncate: {bodi: {max: 20}, issues.body: {max: 20}, body: {max: 30}}}]}`)
	in := textResult(`{"issues":[{"body":"some words and more of them","n":1}],"total":1}`, `{"issues":[],"total":1}`)
	for _, c := range []struct{ tool, want string }{
		{"a", "include_fields totl; truncate bodi; "}, {"a", ""}, {"b", "include_fields totl; truncate bodi; "}, {"b", ""},
	} {
		_, r := e.Apply(nil, in, &Call{Tool: c.tool, Schemas: None})
		got := ""
		for _, m := range r.Missed {
			got += fmt.Sprintf("%s %s; ", m.Setting, m.Path)
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.tool, got, c.want)
		}
	}
	for i := range 2 * maxWatched { // clients choose the names of tools
		e.Apply(nil, in, &Call{Tool: fmt.Sprint(i), Schemas: None})
	}
	if n := len(e.rule("", "x").watch.looks); n > maxWatched {
		t.Errorf("%d tools are remembered", n)
	}
}
