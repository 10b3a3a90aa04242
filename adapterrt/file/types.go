package file

import (
	"slices"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

var typeBlock = block{"types[]", "", []key{
	{"name", "string", must, "The name: letters, digits, _ and -."},
	{"kind", "scalar, enum, object, union", must, "What kind of type it is."},
	{"description", "string", "", "What it stands for."},
	{"values", "list of strings", "", "The values of an enum, which requires them."},
	{"fields", "list of maps", "", "The fields of an object, which requires them."},
	{"members", "list of strings", "", "The types of a union, which requires them."},
}}

var typeFieldBlock = block{"types[].fields[]", "", []key{
	{"name", "string", must, "The name of the field."},
	{"type", "string", must, "The name of its type."},
	{"required", "boolean", "false", "Whether each object has it."},
	{"description", "string", "", "What it holds."},
}}

// types reads the types that the adapter declares. Introspection lists them after the types
// that are generated from its operations.
func (c *checker) types(root *node) (declared []DeclaredType) {
	n := c.get(root, "", "types", wire.Array)
	if n == nil {
		return nil
	}
	for path, e := range c.maps(n, "types", "a type") {
		c.known(e, path, &typeBlock)
		t := DeclaredType{Description: clean.Text(c.str(e, path, "description"), descriptionRunes)}
		var v *node
		if t.Name, v = c.need(e, path, "name", "Type name"); v != nil {
			if !isParamName(t.Name) || len(t.Name) > 128 {
				c.wrong(SchemaInvalidName, path+".name", "type name is not valid", "letters, digits, _ and -", v, 0)
			}
			taken := func(o DeclaredType) bool { return o.Name == t.Name }
			if slices.ContainsFunc(declared, taken) || slices.ContainsFunc(ProtocolTypes(), taken) {
				c.wrong(SchemaDuplicateName, path+".name", "type name is taken", "a name of its own", v, 0)
			}
		}
		c.need(e, path, "kind", "Type kind")
		switch t.Kind = c.word(e, path, "kind", "scalar", "enum", "object", "union"); t.Kind {
		case "enum":
			t.Members = wire.AppendStrings([]byte(`,"values":`), c.typeList(e, path, "values"))
		case "union":
			t.Members = wire.AppendStrings([]byte(`,"members":`), c.typeList(e, path, "members"))
		case "object":
			t.Members = append(append([]byte(`,"fields":[`), c.typeFields(e, path)...), ']')
		}
		declared = append(declared, t)
	}
	return declared
}

func (c *checker) typeList(n *node, path, key string) []string {
	list := c.strs(n, path, key)
	if len(list) == 0 {
		c.missing(n, path, key, key, n.get(key))
	}
	for i := range list {
		list[i] = clean.Text(list[i], 200)
	}
	return list
}

// typeFields writes fields as a JSON list without its brackets.
func (c *checker) typeFields(n *node, path string) (out []byte) {
	list := c.get(n, path, "fields", wire.Array)
	if list == nil {
		c.missing(n, path, "fields", "fields", n.get("fields"))
		return nil
	}
	for at, f := range c.maps(list, path+".fields", "a field") {
		c.known(f, at, &typeFieldBlock)
		name, _ := c.need(f, at, "name", "Field name")
		typ, _ := c.need(f, at, "type", "Field type")
		o := wire.Members(nil).Str("name", clean.Text(name, 200)).Str("type", clean.Text(typ, 200)).Bool("required", c.flag(f, at, "required", false))
		if d := c.str(f, at, "description"); d != "" {
			o = o.Str("description", clean.Text(d, descriptionRunes))
		}
		if len(out) > 0 {
			out = append(out, ',')
		}
		out = append(out, o.End()...)
	}
	return out
}

// DeclaredType is a type of the specification or of an adapter file.
type DeclaredType struct {
	Name, Kind, Description string
	Members                 []byte // further JSON members of its details, such as ,"values":[…]
}

// ProtocolTypes returns the types of the specification itself.
func ProtocolTypes() []DeclaredType {
	return []DeclaredType{
		{Name: "SemanticCategory", Kind: "enum", Description: "What an operation does to the target", Members: []byte(`,"values":["CREATE","READ","UPDATE","DELETE","EXECUTE"]`)},
		{Name: "OperationInput", Kind: "object", Description: "A request", Members: []byte(`,"fields":[{"name":"operation","type":"string","required":true},{"name":"params","type":"object","required":false}]`)},
		{Name: "OperationResult", Kind: "union", Description: "The answer to a request", Members: []byte(`,"members":["OperationSuccess","OperationFailure"]`)},
		{Name: "OperationSuccess", Kind: "object", Description: "A request that succeeded", Members: []byte(`,"fields":[{"name":"success","type":"boolean","required":true},{"name":"data","type":"JsonValue","required":true}]`)},
		{Name: "OperationFailure", Kind: "object", Description: "A request that failed", Members: []byte(`,"fields":[{"name":"success","type":"boolean","required":true},{"name":"error","type":"object","required":true}]`)},
		{Name: "EndpointPermissions", Kind: "object", Description: "What an endpoint may do", Members: []byte(`,"fields":[{"name":"readOnly","type":"boolean","required":true},{"name":"destructive","type":"boolean","required":true}]`)},
		{Name: "JsonValue", Kind: "scalar", Description: "Any JSON value"},
	}
}
