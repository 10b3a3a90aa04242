package notion

import (
	"slices"

	"github.com/dragoman-proxy/dragoman/transform/tree"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// simplifier writes blocks and pages as JSON of the same root kind. For a block
// it writes the type, the text, other members that the block shows, and the
// children.
type simplifier struct {
	options Options
	out     []byte
}

func (s *simplifier) document(d document) {
	switch {
	case d.kind == aBlock:
		s.block(d.value)
	case d.kind == aPage:
		s.page(d.value, d.list)
	case d.wrapper.Present():
		s.out = append(s.out, `{"results":`...)
		s.list(d.list)
		for _, name := range []string{"next_cursor", "has_more"} {
			if m := d.wrapper.Get(name); m.Present() {
				s.name(name)
				s.out = wire.AppendCompact(s.out, m.Raw())
			}
		}
		s.out = append(s.out, '}')
	default:
		s.list(d.list)
	}
}

func (s *simplifier) list(v tree.Value) {
	s.out = append(s.out, '[')
	for e := range v.Elements() {
		if !e.Is(wire.Object) || hidden(e) {
			continue
		}
		s.out = wire.Comma(s.out)
		if isPage(e) || isDatabase(e) {
			s.page(e, tree.Value{})
		} else {
			s.block(e)
		}
	}
	s.out = append(s.out, ']')
}

// name begins a member of an object that has one already.
func (s *simplifier) name(name string) {
	s.out = append(s.out, ',')
	s.out = append(wire.AppendQuoted(s.out, name), ':')
}

func (s *simplifier) text(name, text string) {
	if text != "" {
		s.name(name)
		s.out = wire.AppendQuoted(s.out, text)
	}
}

func (s *simplifier) page(v, blocks tree.Value) {
	s.out = append(s.out, `{"id":`...)
	s.out = wire.AppendQuoted(s.out, v.Get("id").Text())
	if isDatabase(v) {
		s.text("object", v.Get("object").Text())
		s.text("title", titleOf(v))
		s.out = append(s.out, '}')
		return
	}
	s.text("title", titleOf(v))
	s.name("properties")
	s.out = append(s.out, '{')
	for p := range v.Get("properties").All() {
		value := propertyOf(p, s.options)
		if value.title || value.dropped {
			continue
		}
		s.out = wire.AppendName(s.out, p.Key())
		s.out = value.appendJSON(s.out)
	}
	s.out = append(s.out, '}')
	if blocks.Present() {
		s.name("blocks")
		s.list(blocks)
	}
	s.out = append(s.out, '}')
}

// shownMembers returns the members that blocks of some types show beside a
// text.
func shownMembers() []string {
	return []string{"checked", "language", "expression", "url", "title", "list_start_index", "table_width", "has_column_header", "has_row_header"}
}

func (s *simplifier) block(b tree.Value) {
	kind := b.Get("type").Text()
	p := b.Get(kind)
	s.out = append(s.out, `{"type":`...)
	s.out = wire.AppendQuoted(s.out, kind)
	s.text("text", plain(p.Get("rich_text"), p.Get("text")))
	for m := range p.All() {
		if slices.Contains(shownMembers(), m.Key()) && m.Scalar() != "" {
			s.name(m.Key())
			s.out = wire.AppendCompact(s.out, m.Raw())
		}
	}
	s.text("caption", plain(p.Get("caption"), tree.Value{}))
	switch kind {
	case "image", "video", "audio", "file", "pdf":
		s.text("file", fileAddress(p, s.options.KeepSigned))
	case "child_page", "child_database":
		s.text("id", b.Get("id").Text())
	case "table_row":
		s.name("cells")
		s.out = append(s.out, '[')
		for cell := range p.Get("cells").Elements() {
			s.out = wire.Comma(s.out)
			s.out = wire.AppendQuoted(s.out, plain(cell, tree.Value{}))
		}
		s.out = append(s.out, ']')
	}
	switch list, wrapper, loaded := childrenOf(b, p); {
	case !loaded:
		s.text("children_not_loaded", b.Get("id").Text())
	case list.Present():
		s.name("children")
		s.list(list)
		s.text("next_cursor", wrapper.Get("next_cursor").Text())
	}
	s.out = append(s.out, '}')
}
