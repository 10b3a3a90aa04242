package notion

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/dragoman-proxy/dragoman/transform/tree"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// blocks writes the blocks of an array.
func (c *converter) blocks(list tree.Value) {
	var rows []tree.Value // of a table, delivered without it
	for e := range list.Elements() {
		switch {
		case !e.Is(wire.Object) || hidden(e):
		case e.Get("type").Text() == "table_row":
			rows = append(rows, e)
		default:
			c.strayRows(rows)
			rows = rows[:0]
			c.block(e)
		}
	}
	c.strayRows(rows)
}

// block writes one block and those below it.
func (c *converter) block(b tree.Value) {
	if hidden(b) {
		return
	}
	kind := b.Get("type").Text()
	p := b.Get(kind)
	if kind != "numbered_list_item" {
		c.at.counting = false
	}
	switch kind {
	case "paragraph":
		c.paragraph(c.text(p, inBlock))
		c.below(b, p)
	case "heading_1", "heading_2", "heading_3", "heading_4":
		if text := c.text(p, inHeading); text != "" {
			c.paragraph(strings.Repeat("#", int(kind[len(kind)-1]-'0')) + " " + text)
		}
		c.below(b, p)
	case "bulleted_list_item", "toggle":
		c.item("- ", b, p)
	case "numbered_list_item":
		c.numbered(b, p)
	case "to_do":
		if p.Get("checked").True() {
			c.item("- [x] ", b, p)
		} else {
			c.item("- [ ] ", b, p)
		}
	case "quote":
		c.quote("", b, p)
	case "callout":
		mark := ""
		if icon := p.Get("icon"); icon.Get("type").Text() == "emoji" {
			mark = oneLine(icon.Get("emoji").Text())
		}
		c.quote(mark, b, p)
	case "code":
		c.code(p)
	case "equation":
		c.equation(p.Get("expression").Text())
	case "divider":
		c.paragraph("---")
	case "table":
		c.table(b, p)
	case "table_row":
		c.strayRows([]tree.Value{b})
	case "image", "video", "audio", "file", "pdf":
		c.media(kind, p)
		c.below(b, p)
	case "bookmark", "embed", "link_preview":
		c.bookmark(kind, p)
	case "link_to_page":
		c.linkToPage(p)
	case "child_page", "child_database":
		c.childPage(kind, b, p)
	case "column_list", "column", "synced_block", "template", "tab":
		c.inlined(kind, b, p)
	case "table_of_contents", "breadcrumb":
	case "transcription", "meeting_notes":
		c.meeting(b, p)
	default:
		c.unknown(kind, b, p)
	}
}

// below writes the blocks below b, at its own level.
func (c *converter) below(b, p tree.Value) {
	list, wrapper, loaded := childrenOf(b, p)
	if !loaded {
		c.missing(b, paragraph)
		return
	}
	c.blocks(list)
	c.footer(wrapper)
}

// missing writes a note that b has children which were not delivered.
func (c *converter) missing(b tree.Value, as part) {
	c.separate(as)
	c.add("[children not loaded: " + label(b.Get("id").Text()) + "]")
}

// nested writes the blocks below b in a container whose lines begin with
// prefix. first is the part of the container that was written already.
func (c *converter) nested(prefix string, first part, b, p tree.Value) {
	if c.depth >= c.options.MaxNesting {
		prefix = ""
		if first == begun {
			first = paragraph // do not continue the line that has the container's mark
		}
	}
	c.depth++
	c.within(prefix, first, func() {
		list, wrapper, loaded := childrenOf(b, p)
		if !loaded {
			c.missing(b, item)
		}
		c.blocks(list)
		c.footer(wrapper)
	})
	c.depth--
}

// item writes a list item.
func (c *converter) item(mark string, b, p tree.Value) {
	c.separate(item)
	indent := "  " // a to-do's box is part of its text
	if mark[0] != '-' {
		indent = strings.Repeat(" ", len(mark))
	}
	text := c.text(p, inBlock)
	c.add(strings.TrimRight(mark, " "))
	first := bare
	if text != "" {
		first = itemText
		c.add(" ")
		c.within(indent, begun, func() { c.add(text) })
	}
	c.nested(indent, first, b, p)
}

// maxNumber is the greatest number that a list item may have:
// https://spec.commonmark.org/0.31.2/#ordered-list-marker
const maxNumber = 999_999_999

func (c *converter) numbered(b, p tree.Value) {
	number := c.at.number + 1
	if !c.at.counting {
		number = 1
		start, err := strconv.Atoi(p.Get("list_start_index").Scalar())
		if err == nil && start >= 0 && start <= maxNumber {
			number = start
		}
		if number != 1 && (c.at.last == item || c.at.last == itemText) {
			c.at.last = paragraph // only a list from 1 may follow without a blank line
		}
	}
	number = min(number, maxNumber)
	c.item(strconv.Itoa(number)+". ", b, p)
	c.at.number, c.at.counting = number, true
}

// quote writes a quote, or a callout after its mark.
func (c *converter) quote(mark string, b, p tree.Value) {
	text := c.text(p, inBlock)
	if mark != "" && text != "" {
		text = mark + " " + c.text(p, inLine)
	} else {
		text += mark
	}
	list, _, loaded := childrenOf(b, p)
	if text == "" && loaded && !list.Present() {
		return
	}
	c.separate(paragraph)
	c.add("> ")
	first := begun
	c.within("> ", begun, func() { c.add(text) })
	if text != "" {
		first = paragraph
	}
	c.nested("> ", first, b, p)
}

// code writes a fenced block. It escapes nothing in its text.
func (c *converter) code(p tree.Value) {
	text := lineBreaks(plain(p.Get("rich_text"), p.Get("text")))
	fence := strings.Repeat("`", max(3, longestRun(text, '`')+1))
	c.separate(paragraph)
	c.add(fence + language(p.Get("language").Text()))
	c.newline()
	if text != "" {
		c.add(text)
		c.newline()
	}
	c.add(fence)
	if caption := c.caption(p); caption != "" {
		c.newline()
		c.add("*" + caption + "*")
	}
}

// language returns the info string that follows a fence.
func language(name string) string {
	name = strings.ToLower(printable(strings.ReplaceAll(name, "`", "")))
	if name == "plain text" {
		return ""
	}
	return strings.TrimSpace(name)
}

func (c *converter) equation(expression string) {
	if expression = strings.Trim(lineBreaks(expression), "\n"); expression == "" {
		return
	}
	c.separate(paragraph)
	c.add("$$")
	for line := range strings.Lines(expression) {
		c.newline()
		line = strings.TrimRight(line, "\n")
		if bare := strings.TrimLeft(line, " \t"); strings.HasPrefix(bare, "```") || strings.HasPrefix(bare, "~~~") {
			line = "{}" + bare // {} means nothing to TeX, and the line is no fence
		}
		c.add(line)
	}
	c.newline()
	c.add("$$")
}

// inlined writes a block that only holds other blocks.
func (c *converter) inlined(kind string, b, p tree.Value) {
	from := p.Get("synced_from")
	if list, _, _ := childrenOf(b, p); kind == "synced_block" && from.Present() && !list.Present() {
		c.paragraph("[synced from " + label(from.First("block_id", "id").Text()) + "]")
		return
	}
	c.paragraph(c.text(p, inBlock))
	c.apart()
	c.below(b, p)
	c.apart()
}

func (c *converter) meeting(b, p tree.Value) {
	c.paragraph(c.rich(p.Get("title"), tree.Value{}, inBlock))
	list, wrapper, _ := childrenOf(b, p)
	summary := p.Get("summary")
	switch {
	case list.Present():
		c.blocks(list)
		c.footer(wrapper)
	case summary.Is(wire.Array) && listKind(summary) == blockList:
		c.blocks(summary)
	case summary.Is(wire.Array):
		c.paragraph(c.rich(summary, tree.Value{}, inBlock))
	case summary.Text() != "":
		c.paragraph(c.literal(summary.Text(), inBlock))
	default:
		c.paragraph("[meeting notes]")
	}
}

func (c *converter) unknown(kind string, b, p tree.Value) {
	if name := p.Get("block_type").Text(); kind == "unsupported" && name != "" {
		kind = name
	}
	switch text := c.text(p, inBlock); {
	case text != "":
		c.paragraph(text)
	case c.options.Unknown != "skip":
		if kind = label(kind); kind == "" {
			kind = "unknown"
		}
		c.paragraph("[unsupported: " + kind + "]")
	}
	c.below(b, p)
}

// childPage writes a link to a page inside this one, and those of its blocks
// that were delivered with it.
func (c *converter) childPage(kind string, b, p tree.Value) {
	title := cmp.Or(c.literal(p.Get("title").Text(), inLink), strings.TrimPrefix(kind, "child_"))
	c.paragraph("[" + title + "](notion:" + label(b.Get("id").Text()) + ")")
	list, wrapper, _ := childrenOf(b, p)
	c.blocks(list)
	c.footer(wrapper)
}

// strayRows writes rows that came without their table.
func (c *converter) strayRows(rows []tree.Value) {
	if len(rows) > 0 {
		c.at.counting = false
		c.rows(rows, 0, false, false)
	}
}

// table writes a table as GitHub does:
// https://github.github.com/gfm/#tables-extension-
func (c *converter) table(b, p tree.Value) {
	list, wrapper, _ := childrenOf(b, p)
	var rows, others []tree.Value
	for e := range list.Elements() {
		switch {
		case e.Get("type").Text() != "table_row":
			others = append(others, e)
		case !hidden(e):
			rows = append(rows, e)
		}
	}
	width, _ := strconv.Atoi(p.Get("table_width").Scalar())
	if len(rows) == 0 {
		c.paragraph(fmt.Sprintf("[table, %d columns, rows not loaded]", max(width, 0)))
	} else {
		c.rows(rows, width, p.Get("has_column_header").True(), p.Get("has_row_header").True())
	}
	for _, e := range others {
		c.block(e)
	}
	c.footer(wrapper)
}
