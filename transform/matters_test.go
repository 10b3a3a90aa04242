package transform

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
)

// TestLinesThatMatterAreKept cuts outputs of tools to a third of their tokens, and to more. The
// lower half of each file in testdata/matters has what a reader of the upper half looks for.
func TestLinesThatMatterAreKept(t *testing.T) {
	testset.WithoutRace(t, "nothing runs beside it")
	e := engine(t, "transform: {}")
	files, err := filepath.Glob("testdata/matters/*.txt")
	if err != nil || len(files) < 140 {
		t.Fatal(len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			both, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			in, want, _ := strings.Cut(string(both), "\n-- matters --\n")
			all := e.encoding.Count([]byte(in))
			for _, percent := range []int{34, 50, 85} {
				budget := max(100, all*percent/100)
				out, r := e.Apply(nil, textResult(in), &Call{Tool: "x", Schemas: None, MaxTokens: budget})
				texts, _ := seen(t, out)
				if r.OverBudget || len(texts) < 2 {
					t.Fatalf("at %d of %d tokens: %+v", budget, all, r)
				}
				for m := range strings.SplitSeq(strings.TrimSpace(want), "\n") {
					if !strings.Contains(texts[0], strings.TrimSpace(m)) {
						t.Errorf("at %d of %d tokens, %q is lost", budget, all, m)
					}
				}
			}
		})
	}
}
