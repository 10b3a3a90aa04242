package proxy

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
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
// its messages, literally but for ids. A case of one translated message may be a golden file of package translate instead.
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
		golden, err := filepath.Glob(fmt.Sprintf("../translate/testdata/golden/h%02d_*.golden", n))
		if err != nil {
			t.Fatal(err)
		}
		c := all[n]
		switch {
		case c == nil && len(golden) == 0:
			t.Errorf("case %d has no text", n)
		case c == nil, n == 88 && len(golden) > 0: // one message
		case elsewhere[n] != "" && hasTest(t, elsewhere[n]):
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

// TestMatrixCasesAreWordForWord: the cases are literally those of the matrix page.
func TestMatrixCasesAreWordForWord(t *testing.T) {
	page, err := os.ReadFile("../../shared/design/protocol-matrix.md")
	if err != nil {
		t.Skip("the matrix is not here")
	}
	for n, c := range awkwardCases(t) {
		_, rest, ok := strings.Cut(string(page), fmt.Sprintf("\n**%d. ", n))
		if !ok {
			t.Errorf("no case %d", n)
			continue
		}
		rest, _, _ = strings.Cut(rest, "\n**")
		var in, out []string
		for _, m := range regexp.MustCompile("(?m)^- (in|out) `([{\\[].*[}\\]])`$").FindAllStringSubmatch(rest, -1) {
			if m[1] == "in" {
				in = append(in, m[2])
			} else {
				out = append(out, m[2])
			}
		}
		if !reflect.DeepEqual(in, c.in) || !reflect.DeepEqual(out, c.out) {
			t.Errorf("case %d reads\n in %q\nout %q", n, in, out)
		}
	}
}
