package openapi

import (
	"regexp"
	"testing"
)

// TestPatterns: all of them compile, which a program finds out only when it needs them.
func TestPatterns(t *testing.T) {
	for _, compile := range []func() *regexp.Regexp{
		asides, betweens, bullets, code, codeBlocks, emphasis, headings, images, loose, mdLinks, notes, refLinks, sentence, slanted,
		spaces, tags, variable, opaque, counting, pageOf, fromOne, dates, address, onwards,
	} {
		compile()
	}
}
