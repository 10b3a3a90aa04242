package grapheme

import (
	"strings"
	"testing"
)

func TestNumbersStayWhole(t *testing.T) {
	for _, c := range []struct {
		text          string
		n             int
		before, after int
	}{
		{"id 1234 x", 5, 3, 7}, {"id 1234 x", 3, 3, 3}, {"id 1234 x", 7, 7, 7}, {"1,234.50", 2, 0, 8}, {"1,234.50", 6, 0, 8}, {"a, 2", 2, 2, 2}, {"at 10:42:07.", 6, 3, 11},
		{"1.", 1, 1, 1}, {"v2", 1, 1, 1}, {"", 0, 0, 0}, {"12", 2, 2, 2}, {strings.Repeat("1", 200), 100, 100, 100},
	} {
		if b, a := BeforeNumber([]byte(c.text), c.n), AfterNumber([]byte(c.text), c.n); b != c.before || a != c.after {
			t.Errorf("%q at %d: %d and %d", c.text, c.n, b, a)
		}
	}
}
