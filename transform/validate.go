package transform

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dragoman-proxy/dragoman/transform/fields"
	"github.com/dragoman-proxy/dragoman/transform/tokens"
)

// A ConfigError says what is wrong with one setting.
type ConfigError struct {
	Path string // "rules[2].max_chars"
	Line int    // of the rule in its file; 0 if unknown
	Err  error
}

func (e *ConfigError) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("line %d: transform.%s: %v", e.Line, e.Path, e.Err)
	}
	return fmt.Sprintf("transform.%s: %v", e.Path, e.Err)
}

func (e *ConfigError) Unwrap() error { return e.Err }

const (
	minTokens     = 100
	maxPageSize   = 1000
	maxMarker     = 100 // code points
	defaultMarker = "... [truncated]"
	defaultMax    = 500 // code points of a text that truncate names
	maxToolName   = 64
)

// check looks at all settings but those of sources and rules.
func (v *faults) check(c *Config) {
	v.atLeast("default_max_tokens", c.DefaultMaxTokens)
	v.oneOf("auto_detect", c.AutoDetect, "auto", "true", "false")
	capper := &c.Adapters.Capper
	v.oneOf("adapters.capper.dedupe", capper.Dedupe, "auto", "structured", "content")
	v.oneOf("adapters.capper.tables", capper.Tables, "rows", "columns")
	if _, _, err := tokens.ForModel(capper.Model, capper.SafetyFactor); err != nil {
		v.add("adapters.capper.safety_factor", err)
	}
	if strings.HasSuffix(capper.Model, "_base") || strings.HasSuffix(capper.Model, "_edit") {
		if _, err := tokens.Named(capper.Model, 0); err != nil {
			v.add("adapters.capper.model", err)
		}
	}
	if capper.Model == "" {
		v.addf("adapters.capper.model", "is empty")
	}
	for _, name := range sortedKeys(c.Adapters.Sources) {
		if len(c.Adapters.Sources[name].Tools) > maxGlobs {
			v.addf("adapters."+name+".tools", "are more than %d", maxGlobs)
		}
	}
	if c.Store.MaxBytes < 0 {
		v.addf("store.max_bytes", "%d is below 0", c.Store.MaxBytes)
	}
	if c.Store.EntryMaxBytes < 0 {
		v.addf("store.entry_max_bytes", "%d is below 0", c.Store.EntryMaxBytes)
	}
	if c.Store.TTL < time.Second || c.Store.TTL > 24*time.Hour {
		v.addf("store.ttl", "%v is not 1s to 24h", c.Store.TTL)
	}
	v.oneOf("more_tool.enabled", c.MoreTool.Enabled, "auto", "on", "off")
	if !toolName(c.MoreTool.Name) {
		v.addf("more_tool.name", "%q is not 1 to %d letters, digits, _ - . /", c.MoreTool.Name, maxToolName)
	}
	if len(c.Rules) > maxRules {
		v.addf("rules", "are more than %d", maxRules)
	}
}

const (
	maxRules = 10_000
	maxGlobs = 1000
)

// faults collects the errors of a configuration.
type faults struct {
	all  []error
	line int
}

func (v *faults) add(path string, err error) {
	v.all = append(v.all, &ConfigError{Path: path, Line: v.line, Err: err})
}

func (v *faults) addf(path, format string, args ...any) { v.add(path, fmt.Errorf(format, args...)) }

// atLeast checks a budget: it has to be 0, or enough for a notice beside the
// result.
func (v *faults) atLeast(path string, n int) {
	if n != 0 && n < minTokens {
		v.addf(path, "%d is not 0 or at least %d", n, minTokens)
	}
}

func (v *faults) oneOf(path, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		if allowed[0] == "" {
			allowed = allowed[1:]
		}
		v.addf(path, "%q is not one of %s", value, strings.Join(allowed, ", "))
	}
}

func (v *faults) between(path string, n, least, most int) {
	if n != 0 && (n < least || n > most) {
		v.addf(path, "%d is not %d to %d", n, least, most)
	}
}

func (v *faults) rule(path string, r *Rule) {
	v.line = r.line
	defer func() { v.line = 0 }()
	v.paths(path+"include_fields", r, fields.Rule{Include: r.IncludeFields})
	v.paths(path+"exclude_fields", r, fields.Rule{Exclude: r.ExcludeFields})
	v.between(path+"max_depth", r.MaxDepth, 1, 10)

	marker := r.marker()
	runes := utf8.RuneCountInString(marker)
	if runes > maxMarker || !utf8.ValidString(marker) {
		v.addf(path+"truncation_marker", "is longer than %d characters", maxMarker)
	}
	switch {
	case r.MaxChars < 0:
		v.addf(path+"max_chars", "%d is below 0", r.MaxChars)
	case r.MaxChars > 0 && r.MaxChars <= runes:
		v.addf(path+"max_chars", "%d leaves no room beside the marker of %d characters", r.MaxChars, runes)
	}
	if len(r.Truncate) > maxGlobs {
		v.addf(path+"truncate", "has more than %d entries", maxGlobs)
	}
	for _, name := range sortedKeys(r.Truncate) {
		t := r.Truncate[name]
		if _, err := fields.Compile(fields.Rule{Exclude: []string{name}}); err != nil {
			v.add(path+"truncate", err)
		}
		if t.Max < 0 {
			v.addf(path+"truncate."+name+".max", "%d is below 0", t.Max)
		}
		v.oneOf(path+"truncate."+name+".strategy", t.Strategy, "", "end", "middle", "word")
	}

	v.between(path+"page_size", r.PageSize, 1, maxPageSize)
	v.between(path+"max_items", r.MaxItems, 1, maxPageSize)
	if r.PageSize != 0 && r.MaxItems != 0 && r.PageSize != r.MaxItems {
		v.addf(path+"max_items", "is another name for page_size, and has another value: remove one of them")
	}
	v.oneOf(path+"page_shape", r.PageShape, "", "preserve", "wrap")
	if r.MaxTokens != nil {
		v.atLeast(path+"max_tokens", *r.MaxTokens)
	}
	if r.MaxResponseTokens != nil {
		v.atLeast(path+"max_response_tokens", *r.MaxResponseTokens)
		if r.MaxTokens != nil && *r.MaxTokens != *r.MaxResponseTokens {
			v.addf(path+"max_response_tokens", "is another name for max_tokens, and has another value: remove one of them")
		}
	}
	v.oneOf(path+"output_schema", r.OutputSchema, "", "strip", "derive", "keep")
	if r.PageShape == "wrap" && (r.OutputSchema == "keep" || r.OutputSchema == "derive") {
		v.addf(path+"page_shape", "wrap cannot be combined with output_schema %s", r.OutputSchema)
	}
	if r.Adapter != "" && r.Adapter != "fields" && r.OutputSchema == "derive" {
		v.addf(path+"output_schema", "derive does not know the output of an adapter: use strip")
	}
	v.oneOf(path+"on_conflict", r.OnConflict, "", "keep", "error")
	v.oneOf(path+"detail", r.Detail, "", "compact", "full")
	if len(r.Options) > 0 && r.Adapter == "" {
		v.addf(path+"options", "belong to an adapter, and the rule names none")
	}
}

func (v *faults) paths(path string, r *Rule, f fields.Rule) {
	f.Through = r.Through
	if _, err := fields.Compile(f); err != nil {
		v.add(path, err)
	}
}

func (r *Rule) marker() string {
	if r.TruncationMarker == "" {
		return defaultMarker
	}
	return r.TruncationMarker
}

// toolName reports whether a tool may have that name.
func toolName(name string) bool {
	if name == "" || len(name) > maxToolName {
		return false
	}
	for _, c := range name {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.ContainsRune("_-./", c):
		default:
			return false
		}
	}
	return true
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
