package file

import (
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

func (c *checker) gates(n *node, path string, op *Operation) {
	v := n.get("capability_gate")
	if v == nil || v.kind == wire.Null {
		return
	}
	path += ".capability_gate"
	switch v.kind {
	case wire.Array:
		for at, e := range c.maps(v, path, "a gate") {
			c.gate(e, at, op)
		}
	case wire.Object:
		c.gate(v, path, op)
	default:
		c.wrong(SchemaInvalidType, path, "a gate must be a map", "object", v, 0)
	}
}

var gateBlock = block{"operations.CATEGORY[].capability_gate", "Parameters that are refused unless another operation of the file, the source, says that they are supported. The source is asked at each call, so that a change of the API takes effect at once.", []key{
	{"params", "list of strings", must, "The parameters."},
	{"source", "string", must, "The read operation that is asked."},
	{"source_params", "map", "", "Its parameters: literals, or `\"{name}\"` for a value of the call."},
	{"list", "dotted path", "", "Where the rows are in its answer. Without it, the answer is the list, or the one row."},
	{"match", "map", must, "The row that counts: a member and its value. `\"a|b\"` is one of two members."},
	{"capability", "dotted path", must, "The member of the row that lists what is supported, or is true."},
	{"match_values", "boolean", "false", "Each requested value must be in that list. Otherwise the list must only not be empty."},
	{"subject", "string", "", "The parameter that the refusal names."},
	{"error_code", "snake_case", must, "The refusal's kind."},
	{"on_unavailable", "allow, deny", "allow", "What happens to the call if the source gives no usable answer."},
	{"ttl_ms", "integer 0–86400000", "0", "Milliseconds for which an answer of the source is used again."},
	{"timeout_ms", "integer 1–60000", "2000", "Milliseconds that the source may take."},
}}

func (c *checker) gate(n *node, path string, op *Operation) {
	c.only(n, path, &gateBlock)
	g := &Gate{Subject: -1, at: path, sourceLine: n.line}
	names := c.strs(n, path, "params")
	if len(names) == 0 {
		c.wrong(SchemaMissingField, path+".params", "gated parameters are required", "non-empty list", n.get("params"), n.line)
	}
	for _, name := range names {
		g.Params = append(g.Params, c.bound(name, n.get("params"), path+".params", op))
	}
	g.sourceName, _ = c.need(n, path, "source", "Source of the gate")
	g.List = splitPath(c.str(n, path, "list"))
	g.CapabilityText, _ = c.need(n, path, "capability", "Capability")
	g.Capability = splitPath(g.CapabilityText)
	g.MatchValues = c.flag(n, path, "match_values", false)
	if s := c.str(n, path, "subject"); s != "" {
		g.Subject = c.bound(s, n.get("subject"), path+".subject", op)
	}
	code, v := c.need(n, path, "error_code", "Error code")
	if g.Kind = code; v != nil && !IsSnake(code) {
		c.wrong(SchemaInvalidValue, path+".error_code", "error_code is not valid", "snake_case", v, 0)
	}
	g.Deny = c.word(n, path, "on_unavailable", "allow", "deny") == "deny"
	g.TTL = c.millis(n, path, "ttl_ms", 0, 0, 86_400_000)
	g.Timeout = c.millis(n, path, "timeout_ms", 2000, 1, 60_000)
	values := func(key string) (out []GateValue) {
		m := c.get(n, path, key, wire.Object)
		if m == nil {
			return nil
		}
		for _, f := range m.fields {
			v := GateValue{Names: strings.Split(f.key, "|"), Raw: f.val.JSON(nil), Param: -1}
			if s := f.val.text; f.val.kind == wire.String && strings.ContainsAny(s, "{}") {
				if inner := strings.TrimSuffix(strings.TrimPrefix(s, "{"), "}"); len(inner) == len(s)-2 && isParamName(inner) {
					v.Param = c.bound(inner, f.val, join(path+"."+key, f.key), op)
				} else {
					c.wrong(SchemaInvalidValue, join(path+"."+key, f.key), "value must be a literal or one placeholder", "{param}", f.val, 0)
				}
			}
			out = append(out, v)
		}
		return out
	}
	g.Arguments, g.Wanted = values("source_params"), values("match")
	if len(g.Wanted) == 0 {
		c.wrong(SchemaMissingField, path+".match", "match is required", "object", n.get("match"), n.line)
	}
	for _, v := range g.Wanted {
		g.Match = append(g.Match, v.Names)
	}
	op.Gates = append(op.Gates, g)
}

// sources links gates to their source operations. It is called when all operations are known.
func (c *checker) sources(a *Adapter) {
	for _, op := range a.Operations {
		for _, g := range op.Gates {
			if g.sourceName == "" {
				continue
			}
			g.Source = a.Index[g.sourceName]
			if g.Source == nil || g.Source.Category != Read || g.Source.Mapping == nil {
				c.wrong(SchemaUnresolvedRef, g.at+".source",
					"source is not a read operation of this adapter: "+clean.FirstRunes(g.sourceName, 60), "a read operation", nil, g.sourceLine)
				continue
			}
			for _, v := range g.Arguments {
				if _, ok := g.Source.Param([]byte(v.Names[0])); !ok {
					c.wrong(SchemaUnresolvedRef, g.at+".source_params",
						"source has no parameter "+clean.FirstRunes(v.Names[0], 60), "a parameter of "+g.sourceName, nil, g.sourceLine)
				}
			}
		}
	}
}
