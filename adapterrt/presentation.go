package adapterrt

import (
	"fmt"
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

// presentation is how adapters are shown: the operator's choices, and what follows
// from them alone.
type presentation struct {
	mode            Mode
	perAdapter      bool   // a set of tools for each adapter instead of a shared one
	toolPrefix      string // of the tool names
	namespace       string // before all tool names and their prefixes
	enumOperations  bool   // name the operations in the tools' schemas
	batch           bool   // several requests in one
	structured      bool   // results also as structuredContent
	descriptionSize int    // bytes of a tool's description
	strict          bool   // the closed form of operation details
	limits          limits
	maxResponse     int

	builtin       *file.Operation // introspect
	builtinDetail detail
	protocol      []byte // the _protocol block of introspection
}

func newPresentation(p presentation) *presentation {
	p.builtin = introspectOperation()
	p.builtinDetail = describe(p.builtin, guard.Allow, &p)
	p.protocol = p.protocolBlock()
	return &p
}

// toolName is the tool of a category, with the prefix that it has for an adapter.
func (p *presentation) toolName(adapter string, category file.Category) string {
	name := "mcp_aql"
	if category != file.AnyCategory {
		name += "_" + category.String()
	}
	return p.prefix(adapter) + name
}

func (p *presentation) prefix(adapter string) string {
	if p.toolPrefix != "" || !p.perAdapter || adapter == "" {
		return p.namespace + p.toolPrefix
	}
	return p.namespace + strings.ReplaceAll(adapter, "-", "_") + "_"
}

// isToolPrefix: ^[a-z0-9_]+_$
func isToolPrefix(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return len(s) > 1 && s[len(s)-1] == '_'
}
