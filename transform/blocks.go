package transform

import (
	"bytes"
	"slices"

	"github.com/dragoman-proxy/dragoman/transform/tree"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// ownMeta is the key of this package's entry in _meta.
const ownMeta = "dragoman/transform"

// span is a place in a result; the zero span is no place.
type span struct{ pos, end uint32 }

func (s span) of(raw []byte) []byte { return raw[s.pos:s.end] }
func (s span) is() bool             { return s.end > 0 }

func spanOf(pos, end int) span { return span{uint32(pos), uint32(end)} }

// kind says which part of a block counts.
type kind uint8

const (
	textBlock   kind = iota // its text, or that of an embedded resource
	wholeBlock              // all of its JSON: links, and blocks of unknown types
	mediaBlock              // nothing: images, audio, resources without text
	noticeBlock             // its text, which is a notice that this package added earlier
)

// A block is an element of a result's list of content.
type block struct {
	span
	text  span // the string that holds its text, quotes and all
	kind  kind
	plain bool // a text block, without a resource or message around the text
}

// isText reports whether a block has a text that may be cut.
func (b *block) isText() bool { return b.kind == textBlock && b.text.end-b.text.pos > 2 }

// A layout holds the places of the parts of a result. If a member occurs twice,
// the last one counts.
type layout struct {
	raw        []byte
	list       string // the name of the list of content
	content    span   // that list
	blocks     []block
	skipped    skipped
	structured span
	meta       span
	isError    bool
}

// listName returns the name of the member in which the results of a method have
// their content.
func listName(method string) string {
	switch method {
	case "resources/read":
		return "contents"
	case "prompts/get":
		return "messages"
	}
	return "content"
}

// skipped counts what a layout leaves out: blocks that there will be no room
// for.
type skipped struct {
	texts, links int // how many
	bytes        int
}

// lay finds the parts of a result, which is valid JSON: all images and audio,
// and of texts and links the first ones, up to most of each.
func (l *layout) lay(raw []byte, method string, most int) {
	*l = layout{raw: raw, list: listName(method), blocks: l.blocks[:0]}
	start := tree.SkipSpace(raw, 0)
	if start == len(raw) || raw[start] != '{' {
		return
	}
	tree.Each(raw, start, func(name []byte, at int) (int, bool) {
		end := 0
		switch {
		case wire.IsText(name, l.list) && raw[at] == '[':
			l.blocks, l.skipped = l.blocks[:0], skipped{}
			texts, links := 0, 0
			end = tree.Each(raw, at, func(_ []byte, at int) (int, bool) {
				b, end := layBlock(raw, at)
				switch {
				case b.kind == textBlock && texts == most:
					l.skipped.texts++
					l.skipped.bytes += int(b.text.end - b.text.pos)
				case b.kind == wholeBlock && links == most:
					l.skipped.links++
					l.skipped.bytes += end - at
				default:
					if n := len(l.blocks); n == cap(l.blocks) {
						l.blocks = slices.Grow(l.blocks, max(4, n))
					}
					l.blocks = append(l.blocks, b)
				}
				switch {
				case b.kind == textBlock && texts < most:
					texts++
				case b.kind == wholeBlock && links < most:
					links++
				}
				return end, true
			})
			l.content = spanOf(at, end)
			return end, true
		}
		end = tree.SkipValue(raw, at)
		switch {
		case wire.IsText(name, "structuredContent"):
			l.structured = spanOf(at, end)
		case wire.IsText(name, "_meta"):
			l.meta = spanOf(at, end)
		case wire.IsText(name, "isError"):
			l.isError = string(raw[at:end]) == "true"
		}
		return end, true
	})
}

// textLead is how a text block begins, as nearly all servers write it.
const textLead = `{"type":"text","text":"`

// layBlock reads the block at i: {type, text, …}, the contents of a resource
// without a type, or a message with a block in it.
func layBlock(raw []byte, i int) (b block, end int) {
	b.kind = wholeBlock
	if raw[i] != '{' {
		end = tree.SkipValue(raw, i)
		b.span = spanOf(i, end)
		return b, end
	}
	if bytes.HasPrefix(raw[i:], []byte(textLead)) {
		at := i + len(textLead) - 1
		if end := tree.SkipString(raw, at); end < len(raw) && raw[end] == '}' { // the block has no other members
			b.kind, b.plain, b.text, b.span = textBlock, true, spanOf(at, end), spanOf(i, end+1)
			return b, end + 1
		}
	}
	var typ []byte
	var text, resource, message span
	typed, ours, twice := false, false, false
	end = tree.Each(raw, i, func(name []byte, at int) (int, bool) {
		end := tree.SkipValue(raw, at)
		switch {
		case wire.IsText(name, "type"):
			twice = twice || typed
			typed = true
			typ, _ = wire.Inner(raw[at:end])
		case wire.IsText(name, "text"):
			twice = twice || text.is()
			text = spanOf(at, end)
		case wire.IsText(name, "resource"):
			twice = twice || resource.is()
			resource = spanOf(at, end)
		case wire.IsText(name, "content"):
			twice = twice || message.is()
			message = spanOf(at, end)
		case wire.IsText(name, "_meta"):
			ours = tree.Member(raw[at:end], ownMeta) != nil
		}
		return end, true
	})
	b.span = spanOf(i, end)
	isText := text.is() && raw[text.pos] == '"'
	switch {
	case twice: // which one the client reads is unknown
	case wire.IsText(typ, "text") && isText:
		b.kind, b.text, b.plain = textBlock, text, true
		if ours {
			b.kind = noticeBlock
		}
	case wire.IsText(typ, "resource") && resource.is() && raw[resource.pos] == '{':
		inner, _ := layBlock(raw, int(resource.pos))
		b.kind, b.text = inner.kind, inner.text
	case wire.IsText(typ, "image"), wire.IsText(typ, "audio"):
		b.kind = mediaBlock
	case !typed && isText: // of a resource
		b.kind, b.text = textBlock, text
		if ours {
			b.kind = noticeBlock
		}
	case !typed && message.is() && raw[message.pos] == '{':
		inner, _ := layBlock(raw, int(message.pos))
		b.kind, b.text = inner.kind, inner.text
	case !typed && !text.is():
		b.kind = mediaBlock
	}
	return b, end
}

// textOf returns the text of a block.
func (l *layout) textOf(b *block) []byte {
	raw, _ := wire.Inner(b.text.of(l.raw))
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw
	}
	return wire.AppendUnescaped(make([]byte, 0, len(raw)), raw)
}

// A rewrite says how the parts of a result change.
type rewrite struct {
	texts      [][]byte // the new text, by block; nil for the one it had
	gone       []bool   // the blocks to leave out, by block; nil if there are none
	structured []byte   // the new structured content
	strip      bool     // leave out the structured content
	last       []byte   // a block after the others
	meta       []byte   // this package's entry in _meta
}

func (w *rewrite) nothing() bool {
	return w.texts == nil && w.gone == nil && w.structured == nil && !w.strip && w.last == nil && w.meta == nil
}

// append appends the result, rewritten.
func (l *layout) append(dst []byte, w *rewrite) []byte {
	raw := l.raw
	dst = append(dst, '{')
	tree.Each(raw, tree.SkipSpace(raw, 0), func(name []byte, at int) (int, bool) {
		end := l.endOf(at)
		here := spanOf(at, end)
		switch {
		case wire.IsText(name, l.list) && l.content.is():
			if here == l.content {
				dst = wire.AppendKey(dst, name)
				dst = l.appendBlocks(dst, w)
			}
		case wire.IsText(name, "structuredContent"):
			switch {
			case w.strip || here != l.structured:
			case w.structured != nil:
				dst = wire.AppendKey(dst, name)
				dst = append(dst, w.structured...)
			default:
				dst = wire.AppendKey(dst, name)
				dst = append(dst, raw[at:end]...)
			}
		case wire.IsText(name, "_meta"):
			if here == l.meta {
				dst = wire.AppendKey(dst, name)
				dst = appendMeta(dst, raw[at:end], w.meta)
			}
		default:
			dst = wire.AppendKey(dst, name)
			dst = append(dst, raw[at:end]...)
		}
		return end, true
	})
	if !l.content.is() && w.last != nil {
		dst = wire.AppendKey(dst, l.list)
		dst = append(append(append(dst, '['), w.last...), ']')
	}
	if !l.meta.is() && w.meta != nil {
		dst = wire.AppendKey(dst, "_meta")
		dst = appendMeta(dst, []byte("{}"), w.meta)
	}
	return append(dst, '}')
}

// endOf returns where the member's value at i ends. It does not scan the
// content and the structured content again.
func (l *layout) endOf(i int) int {
	for _, s := range [...]span{l.content, l.structured} {
		if s.is() && int(s.pos) == i {
			return int(s.end)
		}
	}
	return tree.SkipValue(l.raw, i)
}

func (l *layout) appendBlocks(dst []byte, w *rewrite) []byte {
	dst = append(dst, '[')
	for i := range l.blocks {
		b := &l.blocks[i]
		if w.gone != nil && w.gone[i] {
			continue
		}
		dst = wire.Comma(dst)
		if w.texts == nil || w.texts[i] == nil {
			dst = append(dst, b.of(l.raw)...)
			continue
		}
		dst = append(dst, l.raw[b.pos:b.text.pos]...)
		dst = wire.AppendQuoted(dst, w.texts[i])
		dst = append(dst, l.raw[b.text.end:b.end]...)
	}
	if w.last != nil {
		dst = wire.Comma(dst)
		dst = append(dst, w.last...)
	}
	return append(dst, ']')
}

// appendMeta appends a _meta with this package's entry; the other entries stay.
func appendMeta(dst, old, ours []byte) []byte {
	if old[0] != '{' {
		old = []byte("{}")
	}
	dst = append(dst, '{')
	tree.Each(old, 0, func(name []byte, at int) (int, bool) {
		end := tree.SkipValue(old, at)
		if ours != nil && wire.IsText(name, ownMeta) {
			return end, true
		}
		dst = wire.AppendKey(dst, name)
		dst = append(dst, old[at:end]...)
		return end, true
	})
	if ours != nil {
		dst = wire.AppendKey(dst, ownMeta)
		dst = append(dst, ours...)
	}
	return append(dst, '}')
}

// compact returns a value without blanks, which is value itself if it has none.
func compact(value []byte) []byte {
	for i := 0; i < len(value); {
		switch c := value[i]; {
		case c == '"':
			i = tree.SkipString(value, i)
		case c <= ' ':
			return wire.AppendCompact(make([]byte, 0, len(value)), value)
		default:
			i++
		}
	}
	return value
}

// drop marks a block as gone.
func (w *rewrite) drop(l *layout, i int) {
	if w.gone == nil {
		w.gone = make([]bool, len(l.blocks))
	}
	w.gone[i] = true
}

// set gives a block a new text, which may be empty.
func (w *rewrite) set(l *layout, i int, text []byte) {
	if w.texts == nil {
		w.texts = make([][]byte, len(l.blocks))
	}
	if w.texts[i] = text; text == nil {
		w.texts[i] = []byte{}
	}
}
