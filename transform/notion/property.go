package notion

import (
	"strings"

	"github.com/dragoman-proxy/dragoman/transform/tree"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// page writes the title of a page (as a link if the page is one of many) and
// its properties as a list.
func (c *converter) page(v tree.Value, many bool) {
	c.at.counting = false
	title := titleOf(v)
	switch id := label(v.Get("id").Text()); {
	case many:
		shown := c.literal(title, inLink)
		if shown == "" {
			shown = v.Get("object").Text()
		}
		c.paragraph("## [" + shown + "](notion:" + id + ")")
	case title != "":
		c.paragraph("# " + c.literal(title, inHeading))
	}
	if isDatabase(v) {
		c.paragraph(c.rich(v.Get("description"), tree.Value{}, inBlock))
		return
	}
	c.apart()
	for p := range v.Get("properties").All() {
		value := propertyOf(p, c.options)
		if value.title {
			continue
		}
		if shown := c.literal(value.shown(), inHeading); shown != "" {
			c.separate(item)
			c.add("- " + c.literal(p.Key(), inHeading) + ": " + shown)
		}
	}
	c.apart()
}

// titleOf returns the text of a page's title property, or of a database's
// title.
func titleOf(v tree.Value) string {
	if isDatabase(v) {
		return plain(v.Get("title"), tree.Value{})
	}
	for p := range v.Get("properties").All() {
		if p.Get("type").Text() == "title" {
			return plain(p.Get("title"), tree.Value{})
		}
	}
	return ""
}

// property is a page's property, simplified: a text, several, or a value as it
// was written. The zero value is null.
type property struct {
	title   bool
	dropped bool
	text    *string
	texts   []string
	many    bool
	raw     []byte
}

func textProperty(text string) property { return property{text: &text} }

func textOrNull(v tree.Value) property {
	if !v.Present() {
		return property{}
	}
	return textProperty(v.Scalar())
}

// propertyOf reads a property of a page, or the result of a formula or a
// rollup.
//
//	https://developers.notion.com/reference/page-property-values
func propertyOf(p tree.Value, o Options) property {
	if !p.Is(wire.Object) {
		return property{raw: p.Raw()}
	}
	kind := p.Get("type").Text()
	v := p.Get(kind)
	switch kind {
	case "title":
		text := textProperty(plain(v, tree.Value{}))
		text.title = true
		return text
	case "rich_text":
		return textProperty(plain(v, tree.Value{}))
	case "number", "checkbox", "boolean":
		return property{raw: v.Raw()}
	case "url", "email", "phone_number", "string", "created_time", "last_edited_time":
		return textOrNull(v)
	case "select", "status":
		return textOrNull(v.Get("name"))
	case "multi_select":
		return list(v, func(e tree.Value) string { return e.Get("name").Text() })
	case "date":
		start, end := v.Get("start"), v.Get("end").Text()
		if end == "" {
			return textOrNull(start)
		}
		return textProperty(start.Text() + "/" + end)
	case "people":
		return list(v, nameOf)
	case "created_by", "last_edited_by":
		if !v.Present() {
			return property{}
		}
		return textProperty(nameOf(v))
	case "files":
		return list(v, func(e tree.Value) string {
			return strings.TrimSpace(e.Get("name").Text() + " " + fileAddress(e, o.KeepSigned))
		})
	case "relation":
		ids := list(v, func(e tree.Value) string { return e.Get("id").Text() })
		if p.Get("has_more").True() {
			ids.texts = append(ids.texts, "(more not loaded)")
		}
		return ids
	case "formula":
		return propertyOf(v, o)
	case "rollup":
		if v.Get("type").Text() == "array" {
			return list(v.Get("array"), func(e tree.Value) string {
				inner := propertyOf(e, o)
				if e.Get("type").Text() == "rollup" { // the API has no such value; each level would make a copy
					inner = property{raw: e.Get("rollup").Raw()}
				}
				return inner.shown()
			})
		}
		return propertyOf(v, o)
	case "unique_id":
		number, prefix := v.Get("number"), v.Get("prefix").Text()
		if prefix == "" || !number.Is(wire.Number) {
			return property{raw: number.Raw()}
		}
		return textProperty(prefix + "-" + number.Scalar())
	case "verification":
		return textOrNull(v.Get("state"))
	case "button":
		return property{dropped: true}
	}
	if kind == "" {
		v = p
	}
	return property{raw: v.Raw()}
}

func nameOf(user tree.Value) string {
	return user.First("name", "id").Text()
}

// list returns a property with the texts of v's elements. It leaves out
// elements without a text.
func list(v tree.Value, text func(tree.Value) string) property {
	p := property{many: true}
	for e := range v.Elements() {
		if t := text(e); t != "" {
			p.texts = append(p.texts, t)
		}
	}
	return p
}

// shown returns a property as text, or "" if it has none.
func (p *property) shown() string {
	switch {
	case p.dropped:
		return ""
	case p.text != nil:
		return *p.text
	case p.many:
		return strings.Join(p.texts, ", ")
	case len(p.raw) == 0 || string(p.raw) == "null":
		return ""
	}
	if inner, ok := wire.Inner(p.raw); ok {
		return string(wire.AppendUnescaped(nil, inner))
	}
	return string(wire.AppendCompact(nil, p.raw))
}

// appendJSON writes the property as a JSON value.
func (p *property) appendJSON(dst []byte) []byte {
	switch {
	case p.text != nil:
		return wire.AppendQuoted(dst, *p.text)
	case p.many:
		return wire.AppendStrings(dst, p.texts)
	case len(p.raw) == 0:
		return append(dst, "null"...)
	}
	return wire.AppendCompact(dst, p.raw)
}
