package present

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/guard"
)

// Mode says as which tools the operations are offered.
type Mode uint8

// The modes. Semantic is a tool per category, Single one tool for all, All both.
const (
	Semantic Mode = iota
	Single
	All
)

// String is the mode's word in introspection.
func (m Mode) String() string { return [...]string{"semantic", "single", "all"}[m] }

// ParseMode is the mode of that word; crude is another one for semantic.
func ParseMode(word string) (Mode, error) {
	switch strings.ToLower(word) {
	case "semantic", "crude":
		return Semantic, nil
	case "single":
		return Single, nil
	case "all":
		return All, nil
	}
	return Semantic, fmt.Errorf("unknown mode %q: semantic, crude, single or all", word)
}

// Introspection says how much is told of an operation.
type Introspection uint8

// The forms. Extended names the parameters under both of their keys, params and
// parameters; Compact under params alone. Strict is the closed form of the
// specification, in which there is no room for much else.
const (
	Extended Introspection = iota
	Compact
	Strict
)

// ParseIntrospection is the form of that word.
func ParseIntrospection(word string) (Introspection, error) {
	i := slices.Index([]string{"extended", "compact", "strict"}, word)
	if i < 0 {
		return Extended, fmt.Errorf("unknown form of introspection %q: extended, compact or strict", word)
	}
	return Introspection(i), nil
}

// Limits are those that introspection names.
type Limits struct{ Request, Response, Text, Elements, Depth int }

// Options are the operator's choices on how adapters are shown.
type Options struct {
	Mode          Mode
	PerAdapter    bool   // a set of tools for each adapter instead of a shared one
	ToolPrefix    string // of the tool names
	Introspection Introspection
	Limits        Limits
}

// Presenter is how adapters are shown: the operator's choices, and what follows
// from them alone.
type Presenter struct {
	Options
	Builtin       *file.Operation // introspect
	builtinDetail Detail
	protocol      []byte // the _protocol block of introspection
}

// New works out what follows from o.
func New(o Options) *Presenter {
	p := &Presenter{Options: o, Builtin: introspectOperation(o.Introspection)}
	p.builtinDetail = describe(p.Builtin, shown{verdict: guard.Allow}, p, "")
	p.protocol = p.protocolBlock()
	return p
}

// ToolName is the tool of a category, with the prefix that it has for an adapter.
func (p *Presenter) ToolName(adapter string, category file.Category) string {
	name := "mcp_aql"
	if category != file.AnyCategory {
		name += "_" + category.String()
	}
	return p.Prefix(adapter) + name
}

// Prefix is what the names of an adapter's tools begin with.
func (p *Presenter) Prefix(adapter string) string {
	if p.ToolPrefix != "" || !p.PerAdapter || adapter == "" {
		return p.ToolPrefix
	}
	return strings.ReplaceAll(adapter, "-", "_") + "_"
}

// IsToolPrefix: ^[a-z0-9_]+_$
func IsToolPrefix(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return len(s) > 1 && s[len(s)-1] == '_'
}
