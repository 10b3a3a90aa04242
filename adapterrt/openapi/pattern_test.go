package openapi

import (
	"regexp"
	"strings"
	"testing"
)

// TestPatterns: all of them compile, which a program finds out only when it needs them.
func TestPatterns(t *testing.T) {
	for _, compile := range []func() *regexp.Regexp{
		asides, betweens, bullets, code, codeBlocks, emphasis, headings, images, loose, mdLinks, notes, refLinks, sentence, slanted,
		spaces, tags, variable, opaque, counting, pageOf, fromOne, dates, address, onwards, unicodeEscape,
	} {
		compile()
	}
}

// TestPatternsOfSchemas: schemas have expressions of ECMA-262, adapter files those of RE2; what cannot be checked is told.
func TestPatternsOfSchemas(t *testing.T) {
	for _, c := range []struct{ in, want, told string }{
		{`^[a-z]+$`, `^[a-z]+$`, ""},
		{`^[\u00C0-\u017F\w]+$`, `^[\x{00C0}-\x{017F}\w]+$`, ""},
		{`^\u{1F600}\\u0041$`, `^\x{1F600}\\u0041$`, ""},
		{`^[\uD83D\uDE00]$`, "", `Pattern: ^[\uD83D\uDE00]$`},
		{`^(?!-)[a-z-]+$`, "", `Pattern: ^(?!-)[a-z-]+$`},
		{`^(?!-)` + strings.Repeat("a", 100), "", ""},
		{"", "", ""},
	} {
		if got := checked(c.in); got != c.want {
			t.Errorf("%s became %q, want %q", c.in, got, c.want)
		}
		if got := told(c.in); got != c.told {
			t.Errorf("of %s is told %q, want %q", c.in, got, c.told)
		}
	}
}
