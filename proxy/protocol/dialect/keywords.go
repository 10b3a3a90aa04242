package dialect

import (
	"bytes"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// keyword is the kind of a keyword in a schema.
type keyword uint8

const (
	kwOther  keyword = iota // not a keyword that draft-07 or 2020-12 acts on
	kwSchema                // $schema
	kwRef                   // $ref
	kwID                    // $id
	kwItems
	kwAdditionalItems
	kwDependencies
	kwDefinitions // schemas by name, for references
	kwType
	kwOne         // the value is a schema
	kwList        // schemas in an array
	kwNamed       // schemas by name
	kwAssertion   // any other keyword that restricts what is valid
	kwUnknownThen // unknown to draft-07, which ignored it
)

// keywordNamed returns the kind of the keyword with this name. It is a switch because a map takes several times as long.
func keywordNamed(name []byte) keyword {
	switch string(name) {
	case "$schema":
		return kwSchema
	case "$ref":
		return kwRef
	case "$id":
		return kwID
	case "items":
		return kwItems
	case "additionalItems":
		return kwAdditionalItems
	case "dependencies":
		return kwDependencies
	case "definitions", "$defs":
		return kwDefinitions
	case "type":
		return kwType
	case "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else":
		return kwOne
	case "allOf", "anyOf", "oneOf":
		return kwList
	case "properties", "patternProperties":
		return kwNamed
	case "const", "enum", "required", "format", "multipleOf",
		"maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum",
		"maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems",
		"maxProperties", "minProperties", "contentEncoding", "contentMediaType":
		return kwAssertion
	case "prefixItems", "unevaluatedItems", "unevaluatedProperties", "dependentRequired", "dependentSchemas",
		"minContains", "maxContains", "contentSchema", "$anchor", "$vocabulary",
		"$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor":
		return kwUnknownThen
	}
	return kwOther
}

// besideRef reports whether a keyword beside $ref had no effect in draft-07 but has one
// in 2020-12. Keywords that only describe stay, and so do the schemas that references
// point to.
func (k keyword) besideRef() bool {
	return k != kwOther && k != kwRef && k != kwDefinitions
}

// keywordOf returns the kind of a schema's member. Its name may contain escapes.
func keywordOf(c wire.Node) keyword {
	key := c.Key()
	if bytes.IndexByte(key, '\\') < 0 {
		return keywordNamed(key)
	}
	var room [64]byte
	return keywordNamed(wire.AppendUnescaped(room[:0], key))
}
