package file

import (
	"fmt"
	"mime"
	"regexp"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/escape"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Place says in which part of the HTTP request a parameter is sent.
type Place uint8

const (
	InBody Place = iota
	InQuery
	InPath
	InHeader
	InVariables // GraphQL
	InRuntime   // not sent; read by the runtime: first, after, fields, preset
	InFileName  // in the name of a file in the body
	places
)

// Encoding is how the value of a path parameter is escaped.
type Encoding uint8

// The encodings: EncodeAuto keeps what is escaped already, EncodeReserved keeps / and :.
const (
	EncodeAuto Encoding = iota
	EncodeAlways
	EncodeReserved
)

// Param is a declared parameter.
type Param struct {
	Definition
	Name     string
	key      string // its name in schemas, if Name is none that providers of models accept
	Wire     string
	QueryKey string // Wire, encoded for a query
	BodyKey  string // "Wire": with quotes and colon, for parameters in a body
	Fallback []byte // the default as JSON, nil for none
	Body     *BodyRules
	Required bool
	Hidden   bool // only the file and the runtime itself set it
	Place    Place
	Style    Style
	Index    Index
	Encode   Encoding
}

// IsFile returns how a parameter is sent as a file, or nil if it is not a file.
func (p *Param) IsFile() *FilePart {
	if p.Body == nil {
		return nil
	}
	return p.Body.File
}

// rules returns the body rules of the parameter, and makes them if there are none.
func (p *Param) rules() *BodyRules {
	if p.Body == nil {
		p.Body = &BodyRules{}
	}
	return p.Body
}

var paramBlock = block{"operations.CATEGORY[].params.NAME", "A name has letters, digits, _ and -, and begins with a letter. The keys from `type` on are also those of `items`, of members of objects, and of `response.schema`.", []key{
	{"required", "boolean", "false", "Each call must have the parameter. Those in the path always are, unless they have a default."},
	{"default", "any", "", "The value in calls that have none."},
	{"hidden", "boolean", "false", "No model sees it, and no call may set it: each request has the `default`, also where the API requires the parameter. Without a default it is never sent."},
	{"in", "body, query, path, header", "", "Where it is sent. Without it: in the path if `maps_to` names it, in the query of GET and DELETE, else in the body."},
	{"wire_name", "string", "", "The API's name for it. Without it, its own."},
	{"wire_path", "dotted path", "", "Its place in a nested body or query, in place of a `wire_name`."},
	{"style", "csv, repeat, space, pipe, brackets, deep_object, json", "", "How an array or object is [written](adapters.md#requests). Without it, the elements of an array between commas that are escaped, and an object as JSON. In a path or header, csv."},
	{"encode", "auto, always, reserved", "auto", "How a value in the path is escaped: auto keeps what is escaped already, always escapes all, reserved keeps / and :. None lets `.` or `..` through. In a query or form, reserved keeps `:/?@!$'()*,;=`."},
	{"content_type", "string", "", "The media type of its part of a multipart body. Without it, application/json for what is written as JSON, else none."},
	{"file", "map", "", "The value is sent as a file of a multipart body."},
}}

// valueBlock has the keys of everything that describes a value.
var valueBlock = block{"operations.CATEGORY[].params.NAME", "", []key{
	{"type", "string, integer, number, boolean, array, object", must, "The JSON type."},
	{"types", "list of string, integer, number, boolean, array, object, null", "", "Further types that are allowed. With \"null\" it may be null: a required parameter in calls, an optional one in the schema that a model reads."},
	{"description", "string", "", "What it is, up to 1,000 characters. The model reads it."},
	{"enum", "list", "", "The values that are allowed, up to 1,000."},
	{"minimum", "number", "", "The least number."},
	{"maximum", "number", "", "The greatest number."},
	{"exclusiveMinimum", "number", "", "In place of minimum: a number that is itself too small."},
	{"exclusiveMaximum", "number", "", "In place of maximum: a number that is itself too great."},
	{"multipleOf", "number above 0", "", "What a number is a multiple of. dragoman checks integers, the API all numbers."},
	{"minLength", "integer 0–1073741824", "", "The least number of characters."},
	{"maxLength", "integer 0–1073741824", "", "The greatest number of characters."},
	{"pattern", "RE2 syntax", "", "A regular expression that a string must match."},
	{"format", "string", "", "A word for the model, as in JSON Schema; binary makes it a file in a multipart body."},
	{"minItems", "integer 1–1000000", "", "The least number of elements of an array."},
	{"maxItems", "integer 1–1000000", "", "The greatest number of elements of an array."},
	{"uniqueItems", "boolean", "false", "No two elements of an array are equal. dragoman checks scalars, the API all elements."},
	{"items", "map", "", "The elements of an array."},
	{"properties", "map", "", "The members of an object by name, up to six levels deep. Members that are not described are sent unchanged."},
	{"additionalProperties", "map", "", "The members of an object that `properties` does not describe: the keys of a value."},
	{"sensitive", "boolean", "false", "The value is a secret: no error, preview or question shows it."},
	{"one_of", "list of maps", "", "The forms that an object may have, up to 200. Each has the members that not all forms have: true if an object of that form must have it, false if it may, or the text that it has then: `[{kind: cat, claws: true}, {kind: dog, pack: false}]`. The model reads it; it is not checked."},
}}

var propertyBlock = block{"operations.CATEGORY[].params.NAME.properties.NAME", "Beside these, the keys of a value.", []key{
	{"required", "boolean", "false", "Each object must have the member."},
}}

var fileBlock = block{"operations.CATEGORY[].params.NAME.file", "The parameter is a string, or an array of them, and the body is multipart.", []key{
	{"name", "string", "", "The file's name, with other parameters in braces, which are then not sent by themselves. Without it, the parameter's own."},
	{"type", "string", "", "The media type; of several, or of a range such as `image/*`, the one that the first bytes indicate. Without it, application/octet-stream, or text/plain with `text`."},
	{"text", "boolean", "false", "The value is the text of the file, not base64."},
}}

// shapeKeys are the keys of a parameter that decide in which form and place its value is sent.
var shapeKeys = []string{"wire_name", "wire_path", "style", "encode", "properties", "types"}

// The limits of a parameter.
const (
	maxParams     = 200  // of an operation, and properties of an object
	maxEnum       = 1000 // elements
	maxPattern    = 1000 // bytes
	maxProperties = 6    // levels of nested properties
	maxWirePath   = 8    // names
)

// param reads a parameter. It returns nil if there is too much wrong with it for the checks of its operation.
func (c *checker) param(f field, path string) *Param {
	p := &Param{Name: f.key, Wire: f.key}
	switch {
	case strings.HasPrefix(f.key, "_"):
		c.wrong(SchemaInvalidName, path, "a leading underscore is reserved for metadata", "another name", textAt(f.key, f.line), 0)
	case !isParamName(f.key) || len(f.key) > 128:
		c.wrong(SchemaInvalidName, path, "Parameter name is not valid", "letters, digits, _ and -, starting with a letter", textAt(f.key, f.line), 0)
	case !IsSnake(f.key):
		c.warn(SchemaInvalidName, path, "parameter name should be snake_case", f.line)
	}
	n := f.val
	if n.kind != wire.Object {
		c.wrong(SchemaInvalidType, path, "parameter must be a map", "object", n, f.line)
		return nil
	}
	c.misspelt(n, path, shapeKeys, &paramBlock, &valueBlock)
	if !c.definition(n, path, 0, &p.Definition) {
		return nil
	}
	c.present(n, path, "required", "boolean")
	c.present(n, path, "default", p.Type.String())
	c.present(n, path, "hidden", "boolean")
	p.Required = c.flag(n, path, "required", false)
	if d := n.get("default"); d != nil && d.kind != wire.Null {
		raw := clean.EscapeHidden(d.JSON(nil))
		if m := p.mismatch(raw); m != nil {
			c.wrong(SchemaInvalidValue, path+".default", "default does not fit its parameter: "+m.Text, p.Type.String(), shownUnless(p.Sensitive, d), 0)
		} else {
			if p.Fallback = raw; d.kind == wire.String && d.text != "" && isSecretKey(f.key) {
				c.mind(SchemaEmbeddedCredential, path+".default", "a parameter of this name is for a secret; the file must not hold its value", d.line)
			}
			if p.Required && !c.flag(n, path, "hidden", false) {
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
	fits := p.may(TypeArray)
	if p.Style == StyleCSV || p.Style == StyleSpace || p.Style == StylePipe {
		fits = fits || p.may(TypeObject)
	}
	switch p.Style {
	case styleDefault:
		fits = true
		if p.Type == TypeArray {
			p.Style = styleJoined
		} else if p.Type == TypeObject {
			p.Style = StyleJSON
		}
	case StyleJSON:
		fits = true
	case StyleBrackets:
		p.Index, fits = IndexMixed, fits || p.may(TypeObject)
	case StyleDeep:
		fits = p.may(TypeObject)
	}
	if !fits {
		c.wrong(SchemaInvalidValue, path+".style", "style does not fit type "+p.Type.String(), "csv, space, pipe, brackets or json for both arrays and objects, deep_object only for objects; arrays may repeat", n.get("style"), 0)
	}
	p.Encode = Encoding(c.choice(n, path, "encode", encodings))
	if kind := c.str(n, path, "content_type"); kind != "" {
		p.rules().Type = kind
		if !isMediaType(kind) || n.get("file") != nil {
			c.wrong(SchemaInvalidValue, path+".content_type", "content_type is not a media type, or file.type says it", "type/subtype", n.get("content_type"), 0)
		}
	}
	c.filePart(n, path, p)
	p.compile()
	return p
}

var placeNames, encodings = []string{"body", "query", "path", "header"}, []string{"auto", "always", "reserved"}

// isMediaType reports whether s is one media type, which may have parameters.
func isMediaType(s string) bool {
	kind, _, err := mime.ParseMediaType(s)
	return err == nil && strings.Contains(kind, "/") && !strings.ContainsAny(kind, "*,") && len(s) <= 200 && IsHeaderValue(s)
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
	d.Minimum, d.Maximum = c.edge(n, path, "minimum", "exclusiveMinimum", d), c.edge(n, path, "maximum", "exclusiveMaximum", d)
	c.extent(n, path, d)
	if d.Minimum != nil && d.Maximum != nil && d.Minimum.beyond(d.Maximum) {
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
			c.misspelt(i, path+".items", shapeKeys, &valueBlock)
			if e := new(Definition); c.definition(i, path+".items", depth, e) {
				d.Items, d.Sensitive, d.renamed = e, d.Sensitive || e.Sensitive, e.renamed
			}
		}
	}
	c.properties(n, path, depth, d)
	c.further(n, path, depth, d)
	c.enum(n, path, d)
	c.forms(n, path, d)
	d.Constrained = d.Enum != nil || d.Minimum != nil || d.Maximum != nil || d.MinLength >= 0 || d.MaxLength >= 0 || d.Pattern != nil || d.Items != nil || d.Properties != nil ||
		d.Step != nil || d.MinItems > 0 || d.MaxItems > 0 || d.Unique || d.Values != nil
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
			c.wrong(SchemaInvalidName, at, "property name is not valid", "up to 128 visible characters", textAt(f.key, f.line), 0)
			continue
		}
		c.misspelt(f.val, at, shapeKeys, &propertyBlock, &valueBlock)
		list = append(list, Property{Name: f.key})
		p := &list[len(list)-1]
		if !c.definition(f.val, at, depth+1, &p.Definition) {
			list = list[:len(list)-1]
			continue
		}
		c.present(f.val, at, "required", "boolean")
		p.Required = c.flag(f.val, at, "required", false)
		d.Sensitive = d.Sensitive || p.Sensitive
	}
	d.Properties = &list
	d.setKeys()
}

// further reads the definition of members that have none of their own.
func (c *checker) further(n *node, path string, depth int, d *Definition) {
	e := c.get(n, path, "additionalProperties", wire.Object)
	if e == nil {
		return
	}
	path = join(path, "additionalProperties")
	if !d.may(TypeObject) {
		c.wrong(SchemaInvalidValue, path, "additionalProperties is for objects", "type object", e, 0)
		return
	}
	c.misspelt(e, path, shapeKeys, &valueBlock)
	if v := new(Definition); c.definition(e, path, depth, v) {
		d.Values, d.Sensitive = v, d.Sensitive || v.Sensitive
	}
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
		raw, said := clean.EscapeHidden(v.JSON(nil)), shownUnless(d.Sensitive, v)
		if v.kind >= wire.Array || d.Type >= TypeArray {
			c.wrong(SchemaInvalidType, index(path, i), "enum values must be scalars", d.Type.String(), said, 0)
			continue
		}
		if m := d.mismatch(raw); m != nil {
			c.wrong(SchemaInvalidType, index(path, i), "enum value does not fit its parameter", d.Type.String(), said, 0)
			continue
		}
		for _, o := range values {
			if o.equal(raw) {
				c.wrong(SchemaInvalidValue, index(path, i), "enum value is given twice", "distinct values", said, 0)
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

// shownUnless returns a value for a problem, which hides it if it is sensitive.
func shownUnless(sensitive bool, n *node) *node {
	if sensitive {
		return n.hidden()
	}
	return n
}

// filePart reads how a parameter is sent as a file.
func (c *checker) filePart(n *node, path string, p *Param) {
	f := c.get(n, path, "file", wire.Object)
	if f == nil {
		return
	}
	path += ".file"
	c.only(f, path, &fileBlock)
	part := &FilePart{Type: c.str(f, path, "type"), Text: c.flag(f, path, "text", false)}
	if !IsHeaderValue(part.Type) || len(part.Type) > 200 {
		c.wrong(SchemaInvalidValue, path+".type", "type is not a media type", "type/subtype", f.get("type"), 0)
	}
	if p.Type != TypeString && (p.Type != TypeArray || p.Items == nil || p.Items.Type != TypeString) {
		c.wrong(SchemaInvalidValue, path, "a file comes from a string", "type string, or an array of strings", f, 0)
	}
	p.rules().File = part
}
