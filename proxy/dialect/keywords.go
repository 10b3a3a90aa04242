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

// known has the kinds of the keywords.
var known = map[string]keyword{
	"$schema": kwSchema, "$ref": kwRef, "$id": kwID,
	"items": kwItems, "additionalItems": kwAdditionalItems, "dependencies": kwDependencies,
	"definitions": kwDefinitions, "$defs": kwDefinitions,
	"type": kwType,

	"additionalProperties": kwOne, "contains": kwOne, "propertyNames": kwOne,
	"not": kwOne, "if": kwOne, "then": kwOne, "else": kwOne,
	"allOf": kwList, "anyOf": kwList, "oneOf": kwList,
	"properties": kwNamed, "patternProperties": kwNamed,

	"const": kwAssertion, "enum": kwAssertion, "required": kwAssertion, "format": kwAssertion,
	"multipleOf": kwAssertion, "maximum": kwAssertion, "exclusiveMaximum": kwAssertion,
	"minimum": kwAssertion, "exclusiveMinimum": kwAssertion,
	"maxLength": kwAssertion, "minLength": kwAssertion, "pattern": kwAssertion,
	"maxItems": kwAssertion, "minItems": kwAssertion, "uniqueItems": kwAssertion,
	"maxProperties": kwAssertion, "minProperties": kwAssertion,
	"contentEncoding": kwAssertion, "contentMediaType": kwAssertion,

	"prefixItems": kwUnknownThen, "unevaluatedItems": kwUnknownThen, "unevaluatedProperties": kwUnknownThen,
	"dependentRequired": kwUnknownThen, "dependentSchemas": kwUnknownThen,
	"minContains": kwUnknownThen, "maxContains": kwUnknownThen, "contentSchema": kwUnknownThen,
	"$anchor": kwUnknownThen, "$vocabulary": kwUnknownThen,
	"$dynamicRef": kwUnknownThen, "$dynamicAnchor": kwUnknownThen,
	"$recursiveRef": kwUnknownThen, "$recursiveAnchor": kwUnknownThen,
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
		return known[string(key)]
	}
	var room [64]byte
	return known[string(wire.AppendUnescaped(room[:0], key))]
}
