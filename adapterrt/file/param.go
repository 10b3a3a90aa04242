package file

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/escape"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

var definitionKeys = []string{"type", "description", "enum", "minimum", "maximum", "minLength", "maxLength", "pattern", "format", "items", "properties", "types", "sensitive"}
var propertyKeys = append([]string{"required"}, definitionKeys...)
var paramKeys = append([]string{"required", "default", "wire_name", "wire_path", "in", "style", "encode", "file"}, definitionKeys...)

// shapeKeys are the keys of a parameter that decide in which form and place its value is sent.
var shapeKeys = []string{"wire_name", "wire_path", "style", "encode", "properties", "types"}

// maxEnum is the largest number of elements of an enum, maxPattern of bytes of a pattern, and
// maxProperties the largest depth of nested properties.
const maxEnum, maxPattern, maxProperties = 1000, 1000, 4

func (c *checker) param(f field, path string, op *Operation) {
	p := &Param{Name: f.key, Wire: f.key}
	switch {
	case strings.HasPrefix(f.key, "_"):
		c.wrong(SchemaInvalidName, path, "a leading underscore is reserved for metadata", "another name", nil, f.line)
	case !isParamName(f.key) || len(f.key) > 128:
		c.wrong(SchemaInvalidName, path, "Parameter name is not valid", "letters, digits, _ and -, starting with a letter", nil, f.line)
	case !IsSnake(f.key):
		c.warn(SchemaInvalidName, path, "parameter name should be snake_case", f.line)
	}
	n := f.val
	if n.kind != wire.Object {
		c.wrong(SchemaInvalidType, path, "parameter must be a map", "object", n, f.line)
		return
	}
	c.misspelt(n, path, paramKeys, shapeKeys)
	if !c.definition(n, path, 0, &p.Definition) {
		return
	}
	c.present(n, path, "required", "boolean")
	c.present(n, path, "default", p.Type.String())
	p.Required = c.flag(n, path, "required", false)
	if d := n.get("default"); d != nil && d.kind != wire.Null {
		raw := clean.EscapeHidden(d.JSON(nil))
		if m := p.mismatch(raw); m != nil {
			c.wrong(SchemaInvalidValue, path+".default", "default does not fit its parameter: "+m.Text, p.Type.String(), d, 0)
		} else {
			p.Fallback = raw
			if p.Required {
				c.warn(SchemaInvalidValue, path+".default", "default of a required parameter is never used", d.line)
			}
		}
	}
	if w := c.str(n, path, "wire_name"); w != "" {
		if len(w) > 256 || !IsHeaderValue(w) {
			c.wrong(SchemaInvalidValue, path+".wire_name", "wire_name is not valid", "up to 256 characters without control characters", n.get("wire_name"), 0)
		}
		p.Wire = w
	}
	c.wirePath(n, path, p)
	p.Place = Place(c.choice(n, path, "in", placeNames))
	p.Style = Style(c.choice(n, path, "style", styleNames))
	switch p.Style {
	case styleDefault:
		if p.Type == TypeArray {
			p.Style = styleCSV
		} else if p.Type == TypeObject {
			p.Style = StyleJSON
		}
	case StyleJSON:
	case StyleBrackets:
		if p.Index = IndexMixed; !p.may(TypeArray) && !p.may(TypeObject) {
			c.misfit(n, path, p)
		}
	case StyleDeep:
		if !p.may(TypeObject) {
			c.misfit(n, path, p)
		}
	default:
		if !p.may(TypeArray) {
			c.misfit(n, path, p)
		}
	}
	p.Encode = Encoding(c.choice(n, path, "encode", encodings))
	c.filePart(n, path, p)
	p.compile()
	op.Params = append(op.Params, p)
}

var placeNames, encodings = []string{"body", "query", "path", "header"}, []string{"auto", "always", "reserved"}

func (c *checker) misfit(n *node, path string, p *Param) {
	c.wrong(SchemaInvalidValue, path+".style", "style does not fit type "+p.Type.String(), "csv, repeat, space or pipe for arrays, deep_object for objects, brackets or json for both", n.get("style"), 0)
}

// wirePath reads wire_path, the place of a value inside the objects that are sent.
func (c *checker) wirePath(n *node, path string, p *Param) {
	w := c.str(n, path, "wire_path")
	if w == "" {
		return
	}
	names := splitPath(w)
	if len(w) > 256 || len(names) > maxWirePath || slices.Contains(names, "") || !IsHeaderValue(w) || n.get("wire_name") != nil {
		c.wrong(SchemaInvalidValue, path+".wire_path", "wire_path is not valid", "names joined by dots, in place of a wire_name", n.get("wire_path"), 0)
		return
	}
	p.rules().Path = names
	p.Wire = names[0]
	for _, name := range names[1:] {
		p.Wire += "[" + name + "]" // the notation of forms and queries
	}
}

// compile sets the parameter's key in a query.
func (p *Param) compile() { p.QueryKey = shared(p.Wire, escape.AppendQuery(nil, p.Wire)) }

// inBody sets the parameter's key in a JSON body.
func (p *Param) inBody() { p.BodyKey = string(append(wire.AppendQuoted(nil, p.Wire), ':')) }

// definition compiles the definition of a value into d. It reports false if the type is
// missing or unknown.
func (c *checker) definition(n *node, path string, depth int, d *Definition) bool {
	s, v := c.need(n, path, "type", "Parameter type")
	if v == nil {
		return false
	}
	t := slices.Index(typeNames[:], s)
	if t < 0 {
		c.wrong(SchemaInvalidValue, path+".type", "Parameter type is unknown", strings.Join(typeNames[:], ", "), v, 0)
		return false
	}
	d.Type = ParamType(t)
	c.alsoTypes(n, path, d)
	d.Description = clean.Text(c.str(n, path, "description"), descriptionRunes)
	d.Format = clean.Text(c.str(n, path, "format"), 100)
	d.Sensitive = c.flag(n, path, "sensitive", false)
	d.Minimum, d.Maximum = c.limit(n, path, "minimum", d), c.limit(n, path, "maximum", d)
	if d.Minimum != nil && d.Maximum != nil && CompareNumbers(d.Minimum.Raw, d.Maximum.Raw) > 0 {
		c.wrong(SchemaInvalidValue, path+".minimum", "minimum is above maximum", "minimum <= maximum", n.get("minimum"), 0)
	}
	d.MinLength, d.MaxLength = c.length(n, path, "minLength", d), c.length(n, path, "maxLength", d)
	if d.MaxLength >= 0 && d.MinLength > d.MaxLength {
		c.wrong(SchemaInvalidValue, path+".minLength", "minLength is above maxLength", "minLength <= maxLength", n.get("minLength"), 0)
	}
	if p := c.get(n, path, "pattern", wire.String); p != nil {
		re, err := regexp.Compile(p.text)
		switch {
		case d.Type != TypeString:
			c.wrong(SchemaInvalidValue, path+".pattern", "pattern is for strings", "type string", p, 0)
		case err != nil || len(p.text) > maxPattern:
			c.wrong(SchemaInvalidValue, path+".pattern", "pattern is not an RE2 expression; look-around and back-references are not supported", "RE2 syntax", p, 0)
		default:
			d.Pattern = re
		}
	}
	if i := c.get(n, path, "items", wire.Object); i != nil {
		if d.Type != TypeArray {
			c.wrong(SchemaInvalidValue, path+".items", "items is for arrays", "type array", i, 0)
		} else {
			c.misspelt(i, path+".items", definitionKeys, shapeKeys)
			if e := new(Definition); c.definition(i, path+".items", depth, e) {
				d.Items, d.Sensitive = e, d.Sensitive || e.Sensitive
			}
		}
	}
	c.properties(n, path, depth, d)
	c.enum(n, path, d)
	d.Constrained = d.Enum != nil || d.Minimum != nil || d.Maximum != nil || d.MinLength >= 0 || d.MaxLength >= 0 || d.Pattern != nil || d.Items != nil || d.Properties != nil
	return true
}

// alsoTypes reads the other types that a value may have.
func (c *checker) alsoTypes(n *node, path string, d *Definition) {
	for i, word := range c.strs(n, path, "types") {
		if t := slices.Index(typeNames[:], word); t >= 0 {
			d.Also |= setOf(ParamType(t))
		} else if word == "null" {
			d.Also |= AlsoNull
		} else {
			c.wrong(SchemaInvalidValue, index(path+".types", i), "type is unknown", strings.Join(typeNames[:], ", ")+", null", n.get("types").list[i], 0)
		}
	}
	d.Also &^= setOf(d.Type)
}

// properties reads the definitions of an object's members.
func (c *checker) properties(n *node, path string, depth int, d *Definition) {
	m := c.get(n, path, "properties", wire.Object)
	if m == nil {
		return
	}
	path += ".properties"
	switch {
	case !d.may(TypeObject):
		c.wrong(SchemaInvalidValue, path, "properties is for objects", "type object", m, 0)
		return
	case depth == maxProperties:
		c.wrong(SchemaInvalidValue, path, "members of objects are described too deep", fmt.Sprintf("up to %d levels", maxProperties), m, 0)
		return
	case len(m.fields) > maxParams:
		c.wrong(SchemaInvalidValue, path, "too many properties", fmt.Sprintf("up to %d", maxParams), m, 0)
		return
	}
	list := make([]Property, 0, len(m.fields))
	for _, f := range m.fields {
		at := path + "." + clean.FirstRunes(f.key, 60)
		if f.val.kind != wire.Object {
			c.wrong(SchemaInvalidType, at, "a property must be a map", "object", f.val, f.line)
			continue
		}
		if len(f.key) > 128 || clean.Text(f.key, 128) != f.key {
			c.wrong(SchemaInvalidName, at, "property name is not valid", "up to 128 visible characters", nil, f.line)
			continue
		}
		c.misspelt(f.val, at, propertyKeys, shapeKeys)
		p := Property{Name: f.key}
		if c.definition(f.val, at, depth+1, &p.Definition) {
			c.present(f.val, at, "required", "boolean")
			p.Required = c.flag(f.val, at, "required", false)
			d.Sensitive = d.Sensitive || p.Sensitive
			list = append(list, p)
		}
	}
	d.Properties = &list
}

func (c *checker) limit(n *node, path, key string, d *Definition) *Bound {
	v := c.get(n, path, key, wire.Number)
	if v == nil {
		return nil
	}
	if d.Type != TypeInteger && d.Type != TypeNumber {
		c.wrong(SchemaInvalidValue, join(path, key), key+" is for numbers", "type integer or number", v, 0)
		return nil
	}
	return &Bound{Raw: []byte(v.text)}
}

func (c *checker) length(n *node, path, key string, d *Definition) int {
	if n.get(key) != nil && d.Type != TypeString {
		c.wrong(SchemaInvalidValue, join(path, key), key+" is for strings", "type string", n.get(key), 0)
		return -1
	}
	return c.whole(n, path, key, -1, 0, 1<<30)
}

func (c *checker) enum(n *node, path string, d *Definition) {
	c.present(n, path, "enum", "array")
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
	var values []EnumValue // not in d yet, so that mismatch does not compare the values with it
	for i, v := range e.list {
		raw := clean.EscapeHidden(v.JSON(nil))
		if v.kind >= wire.Array || d.Type >= TypeArray {
			c.wrong(SchemaInvalidType, index(path, i), "enum values must be scalars", d.Type.String(), v, 0)
			continue
		}
		if m := d.mismatch(raw); m != nil {
			c.wrong(SchemaInvalidType, index(path, i), "enum value does not fit its parameter", d.Type.String(), v, 0)
			continue
		}
		for _, o := range values {
			if o.equal(raw) {
				c.wrong(SchemaInvalidValue, index(path, i), "enum value is given twice", "distinct values", v, 0)
			}
		}
		values = append(values, EnumValue{raw, v.text})
		words = append(words, clean.Text(v.text, 100))
	}
	if d.Enum = values; len(words) > 20 {
		words = append(words[:20], "…")
	}
	d.enumText = strings.Join(words, ", ")
}

// Mismatch says why a value is not valid.
type Mismatch struct {
	WrongType bool   // the type is wrong; otherwise a constraint is not met
	Where     string // "", "[2]", "[2][0]"
	Expected  string // a type
	Actual    string
	Text      string // "must be >= 1"
	Key       string // allowed, minimum, maximum, minLength, maxLength, pattern
	Limit     []byte // JSON
}

// Misfit says where and how the JSON value raw does not fit d, or returns "" if it fits.
func (d *Definition) Misfit(raw []byte) string {
	m := d.mismatch(raw)
	switch {
	case m == nil:
		return ""
	case m.WrongType:
		return "data" + m.Where + " is of type " + m.Actual + ", not " + m.Expected
	}
	return "data" + m.Where + " " + m.Text
}

// mismatch checks the JSON value raw and returns nil if it fits. raw must be valid JSON.
func (d *Definition) mismatch(raw []byte) *Mismatch {
	switch {
	case !d.TypeFits(raw):
		return d.WrongType(raw)
	case wire.KindOf(raw) == wire.Null:
		return nil
	}
	return d.Constraint(raw)
}

// WrongType returns the mismatch of raw, a value whose type d does not allow.
func (d *Definition) WrongType(raw []byte) *Mismatch {
	e, a := d.Expects(), TypeOf(raw)
	return &Mismatch{WrongType: true, Expected: e, Actual: a, Text: "expected '" + e + "', got '" + a + "'"}
}

// Expects returns the names of the types that a value may have, joined by " or ".
func (d *Definition) Expects() string {
	if d.Also == 0 {
		return d.Type.String()
	}
	return strings.Join(append([]string{d.Type.String()}, d.Also.Names()...), " or ")
}

// TypeFits reports whether a value has one of the types that the definition allows.
func (d *Definition) TypeFits(raw []byte) bool {
	if d.Also == 0 {
		return d.Type.fits(raw) || d.orString && wire.KindOf(raw) == wire.String
	}
	for t := range typeNames {
		if d.may(ParamType(t)) && ParamType(t).fits(raw) {
			return true
		}
	}
	return d.Also&AlsoNull != 0 && wire.KindOf(raw) == wire.Null
}

func (t ParamType) fits(raw []byte) bool {
	switch k := wire.KindOf(raw); t {
	case TypeString:
		return k == wire.String
	case TypeInteger:
		if k != wire.Number {
			return false
		}
		var buf [64]byte
		_, ok := wire.AppendInteger(buf[:0], raw)
		return ok
	case TypeNumber:
		return k == wire.Number
	case TypeBoolean:
		return k == wire.Boolean
	case TypeArray:
		return k == wire.Array
	default:
		return k == wire.Object
	}
}

// TypeOf returns the JSON type of a value, with the names of parameter types.
func TypeOf(raw []byte) string {
	switch k := wire.KindOf(raw); k {
	case wire.Number:
		if _, ok := wire.AppendInteger(nil, raw); ok {
			return "integer"
		}
		return "number"
	default:
		return k.String()
	}
}

// Constraint checks raw, a value of the right type, against the other constraints of d. It
// returns nil if raw meets them, otherwise the first that it does not meet.
func (d *Definition) Constraint(raw []byte) *Mismatch {
	if len(d.Enum) > 0 && !slices.ContainsFunc(d.Enum, func(e EnumValue) bool { return e.equal(raw) }) {
		limit := []byte{'['}
		for i, e := range d.Enum {
			if i > 0 {
				limit = append(limit, ',')
			}
			limit = append(limit, e.Raw...)
		}
		return &Mismatch{Text: "must be one of: " + d.enumText, Key: "allowed", Limit: append(limit, ']')}
	}
	kind := wire.KindOf(raw)
	if d.Minimum != nil && kind == wire.Number && CompareNumbers(raw, d.Minimum.Raw) < 0 {
		return &Mismatch{Text: "must be >= " + string(d.Minimum.Raw), Key: "minimum", Limit: d.Minimum.Raw}
	}
	if d.Maximum != nil && kind == wire.Number && CompareNumbers(raw, d.Maximum.Raw) > 0 {
		return &Mismatch{Text: "must be <= " + string(d.Maximum.Raw), Key: "maximum", Limit: d.Maximum.Raw}
	}
	if d.MinLength >= 0 || d.MaxLength >= 0 || d.Pattern != nil {
		if kind == wire.String {
			if m := d.wording(wire.Unquoted(raw)); m != nil {
				return m
			}
		}
	}
	switch {
	case d.Items != nil && kind == wire.Array:
		return d.elements(raw)
	case d.Properties != nil && kind == wire.Object:
		return d.members(raw)
	}
	return nil
}

// elements checks the elements of an array.
func (d *Definition) elements(raw []byte) (bad *Mismatch) {
	i := 0
	wire.Each(raw, func(_, v []byte) bool {
		if bad = d.Items.mismatch(v); bad != nil {
			bad.Where = index("", i) + bad.Where
		}
		i++
		return bad == nil
	})
	return bad
}

// members checks the members of an object that have a definition. The API checks the others.
func (d *Definition) members(raw []byte) (bad *Mismatch) {
	list := *d.Properties
	var room [64]bool
	there := room[:]
	if len(list) > len(room) {
		there = make([]bool, len(list))
	}
	wire.Each(raw, func(name, v []byte) bool {
		i := slices.IndexFunc(list, func(p Property) bool { return p.Name == string(name) })
		if i < 0 {
			return true
		}
		p := &list[i]
		if wire.KindOf(v) == wire.Null && p.Also&AlsoNull == 0 {
			return true // null counts as missing if the member is required; otherwise the API decides
		}
		there[i] = true
		if bad = p.mismatch(v); bad != nil {
			bad.Where = "." + p.Name + bad.Where
		}
		return bad == nil
	})
	for i := range list {
		if p := &list[i]; bad == nil && p.Required && !there[i] {
			bad = &Mismatch{Where: "." + p.Name, Text: "is required. Expected: " + p.Expects() + ".", Key: "expected_type", Limit: wire.AppendQuoted(nil, p.Expects())}
		}
	}
	return bad
}

// wording checks the length and the pattern of a string.
func (d *Definition) wording(s []byte) *Mismatch {
	switch n := utf8.RuneCount(s); {
	case d.MinLength >= 0 && n < d.MinLength:
		return &Mismatch{Text: fmt.Sprintf("must have >= %d characters", d.MinLength), Key: "minLength", Limit: strconv.AppendInt(nil, int64(d.MinLength), 10)}
	case d.MaxLength >= 0 && n > d.MaxLength:
		return &Mismatch{Text: fmt.Sprintf("must have <= %d characters", d.MaxLength), Key: "maxLength", Limit: strconv.AppendInt(nil, int64(d.MaxLength), 10)}
	case d.Pattern != nil && !d.Pattern.Match(s):
		return &Mismatch{Text: "does not match its pattern", Key: "pattern", Limit: clean.EscapeHidden(wire.AppendQuoted(nil, d.Pattern.String()))}
	}
	return nil
}

// equal compares by value: strings without their escapes, and numbers by their value.
func (e *EnumValue) equal(raw []byte) bool {
	switch k := wire.KindOf(raw); {
	case k != wire.KindOf(e.Raw):
		return false
	case k == wire.String:
		return string(wire.Unquoted(raw)) == e.Text
	case k == wire.Number:
		return CompareNumbers(raw, e.Raw) == 0
	}
	return string(raw) == string(e.Raw)
}

// CompareNumbers compares two JSON numbers. It compares integers exactly.
func CompareNumbers(a, b []byte) int {
	x, _ := strconv.ParseFloat(string(a), 64) // out of range is infinite, which compares correctly
	y, _ := strconv.ParseFloat(string(b), 64)
	if c := cmp.Compare(x, y); c != 0 {
		return c
	}
	var bufA, bufB [64]byte
	p, ok1 := wire.AppendInteger(bufA[:0], a)
	q, ok2 := wire.AppendInteger(bufB[:0], b)
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
