package present

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
)

// Mode says how operations are grouped into tools.
type Mode uint8

// The modes. Semantic is a tool per category, Single one tool for all, All both. Discrete is
// a tool per operation. Search is four tools: two that find operations and two that call
// them. Auto is Discrete for few operations and Search for more.
const (
	Semantic Mode = iota
	Single
	All
	Discrete
	Search
	Auto
)

var modes = [...]string{"semantic", "single", "all", "discrete", "search", "auto"}

// String returns the mode's name.
func (m Mode) String() string { return modes[m] }

// ParseMode returns the mode that word names; crude is a synonym of semantic.
func ParseMode(word string) (Mode, error) {
	word = strings.ToLower(word)
	if word == "crude" {
		return Semantic, nil
	}
	if i := slices.Index(modes[:], word); i >= 0 {
		return Mode(i), nil
	}
	return Semantic, fmt.Errorf("unknown mode %q: semantic, crude, single, all, discrete, search or auto", word)
}

// fewOperations is the largest number of operations that Auto shows as a tool each. The
// tools of 40 operations take about 7,000 tokens.
const fewOperations = 40

// Of returns the mode for a number of operations: m itself, or what Auto stands for.
func (m Mode) Of(operations int) Mode {
	switch {
	case m != Auto:
		return m
	case operations <= fewOperations:
		return Discrete
	}
	return Search
}

// Introspection says how much introspection returns about an operation.
type Introspection uint8

// The forms. Extended lists the parameters under both of their keys, params and
// parameters; Compact lists them under params only. Strict is the form of the
// specification. Its schema is closed, so it omits all other members.
const (
	Extended Introspection = iota
	Compact
	Strict
)

// ParseIntrospection returns the form that word names.
func ParseIntrospection(word string) (Introspection, error) {
	i := slices.Index([]string{"extended", "compact", "strict"}, word)
	if i < 0 {
		return Extended, fmt.Errorf("unknown form of introspection %q: extended, compact or strict", word)
	}
	return Introspection(i), nil
}

// Limits are the limits that introspection shows.
type Limits struct{ Request, Response, Text, Elements, Depth int }

// Options are the operator's choices on how adapters are shown.
type Options struct {
	Mode          Mode
	PerAdapter    bool   // a set of tools for each adapter instead of a shared one
	ToolPrefix    string // of the tool names
	Introspection Introspection
	Limits        Limits
	Later         bool // what is shown of an operation is made when it is asked for
}

// Presenter shows adapters. It holds the operator's options, and what depends on them only.
type Presenter struct {
	Options
	Builtin       *file.Operation // introspect
	builtinDetail Detail
	protocol      []byte     // the _protocol block of introspection
	brief         *Presenter // shows operations in search mode; nil in itself
}

// ToolName returns the name of the tool of a category, with the adapter's prefix.
func (p *Presenter) ToolName(adapter string, category file.Category) string {
	name := "mcp_aql"
	if category != file.AnyCategory {
		name += "_" + category.String()
	}
	return p.Prefix(adapter) + name
}

// toolName returns the name of the tool that calls an operation of an adapter, in the modes
// where it does not depend on other operations.
func (p *Presenter) toolName(adapter string, op *file.Operation) string {
	switch p.Mode {
	case Single:
		return p.ToolName(adapter, file.AnyCategory)
	case Search:
		return p.SearchTool(adapter, CallTool(op.Category))
	}
	return p.ToolName(adapter, op.Category)
}

// Prefix returns the prefix of the names of an adapter's tools.
func (p *Presenter) Prefix(adapter string) string {
	if p.ToolPrefix != "" || !p.PerAdapter || adapter == "" {
		return p.ToolPrefix
	}
	return strings.ReplaceAll(adapter, "-", "_") + "_"
}

// IsToolPrefix reports whether s is valid as a prefix of tool names: ^[a-z0-9_]+_$
func IsToolPrefix(s string) bool {
	return len(s) > 1 && s[len(s)-1] == '_' && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// Detail is the answer to introspect operations with an operation's name. The answer may
// contain the parameters twice; Detail keeps them once.
type Detail struct {
	text     []byte
	from, to int // the parameters in text
	again    int // where Answer inserts them a second time; 0 for nowhere
}

// Tool is one of the tools of search mode.
type Tool uint8

// The tools of search mode. Two of them call operations, so that a user can allow for good
// the one that only reads.
const (
	SearchOperations Tool = iota
	DescribeOperations
	CallRead
	CallWrite
)

var searchTools = [...]string{"search_operations", "describe_operations", "call_read", "call_write"}

// CallTool returns the tool that calls operations of a category.
func CallTool(c file.Category) Tool {
	if c == file.Read {
		return CallRead
	}
	return CallWrite
}

// SearchTool returns the name of a tool of search mode, with the adapter's prefix.
func (p *Presenter) SearchTool(adapter string, t Tool) string {
	return p.Prefix(adapter) + searchTools[t]
}
