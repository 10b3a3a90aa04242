package tests

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

//go:embed testdata/matrix.txt
var matrixText string

// awkward is one numbered case of the matrix: the messages of one side, and the expected messages
// on the other side, literally.
type awkward struct {
	number  int
	title   string
	in, out []string
}

func awkwardCases(t *testing.T) map[int]*awkward {
	t.Helper()
	all := map[int]*awkward{}
	var c *awkward
	for line := range strings.Lines(matrixText) {
		line = strings.TrimSuffix(line, "\n")
		switch word, rest, _ := strings.Cut(line, " "); word {
		case "==":
			number, title, _ := strings.Cut(rest, " ")
			n, err := strconv.Atoi(number)
			if err != nil || all[n] != nil {
				t.Fatalf("%q", line)
			}
			c = &awkward{number: n, title: title}
			all[n] = c
		case "in":
			c.in = append(c.in, rest)
		case "out":
			c.out = append(c.out, rest)
		}
	}
	return all
}

// TestMatrixCases: each case of the matrix is played by a script, in steps whose title begins with its number and that have
// its messages, literally but for ids, or is a golden file of package translate with these messages.
func TestMatrixCases(t *testing.T) {
	elsewhere := map[int]string{
		52: "TestBatchLegThatFailsLeavesTheOthers", // no script's server can refuse a connection
	}
	all, played := awkwardCases(t), map[int][]string{}
	for _, s := range allScripts(t) {
		for _, play := range s.plays {
			for _, n := range play.cases {
				played[n] = append(played[n], s.messagesOf(play)...)
			}
		}
	}
	for n := 1; n <= 92; n++ {
		c := all[n]
		switch {
		case c == nil:
			t.Errorf("case %d has no text", n)
		case elsewhere[n] != "" && hasTest(t, elsewhere[n]):
		case c.isGolden(t):
		case played[n] == nil:
			t.Errorf("case %d (%s) is played nowhere", n, c.title)
		default:
			for _, m := range slices.Concat(c.in, c.out) {
				if !slices.ContainsFunc(played[n], func(text string) bool { return sameCase(m, text) }) {
					t.Errorf("case %d (%s) is played without %s", n, c.title, m)
				}
			}
		}
	}
	for n := range played {
		if n < 1 || n > 92 {
			t.Errorf("steps of a case %d", n)
		}
	}
}

// isGolden returns whether golden files of package translate have all messages of the case.
func (c *awkward) isGolden(t *testing.T) bool {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("../../translate/testdata/golden/h%02d_*.golden", c.number))
	if err != nil {
		t.Fatal(err)
	}
	var texts strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts.Write(text)
	}
	messages := slices.Concat(c.in, c.out)
	return len(messages) > 0 && !slices.ContainsFunc(messages, func(m string) bool { return !strings.Contains(texts.String(), m) })
}

// hasTest returns whether this package has the test.
func hasTest(t *testing.T, test string) bool {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(text), "\nfunc "+test+"(")
	})
}

// messagesOf returns what a play sends and expects, with the names and the _meta of each client in their places.
func (s *scriptText) messagesOf(play scriptPlay) (all []string) {
	for _, client := range s.clients {
		for _, st := range play.steps {
			for _, m := range st.messages {
				all = append(all, s.named(m, client.capabilities))
			}
		}
	}
	return all
}

// sameCase compares a message of the matrix with that of a script. The placeholders of a script stand for any value, and those of
// the matrix for themselves.
func sameCase(matrix, script string) bool {
	p := &played{bound: map[string]any{"<opaque>": "<opaque>", "<opaque-2>": "<opaque-2>", "<uuid>": "<uuid>"}}
	// Published clients cannot read a question without params: in case 89 the proxy adds empty ones.
	script = strings.ReplaceAll(script, `"method":"roots/list","params":{}`, `"method":"roots/list"`)
	// The case does not say that a client must declare roots to be asked for them.
	script = strings.ReplaceAll(script, `/clientCapabilities":{"elicitation":{},"roots":{}}`, `/clientCapabilities":{"elicitation":{}}`)
	return p.same(matrix, script)
}
