package adapterrt

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

var definitionKeys = []string{"type", "description", "enum", "minimum", "maximum", "minLength", "maxLength", "pattern", "format", "items", "sensitive"}
var paramKeys = append([]string{"required", "default", "wire_name", "in", "style", "encode", "properties"}, definitionKeys...)

// The most elements of an enum and bytes of a pattern.
const maxEnum, maxPattern = 1000, 1000

func (c *checker) param(f field, path string, op *operation) {
	p := &param{name: f.key, wire: f.key}
	switch {
	case strings.HasPrefix(f.key, "_"):
		c.wrong(SchemaInvalidName, path, "a leading underscore is reserved for metadata", "another name", nil, f.line)
	case !isParamName(f.key) || len(f.key) > 128:
		c.wrong(SchemaInvalidName, path, "Parameter name is not valid", "letters, digits, _ and -, starting with a letter", nil, f.line)
	case !isSnake(f.key):
		c.warn(SchemaInvalidName, path, "parameter name should be snake_case", f.line)
	}
	n := f.val
	if n.kind != wire.Object {
		c.wrong(SchemaInvalidType, path, "parameter must be a map", "object", n, f.line)
		return
	}
	c.known(n, path, paramKeys...)
	c.later(n, path, "properties")
	if !c.definition(n, path, &p.definition) {
		return
	}
	p.required = c.flag(n, path, "required", false)
	if d := n.get("default"); d != nil && d.kind != wire.Null {
		raw := escapeHidden(d.json(nil))
		if m := p.mismatch(raw); m != nil {
			c.wrong(SchemaInvalidValue, path+".default", "default does not fit its parameter: "+m.text, p.typ.String(), d, 0)
		} else {
			p.fallback = raw
			if p.required {
				c.warn(SchemaInvalidValue, path+".default", "default of a required parameter is never used", d.line)
			}
		}
	}
	if w := c.str(n, path, "wire_name"); w != "" {
		if len(w) > 256 || !isHeaderValue(w) {
			c.wrong(SchemaInvalidValue, path+".wire_name", "wire_name is not valid", "up to 256 characters without control characters", n.get("wire_name"), 0)
		}
		p.wire = w
	}
	p.place = map[string]place{"body": inBody, "path": inPath, "query": inQuery, "header": inHeader}[c.word(n, path, "in", "body", "path", "query", "header")]
	p.style = map[string]style{"csv": styleCSV, "repeat": styleRepeat, "deep_object": styleDeep, "json": styleJSON}[c.word(n, path, "style", "", "csv", "repeat", "deep_object", "json")]
	switch {
	case p.style == styleDefault && p.typ == typeArray:
		p.style = styleCSV
	case p.style == styleDefault && p.typ == typeObject:
		p.style = styleJSON
	case p.style == styleDeep && p.typ != typeObject, p.style == styleCSV && p.typ != typeArray, p.style == styleRepeat && p.typ != typeArray:
		c.wrong(SchemaInvalidValue, path+".style", "style does not fit type "+p.typ.String(), "csv or repeat for arrays, deep_object for objects, json for both", n.get("style"), 0)
	}
	p.alwaysEnc = c.word(n, path, "encode", "auto", "always") == "always"
	p.compile()
	op.params = append(op.params, p)
}

func (p *param) compile() {
	p.queryKey = shared(p.wire, appendQueryText(nil, p.wire))
	p.bodyKey = string(wire.AppendQuoted(nil, p.wire)) + ":"
}

// definition compiles what a value has to be. It reports false when there is no
// type to go by.
func (c *checker) definition(n *node, path string, d *definition) bool {
	s, v := c.need(n, path, "type", "Parameter type")
	if v == nil {
		return false
	}
	found := false
	for t, name := range typeNames {
		if name == s {
			d.typ, found = paramType(t), true
		}
	}
	if !found {
		c.wrong(SchemaInvalidValue, path+".type", "Parameter type is unknown", strings.Join(typeNames[:], ", "), v, 0)
		return false
	}
	d.description = cleanText(c.str(n, path, "description"), descriptionRunes)
	d.format = cleanText(c.str(n, path, "format"), 100)
	d.sensitive = c.flag(n, path, "sensitive", false)
	d.minimum, d.maximum = c.bound(n, path, "minimum", d), c.bound(n, path, "maximum", d)
	if d.minimum != nil && d.maximum != nil && compareNumbers(d.minimum.raw, d.maximum.raw) > 0 {
		c.wrong(SchemaInvalidValue, path+".minimum", "minimum is above maximum", "minimum <= maximum", n.get("minimum"), 0)
	}
	d.minLength, d.maxLength = c.length(n, path, "minLength", d), c.length(n, path, "maxLength", d)
	if d.maxLength >= 0 && d.minLength > d.maxLength {
		c.wrong(SchemaInvalidValue, path+".minLength", "minLength is above maxLength", "minLength <= maxLength", n.get("minLength"), 0)
	}
	if p := c.get(n, path, "pattern", wire.String); p != nil {
		re, err := regexp.Compile(p.text)
		switch {
		case d.typ != typeString:
			c.wrong(SchemaInvalidValue, path+".pattern", "pattern is for strings", "type string", p, 0)
		case err != nil || len(p.text) > maxPattern:
			c.wrong(SchemaInvalidValue, path+".pattern", "pattern is not an RE2 expression; look-around and back-references are not supported", "RE2 syntax", p, 0)
		default:
			d.pattern = re
		}
	}
	if i := c.get(n, path, "items", wire.Object); i != nil {
		if d.typ != typeArray {
			c.wrong(SchemaInvalidValue, path+".items", "items is for arrays", "type array", i, 0)
		} else {
			c.known(i, path+".items", definitionKeys...)
			if e := new(definition); c.definition(i, path+".items", e) {
				d.items = e
			}
		}
	}
	c.enum(n, path, d)
	d.constrained = d.enum != nil || d.minimum != nil || d.maximum != nil || d.minLength >= 0 || d.maxLength >= 0 || d.pattern != nil || d.items != nil
	return true
}

func (c *checker) bound(n *node, path, key string, d *definition) *bound {
	v := c.get(n, path, key, wire.Number)
	if v == nil {
		return nil
	}
	if d.typ != typeInteger && d.typ != typeNumber {
		c.wrong(SchemaInvalidValue, join(path, key), key+" is for numbers", "type integer or number", v, 0)
		return nil
	}
	return &bound{raw: []byte(v.text)}
}

func (c *checker) length(n *node, path, key string, d *definition) int {
	if n.get(key) != nil && d.typ != typeString {
		c.wrong(SchemaInvalidValue, join(path, key), key+" is for strings", "type string", n.get(key), 0)
		return -1
	}
	return c.whole(n, path, key, -1, 0, 1<<30)
}

func (c *checker) enum(n *node, path string, d *definition) {
	e := c.get(n, path, "enum", wire.Array)
	if e == nil {
		return
	}
	path += ".enum"
	if len(e.list) == 0 || len(e.list) > maxEnum {
		c.wrong(SchemaInvalidValue, path, "enum must not be empty or huge", fmt.Sprintf("1–%d values", maxEnum), e, 0)
		return
	}
	var words []string
	var values []enumValue // d has none yet, so that these are checked like any other
	for i, v := range e.list {
		raw := escapeHidden(v.json(nil))
		if v.kind >= wire.Array || d.typ >= typeArray {
			c.wrong(SchemaInvalidType, index(path, i), "enum values must be scalars", d.typ.String(), v, 0)
			continue
		}
		if m := d.mismatch(raw); m != nil {
			c.wrong(SchemaInvalidType, index(path, i), "enum value does not fit its parameter", d.typ.String(), v, 0)
			continue
		}
		for _, o := range values {
			if o.equal(raw) {
				c.wrong(SchemaInvalidValue, index(path, i), "enum value is given twice", "distinct values", v, 0)
			}
		}
		values = append(values, enumValue{raw, v.text})
		words = append(words, cleanText(v.text, 100))
	}
	if d.enum = values; len(words) > 20 {
		words = append(words[:20], "…")
	}
	d.enumText = strings.Join(words, ", ")
}

// mismatch says in what a value does not fit.
type mismatch struct {
	typ      bool   // the type is wrong, else a constraint
	where    string // "", "[2]", "[2][0]"
	expected string // a type
	actual   string
	text     string // "must be >= 1"
	key      string // allowed, minimum, maximum, minLength, maxLength, pattern
	limit    []byte // JSON
}

// mismatch checks the valid JSON value raw, nil when it fits.
func (d *definition) mismatch(raw []byte) *mismatch {
	if !d.typeFits(raw) {
		return d.wrongType(raw)
	}
	return d.constraint(raw)
}

func (d *definition) wrongType(raw []byte) *mismatch {
	e, a := d.typ.String(), typeOf(raw)
	return &mismatch{typ: true, expected: e, actual: a, text: "expected '" + e + "', got '" + a + "'"}
}

func (d *definition) typeFits(raw []byte) bool {
	switch k := wire.KindOf(raw); d.typ {
	case typeString:
		return k == wire.String
	case typeInteger:
		if k != wire.Number {
			return false
		}
		var buf [64]byte
		_, ok := plainInteger(buf[:0], raw)
		return ok
	case typeNumber:
		return k == wire.Number
	case typeBoolean:
		return k == wire.Boolean
	case typeArray:
		return k == wire.Array || d.orString && k == wire.String
	default:
		return k == wire.Object
	}
}

// typeOf is the JSON type of a value in the words of parameter types.
func typeOf(raw []byte) string {
	switch k := wire.KindOf(raw); k {
	case wire.Number:
		if _, ok := plainInteger(nil, raw); ok {
			return "integer"
		}
		return "number"
	default:
		return kindWords[k]
	}
}

// constraint checks a value of the right type against everything else.
func (d *definition) constraint(raw []byte) *mismatch {
	if len(d.enum) > 0 && !d.allowed(raw) {
		limit := []byte{'['}
		for i, e := range d.enum {
			if i > 0 {
				limit = append(limit, ',')
			}
			limit = append(limit, e.raw...)
		}
		return &mismatch{text: "must be one of: " + d.enumText, key: "allowed", limit: append(limit, ']')}
	}
	if d.minimum != nil && compareNumbers(raw, d.minimum.raw) < 0 {
		return &mismatch{text: "must be >= " + string(d.minimum.raw), key: "minimum", limit: d.minimum.raw}
	}
	if d.maximum != nil && compareNumbers(raw, d.maximum.raw) > 0 {
		return &mismatch{text: "must be <= " + string(d.maximum.raw), key: "maximum", limit: d.maximum.raw}
	}
	if d.minLength >= 0 || d.maxLength >= 0 || d.pattern != nil {
		if d.typ == typeString {
			if m := d.wording(wire.Unquoted(raw)); m != nil {
				return m
			}
		}
	}
	if d.items == nil || d.typ != typeArray {
		return nil
	}
	var bad *mismatch
	i := 0
	wire.Each(raw, func(_, v []byte) bool {
		if bad = d.items.mismatch(v); bad != nil {
			bad.where = index("", i) + bad.where
		}
		i++
		return bad == nil
	})
	return bad
}

// wording checks the text of a string.
func (d *definition) wording(s []byte) *mismatch {
	switch n := utf8.RuneCount(s); {
	case d.minLength >= 0 && n < d.minLength:
		return &mismatch{text: fmt.Sprintf("must have >= %d characters", d.minLength), key: "minLength", limit: strconv.AppendInt(nil, int64(d.minLength), 10)}
	case d.maxLength >= 0 && n > d.maxLength:
		return &mismatch{text: fmt.Sprintf("must have <= %d characters", d.maxLength), key: "maxLength", limit: strconv.AppendInt(nil, int64(d.maxLength), 10)}
	case d.pattern != nil && !d.pattern.Match(s):
		return &mismatch{text: "does not match its pattern", key: "pattern", limit: escapeHidden(wire.AppendQuoted(nil, d.pattern.String()))}
	}
	return nil
}

func (d *definition) allowed(raw []byte) bool {
	for i := range d.enum {
		if d.enum[i].equal(raw) {
			return true
		}
	}
	return false
}

// equal compares by value: texts unescaped, numbers whatever their spelling.
func (e *enumValue) equal(raw []byte) bool {
	switch k := wire.KindOf(raw); {
	case k != wire.KindOf(e.raw):
		return false
	case k == wire.String:
		return string(wire.Unquoted(raw)) == e.text
	case k == wire.Number:
		return compareNumbers(raw, e.raw) == 0
	}
	return string(raw) == string(e.raw)
}

// compareNumbers compares two JSON numbers; whole ones exactly.
func compareNumbers(a, b []byte) int {
	x, _ := strconv.ParseFloat(string(a), 64) // out of range is infinite, which compares well
	y, _ := strconv.ParseFloat(string(b), 64)
	if x < y {
		return -1
	}
	if x > y {
		return 1
	}
	var bufA, bufB [64]byte
	p, ok1 := plainInteger(bufA[:0], a)
	q, ok2 := plainInteger(bufB[:0], b)
	if !ok1 || !ok2 {
		return 0
	}
	sign := 1
	if p[0] == '-' || q[0] == '-' {
		if p[0] != '-' || q[0] != '-' { // equal as floats, so both are near zero
			return 0
		}
		p, q, sign = p[1:], q[1:], -1
	}
	if len(p) != len(q) {
		return sign * (len(p) - len(q))
	}
	return sign * strings.Compare(string(p), string(q))
}
