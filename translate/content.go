package translate

import (
	"slices"
	"strconv"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// audioToText replaces an audio block with a text block that names the type and the size of the audio (C10).
func audioToText(x *pass, block wire.Node) {
	if !block.Get(wire.Type).Is("audio") {
		return
	}
	x.lost(block, wire.Warn)
	x.toText(block, func(dst []byte) []byte { return appendOmitted(dst, "audio", block) })
}

// appendOmitted appends a text such as "[audio omitted: audio/wav, 4 bytes]", escaped for the inside of a JSON
// string.
func appendOmitted(dst []byte, what string, block wire.Node) []byte {
	dst = append(dst, '[')
	dst = append(dst, what...)
	dst = append(dst, " omitted: "...)
	if mime, ok := nonEmpty(block.Get(wire.MimeType)); ok {
		dst = append(dst, mime...)
	} else {
		dst = append(dst, "unknown type"...)
	}
	dst = append(dst, ", "...)
	data, _ := block.Get(wire.Data).Text()
	if n, ok := decodedLen(data); ok {
		dst = strconv.AppendInt(dst, int64(n), 10)
		dst = append(dst, " bytes]"...)
		return dst
	}
	dst = strconv.AppendInt(dst, int64(textLen(data)), 10)
	return append(dst, " base64 characters]"...)
}

var base64Char = func() (is [256]bool) {
	for _, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/" {
		is[c] = true
	}
	return is
}()

// decodedLen returns the decoded length in bytes of a base64 string, given without its quotes. ok is false if
// the string is not standard base64 with padding.
func decodedLen(raw []byte) (n int, ok bool) {
	chars := 0
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		if c == '\\' && i+1 < len(raw) && raw[i+1] == '/' { // some JSON writers escape slashes
			i++
			c = '/'
		}
		if !base64Char[c] {
			pad := len(raw) - i
			if c != '=' || pad > 2 || pad == 2 && raw[i+1] != '=' || (chars+pad)%4 != 0 {
				return 0, false
			}
			return (chars+pad)/4*3 - pad, true
		}
		chars++
	}
	return chars / 4 * 3, chars%4 == 0
}

// textLen counts the characters of a JSON string, given without its quotes. An escape counts as one character.
func textLen(raw []byte) (n int) {
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '\\' && raw[i+1] == 'u':
			i += 5
		case c == '\\':
			i++
		case c&0xC0 == 0x80: // a continuation byte of UTF-8
			continue
		}
		n++
	}
	return n
}

// linkToText turns a resource link into a text block that says the same. It does not become an embedded resource, whose content
// would have to be read first (C11).
func linkToText(x *pass, block wire.Node) {
	if !block.Get(wire.Type).Is("resource_link") {
		return
	}
	x.moved(block, wire.Warn)
	for c := block.First(); c.OK(); c = c.Next() {
		if c.Name() == wire.Icons || c.Name() == wire.Meta { // the text does not say them: their rules count what is lost
			x.visitMember(c)
		}
	}
	x.toText(block, func(dst []byte) []byte {
		label, ok := nonEmpty(block.Get(wire.Title))
		if !ok {
			label, _ = block.Get(wire.NameKey).Text()
		}
		uri, _ := block.Get(wire.URI).Text()
		dst = append(dst, "[resource link: "...)
		dst = append(dst, label...)
		dst = append(dst, "] "...)
		dst = append(dst, uri...)
		mime, hasMime := nonEmpty(block.Get(wire.MimeType))
		size := block.Get(wire.Size)
		hasSize := size.OK() && (size.Kind() == '-' || size.Kind()-'0' <= 9)
		switch {
		case hasMime && hasSize:
			dst = append(append(dst, " ("...), mime...)
			dst = append(append(dst, ", "...), size.Raw()...)
			dst = append(dst, " bytes)"...)
		case hasMime:
			dst = append(append(append(dst, " ("...), mime...), ')')
		case hasSize:
			dst = append(append(append(dst, " ("...), size.Raw()...), " bytes)"...)
		}
		if description, ok := nonEmpty(block.Get(wire.Description)); ok {
			dst = append(append(dst, " - "...), description...)
		}
		return dst
	})
}

// stripLinkIcons removes the icons of a resource link (C05).
func stripLinkIcons(x *pass, icons wire.Node) {
	if icons.Parent().Get(wire.Type).Is("resource_link") {
		strip(x, icons)
	}
}

// toText replaces a block with a text block. It keeps the annotations that the receiver's revision knows.
func (x *pass) toText(block wire.Node, text func(dst []byte) []byte) {
	annotations := block.Get(wire.Annotations)
	if annotations.OK() {
		x.visitMember(annotations)
	}
	w := append(x.m.Writer(), `{"type":"text","text":"`...)
	w = append(text(w), '"')
	if annotations.OK() && !annotations.Removed() {
		w = append(w, `,"annotations":`...)
		w = annotations.AppendNode(w)
	}
	block.Put(append(w, '}'))
}

// stripLastModified removes `lastModified` from annotations, and annotations that had nothing else (C09).
func stripLastModified(x *pass, annotations wire.Node) {
	if annotations.Kind() != '{' {
		return
	}
	gone, kept := false, false
	for c := annotations.First(); c.OK(); c = c.Next() {
		if c.Name() != wire.LastModified {
			kept = true
			continue
		}
		strip(x, c)
		gone = true
	}
	if gone && !kept {
		x.lostAs("annotations", annotations, wire.Info)
		annotations.Remove()
	}
}

// structuredToText removes structured content and adds it as a text block, without what the blocks say already
// (C04, S1).
func structuredToText(x *pass, structured wire.Node) {
	if structured.Kind() == 'n' {
		x.lost(structured, wire.Info)
	} else {
		x.moved(structured, stripLevel(structured)) // the text says the same
	}
	result := structured.Parent()
	structured.Remove()
	value := structured.Raw()
	if string(value) == "null" {
		return
	}
	content := result.Get(wire.Content)
	if content.OK() && content.Kind() != '[' {
		x.fail(content, errNotArray)
		return
	}
	x.said.read(content, len(value))
	if x.said.say(value) {
		return
	}
	w := x.m.Writer()
	if !content.OK() {
		w = append(w, `"content":[`...)
	}
	w = append(w, `{"type":"text","text":"`...)
	w, isNew := x.said.appendNew(w, value)
	if !isNew {
		return
	}
	w = append(w, `"}`...)
	if !content.OK() {
		structured.Swap(append(w, ']'))
		return
	}
	content.Add(w)
}

// unescaped returns the text of a JSON string, given without its quotes. The text is valid until the next call.
func (x *pass) unescaped(raw []byte) []byte {
	x.scratch = wire.AppendUnescaped(slices.Grow(x.scratch[:0], len(raw)), raw)
	return x.scratch
}
