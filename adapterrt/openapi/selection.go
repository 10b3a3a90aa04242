package openapi

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Split says into how many files an API is imported.
type Split string

// The ways to split.
const (
	SplitNone Split = "none"
	SplitTag  Split = "tag"  // a file for each tag
	SplitPath Split = "path" // a file for each first part of paths
)

// Options say what is imported, and how.
type Options struct {
	Name       string // of the adapter; "" for one made of the document's title
	Include    []string
	Exclude    []string
	Split      Split  // "" for SplitNone
	Server     string // a URL, or the number of one of the document's servers, from 1
	ServerVars map[string]string
	Most       int  // operations; more are an error of type *TooMany. 0 for no limit
	Deprecated bool // include what is deprecated
	Fields     bool // propose default_fields

	NoOutputSchema bool // do not describe the answers

	group         string   // only the operations of this group of Split, in one file
	InsecureHosts []string // host names that may be called over http
}

// selector is one --include or --exclude.
type selector struct {
	kind    string
	pattern *regexp.Regexp
}

var selectorKinds = []string{"tag", "path", "id", "method", "op"}

// parseSelectors compiles selectors such as tag:issues, path:/repos/**, id:issues/*,
// method:GET and op:get_*. In a path, * does not match a slash, and ** does.
func parseSelectors(list []string) (out []selector, err error) {
	for _, s := range list {
		kind, glob, ok := strings.Cut(s, ":")
		if !ok || !slices.Contains(selectorKinds, kind) || glob == "" || len(glob) > 1000 {
			return nil, fmt.Errorf("selector %s: want tag:NAME, path:/GLOB, id:GLOB, method:NAME or op:GLOB", quoted(s))
		}
		var b strings.Builder
		b.WriteString("^(?s:")
		if kind == "method" {
			b.WriteString("(?i)")
		}
		for i := 0; i < len(glob); i++ {
			switch {
			case strings.HasPrefix(glob[i:], "**"):
				b.WriteString(".*")
				i++
			case glob[i] == '*' && kind == "path":
				b.WriteString("[^/]*")
			case glob[i] == '*':
				b.WriteString(".*")
			case glob[i] == '?':
				b.WriteString(".")
			default:
				b.WriteString(regexp.QuoteMeta(glob[i : i+1]))
			}
		}
		b.WriteString(")$")
		re, err := regexp.Compile(b.String())
		if err != nil { // a byte that is no UTF-8
			return nil, fmt.Errorf("selector %s is not valid", quoted(s))
		}
		out = append(out, selector{kind, re})
	}
	return out, nil
}

func (s selector) matches(op *rawOperation) bool {
	switch s.kind {
	case "tag":
		return slices.ContainsFunc(op.tags, s.pattern.MatchString)
	case "path":
		return s.pattern.MatchString(op.path)
	case "id":
		return op.id != "" && s.pattern.MatchString(op.id)
	case "method":
		return s.pattern.MatchString(op.method)
	}
	return s.pattern.MatchString(op.nameOf())
}

// selected returns the operations that one of the includes matches, or all without includes,
// and that no exclude matches.
func (d *Document) selected(include, exclude []string) ([]*rawOperation, error) {
	in, err := parseSelectors(include)
	if err != nil {
		return nil, err
	}
	ex, err := parseSelectors(exclude)
	if err != nil {
		return nil, err
	}
	var out []*rawOperation
	for _, op := range d.ops {
		matches := func(s selector) bool { return s.matches(op) }
		if (len(in) == 0 || slices.ContainsFunc(in, matches)) && !slices.ContainsFunc(ex, matches) {
			out = append(out, op)
		}
	}
	return out, nil
}
