package corpus

import (
	"fmt"
	"strings"
)

// toolsList returns the result of a tools/list. Some members are on every tool; others,
// such as icons, are on some tools.
func toolsList(name string, tools int) object {
	s := newSource(name)
	all := make(list, tools)
	for i := range all {
		all[i] = s.tool(i)
	}
	return object{"tools", all}
}

func (s source) tool(number int) object {
	verb, noun := one(s, verbs...), one(s, nouns...)
	title := strings.ToUpper(verb[:1]) + verb[1:] + " " + noun
	tool := object{
		"name", fmt.Sprintf("%s_%s_%d", verb, noun, number),
		"title", title,
		"description", s.line(40 + s.IntN(60)*(1+s.IntN(4))),
		"inputSchema", s.schema(1 + s.IntN(4)),
	}
	if s.chance(20) {
		tool = append(tool, "outputSchema", s.schema(1+s.IntN(3)))
	}
	reads := verb == "search" || verb == "get" || verb == "list"
	annotations := object{"readOnlyHint", reads, "destructiveHint", verb == "delete", "idempotentHint", reads || verb == "update", "openWorldHint", s.chance(30)}
	if s.chance(10) {
		annotations = append(object{"title", title}, annotations...)
	}
	tool = append(tool, "annotations", annotations, "execution", object{"taskSupport", s.taskSupport()})
	if s.chance(20) {
		tool = append(tool, "icons", s.icons())
	}
	if s.chance(8) {
		tool = append(tool, "_meta", object{"example.com/owner", one(s, nouns...), "example.com/since", "1." + fmt.Sprint(s.IntN(40))})
	}
	return tool
}

// taskSupport returns mostly the value of tools that cannot run as tasks.
func (s source) taskSupport() string {
	switch n := s.IntN(100); {
	case n < 2:
		return "required"
	case n < 12:
		return "optional"
	}
	return "forbidden"
}

// schema returns a schema of an object with this many properties, as schema libraries write it.
func (s source) schema(properties int) object {
	var members object
	required := list{}
	for i := range properties {
		name := one(s, "query", "limit", "state", "cursor", "repository", "includeArchived", "labels", "since", "path", "format") + fmt.Sprint(i)
		members = append(members, name, s.property())
		if s.chance(40) {
			required = append(required, name)
		}
	}
	schema := object{"$schema", "http://json-schema.org/draft-07/schema#", "type", "object", "properties", members}
	if len(required) > 0 {
		schema = append(schema, "required", required)
	}
	if s.chance(50) {
		schema = append(schema, "additionalProperties", false)
	}
	return schema
}

func (s source) property() object {
	p := one(s,
		object{"type", "string"},
		object{"type", "string", "minLength", 1},
		object{"type", "string", "enum", list{"open", "closed", "all"}, "default", "open"},
		object{"type", "integer", "minimum", 1, "maximum", 100, "default", 20},
		object{"type", "number"},
		object{"default", false, "type", "boolean"},
		object{"type", "array", "items", object{"type", "string"}},
		object{"anyOf", list{object{"type", "string", "format", "date-time"}, object{"type", "null"}}},
		object{"type", "object", "properties", object{"title", object{"type", "string", "title", "Title"}, "_meta", object{"type", "object"}}},
	)
	return append(p, "description", s.line(20+s.IntN(60)))
}
