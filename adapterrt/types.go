package adapterrt

import (
	"slices"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// types reads the adapter's own types, which introspection lists behind those that
// are made of its operations.
func (c *checker) types(root *node, a *Adapter) {
	n := c.get(root, "", "types", wire.Array)
	if n == nil {
		return
	}
	for i, e := range n.list {
		path := index("types", i)
		if e.kind != wire.Object {
			c.wrong(SchemaInvalidType, path, "a type must be a map", "object", e, 0)
			continue
		}
		c.known(e, path, "name", "kind", "description", "values", "fields", "members")
		t := generatedType{description: cleanText(c.str(e, path, "description"), descriptionRunes)}
		var v *node
		if t.name, v = c.need(e, path, "name", "Type name"); v != nil {
			if !isParamName(t.name) || len(t.name) > 128 {
				c.wrong(SchemaInvalidName, path+".name", "type name is not valid", "letters, digits, _ and -", v, 0)
			}
			taken := func(o generatedType) bool { return o.name == t.name }
			if slices.ContainsFunc(a.declared, taken) || slices.ContainsFunc(protocolTypes(), taken) {
				c.wrong(SchemaDuplicateName, path+".name", "type name is taken", "a name of its own", v, 0)
			}
		}
		c.need(e, path, "kind", "Type kind")
		switch t.kind = c.word(e, path, "kind", "scalar", "enum", "object", "union"); t.kind {
		case "enum":
			t.members = wire.AppendStrings([]byte(`,"values":`), c.typeList(e, path, "values"))
		case "union":
			t.members = wire.AppendStrings([]byte(`,"members":`), c.typeList(e, path, "members"))
		case "object":
			t.members = append(append([]byte(`,"fields":[`), c.typeFields(e, path)...), ']')
		}
		a.declared = append(a.declared, t)
	}
}

func (c *checker) typeList(n *node, path, key string) []string {
	list := c.strs(n, path, key)
	if len(list) == 0 {
		c.missing(n, path, key, key, n.get(key))
	}
	for i := range list {
		list[i] = cleanText(list[i], 200)
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
	for i, f := range list.list {
		at := index(path+".fields", i)
		if f.kind != wire.Object {
			c.wrong(SchemaInvalidType, at, "a field must be a map", "object", f, 0)
			continue
		}
		c.known(f, at, "name", "type", "required", "description")
		name, _ := c.need(f, at, "name", "Field name")
		typ, _ := c.need(f, at, "type", "Field type")
		o := wire.Members(nil).Str("name", cleanText(name, 200)).Str("type", cleanText(typ, 200)).Bool("required", c.flag(f, at, "required", false))
		if d := c.str(f, at, "description"); d != "" {
			o = o.Str("description", cleanText(d, descriptionRunes))
		}
		if len(out) > 0 {
			out = append(out, ',')
		}
		out = append(out, o.End()...)
	}
	return out
}

// response reads what an operation returns: a JSON type or one of the types.
func (c *checker) response(n *node, path string, op *operation) {
	r := c.get(n, path, "response", wire.Object)
	if r == nil {
		return
	}
	path += ".response"
	c.known(r, path, "type", "description", "fields")
	op.returns = &returns{name: "JsonValue", kind: "scalar", description: cleanText(c.str(r, path, "description"), descriptionRunes)}
	if f := r.get("fields"); f != nil && f.kind != wire.Null {
		op.returns.fields = f.shown()
	}
	name := c.str(r, path, "type")
	if name == "" || slices.Contains(typeNames[:], name) {
		return
	}
	for _, t := range append(protocolTypes(), op.adapter.declared...) {
		if t.name == name {
			op.returns.name, op.returns.kind = t.name, t.kind
			return
		}
	}
	c.wrong(SchemaUnresolvedRef, path+".type", "type is unknown: "+firstRunes(name, 60), "a JSON type or one of types", r.get("type"), 0)
}
