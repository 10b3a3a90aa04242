package present

import (
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// maxVariants is the largest number of bytes of what a schema says of the variants of an object; of more, it has only the values of
// the tag. A model reads it with every request.
const maxVariants = 3000

// told adds to the schema of a tag what each of its values brings with it: a constant with a description. It is for parameters,
// since providers of models refuse a oneOf around them. key returns the name that schemas have for a member, "" for none.
func told(o wire.Members, tag *file.Definition, key func(string) string) wire.Members {
	all := []byte{'['}
	for i, e := range tag.Enum {
		if i > 0 {
			all = append(all, ',')
		}
		one := wire.Members(nil).Raw("const", e.Raw)
		var names []string
		for _, m := range membersOf(tag, e.Text) {
			if name := key(m.Name); name != "" && m.Required {
				names = append(names, name+" (required)")
			} else if name != "" {
				names = append(names, name)
			}
		}
		if names != nil {
			one = one.Str("description", "with "+strings.Join(names, ", "))
		}
		all = append(all, one.End()...)
	}
	if tag.Also&file.AlsoNull != 0 {
		all = append(all, `,{"const":null}`...)
	}
	if len(all) > maxVariants {
		return o
	}
	return o.Raw("oneOf", append(all, ']'))
}

// branchesOf returns a schema for each variant of an object with these members, one of which is its tag. It returns nil if there
// may be an object without a tag, or if they are too large.
func branchesOf(list []file.Property, tag *file.Property) []byte {
	if !tag.Required || tag.Also != 0 {
		return nil
	}
	all := []byte{'['}
	for i, e := range tag.Enum {
		if i > 0 {
			all = append(all, ',')
		}
		props := wire.Members(nil).Raw(tag.Key(), wire.Members(nil).Raw("const", e.Raw).End())
		required := []string{tag.Key()}
		for _, m := range membersOf(&tag.Definition, e.Text) {
			name := sibling(list, m.Name)
			if name == "" || name == tag.Key() {
				continue
			}
			props = props.Raw(name, []byte("{}"))
			if m.Required {
				required = append(required, name)
			}
		}
		all = append(all, wire.Members(nil).Raw("properties", props.End()).Strs("required", required).End()...)
	}
	if len(all) > maxVariants {
		return nil
	}
	return append(all, ']')
}

// membersOf returns the members that objects have whose tag has a value.
func membersOf(tag *file.Definition, value string) []file.VariantMember {
	for _, v := range tag.Variants {
		if v.Value == value {
			return v.Members
		}
	}
	return nil
}

// keyOf returns the name of a parameter in schemas, or "" if callers do not set it.
func keyOf(op *file.Operation, name string) string {
	for _, p := range op.Params {
		if p.Name == name && !p.Hidden {
			return p.Key()
		}
	}
	return ""
}

// sibling returns the name of a member in schemas. Objects may also have members that are not described.
func sibling(list []file.Property, name string) string {
	for i := range list {
		if list[i].Name == name {
			return list[i].Key()
		}
	}
	if !file.IsKey(name) {
		return ""
	}
	return name
}
