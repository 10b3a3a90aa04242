package openapi

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/near"
)

// Split says into how many files an API is imported.
type Split string

// The ways to split.
const (
	SplitNone Split = "none"
	SplitTag  Split = "tag"  // a file for each tag
	SplitPath Split = "path" // a file for each first part of paths
)

// Names says how operations are called.
type Names string

// The names.
const (
	NamesSnake Names = "snake_case"
	NamesID    Names = "operationId" // tools for one operation have the names of the document
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

	again          bool          // the options are those of an earlier import, of another version of the document
	mine           *file.Adapter // the file of that import
	NoOutputSchema bool          // do not describe the answers

	Omit  []string          // parameters that are left out: NAME, or OPERATION.NAME
	Set   map[string]string // parameters that are hidden, and sent with this value
	Auth  string            // "" for what the document says; otherwise see chosenAuth
	Names Names             // "" for NamesSnake

	recorded bool                     // x-source has them
	has      func(*rawOperation) bool // the file may have an operation; nil for a new file

	group         string   // only the operations of this group of Split, in one file
	InsecureHosts []string // host names that may be called over http
}

// choices are what a person has decided about parameters, and what came of it.
type choices struct {
	omit     []string
	set      map[string]string
	recorded bool // an earlier import recorded them, and the document may have changed since
	known    map[string]bool
	used     map[string]bool
	wrong    []error
}

// choices returns the decisions of o, of which nothing has been used yet.
func (o *Options) choices() *choices {
	return &choices{omit: o.Omit, set: o.Set, recorded: o.recorded, known: map[string]bool{}, used: map[string]bool{}}
}

// flag returns how messages call a decision.
func (c *choices) flag(flag, name string) string {
	if c.recorded {
		return map[string]string{"--omit-param": "omit_params", "--set-param": "set_params"}[flag] + " in x-source: " + short(name)
	}
	return flag + " " + short(name)
}

// fail notes a reason why the decisions cannot be carried out.
func (c *choices) fail(err error) {
	if len(c.wrong) < maxFindings {
		c.wrong = append(c.wrong, err)
	}
}

// check returns an error if a decision is about a parameter that no operation has, or cannot be carried out. A document may lose
// a parameter, so that decisions of an earlier import may be about none.
func (c *choices) check() error {
	if c.recorded {
		return cmp.Or(c.wrong...)
	}
	names := slices.Sorted(maps.Keys(c.known))
	unknown := func(flag, name string) {
		if c.used[name] {
			return
		}
		meant := ""
		if list := near.Names(name, names, 3); len(list) > 0 {
			meant = "; did you mean " + strings.Join(list, " or ") + "?"
		}
		c.fail(fmt.Errorf("%s: no operation has this parameter%s", c.flag(flag, name), meant))
	}
	for _, name := range c.omit {
		unknown("--omit-param", name)
	}
	for _, name := range slices.Sorted(maps.Keys(c.set)) {
		unknown("--set-param", name)
	}
	return cmp.Or(c.wrong...)
}

// selector is one --include or --exclude.
type selector struct {
	kind    string
	pattern *regexp.Regexp
}

var selectorKinds = []string{"tag", "path", "id", "method", "op", "scope"}

// parseSelectors compiles selectors such as tag:issues, path:/repos/**, id:issues/*,
// method:GET, op:get_* and scope:read. In a path, * does not match a slash, and ** does.
func parseSelectors(list []string) (out []selector, err error) {
	for _, s := range list {
		kind, glob, ok := strings.Cut(s, ":")
		if !ok || !slices.Contains(selectorKinds, kind) || glob == "" || len(glob) > 1000 {
			return nil, fmt.Errorf("selector %s: want tag:NAME, path:/GLOB, id:GLOB, method:NAME, op:GLOB or scope:NAME", quoted(s))
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
	case "scope":
		return slices.ContainsFunc(op.advice.scopes, s.pattern.MatchString)
	case "path":
		return s.pattern.MatchString(op.path)
	case "id":
		return op.id != "" && s.pattern.MatchString(op.id)
	case "method":
		return s.pattern.MatchString(op.method)
	}
	return s.pattern.MatchString(op.named())
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
