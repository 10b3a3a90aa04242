package present

import (
	"slices"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// maxForms is the largest number of bytes that a schema has about the forms of an object, in addition to its members: a model reads
// it with every request.
const maxForms = 3000

// formsOf returns a schema for each form of d, whose members have the schemas members. inForm are the members that are in these
// schemas only. If those would be too large, none is, and a form has only its tag and what it requires. formsOf returns nil if
// even that is too large.
func formsOf(d *file.Definition, members map[string][]byte) (forms []byte, inForm map[string]bool) {
	inForm = map[string]bool{}
	size := 0
	for _, form := range d.Forms {
		for _, m := range form {
			if m.Value == nil && members[m.Name] != nil && !inForm[m.Name] {
				inForm[m.Name] = true
				size += len(members[m.Name])
			}
		}
	}
	write := func(complete bool) []byte {
		all := []byte{'['}
		for _, form := range d.Forms {
			all = wire.Comma(all)
			props := wire.Members(nil)
			var required []string
			for _, m := range form {
				name := shownName(d, m.Name)
				if name == "" {
					continue
				}
				switch {
				case m.Value != nil:
					props = props.Raw(name, wire.Members(nil).Raw("const", m.Value).End())
				case members[m.Name] == nil:
					props = props.Raw(name, []byte("{}"))
				case complete:
					props = props.Raw(name, members[m.Name])
				}
				if m.Required {
					required = append(required, name)
				}
			}
			o := wire.Members(nil)
			if len(props) > 0 {
				o = o.Raw("properties", props.End())
			}
			if required != nil {
				o = o.Strs("required", required)
			}
			all = append(all, o.End()...)
		}
		return append(all, ']')
	}
	if forms = write(true); len(forms) <= size+maxForms {
		return forms, inForm
	}
	if forms = write(false); len(forms) <= maxForms {
		return forms, nil
	}
	return nil, nil
}

// isTagged reports whether one of the members of a form has another value in each form.
func isTagged(forms []file.Form) bool {
	return !slices.ContainsFunc(forms, func(f file.Form) bool {
		return !slices.ContainsFunc(f, func(m file.FormMember) bool { return m.Value != nil })
	})
}

// shownName returns the name of a member of d in schemas. Objects may also have members that are not described.
func shownName(d *file.Definition, name string) string {
	if d.Properties != nil {
		if i := slices.IndexFunc(*d.Properties, func(p file.Property) bool { return p.Name == name }); i >= 0 {
			return (*d.Properties)[i].Key()
		}
	}
	if !file.IsKey(name) {
		return ""
	}
	return name
}

// appendForms appends the forms of d as introspection shows them: as a file has them.
func appendForms(dst []byte, d *file.Definition) []byte {
	dst = append(dst, '[')
	for _, form := range d.Forms {
		dst = wire.Comma(dst)
		o := wire.Members(nil)
		for _, m := range form {
			if m.Value != nil {
				o = o.Raw(m.Name, m.Value)
			} else {
				o = o.Bool(m.Name, m.Required)
			}
		}
		dst = append(dst, o.End()...)
	}
	return append(dst, ']')
}
