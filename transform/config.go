package transform

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"gopkg.in/yaml.v3"
)

// Config says how results are made fit for the model. A setting that a YAML file leaves
// out has its default; an unknown key is an error that names its line.
type Config struct {
	// Enabled turns all transformations on.
	Enabled bool `yaml:"enabled"`
	// DefaultMaxTokens is the budget of results whose rule has none; 0 is unlimited.
	DefaultMaxTokens int `yaml:"default_max_tokens"`
	// AutoDetect says which sources recognize results by their shape: auto means the
	// sources that are enabled under adapters, have no tools there and are named by no
	// rule; true means every source, false none.
	AutoDetect string `yaml:"auto_detect"`
	// CapResources and CapPrompts hold the results of resources/read and of
	// prompts/get to the budget.
	CapResources bool `yaml:"cap_resources"`
	CapPrompts   bool `yaml:"cap_prompts"`

	Adapters AdaptersConfig `yaml:"adapters"`
	Store    StoreConfig    `yaml:"store"`
	MoreTool MoreToolConfig `yaml:"more_tool"`
	// Rules say what is done with the results of which tool. The first rule that matches
	// counts; rules without a * in their match come before the others.
	Rules []Rule `yaml:"rules"`
}

// AdaptersConfig holds the settings of the capper, and of each source by name.
type AdaptersConfig struct {
	Capper  CapperConfig            `yaml:"capper"`
	Sources map[string]SourceConfig `yaml:",inline"`
}

// CapperConfig says how results are held to their budget.
type CapperConfig struct {
	// Enabled holds results to their budget; without it there is none.
	Enabled bool `yaml:"enabled"`
	// Model names a model, or an encoding, to count for.
	Model string `yaml:"model"`
	// SafetyFactor multiplies counts; 0 is 1 for models with a public tokenizer
	// and 1.2 for others.
	SafetyFactor float64 `yaml:"safety_factor"`
	// Dedupe says which stays when a text repeats the structured content: auto
	// (structured where the tool has an outputSchema, else content), structured or
	// content.
	Dedupe string `yaml:"dedupe"`
	// Tables is rows, or columns: a list of objects with the same members becomes
	// {"columns": […], "rows": [[…]]} if that is shorter and no schema applies.
	Tables string `yaml:"tables"`
	// Keep are names of members that are kept longest, Drop names of members that are
	// dropped first.
	Keep []string `yaml:"keep"`
	Drop []string `yaml:"drop"`
	// KeepNulls keeps empty members as long as others; without it they are among the first
	// that are dropped.
	KeepNulls bool `yaml:"keep_nulls"`
}

// SourceConfig turns a source on or off, names tools that it serves whatever
// the rules say of adapters, and holds its options.
type SourceConfig struct {
	// Enabled is false for a source that is not used, even if a rule names it.
	Enabled bool `yaml:"enabled"`
	// Tools are the tools whose results the source takes. A * stands for any characters.
	Tools []string `yaml:"tools"`
	// Options are those of the source, by name.
	Options map[string]any `yaml:",inline"`
}

// StoreConfig bounds the store that keeps cut results for further reading.
type StoreConfig struct {
	// MaxBytes is the greatest size of all kept results, EntryMaxBytes of one: what is larger cannot be read on.
	MaxBytes      int `yaml:"max_bytes"`
	EntryMaxBytes int `yaml:"entry_max_bytes"`
	// TTL is how long a result is kept: 1s to 24h.
	TTL time.Duration `yaml:"ttl"`
}

// MoreToolConfig configures the tool that reads more of a cut result.
type MoreToolConfig struct {
	// Enabled is auto (when anything can be cut), on or off.
	Enabled string `yaml:"enabled"`
	// Name is its name for clients.
	Name string `yaml:"name"`
}

// Rule says what is done with the results of some tools.
type Rule struct {
	Match Match `yaml:"match"`
	// Adapter names the source that these results come from; "" for none, fields for none whatever their shape.
	Adapter string `yaml:"adapter"`
	// Options are for that source and override those in adapters.
	Options map[string]any `yaml:"options"`

	// IncludeFields are the dotted paths of the members that are kept, if there are any; ExcludeFields are
	// left out. A list is passed through: issues.id is the id of each issue.
	IncludeFields []string `yaml:"include_fields"`
	ExcludeFields []string `yaml:"exclude_fields"`
	// MaxDepth is how many steps of an included path count, up to 10; 0 is 3.
	MaxDepth int `yaml:"max_depth"`
	// Through names list wrappers that paths may leave out; without it nodes, edges,
	// results, items.
	Through []string `yaml:"through"`

	// MaxChars bounds the code points of all texts together; 0 is unlimited.
	MaxChars int `yaml:"max_chars"`
	// TruncationMarker stands where something was cut; a %d in it becomes the number of
	// code points that were cut. "" is "... [truncated]". JSON that max_chars cuts stays JSON: the marker ends the
	// text that was cut, or is the last entry of the document, "…" in an object.
	TruncationMarker string `yaml:"truncation_marker"`
	// Truncate bounds texts by the name of their member, or their path.
	Truncate map[string]Truncate `yaml:"truncate"`

	// PageSize is how many elements an array has at the most, up to 1000; MaxItems is
	// another name for it. 0 is unlimited.
	PageSize int `yaml:"page_size"`
	MaxItems int `yaml:"max_items"`
	// PageShape is preserve, or wrap for {items, _pagination}; "" is preserve.
	PageShape string `yaml:"page_shape"`

	// MaxTokens is the budget, 0 for unlimited; MaxResponseTokens is another
	// name for it. Without it, default_max_tokens counts.
	MaxTokens         *int `yaml:"max_tokens"`
	MaxResponseTokens *int `yaml:"max_response_tokens"`
	// OutputSchema says what happens to a tool's outputSchema: strip, derive or keep. "" is
	// strip if the rule changes shapes, else keep.
	OutputSchema string `yaml:"output_schema"`
	// OnConflict says what happens if nothing fits both the budget and the schema: keep
	// returns the larger result, error an error; "" is keep.
	OnConflict string `yaml:"on_conflict"`
	// Detail is compact or full; with full, only the budget applies. "" is compact.
	Detail string `yaml:"detail"`

	line int // of the rule in its file; 0 if unknown
}

// Match says which tools a rule is for. A * stands for any characters; "" is *.
type Match struct {
	// Server is the host of upstream.url, the program of upstream.command, or the name of an adapter. Tool is the
	// name of the tool, or of the operation.
	Server string `yaml:"server"`
	Tool   string `yaml:"tool"`
}

// Truncate bounds one text.
type Truncate struct {
	// Max is the greatest number of code points, marker included; 0 is 500.
	Max int `yaml:"max"`
	// Strategy is end, middle or word; "" is end.
	Strategy string `yaml:"strategy"`
}

// DefaultConfig returns the configuration that applies if nothing is set.
func DefaultConfig() Config {
	return Config{
		Enabled:          true,
		DefaultMaxTokens: 4000,
		AutoDetect:       "auto",
		Adapters: AdaptersConfig{
			Capper: CapperConfig{Enabled: true, Model: "o200k_base", Dedupe: "auto", Tables: "rows"},
		},
		Store:    StoreConfig{MaxBytes: 64 << 20, EntryMaxBytes: 8 << 20, TTL: 10 * time.Minute},
		MoreTool: MoreToolConfig{Enabled: "auto", Name: "fetch_more"},
	}
}

// UnmarshalYAML decodes a mapping over the defaults.
func (c *Config) UnmarshalYAML(n *yaml.Node) error {
	type plain Config // without this method
	p := plain(DefaultConfig())
	if err := knownKeys(n, reflect.TypeFor[Config](), ""); err != nil {
		return err
	}
	if err := n.Decode(&p); err != nil {
		return err
	}
	*c = Config(p)
	return nil
}

// UnmarshalYAML reads the settings of a source, which is on unless enabled is false.
func (s *SourceConfig) UnmarshalYAML(n *yaml.Node) error {
	type plain SourceConfig
	p := plain{Enabled: true}
	if err := n.Decode(&p); err != nil {
		return err
	}
	*s = SourceConfig(p)
	return nil
}

// UnmarshalYAML reads a rule and remembers its line.
func (r *Rule) UnmarshalYAML(n *yaml.Node) error {
	type plain Rule
	p := plain{line: n.Line}
	if err := knownKeys(n, reflect.TypeFor[Rule](), ""); err != nil {
		return err
	}
	if err := n.Decode(&p); err != nil {
		return err
	}
	*r = Rule(p)
	return nil
}

// knownKeys returns an error if a mapping has a key that the type it is decoded into does
// not have.
func knownKeys(n *yaml.Node, t reflect.Type, path string) error {
	switch {
	case n.Kind == yaml.AliasNode:
		return knownKeys(n.Alias, t, path)
	case t.Kind() == reflect.Slice && n.Kind == yaml.SequenceNode:
		for i, e := range n.Content {
			if err := knownKeys(e, t.Elem(), fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
	case n.Kind != yaml.MappingNode:
		// The decoder reports other shapes.
	case t.Kind() == reflect.Map:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if err := knownKeys(n.Content[i+1], t.Elem(), under(path, n.Content[i].Value)); err != nil {
				return err
			}
		}
	case t.Kind() == reflect.Struct:
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			inner := typeOfKey(t, key.Value)
			if inner == nil {
				if key.Line == 0 {
					return fmt.Errorf("unknown key %s", under(path, key.Value))
				}
				return fmt.Errorf("line %d: unknown key %s", key.Line, under(path, key.Value))
			}
			if err := knownKeys(n.Content[i+1], inner, under(path, key.Value)); err != nil {
				return err
			}
		}
	}
	return nil
}

// typeOfKey returns the type of a struct's field by its key, or nil if there is none.
func typeOfKey(t reflect.Type, key string) (inner reflect.Type) {
	for i := range t.NumField() {
		switch f := t.Field(i); f.Tag.Get("yaml") {
		case key:
			return f.Type
		case ",inline":
			inner = f.Type.Elem()
		}
	}
	return inner
}

func under(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// detects reports whether a source, if it is on, recognizes results by their shape.
func (c *Config) detects(source string) bool {
	s, set := c.Adapters.Sources[source]
	return c.AutoDetect == "true" || c.AutoDetect == "auto" && set && len(s.Tools) == 0 &&
		!slices.ContainsFunc(c.Rules, func(r Rule) bool { return r.Adapter == source })
}
