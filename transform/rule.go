package transform

import (
	"cmp"
	"fmt"
	"strings"
	"sync"

	"github.com/dragoman-proxy/dragoman/transform/fields"
)

// A rule is a [Rule] ready for use.
type rule struct {
	server, tool string // globs
	source       Source // nil for none
	options      Values
	selection    *fields.Selection // nil when all is kept
	maxChars     int
	marker       string
	cuts         []cut // by name or path
	pageSize     int
	wrap         bool
	budget       int    // tokens; 0 is unlimited
	schema       string // strip, derive or keep
	refuse       bool   // return an error in the place of a result that cannot fit
	full         bool   // steps before the capper are left out
	config       *Rule
	settled      bool   // the rule names an adapter: no other source is looked for
	where        string // rules[2]; "" where no rule matched
	watch        watch  // for paths that match nothing
}

// A cut bounds the texts at a path. A path of one step is any member of that
// name.
type cut struct {
	name     string
	steps    []string
	max      int
	strategy string
}

// shapes reports whether the rule can leave a result that its tool's
// outputSchema does not describe.
func (r *rule) shapes() bool { return r.source != nil || r.selection != nil || r.wrap }

// works reports whether the rule does anything before the capper.
func (r *rule) works() bool {
	return r.shapes() || r.maxChars > 0 || len(r.cuts) > 0 || r.pageSize > 0
}

// compile prepares a rule that Validate has accepted.
func compile(c *Config, sources map[string]Source, path string, r *Rule) (*rule, error) {
	out := &rule{
		server: r.Match.Server, tool: r.Match.Tool,
		maxChars: r.MaxChars, marker: r.marker(), pageSize: max(r.PageSize, r.MaxItems),
		wrap: r.PageShape == "wrap", budget: c.DefaultMaxTokens, schema: r.OutputSchema, settled: r.Adapter != "",
		refuse: r.OnConflict == "error", full: r.Detail == "full",
		config: r, where: strings.TrimSuffix(path, "."),
	}
	for _, n := range []*int{r.MaxTokens, r.MaxResponseTokens} {
		if n != nil {
			out.budget = *n
		}
	}
	if len(r.IncludeFields)+len(r.ExcludeFields) > 0 {
		through := r.Through
		if w, ok := sources[r.Adapter].(Wrapper); ok && through == nil {
			through = append(fields.Wrappers(), w.Wraps())
		}
		s, err := fields.Compile(fields.Rule{Include: r.IncludeFields, Exclude: r.ExcludeFields, Depth: r.MaxDepth, Through: through})
		if err != nil {
			return nil, &ConfigError{path + "include_fields", r.line, err}
		}
		out.selection = s
	}
	for _, name := range sortedKeys(r.Truncate) {
		t := r.Truncate[name]
		k := cut{name: name, steps: fields.Split(name), max: t.Max, strategy: t.Strategy}
		k.max = cmp.Or(k.max, defaultMax)
		out.cuts = append(out.cuts, k)
	}
	if r.Adapter != "" {
		s, known := sources[r.Adapter]
		if !known {
			return nil, &ConfigError{path + "adapter", r.line, fmt.Errorf("there is no %q, only %s", r.Adapter, strings.Join(sortedKeys(sources), ", "))}
		}
		settings := c.Adapters.Sources[r.Adapter]
		values, err := ResolveOptions(s, settings.Options, r.Options)
		if err != nil {
			return nil, &ConfigError{path + "options", r.line, err}
		}
		if _, set := c.Adapters.Sources[r.Adapter]; !set || settings.Enabled {
			out.source, out.options = s, values
		}
	}
	if _, plain := out.source.(onlyFields); plain {
		out.source = nil
	}
	if out.schema == "" {
		out.schema = "keep"
		if out.shapes() {
			out.schema = "strip"
		}
	}
	return out, nil
}

// glob reports whether text matches pattern: a * matches any characters, "" any
// text.
func glob(pattern, text string) bool {
	if pattern == "" {
		return true
	}
	p, t, star, mark := 0, 0, -1, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, t
			p++
		case p < len(pattern) && pattern[p] == text[t]:
			p++
			t++
		case star >= 0:
			mark++
			p, t = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// special reports whether a match names one tool, of one server or of any, and
// returns the key to look it up by.
func (m Match) special() (key Match, ok bool) {
	if m.Server == "*" {
		m.Server = ""
	}
	return m, m.Tool != "" && !strings.Contains(m.Tool+m.Server, "*")
}

// A watch says of which results to look for paths that match nothing: of each tool's
// results until one of them has shown it.
type watch struct {
	mu    sync.Mutex
	looks map[string]int // by tool
}

// begin reports whether a result of the tool is to be looked at.
func (w *watch) begin(tool string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, known := w.looks[tool]
	return n < maxLooks && (known || len(w.looks) < maxWatched)
}

// end records that a result of the tool was looked at. If told is true, no other result of
// it will be.
func (w *watch) end(tool string, told bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.looks == nil {
		w.looks = make(map[string]int)
	}
	if _, known := w.looks[tool]; !known {
		tool = strings.Clone(tool)
	}
	w.looks[tool]++
	if told {
		w.looks[tool] = maxLooks
	}
}

const (
	maxWatched = 200 // tools of one rule
	maxLooks   = 20  // results of one tool: more than one, because an empty list does not show its fields
)
