package file

import (
	"fmt"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// maxForms is the largest number of forms of an object, and of members of one.
const maxForms = 200

// forms reads the forms of an object.
func (c *checker) forms(n *node, path string, d *Definition) {
	list := c.get(n, path, "one_of", wire.Array)
	if list == nil {
		return
	}
	path += ".one_of"
	switch {
	case !d.may(TypeObject):
		c.wrong(SchemaInvalidValue, path, "one_of is for objects", "type object", list, 0)
		return
	case len(list.list) > maxForms:
		c.wrong(SchemaInvalidValue, path, "too many forms", fmt.Sprintf("up to %d", maxForms), list, 0)
		return
	}
	for at, e := range c.maps(list, path, "a form") {
		if len(e.fields) > maxForms {
			c.wrong(SchemaInvalidValue, at, "too many members", fmt.Sprintf("up to %d", maxForms), e, 0)
			continue
		}
		form := make(Form, 0, len(e.fields))
		for _, f := range e.fields {
			m := FormMember{Name: f.key, Required: f.val.text == "true"}
			if f.val.kind == wire.String {
				m.Value, m.Required = clean.EscapeHidden(f.val.JSON(nil)), true
			}
			if clean.Text(f.key, 128) != f.key || f.val.kind != wire.Boolean && f.val.kind != wire.String {
				c.wrong(SchemaInvalidType, join(at, clean.FirstRunes(f.key, 60)), "a member of a form is required or not, or has one text", "true, false, or a text", f.val, f.line)
				continue
			}
			form = append(form, m)
		}
		d.Forms = append(d.Forms, form)
	}
}
