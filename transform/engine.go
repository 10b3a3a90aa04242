package transform

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/transform/tokens"
)

// Options are what [New] takes beside the configuration.
type Options struct {
	// Sources are used beside those of [Builtin]; one of the same name replaces
	// a builtin one.
	Sources []Source
	// Given are rules that came with tools. Each is for the one tool that its
	// Match names, and counts if no rule of the configuration names that tool.
	Given []Rule
	// Store keeps what was cut. If it is nil, New makes one from Config.Store.
	// Engines that replace one another share a Store, so that handles outlive a
	// change of rules.
	Store *Store
	// Keys have 32 bytes each: the first seals handles, all of them open
	// handles. Without keys, the Store makes one. They are for the Store that
	// New makes.
	Keys [][]byte
	// Now returns the time, for the Store that New makes; nil means [time.Now].
	Now func() time.Time
	// Replicas keeps originals for all replicas, for the Store that New makes. It is
	// nil if each replica reads on in its own results only.
	Replicas Replicas
	// Beside runs a write to Replicas beside the answer that it belongs to. If it is
	// nil, the answer waits for the write.
	Beside func(task func())
}

// An Engine transforms results. It does not change, and is safe for concurrent
// use; another configuration needs another Engine.
type Engine struct {
	config   Config
	encoding *tokens.Encoding // nil when nothing is capped
	exact    bool
	special  map[Match]*rule // by match, without a *
	given    map[Match]*rule // the rules that came with tools
	globs    []*rule
	rest     *rule    // the rule that applies if no other matches
	served   []served // tools that a source serves
	detect   []served // sources that recognize results by their shape
	store    *Store
	sources  map[string]Source
}

// served is a source and the tools that it is for.
type served struct {
	source  Source
	options Values
	tools   []string // globs
}

func (s *served) serves(tool string) bool {
	return slices.ContainsFunc(s.tools, func(pattern string) bool { return glob(pattern, tool) })
}

// New makes an engine. The error is, or joins, [*ConfigError]s: those of [Config.Validate], and those of opt.
func New(cfg Config, opt Options) (*Engine, error) {
	e, err := prepare(cfg, opt.Sources)
	if err != nil {
		return nil, err
	}
	if e.store = opt.Store; e.store == nil {
		if e.store, err = NewStore(cfg.Store, opt.Keys, opt.Now); err != nil {
			return nil, &ConfigError{Path: "store", Err: err}
		}
		if opt.Replicas != nil {
			e.store.shelf = &shelf{replicas: opt.Replicas, run: opt.Beside}
		}
	}
	for i := range opt.Given {
		g := &opt.Given[i]
		r, err := compile(&cfg, e.sources, "", g)
		if err != nil {
			return nil, fmt.Errorf("%s of %s: %w", g.Match.Tool, g.Match.Server, err)
		}
		e.given[g.Match] = r
	}
	return e, nil
}

// Validate reports every invalid setting, each as a [*ConfigError]. [New] takes what it accepts with the same sources, which
// are those of [Builtin] and these.
func (c *Config) Validate(sources ...Source) error {
	_, err := prepare(*c, sources)
	return err
}

// prepare makes an engine without a store. Its error joins a [*ConfigError] for each invalid setting.
func prepare(cfg Config, more []Source) (*Engine, error) {
	e := &Engine{config: cfg, special: make(map[Match]*rule), given: make(map[Match]*rule), sources: make(map[string]Source)}
	var v faults
	v.check(&cfg)
	var err error
	if e.encoding, e.exact, err = tokens.ForModel(cfg.Adapters.Capper.Model, cfg.Adapters.Capper.SafetyFactor); err != nil && len(v.all) == 0 {
		v.add("adapters.capper", err)
	}
	for _, s := range append(Builtin(), more...) {
		e.sources[s.Name()] = s
	}
	for _, name := range sortedKeys(cfg.Adapters.Sources) {
		if e.sources[name] == nil {
			v.addf("adapters."+name, "unknown adapter; there are %s", strings.Join(sortedKeys(e.sources), ", "))
		}
	}
	for _, name := range sortedKeys(e.sources) {
		s, settings := e.sources[name], cfg.Adapters.Sources[name]
		if _, set := cfg.Adapters.Sources[name]; set && !settings.Enabled {
			continue
		}
		values, err := ResolveOptions(s, settings.Options)
		if err != nil {
			v.add("adapters."+name, err)
			continue
		}
		if len(settings.Tools) > 0 {
			e.served = append(e.served, served{s, values, settings.Tools})
		}
		if cfg.detects(name) {
			e.detect = append(e.detect, served{s, values, nil})
		}
	}
	if e.rest, err = compile(&cfg, e.sources, "", &Rule{}); err != nil {
		v.all = append(v.all, err)
	}
	for i := range cfg.Rules[:min(len(cfg.Rules), maxRules)] {
		path, before := fmt.Sprintf("rules[%d].", i), len(v.all)
		if v.rule(path, &cfg.Rules[i]); len(v.all) > before {
			continue
		}
		r, err := compile(&cfg, e.sources, path, &cfg.Rules[i])
		if err != nil {
			v.all = append(v.all, err)
		} else if key, ok := cfg.Rules[i].Match.special(); !ok {
			e.globs = append(e.globs, r)
		} else if e.special[key] == nil {
			e.special[key] = r
		}
	}
	return e, errors.Join(v.all...)
}

// Load loads the tokenizer's tables if they are not loaded yet. Call it beside
// other work, so that the first result over its budget does not wait for them.
// If it fails, counts are on the high side.
func (e *Engine) Load() error {
	if !e.config.Enabled || !e.config.Adapters.Capper.Enabled {
		return nil
	}
	return e.encoding.Load()
}

// Exact reports whether the model has a public tokenizer. Otherwise counts are
// an estimate on the high side, which is worth a warning at start.
func (e *Engine) Exact() bool { return e.exact }

// ByShape returns the names of the sources that recognize results by their
// shape.
func (e *Engine) ByShape() (names []string) {
	for _, d := range e.detect {
		names = append(names, d.source.Name())
	}
	return names
}

// Store returns the store in which the engine keeps what it cuts.
func (e *Engine) Store() *Store { return e.store }

// Touches reports whether the results of a tool may be changed. It is quick.
func (e *Engine) Touches(server, tool string) bool {
	if e == nil || !e.config.Enabled {
		return false
	}
	r := e.rule(server, tool)
	return r.works() || e.budget(r) > 0 || len(e.served) > 0 || len(e.detect) > 0
}

// Closest returns the first of a tool's names that a rule names. If there is
// none, it returns the first that a rule's pattern matches or that a source
// serves, and otherwise the first of all. names must not be empty.
func (e *Engine) Closest(names ...Name) Name {
	for _, n := range names {
		if e.named(n.Server, n.Tool) != nil {
			return n
		}
	}
	for _, n := range names {
		if e.rule(n.Server, n.Tool) != e.rest {
			return n
		}
		for _, s := range e.served {
			if s.serves(n.Tool) {
				return n
			}
		}
	}
	return names[0]
}

// named returns the rule that names a tool, or nil if there is none.
func (e *Engine) named(server, tool string) *rule {
	for _, m := range [...]Match{{server, tool}, {"", tool}} {
		if r := e.special[m]; r != nil {
			return r
		}
	}
	return e.given[Match{server, tool}]
}

// rule returns the rule for a tool.
func (e *Engine) rule(server, tool string) *rule {
	if r := e.named(server, tool); r != nil {
		return r
	}
	for _, r := range e.globs {
		if glob(r.server, server) && glob(r.tool, tool) {
			return r
		}
	}
	return e.rest
}

// budget returns how many tokens a rule allows, or 0 for any number.
func (e *Engine) budget(r *rule) int {
	if !e.config.Adapters.Capper.Enabled {
		return 0
	}
	return r.budget
}

// MoreName returns the name of the tool that reads more of a cut result.
func (e *Engine) MoreName() string { return e.config.MoreTool.Name }
