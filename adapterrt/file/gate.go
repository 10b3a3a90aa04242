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

func (c *checker) gate(n *node, path string, op *Operation) {
	c.only(n, path, "params", "source", "source_params", "list", "match", "capability", "match_values", "subject", "error_code", "on_unavailable", "ttl_ms", "timeout_ms")
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
