package transform

import (
	"bytes"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/transform/tree"
)

// narrowing lists names of parameters with which a caller gets less, in lower case and
// without _ and -. The first ones leave out least of what matters.
var narrowing = []string{
	"fields", "select", "columns", "includefields",
	"query", "q", "search", "filter", "filters", "pattern", "since",
	"limit", "perpage", "pagesize", "maxresults", "maxitems", "first", "top", "count",
	"head", "tail", "lines", "maxlines", "maxlength", "maxdepth", "depth",
}

var separators = strings.NewReplacer("_", "", "-", "")

const (
	maxNarrowing     = 3
	maxNarrowingName = 40
)

// Narrowing returns the names of the parameters with which a caller of a tool can ask for
// less: at most three, separated by commas, or "" if there are none. tool is an entry of
// tools/list.
func Narrowing(tool []byte) string {
	var names []string
	properties := tree.Member(tree.Member(tool, "inputSchema"), "properties")
	start := tree.SkipSpace(properties, 0)
	if start == len(properties) || properties[start] != '{' {
		return ""
	}
	rank := func(name string) int {
		return slices.Index(narrowing, strings.ToLower(separators.Replace(name)))
	}
	tree.Each(properties, start, func(name []byte, at int) (int, bool) {
		if len(name) <= maxNarrowingName && bytes.IndexByte(name, '\\') < 0 && rank(string(name)) >= 0 {
			names = append(names, string(name))
		}
		return tree.SkipValue(properties, at), len(names) < len(narrowing)
	})
	slices.SortStableFunc(names, func(a, b string) int { return rank(a) - rank(b) })
	return strings.Join(names[:min(len(names), maxNarrowing)], ", ")
}

// askForLess returns the advice how to narrow the call, or "" if the tool has no parameter
// for that.
func (c *Call) askForLess() string {
	if c.Narrowing == "" {
		return ""
	}
	return "ask for less with " + c.Narrowing
}
