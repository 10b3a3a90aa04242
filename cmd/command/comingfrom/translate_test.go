package comingfrom

import (
	"slices"
	"strings"
	"testing"
)

// lines are lines of other tools, with what dragoman runs in their place, as one types it, or the error behind "! ". What has no
// effect follows behind " # ". Words are separated by spaces; _ stands for a space within one. Variables are written in front.
var lines = []struct{ theirs, ours string }{
	{"mcp-remote https://a.example/mcp", "dragoman stdio https://a.example/mcp"},
	{"mcp-remote https://a.example/mcp --transport sse-only", "dragoman stdio --upstream-transport sse https://a.example/mcp"},
}

func TestLines(t *testing.T) {
	for _, c := range lines {
		if got := translated(t, c.theirs); got != c.ours {
			t.Errorf("%s\n got  %s\n want %s", c.theirs, got, c.ours)
		}
	}
}

// translated returns what lines has for a line.
func translated(t *testing.T, theirs string) string {
	t.Helper()
	env := map[string]string{}
	words := strings.Fields(theirs)
	for i := range words {
		words[i] = strings.ReplaceAll(words[i], "_", " ")
	}
	at := slices.IndexFunc(words, func(w string) bool { return slices.Contains(Names(), w) })
	for _, w := range strings.Fields(theirs)[:at] {
		name, value, _ := strings.Cut(w, "=")
		env[name] = value
	}
	tool, err := Load(words[at])
	if err != nil {
		t.Fatal(err)
	}
	line, err := tool.Translate(words[at+1:], func(name string) (string, bool) { v, ok := env[name]; return v, ok })
	if err != nil {
		return "! " + err.Error()
	}
	return strings.Join(append([]string{line.String()}, line.Ignored...), " # ")
}
