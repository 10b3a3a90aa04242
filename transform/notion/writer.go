package notion

import (
	"bytes"
	"strings"
	"unicode"

	"github.com/dragoman-proxy/dragoman/transform/tree"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// writer writes lines of Markdown, each after the prefix of the containers it
// stands in.
type writer struct {
	out    []byte
	prefix []byte // indent and quote marks of the lines that follow
	at     place
}

// part says what was written last in a container.
type part int

const (
	begun     part = iota // nothing: the next part continues the line
	bare                  // a list item's mark, without text
	itemText              // a list item's own text
	item                  // a list item
	paragraph             // any other block
)

// place says where the writer is in the current container.
type place struct {
	last     part
	counting bool // the last part was an item with a number
	number   int
}

// separate ends the part before next with a line break, and adds a blank line
// unless both are list items.
func (w *writer) separate(next part) {
	switch last := w.at.last; {
	case last == begun:
	case last == bare, next == item && (last == item || last == itemText):
		w.newline()
	default:
		w.blankLine()
	}
	w.at.last = next
}

func (w *writer) newline() {
	w.out = append(append(w.out, '\n'), w.prefix...)
}

func (w *writer) blankLine() {
	w.out = append(append(w.out, '\n'), bytes.TrimRight(w.prefix, " ")...)
	w.newline()
}

// add writes text, whose lines after the first begin with the prefix.
func (w *writer) add(text string) {
	for {
		line, rest, more := strings.Cut(text, "\n")
		w.out = append(w.out, line...)
		if !more {
			return
		}
		w.out = append(w.out, '\n')
		if rest == "" || rest[0] == '\n' {
			w.out = append(w.out, bytes.TrimRight(w.prefix, " ")...)
		} else {
			w.out = append(w.out, w.prefix...)
		}
		text = rest
	}
}

// within calls write for the content of a container whose lines begin with
// more.
func (w *writer) within(more string, first part, write func()) {
	outer, length := w.at, len(w.prefix)
	w.at = place{last: first}
	w.prefix = append(w.prefix, more...)
	write()
	w.prefix, w.at = w.prefix[:length], outer
}

// lineBreaks makes every line break a newline: a lone carriage return would
// begin a line that has no prefix.
func lineBreaks(text string) string {
	if strings.IndexByte(text, '\r') < 0 {
		return text
	}
	return strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
}

// oneLine puts a blank in the place of every line break.
func oneLine(text string) string {
	if !strings.ContainsAny(text, "\r\n") {
		return text
	}
	return strings.NewReplacer("\r\n", " ", "\r", " ", "\n", " ").Replace(text)
}

// printable returns a text of the API's own, such as an id or a cursor, without
// control characters.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, text)
}

// label returns a name or an id for a note in brackets: at most 64 bytes of
// letters, digits, blanks, - and _.
func label(name string) string {
	const most = 64
	name = strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r == ' ' || unicode.IsLetter(r) || unicode.IsDigit(r) {
			return r
		}
		return -1
	}, name)
	if len(name) > most {
		name = strings.ToValidUTF8(name[:most], "")
	}
	return name
}

// converter writes Markdown.
type converter struct {
	writer
	options Options
	depth   int // of indents and quotes
	scratch []byte
	spans   []span
}

// paragraph writes a text as a block of its own. It writes nothing for "".
func (c *converter) paragraph(text string) {
	if text == "" {
		return
	}
	c.separate(paragraph)
	c.add(text)
}

// childrenOf returns the array of blocks below b, and the object that it came
// in, if any. loaded is false if b has children that were not delivered.
func childrenOf(b, p tree.Value) (list tree.Value, more tree.Value, loaded bool) {
	for _, m := range []tree.Value{b.Get("children"), p.Get("children")} {
		wrapper := tree.Value{}
		if m.Is(wire.Object) && m.Get("results").Is(wire.Array) {
			m, wrapper = m.Get("results"), m
		}
		if m.Is(wire.Array) && !m.Empty() {
			return m, wrapper, true
		}
	}
	return tree.Value{}, tree.Value{}, !b.Get("has_children").True()
}

// footer says how to read the next page, if a list has more pages.
func (c *converter) footer(wrapper tree.Value) {
	cursor := wrapper.Get("next_cursor")
	if !wrapper.Get("has_more").True() && cursor.Text() == "" {
		return
	}
	c.separate(paragraph)
	c.add("[more blocks: next_cursor=" + printable(cursor.Text()) + "]")
}

// apart separates the list items before it from those after it.
func (c *converter) apart() {
	if c.at.last == item {
		c.at.last = paragraph
	}
	c.at.counting = false
}

// span is a run of text of one style.
type span struct {
	text  []byte
	style style
	link  string
}

// style is a set of annotations.
type style uint8
