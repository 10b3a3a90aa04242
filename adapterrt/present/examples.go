package present

import (
	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// maxExampleValue is the largest number of bytes of a value that introspection takes from a golden
// example.
const maxExampleValue = 200

// goldenParams returns, for each operation, the params of its first golden example that
// succeeds.
func goldenParams(a *file.Adapter) map[string][]byte {
	examples, _ := file.Examples(a.Documentation, 0) // the adapter test command reports their problems
	params := map[string][]byte{}
	for i := range examples {
		e := &examples[i]
		named := wire.Member(e.Request, "operation")
		if named == nil || wire.KindOf(named) != wire.String {
			continue
		}
		operation := string(wire.Unquoted(named))
		if params[operation] == nil && string(wire.Member(e.Want, "success")) == "true" {
			params[operation] = wire.Member(e.Request, "params")
		}
	}
	return params
}

// appendExample appends an example request with a value for each required parameter, from
// golden if it has one. among is the adapter's name, or "" if it is not needed.
func appendExample(dst []byte, op *file.Operation, golden []byte, among string) []byte {
	params := wire.Members(nil)
	for _, p := range op.Params {
		if p.Required {
			params = params.Raw(p.Name, exampleValue(p, golden))
		}
	}
	if op.Builtin {
		params = wire.Members(nil).Str("query", "operations")
	}
	name := op.Name
	if among != "" {
		name = among + "." + name
	}
	request := wire.Members(nil).Str("operation", name).Raw("params", params.End()).End()
	return append(append(append(dst, `[{"request":`...), request...), "}]"...)
}

func exampleValue(p *file.Param, golden []byte) []byte {
	if v := wire.Member(golden, p.Name); v != nil && !p.Sensitive && len(v) <= maxExampleValue && p.Accepts(v) {
		return clean.EscapeHidden(wire.AppendCompact(nil, v))
	}
	switch {
	case len(p.Enum) > 0:
		return p.Enum[0].Raw
	case p.Minimum != nil && p.Accepts(p.Minimum.Raw):
		return p.Minimum.Raw
	case p.Type == file.TypeInteger || p.Type == file.TypeNumber:
		return []byte("1")
	case p.Type == file.TypeBoolean:
		return []byte("true")
	case p.Type == file.TypeArray:
		return []byte("[]")
	case p.Type == file.TypeObject:
		return []byte("{}")
	}
	if v, ok := wellKnown[p.Format]; ok {
		return []byte(`"` + v + `"`)
	}
	return []byte(`"…"`)
}

// wellKnown are example values for formats that are the same in every API.
var wellKnown = map[string]string{
	"date": "2026-01-31", "date-time": "2026-01-31T12:00:00Z", "email": "ann@example.com", "uri": "https://example.com",
	"uuid": "123e4567-e89b-42d3-a456-426614174000",
}
