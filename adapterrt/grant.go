package adapterrt

import (
	"fmt"
	"path"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
)

// Grant says which operations callers may use: those that a pattern of Allow matches and no
// pattern of Deny. An empty Allow matches all.
//
// A pattern is an operation, adapter.operation, or either with a category, as in
// github.*:read. A * stands for any characters. A pattern without a dot is for the
// operations of all adapters.
type Grant struct{ Allow, Deny []string }

// Validate returns an error for the first pattern that is not valid.
func (g *Grant) Validate() error {
	for _, list := range []struct {
		name     string
		patterns []string
	}{{"allow", g.Allow}, {"deny", g.Deny}} {
		for i, p := range list.patterns {
			if _, err := parsePattern(p); err != nil {
				return fmt.Errorf("%s[%d]: %q %w", list.name, i, p, err)
			}
		}
	}
	return nil
}

// permits reports whether callers may use an operation. Everything that a caller sees or
// calls depends on this one function, by way of the view that it makes.
func (g *Grant) permits(op *file.Operation) bool {
	return (len(g.Allow) == 0 || matchesAny(g.Allow, op)) && !matchesAny(g.Deny, op)
}

func matchesAny(patterns []string, op *file.Operation) bool {
	for _, text := range patterns {
		if p, err := parsePattern(text); err == nil && p.matches(op) {
			return true
		}
	}
	return false
}

// pattern is a parsed pattern of a Grant.
type pattern struct {
	name      string
	qualified bool // name has an adapter
	category  file.Category
}

func parsePattern(text string) (p pattern, err error) {
	name, category, categorized := strings.Cut(text, ":")
	if categorized {
		var known bool
		if p.category, known = file.CategoryOf(category); !known {
			return p, fmt.Errorf("must end with a category: create, read, update, delete or execute")
		}
	}
	for i := range len(name) {
		if c := name[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && !strings.ContainsRune("_-.*", rune(c)) {
			return p, fmt.Errorf("is not a pattern such as github.*:read or create_issue")
		}
	}
	if name == "" || strings.Count(name, ".") > 1 {
		return p, fmt.Errorf("is not a pattern such as github.*:read or create_issue")
	}
	p.name, p.qualified = name, strings.Contains(name, ".")
	return p, nil
}

func (p pattern) matches(op *file.Operation) bool {
	if p.category != file.AnyCategory && p.category != op.Category {
		return false
	}
	name := op.Name
	if p.qualified {
		name = op.Adapter.Name + "." + name
	}
	ok, err := path.Match(p.name, name) // the characters leave * as the only wildcard
	return ok && err == nil
}
