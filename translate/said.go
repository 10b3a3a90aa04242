package translate

import (
	"slices"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// said is what the blocks of a result say. Servers repeat it in structuredContent: the blocks themselves, the values of which a
// text block has the JSON, or the texts, alone, as the elements of an array, or as members of an object.
type said struct {
	blocks  []saidBlock
	data    map[string]struct{} // the base64 of images, audio and resources, raw
	scratch []byte              // for texts that are compared
	budget  int                 // how many more bytes may be compared: what is not found within it counts as new
}

// saidBlock is one block, as the server sent it.
type saidBlock struct {
	whole []byte
	text  []byte // of a text block, or of the resource in a block, without its quotes but with escapes; nil for none
	json  bool   // text is that of a text block, and may be JSON
}

// forget lets go of the message.
func (s *said) forget() {
	if cap(s.blocks) > mostKept {
		s.blocks = nil
	}
	if cap(s.scratch) > maxScratch {
		s.scratch = nil
	}
	clear(s.blocks[:cap(s.blocks)])
	s.blocks, s.data = s.blocks[:0], nil
}

const maxScratch = 64 << 10

// mostKept is for how many blocks the memory is kept for other messages.
const mostKept = 64

// leastCompared is how many bytes are compared at least, whatever the size of the result.
const leastCompared = 1 << 16

// read reads the blocks of content, which may be missing, for a value of size bytes.
func (s *said) read(content wire.Node, size int) {
	s.blocks, s.data = s.blocks[:0], nil
	if !content.OK() {
		return
	}
	s.budget = leastCompared + 8*(len(content.Raw())+size)
	for block := content.First(); block.OK(); block = block.Next() {
		b := saidBlock{whole: block.Raw()}
		if block.Kind() == '{' {
			isText := block.Get(wire.Type).Is("text")
			wire.Each(b.whole, func(name, value []byte) bool {
				switch string(name) {
				case "text":
					if raw, ok := wire.Inner(value); ok && isText {
						b.text, b.json = raw, true
					}
				case "data":
					s.addData(value)
				case "resource":
					s.readResource(&b, value)
				}
				return true
			})
		}
		s.blocks = append(s.blocks, b)
	}
}

// readResource reads the resource in a block.
func (s *said) readResource(b *saidBlock, resource []byte) {
	if resource[0] != '{' {
		return
	}
	wire.Each(resource, func(name, value []byte) bool {
		switch string(name) {
		case "text":
			b.text, _ = wire.Inner(value)
		case "blob":
			s.addData(value)
		}
		return true
	})
}

func (s *said) addData(value []byte) {
	raw, ok := wire.Inner(value)
	if !ok || len(raw) == 0 {
		return
	}
	if s.data == nil {
		s.data = map[string]struct{}{}
	}
	s.data[string(raw)] = struct{}{}
}

// isData reports whether a string, without its quotes, is the base64 of a block.
func (s *said) isData(raw []byte) bool {
	_, is := s.data[string(raw)]
	return is
}

// say reports whether the blocks say a value: one says it, or it is an array and they say its elements in this order.
func (s *said) say(value []byte) bool {
	block := mayBeBlock(value)
	for i := range s.blocks {
		if s.blocks[i].says(value, block, s) {
			return true
		}
	}
	if value[0] != '[' {
		return false
	}
	next, found := 0, false
	wire.Each(value, func(_, e []byte) bool {
		block := mayBeBlock(e)
		for ; next < len(s.blocks) && !s.blocks[next].says(e, block, s); next++ {
		}
		found = next < len(s.blocks)
		next++
		return found
	})
	return found
}

// mayBeBlock reports whether a value has a type, as each block has.
func mayBeBlock(value []byte) bool { return value[0] == '{' && wire.Member(value, "type") != nil }

// says reports whether the block is the value, which may be one, has its JSON as its text, or is that text.
func (b *saidBlock) says(value []byte, mayBeBlock bool, s *said) bool {
	if s.budget -= min(len(b.whole), len(value)) + 1; s.budget < 0 {
		return false
	}
	inner, isText := wire.Inner(value)
	switch {
	case mayBeBlock && wire.Equal(b.whole, value):
		return true
	case isText && b.text != nil && wire.SameText(b.text, inner):
		return true
	case !b.json || !mayBegin(b.text, value[0]):
		return false
	}
	if s.budget -= len(b.text); s.budget < 0 {
		return false
	}
	s.scratch = wire.AppendUnescaped(slices.Grow(s.scratch[:0], len(b.text)), b.text)
	return wire.Valid(s.scratch) && wire.Equal(s.scratch, value)
}

// mayBegin reports whether the JSON of a value that begins with c may be a text, given with its escapes.
func mayBegin(raw []byte, c byte) bool {
	digit := func(c byte) bool { return c == '-' || '0' <= c && c <= '9' }
	for _, b := range raw {
		switch {
		case b == '\\':
			return true // it is white space or a quote, in the texts of servers
		case b > ' ':
			return b == c || digit(b) && digit(c)
		}
	}
	return false
}

// appendNew appends the compact JSON of a value, escaped for the inside of a JSON string, without those of its members that the
// blocks say, and reports whether anything is left. The base64 of a block is not repeated wherever it is.
func (s *said) appendNew(dst, value []byte) (out []byte, isNew bool) {
	if value[0] != '{' || len(s.blocks) == 0 {
		return s.appendText(dst, value), true
	}
	dst = append(dst, '{')
	members := 0
	wire.EachMember(value, func(member, of []byte) bool {
		members++
		if inner, isText := wire.Inner(of); isText && s.isData(inner) || s.say(of) {
			return true
		}
		if isNew {
			dst = append(dst, ',')
		}
		isNew = true
		dst = s.appendText(dst, member)
		return true
	})
	return append(dst, '}'), isNew || members == 0
}

// appendText appends compact JSON, escaped for the inside of a JSON string, without the base64 of blocks.
func (s *said) appendText(dst, value []byte) []byte {
	if len(s.data) == 0 {
		return wire.AppendCompactQuoted(dst, value)
	}
	at := 0
	for from, to := range wire.Strings(value) {
		if s.isData(value[from:to]) {
			dst = append(wire.AppendCompactQuoted(dst, value[at:from-1]), `\"[base64 omitted]\"`...)
			at = to + 1
		}
	}
	return wire.AppendCompactQuoted(dst, value[at:])
}
