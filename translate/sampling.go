package translate

import (
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// refuseSamplingTools answers a sampling request that has tools, tool calls or tool results with an error if the
// client has no such capability. It removes an empty list of tools (C13).
func refuseSamplingTools(x *pass, params wire.Node) {
	if x.t.to.order >= rev20251125.order && x.m.Facts.Has(wire.ClientSamplingTools) {
		return
	}
	for c := params.First(); c.OK(); c = c.Next() {
		offers := c.Name() == wire.Tools && !c.Hollow()
		speaks := c.Name() == wire.Messages && speaksOfTools(c)
		if offers || speaks {
			x.lost(c, wire.Info)
			x.answerError(-32602, "Client does not support tools in sampling")
			return
		}
	}
	for c := params.First(); c.OK(); c = c.Next() {
		if c.Name() == wire.Tools || c.Name() == wire.ToolChoice {
			x.lostAs(c.Name().String(), c, stripLevel(c))
			c.Remove()
		}
	}
}

func speaksOfTools(messages wire.Node) bool {
	for msg := elements(messages); msg.OK(); msg = msg.Next() {
		for content := msg.First(); content.OK(); content = content.Next() {
			if content.Name() != wire.Content {
				continue
			}
			if ofTools(content) {
				return true
			}
			for block := elements(content); block.OK(); block = block.Next() {
				if ofTools(block) {
					return true
				}
			}
		}
	}
	return false
}

func ofTools(block wire.Node) bool {
	t := block.Get(wire.Type)
	return t.Is("tool_use") || t.Is("tool_result")
}

// splitMessage splits a sampling message with several blocks into messages of one block each (C12).
func splitMessage(x *pass, msg wire.Node) {
	content := msg.Get(wire.Content)
	if !content.OK() || content.Kind() != '[' {
		return
	}
	x.moved(content, wire.Warn) // each block has its own message
	first := content.First()
	if !first.OK() {
		content.Put(append(x.m.Writer(), `{"type":"text","text":""}`...))
		return
	}
	x.visitMember(content) // translates each block before it is moved
	if !first.Next().OK() {
		content.Put(first.AppendNode(x.m.Writer()))
		return
	}
	for c := msg.First(); c.OK(); c = c.Next() {
		if c.Name() != wire.Content {
			x.visitMember(c)
		}
	}
	w := x.m.Writer()
	for block := first; block.OK(); block = block.Next() {
		if len(w) > 0 {
			w = append(w, ',')
		}
		w = append(w, '{')
		for c := msg.First(); c.OK(); c = c.Next() {
			if c.Removed() || c.Name() == wire.Content && c != content {
				continue
			}
			w = wire.Comma(w)
			w = append(append(append(w, '"'), c.Key()...), `":`...)
			if c == content {
				w = block.AppendNode(w)
			} else {
				w = c.AppendNode(w)
			}
		}
		w = append(w, '}')
	}
	msg.Swap(w)
}

// joinAnswer joins the blocks of a sampling answer into one text block. It keeps a single block that is not about
// tools (C12).
func joinAnswer(x *pass, content wire.Node) {
	switch {
	case content.Kind() == '{' && ofTools(content):
		x.lost(content, wire.Warn)
		w := append(x.m.Writer(), `{"type":"text","text":"`...)
		content.Put(append(appendBlockText(w, content), `"}`...))
		return
	case content.Kind() != '[':
		return
	}
	first := content.First()
	alone := first.OK() && !first.Next().OK() && !ofTools(first)
	if alone || onlyTexts(first) {
		x.moved(content, wire.Warn)
	} else {
		x.lost(content, wire.Warn)
	}
	if alone {
		x.visitMember(first)
		content.Put(first.AppendNode(x.m.Writer()))
		return
	}
	w := append(x.m.Writer(), `{"type":"text","text":"`...)
	for block := first; block.OK(); block = block.Next() {
		if block != first {
			w = append(w, `\n`...)
		}
		w = appendBlockText(w, block)
	}
	content.Put(append(w, `"}`...))
}

// onlyTexts reports whether block and those behind it are texts and nothing else.
func onlyTexts(block wire.Node) bool {
	for ; block.OK(); block = block.Next() {
		if !block.Get(wire.Type).Is("text") {
			return false
		}
		for c := block.First(); c.OK(); c = c.Next() {
			if c.Name() != wire.Type && c.Name() != wire.Text {
				return false
			}
		}
	}
	return true
}

// appendBlockText appends a text that describes a block, escaped for the inside of a JSON string.
func appendBlockText(dst []byte, block wire.Node) []byte {
	kind, _ := block.Get(wire.Type).Text()
	switch {
	case wire.IsText(kind, "text"):
		text, _ := block.Get(wire.Text).Text()
		return append(dst, text...)
	case wire.IsText(kind, "image"), wire.IsText(kind, "audio"):
		return appendOmitted(dst, string(kind), block)
	case wire.IsText(kind, "tool_use"):
		name, _ := block.Get(wire.NameKey).Text()
		dst = append(append(dst, "[tool call "...), name...)
		id, _ := block.Get(wire.ID).Text()
		dst = append(append(append(dst, " id="...), id...), ']')
		if input := block.Get(wire.Input); input.OK() {
			dst = wire.AppendCompactQuoted(append(dst, ' '), input.Raw())
		}
		return dst
	case wire.IsText(kind, "tool_result"):
		id, _ := block.Get(wire.ToolUseID).Text()
		dst = append(append(dst, "[tool result id="...), id...)
		dst = append(dst, "] "...)
		from := len(dst)
		for b := elements(block.Get(wire.Content)); b.OK(); b = b.Next() {
			if text, ok := b.Get(wire.Text).Text(); ok && b.Get(wire.Type).Is("text") {
				if len(dst) > from {
					dst = append(dst, ' ')
				}
				dst = append(dst, text...)
			}
		}
		return dst
	}
	dst = append(append(dst, '['), kind...)
	return append(dst, " omitted]"...)
}

// dropIncludeContext removes `includeContext` if the client did not declare that it can include context
// (C26).
func dropIncludeContext(x *pass, n wire.Node) {
	if !x.m.Facts.Has(wire.ClientSamplingContext) && (n.Is("thisServer") || n.Is("allServers")) {
		strip(x, n)
	}
}
