package file

import (
	"slices"

	"github.com/dragoman-proxy/dragoman/adapterrt/escape"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// maxToolName is the largest number of bytes of a tool_name: the providers of models refuse longer names of tools.
const maxToolName = 64

// toolName reads the name of the operation's tool.
func (c *checker) toolName(n *node, path string, op *Operation) {
	name := c.str(n, path, "tool_name")
	if name == "" {
		return
	}
	path += ".tool_name"
	switch other := op.Adapter.Index[name]; {
	case !IsCallable(name) || len(name) > maxToolName || slices.Contains(reserved, name):
		c.wrong(SchemaInvalidName, path, "tool_name is not valid", "up to 64 letters, digits, _ and -, not starting with -", n.get("tool_name"), 0)
	case other != nil && other != op:
		c.wrong(SchemaDuplicateName, path, "another operation has this name", "a name unique over all categories", n.get("tool_name"), 0)
	default:
		op.ToolName = name
		op.Adapter.Index[name] = op
	}
}

// hidden withdraws the parameters that are hidden from requests. It is called last, when the rest of the operation has found
// them by their names.
func (c *checker) hidden(n *node, path string, op *Operation) {
	for i, p := range op.Params {
		said := n.get("params").get(p.Name)
		at := path + ".params." + p.Name
		if p.Place == InRuntime || !c.flag(said, at, "hidden", false) {
			continue
		}
		switch g := op.Paging; {
		case p.Required && p.Fallback == nil:
			c.wrong(SchemaMissingField, at+".default", "a hidden parameter needs a default where it is required", "the value to send", nil, said.lineOr(n.line))
		case g != nil && (g.Position == i || g.Size == i) && p.Fallback != nil:
			c.wrong(SchemaInvalidValue, at+".hidden", "pagination sets this parameter", "another parameter, or no default", said.get("hidden"), 0)
		}
		if where := p.unsendable(); where != "" {
			c.wrong(SchemaInvalidValue, at+".default", "the value cannot be sent in "+where, "another value", shownUnless(p.Sensitive, said.get("default")), 0)
		}
		p.Hidden, p.Required = true, false
		op.Required = slices.DeleteFunc(op.Required, func(k int) bool { return k == i })
	}
}

// unsendable returns where the default cannot be sent: each request would be refused.
func (p *Param) unsendable() string {
	if p.Fallback == nil || wire.KindOf(p.Fallback) != wire.String {
		return ""
	}
	s := wire.Unquoted(p.Fallback)
	switch {
	case p.Place == InHeader && !IsHeaderValue(s):
		return "a header"
	case p.Place == InPath && (len(s) == 0 && p.MinLength != 0 || escape.HasEncodedNUL(s) || escape.Climbs(escape.AppendReserved(nil, s))):
		return "the path"
	}
	return ""
}
