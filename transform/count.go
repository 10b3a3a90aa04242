package transform

import (
	"bytes"
	"math"
	"slices"

	"github.com/dragoman-proxy/dragoman/transform/tokens"
	"github.com/dragoman-proxy/dragoman/transform/tree"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// A tally counts what a model sees of a result: texts, links, structured
// content. It stops when the count is above its limit, and has then read little
// more than that.
type tally struct {
	encoding *tokens.Encoding
	left     int // tokens that may still come
	sum      int
	last     int // what was added last
	over     bool
	room     []byte
}

// result counts a result, which is valid JSON.
func (t *tally) result(raw []byte, method string) {
	start := tree.SkipSpace(raw, 0)
	if start == len(raw) || raw[start] != '{' {
		return
	}
	list := listName(method)
	tree.Each(raw, start, func(name []byte, at int) (int, bool) {
		end := 0
		switch {
		case wire.IsText(name, list) && raw[at] == '[':
			end = tree.Each(raw, at, func(_ []byte, at int) (int, bool) {
				end := t.block(raw, at)
				return end, !t.over
			})
		case wire.IsText(name, "structuredContent"):
			end = t.json(raw, at)
		default:
			end = tree.SkipValue(raw, at)
		}
		return end, !t.over
	})
}

// block counts the block at i. If the block's type comes before its text, the
// text is counted while it is read, so that the limit bounds the work.
func (t *tally) block(raw []byte, i int) (end int) {
	if bytes.HasPrefix(raw[i:], []byte(textLead)) {
		if end = t.text(raw, i+len(textLead)-1); t.over {
			return end
		}
		if end < len(raw) && raw[end] == '}' {
			return end + 1
		}
		t.undo() // the block has more members: read all of it
	}
	b, end := layBlock(raw, i)
	switch b.kind {
	case textBlock, noticeBlock:
		t.text(raw, int(b.text.pos))
	case wholeBlock:
		t.json(raw, i)
	}
	return end
}

// add counts a whole text.
func (t *tally) add(text []byte) {
	n, over := t.encoding.CountUpTo(text, t.left)
	t.spend(n, over)
}

func (t *tally) spend(n int, over bool) {
	t.last = n
	t.sum += n
	t.left -= n
	t.over = over || t.left < 0
}

// undo takes back what was counted last.
func (t *tally) undo() {
	t.sum -= t.last
	t.left += t.last
}

// part is how many bytes of a long text are read at a time.
const part = 4 << 10

// text counts the string at i and returns its end, or where it stopped if the
// limit is passed.
func (t *tally) text(raw []byte, i int) int {
	i++
	at := stringPart(raw, i, part)
	if at < len(raw) && raw[at] == '"' {
		t.add(t.unescape(raw[i:at]))
		return at + 1
	}
	c := t.encoding.Counter()
	defer c.Release()
	for {
		c.Write(t.unescape(raw[i:at]))
		if c.AtLeast() > t.left {
			t.spend(c.AtLeast(), true)
			return at
		}
		if at >= len(raw) || raw[at] == '"' {
			n := c.Sum()
			t.spend(n, n > t.left)
			return min(at+1, len(raw))
		}
		i = at
		at = stringPart(raw, i, part)
	}
}

// stringPart returns the end of a part of a string that begins at i and is
// about n bytes long: the string's end, or a place between two characters.
func stringPart(raw []byte, i, n int) int {
	from := i
	for i < len(raw) {
		next := tree.Care(raw[:min(len(raw), from+n)], i)
		if next >= from+n { // no end so far
			for next > i && next < len(raw) && raw[next]&0xC0 == 0x80 {
				next--
			}
			return next
		}
		if i = next; i >= len(raw) || raw[i] == '"' {
			return i
		}
		i += tree.CodePoint(raw[i:])
		if i-from >= n {
			return i
		}
	}
	return len(raw)
}

func (t *tally) unescape(raw []byte) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw
	}
	t.room = wire.AppendUnescaped(slices.Grow(t.room[:0], len(raw)), raw)
	return t.room
}

// json counts the value at i, without blanks, and returns its end.
func (t *tally) json(raw []byte, i int) int {
	if t.left < math.MaxInt32/maxTokenBytes {
		// Apart from blanks, bytes that are certainly past the limit are not
		// read.
		end, whole := tree.SkipSome(raw, i, maxTokenBytes*(t.left+1))
		value := compact(raw[i:end])
		if !whole && len(value) <= maxTokenBytes*t.left {
			end = tree.SkipValue(raw, i)
			value = compact(raw[i:end])
		}
		t.add(value)
		return end
	}
	end := tree.SkipValue(raw, i)
	t.add(compact(raw[i:end]))
	return end
}

// maxTokenBytes is at least the length of the longest token.
const maxTokenBytes = 128
