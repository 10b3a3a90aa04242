package transform

import (
	"fmt"

	"github.com/dragoman-proxy/dragoman/transform/tree"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Part says what one part of a result costs the model that reads it.
type Part struct {
	Name   string // content[0], structuredContent, or the notice
	Tokens int
	// Members are the first 200 members, if the part is a JSON object.
	Members []Part
}

const maxMembers = 200

// Parts returns the parts of a method's result, in their order. Images and
// audio are not counted and have no tokens.
func (e *Engine) Parts(result []byte, method string) (parts []Part) {
	var l layout
	l.lay(result, method, unlimited)
	for i := range l.blocks {
		b := &l.blocks[i]
		p := Part{Name: fmt.Sprintf("%s[%d]", l.list, i)}
		switch b.kind {
		case noticeBlock:
			p.Name, p.Tokens = "notice", e.encoding.Count(l.textOf(b))
		case textBlock:
			text := l.textOf(b)
			p.Tokens, p.Members = e.encoding.Count(text), e.members(text)
		case wholeBlock:
			p.Tokens = e.encoding.Count(compact(b.of(result)))
		}
		parts = append(parts, p)
	}
	if l.structured.is() {
		value := compact(l.structured.of(result))
		parts = append(parts, Part{"structuredContent", e.encoding.Count(value), e.members(value)})
	}
	return parts
}

// members returns the first members of a JSON object.
func (e *Engine) members(text []byte) (all []Part) {
	start := tree.SkipSpace(text, 0)
	if start == len(text) || text[start] != '{' || !wire.Valid(text) {
		return nil
	}
	tree.Each(text, start, func(name []byte, at int) (int, bool) {
		end := tree.SkipValue(text, at)
		all = append(all, Part{Name: string(wire.AppendUnescaped(nil, name)), Tokens: e.encoding.Count(compact(text[at:end]))})
		return end, len(all) < maxMembers
	})
	return all
}
