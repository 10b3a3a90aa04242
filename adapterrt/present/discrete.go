package present

import (
	"cmp"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/brief"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/guard"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// maxDiscreteDescription is the largest number of characters of the description of a tool
// for one operation, but for what it says of structured output.
const maxDiscreteDescription = 200

// OperationTool returns the name of the tool for one operation. adapter is "" if there is
// only one adapter. The name has at most the given number of characters: of a longer one, the
// adapter's words are abbreviated first, and telling words of the operation last.
func (p *Presenter) OperationTool(adapter, operation string, most int, telling map[string]bool) string {
	if adapter = strings.ReplaceAll(adapter, "-", "_"); adapter == "" {
		operation, _ = brief.Name(operation, most-len(p.ToolPrefix), telling)
		return p.ToolPrefix + operation
	}
	left := most - len(p.ToolPrefix) - len("_")
	adapter, _ = brief.Name(adapter, max(left-len(operation), shortAdapter), nil)
	operation, _ = brief.Name(operation, left-len(adapter), telling)
	return p.ToolPrefix + adapter + "_" + operation
}

// shortAdapter is the length to which the name of an adapter is cut for that of an operation, which says more.
const shortAdapter = 12

// DiscreteJSON returns the entry of tools/list for the tool called name, which calls one
// operation of s.
func (s *Adapter) DiscreteJSON(op *file.Operation, name string) []byte {
	v := s.verdict(op)
	title := strings.ReplaceAll(op.Name, "_", " ")
	description := cmp.Or(op.Description, op.Mapping.Method+" "+op.Mapping.Template)
	switch {
	case v == guard.Confirm:
		description = shortened(description, maxDiscreteDescription-len(needsPerson)) + needsPerson
	case op.Deprecated != nil:
		description = shortened(description, maxDiscreteDescription-len(isDeprecated)) + isDeprecated
	}
	o := wire.Members(nil).Str("name", name).Str("title", strings.ToUpper(title[:1])+title[1:]).
		Str("description", shortened(description, maxDiscreteDescription)+saidOfOutput(op)).Raw("inputSchema", inputSchemaOf(op, v))
	if schema := outputSchemaOf(op); schema != nil {
		o = o.Raw("outputSchema", schema)
	}
	return o.Raw("annotations", hintsOf(op)).End()
}

// needsPerson is what a description says of an operation that a person must confirm, isDeprecated of
// a deprecated one.
const needsPerson, isDeprecated = " (a person must confirm)", " (deprecated)"

// hintsOf returns the annotations of the tool for one operation, without those that have their
// default: https://modelcontextprotocol.io/specification/2025-11-25/schema#toolannotations
func hintsOf(op *file.Operation) []byte {
	if op.Category == file.Read { // the other hints say nothing then
		return wire.Members(nil).Bool("readOnlyHint", true).End()
	}
	o := wire.Members(nil).Bool("destructiveHint", op.Category == file.Delete || op.Danger.Level >= file.Destructive)
	switch op.Mapping.Method {
	case "GET", "PUT", "DELETE": // https://www.rfc-editor.org/rfc/rfc9110#section-9.2.2
		o = o.Bool("idempotentHint", true)
	}
	return o.End()
}

// annotations returns the annotations of a tool, all of which call APIs.
func (h hints) annotations() []byte {
	return wire.Members(nil).Bool("readOnlyHint", h.readOnly).Bool("destructiveHint", h.destructive).
		Bool("idempotentHint", h.idempotent).Bool("openWorldHint", true).End()
}
