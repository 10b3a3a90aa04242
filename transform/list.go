package transform

import (
	"fmt"

	"github.com/dragoman-proxy/dragoman/transform/tree"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// A SchemaError says that a rule and a tool's outputSchema exclude one another.
type SchemaError struct {
	Tool string
	Line int // of the rule; 0 if unknown
}

func (e *SchemaError) Error() string {
	where := ""
	if e.Line > 0 {
		where = fmt.Sprintf("line %d: ", e.Line)
	}
	return fmt.Sprintf("%stool %s has an outputSchema, and a rule with output_schema: keep changes what it answers; use strip or derive", where, e.Tool)
}

// ListTool appends a tool, which is one element of the tools of tools/list, to
// dst as clients have to see it: without its outputSchema, or with the part of
// it that the tool's rule leaves. If nothing changes, out is tool itself. A
// [*SchemaError] says that the rule and the tool's outputSchema exclude one
// another; the tool then stays as it is, and the rule changes results only as
// the schema allows.
func (e *Engine) ListTool(dst []byte, server string, tool []byte) (out []byte, err error) {
	if e == nil || !e.config.Enabled {
		return tool, nil
	}
	raw, _ := wire.Inner(tree.Member(tool, "name"))
	name := string(wire.AppendUnescaped(nil, raw))
	r := e.rule(server, name)
	schema := tree.Member(tool, "outputSchema")
	if schema == nil || r.full || !r.shapes() {
		return tool, nil
	}
	var other []byte
	switch r.schema {
	case "keep":
		return tool, &SchemaError{name, r.config.line}
	case "derive":
		other = derive(nil, schema)
	}
	dst = append(dst, '{')
	tree.Each(tool, tree.SkipSpace(tool, 0), func(name []byte, at int) (int, bool) {
		end := tree.SkipValue(tool, at)
		value := tool[at:end]
		if wire.IsText(name, "outputSchema") {
			if value = other; value == nil {
				return end, true
			}
		}
		dst = wire.AppendKey(dst, name)
		dst = append(dst, value...)
		return end, true
	})
	return append(dst, '}'), nil
}

// derive appends a schema without the keywords that a value could break if
// members and elements are left out. The rest of the schema still holds for the
// members and elements that stay.
func derive(dst, schema []byte) []byte { return relax(dst, schema, 0) }

func relax(dst, schema []byte, depth int) []byte {
	i := tree.SkipSpace(schema, 0)
	if i == len(schema) || schema[i] != '{' || depth > wire.MaxDepth {
		return append(dst, schema...)
	}
	dst = append(dst, '{')
	tree.Each(schema, i, func(name []byte, at int) (int, bool) {
		end := tree.SkipValue(schema, at)
		value := schema[at:end]
		label := string(wire.AppendUnescaped(nil, name))
		switch label {
		case "prefixItems", "required", "minProperties", "dependentRequired", "dependentSchemas", "dependencies",
			"minItems", "uniqueItems", "contains", "minContains", "not", "if", "then", "else", "oneOf",
			"enum", "const":
			if label != "enum" && label != "const" || !scalarsOnly(value) {
				return end, true
			}
		case "items":
			if value[0] == '[' {
				return end, true
			}
		}
		dst = wire.AppendKey(dst, name)
		switch label {
		case "properties", "patternProperties", "$defs", "definitions":
			dst = relaxEach(dst, value, depth+1)
		case "items", "additionalProperties", "unevaluatedProperties", "unevaluatedItems", "additionalItems", "propertyNames":
			dst = relax(dst, value, depth+1)
		case "allOf", "anyOf":
			dst = relaxEach(dst, value, depth+1)
		default:
			dst = append(dst, value...)
		}
		return end, true
	})
	return append(dst, '}')
}

// relaxEach relaxes the schemas in an object or array.
func relaxEach(dst, value []byte, depth int) []byte {
	if tree.Scalar(value) || depth > wire.MaxDepth {
		return append(dst, value...)
	}
	dst = append(dst, value[0])
	tree.Each(value, 0, func(name []byte, at int) (int, bool) {
		end := tree.SkipValue(value, at)
		if name != nil {
			dst = wire.AppendKey(dst, name)
		} else {
			dst = wire.Comma(dst)
		}
		dst = relax(dst, value[at:end], depth+1)
		return end, true
	})
	return append(dst, value[0]+2)
}

// scalarsOnly reports whether a value, or each element of an array, is a scalar.
func scalarsOnly(value []byte) bool {
	if value[0] == '[' {
		all := true
		tree.Each(value, 0, func(_ []byte, at int) (int, bool) {
			all = all && value[at] != '{' && value[at] != '['
			return tree.SkipValue(value, at), true
		})
		return all
	}
	return tree.Scalar(value)
}
