package notion

import (
	"cmp"
	"iter"
	"strings"
	"unicode"

	"github.com/dragoman-proxy/dragoman/transform/tree"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

const (
	code style = 1 << iota
	bold
	italic
	strikethrough
	underline
	equation
)

// text returns the rich text of a block. Before 2022, its member was called
// text.
func (c *converter) text(payload tree.Value, where setting) string {
	return c.rich(payload.Get("rich_text"), payload.Get("text"), where)
}

// rich returns an array of rich text items as Markdown, without blanks around
// it. It reads older if items is neither an array nor a string.
func (c *converter) rich(items, older tree.Value, where setting) string {
	c.spans = c.spans[:0]
	for e := range each(items, older) {
		if s := spanOf(e, c.options.HTML); len(s.text) > 0 {
			c.join(s)
		}
	}
	return c.markdown(where)
}

// each yields the items of a rich text, which may also be a single string.
func each(items, older tree.Value) iter.Seq[tree.Value] {
	if !items.Is(wire.Array) && !items.Is(wire.String) {
		items = older
	}
	if items.Is(wire.String) {
		return func(yield func(tree.Value) bool) { yield(items) }
	}
	return items.Elements()
}

// literal returns a plain text as Markdown.
func (c *converter) literal(text string, where setting) string {
	c.spans = append(c.spans[:0], span{text: []byte(text)})
	return c.markdown(where)
}

// join appends s to the spans, or its text to the last span if both have the
// same style and link.
func (c *converter) join(s span) {
	if n := len(c.spans); n > 0 && s.style&equation == 0 {
		if last := &c.spans[n-1]; last.style == s.style && last.link == s.link {
			last.text = append(last.text, s.text...)
			return
		}
	}
	c.spans = append(c.spans, s)
}

// spanOf reads one rich text item.
func spanOf(v tree.Value, html bool) (s span) {
	if v.Is(wire.String) {
		return span{text: []byte(v.Text())}
	}
	text := v.Get("plain_text").Text()
	s.link = v.First("href").Text()
	switch v.Get("type").Text() {
	case "equation":
		s.style = equation
		if text == "" {
			text = v.Get("equation", "expression").Text()
		}
	case "mention":
		text, s.link = mention(v.Get("mention"), text)
	default:
		if text == "" {
			text = v.Get("text", "content").Text()
		}
		if s.link == "" {
			s.link = v.Get("text", "link", "url").Text()
		}
	}
	s.text = []byte(text)
	a := v.Get("annotations")
	for _, known := range []struct {
		name string
		bit  style
	}{{"code", code}, {"bold", bold}, {"italic", italic}, {"strikethrough", strikethrough}, {"underline", underline}} {
		if a.Get(known.name).True() && (known.bit != underline || html) {
			s.style |= known.bit
		}
	}
	if s.style&equation != 0 {
		s.style &^= code
	}
	return s
}

// mention returns what a mention shows, and its link.
func mention(m tree.Value, text string) (shown, link string) {
	kind := m.Get("type").Text()
	p := m.Get(kind)
	or := func(text string, instead ...tree.Value) string {
		for _, v := range instead {
			if text == "" {
				text = v.Text()
			}
		}
		return text
	}
	switch kind {
	case "user":
		name := p.Get("name").Text()
		if name == "" {
			name = or(strings.TrimPrefix(text, "@"), p.Get("id"))
		}
		return "@" + name, ""
	case "date":
		start, end := p.Get("start").Text(), p.Get("end").Text()
		switch {
		case start == "":
			return text, ""
		case end == "":
			return start, ""
		}
		return start + " → " + end, ""
	case "page", "database", "data_source":
		id := printable(p.Get("id").Text())
		text = cmp.Or(text, kind)
		if id == "" {
			return text, ""
		}
		return text, "notion:" + id
	case "link_preview":
		return or(text, p.Get("url")), p.Get("url").Text()
	case "link_mention":
		url := p.First("href", "url")
		return or(p.Get("title").Text(), url, tree.Value{}), url.Text()
	case "template_mention":
		if text == "" {
			text = "@" + or("", p.Get("template_mention_date"), p.Get("template_mention_user"))
		}
		return text, ""
	case "custom_emoji":
		name := p.Get("name").Text()
		if name == "" {
			return text, ""
		}
		return ":" + strings.Trim(name, ":") + ":", ""
	}
	return text, ""
}

// plain returns the text of an array of rich text items, without annotations.
// It reads older if items is neither an array nor a string.
func plain(items, older tree.Value) string {
	var b strings.Builder
	for e := range each(items, older) {
		b.Write(spanOf(e, false).text)
	}
	return b.String()
}

// markdown writes the spans, each line of a span with marks of its own, so that
// no mark reaches beyond its paragraph.
func (c *converter) markdown(where setting) string {
	out := c.scratch[:0]
	lineStart := where == inBlock
	for i, s := range c.spans {
		text := lineBreaks(string(s.text))
		if where == inHeading || where == inLink || s.style&equation != 0 {
			text = oneLine(text)
		}
		beforeLink := i+1 < len(c.spans) && c.spans[i+1].link != ""
		for n := 0; ; n++ {
			line, rest, more := strings.Cut(text, "\n")
			if n > 0 && where == inCell {
				out = append(out, "<br>"...)
			} else if n > 0 {
				out = append(out, '\n')
				lineStart = true
			}
			at := len(out)
			out = c.appendSpan(out, line, s, spot{where: where, lineStart: lineStart, beforeLink: beforeLink && !more})
			lineStart = lineStart && len(out) == at
			if !more {
				break
			}
			text = rest
		}
	}
	c.scratch = out[:0]
	if cap(out) > maxScratch {
		c.scratch = nil
	}
	return strings.TrimFunc(string(out), unicode.IsSpace)
}

// maxScratch is the largest buffer to keep for the next text.
const maxScratch = 64 << 10

// appendSpan writes one line of a span. Blanks at its ends go outside the
// marks, because marks beside blanks are not taken for marks.
func (c *converter) appendSpan(out []byte, line string, s span, at spot) []byte {
	core := strings.TrimLeftFunc(line, unicode.IsSpace)
	if lead := line[:len(line)-len(core)]; !at.lineStart {
		out = append(out, lead...) // four blanks at the start of a line make it code
	}
	line = core
	core = strings.TrimRightFunc(line, unicode.IsSpace)
	if core == "" {
		return out
	}
	inner := at
	if s.style != 0 || s.link != "" {
		inner.lineStart = false
	}
	if s.link != "" {
		inner.where = max(inner.where, inHeading)
		out = c.appendLink(out, core, s, inner)
	} else {
		out = c.appendMarked(out, core, s.style, inner, false)
	}
	return append(out, line[len(core):]...)
}

func (c *converter) appendLink(out []byte, text string, s span, at spot) []byte {
	if text == s.link && s.style == 0 && absolute(text) {
		return append(append(append(out, '<'), address(text, at.where)...), '>')
	}
	out = c.appendMarked(append(out, '['), text, s.style, at, true)
	return append(append(append(out, "]("...), address(s.link, at.where)...), ')')
}

// appendMarked writes text within the marks of its style.
func (c *converter) appendMarked(out []byte, text string, st style, at spot, linked bool) []byte {
	marks := make([]string, 0, 4)
	mark := func(bit style, open, shut string) {
		if st&bit != 0 {
			out = append(out, open...)
			marks = append(marks, shut)
		}
	}
	mark(underline, "<u>", "</u>")
	mark(strikethrough, "~~", "~~")
	mark(italic, "*", "*")
	mark(bold, "**", "**")
	switch {
	case st&code != 0:
		out = appendCode(out, text, at.where)
	case st&equation != 0:
		out = append(out, '$')
		out = append(out, strings.NewReplacer("$", `\$`, "|", bar(at.where)).Replace(text)...)
		out = append(out, '$')
	default:
		out = c.escape(out, text, at, linked || at.where == inLink)
	}
	for i := len(marks) - 1; i >= 0; i-- {
		out = append(out, marks[i]...)
	}
	return out
}

// appendCode writes a code span, in which a backslash escapes nothing:
// https://spec.commonmark.org/0.31.2/#code-spans
func appendCode(out []byte, text string, where setting) []byte {
	fence := strings.Repeat("`", longestRun(text, '`')+1)
	blank := ""
	if text[0] == '`' || text[len(text)-1] == '`' {
		blank = " "
	}
	if where == inCell {
		text = strings.ReplaceAll(text, "|", `\|`) // a table is parsed before its code spans
	}
	return append(out, fence+blank+text+blank+fence...)
}

// bar returns a vertical bar as it is written in a setting.
func bar(where setting) string {
	if where == inCell {
		return `\|`
	}
	return "|"
}

// longestRun returns the length of the longest run of c in text.
func longestRun(text string, c byte) (longest int) {
	run := 0
	for i := range len(text) {
		if text[i] != c {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	return longest
}
