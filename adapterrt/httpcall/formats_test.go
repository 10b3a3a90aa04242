package httpcall

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
)

func TestLongPagesAreCutBetweenCharacters(t *testing.T) {
	for _, char := range []string{"é", "€", "𝄞"} {
		for lead := range len(char) {
			c := &Call{Op: &file.Operation{}}
			text := strings.Repeat("x", lead) + strings.Repeat(char, maxPage/len(char)+1)
			got := c.markdown(text)
			if !utf8.ValidString(got) || !strings.HasPrefix(text, got) || len(got) <= maxPage-len(char) || len(got) > maxPage {
				t.Errorf("%s after %d bytes: %d bytes, the last %q", char, lead, len(got), got[len(got)-5:])
			}
			if len(c.Warnings) != 1 {
				t.Errorf("%d warnings, want 1", len(c.Warnings))
			}
		}
	}
}
