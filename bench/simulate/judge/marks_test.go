package judge

import (
	"regexp"
	"slices"
	"testing"
)

func TestMarksIn(t *testing.T) {
	same := regexp.MustCompile(`\bc[0-9]+\.[0-9]+\b`)
	for _, text := range []string{
		"", "c", "c1", "c1.", "c1.2", "c1.2.3", "xc1.2", "_c1.2", "c1.2x", "c1.2_", "cc1.2", "c1.2 c13.40", `{"a":"c1.2 done"}`, "c1.2c3.4", "1c1.2", "C1.2", "éc1.2é", "c1..2", "abc c1 c.2 c2.9]",
	} {
		var got []string
		for owner, mark := range marksIn([]byte(text)) {
			got = append(got, string(mark))
			if string(owner) != regexp.MustCompile(`^c[0-9]+`).FindString(string(mark)) {
				t.Errorf("%q: %s of %s", text, owner, mark)
			}
		}
		if want := same.FindAllString(text, -1); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
