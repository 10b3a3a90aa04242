package openapi

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// parseJSON makes the nodes of a JSON document. It does not go through the YAML parser, which
// refuses escapes of surrogates and is slower.
func (b *builder) parseJSON(data []byte) (*node, error) {
	if bad := wire.Check(data, wire.Limits{Depth: maxNesting}); bad != nil {
		line := 1 + bytes.Count(data[:min(bad.At, len(data))], []byte("\n"))
		if bad.Why == wire.TooDeep {
			return nil, b.fail(line, fmt.Sprintf("nested deeper than %d levels", maxNesting))
		}
		return nil, b.fail(line, "not valid JSON")
	}
	p := &jsonParser{builder: b, data: string(data), line: 1}
	return p.value()
}

// jsonParser reads JSON that is known to be valid.
type jsonParser struct {
	*builder
	data string
	at   int
	line int
}

func (p *jsonParser) space() {
	for ; p.at < len(p.data); p.at++ {
		switch p.data[p.at] {
		case '\n':
			p.line++
		case ' ', '\t', '\r':
		default:
			return
		}
	}
}

// raw returns the text of the string or word at p.at, and moves behind it.
func (p *jsonParser) raw() string {
	from := p.at
	if p.data[p.at] == '"' {
		for p.at++; p.data[p.at] != '"'; p.at++ {
			if p.data[p.at] == '\\' {
				p.at++
			}
		}
		p.at++
		return p.data[from:p.at]
	}
	for p.at < len(p.data) && !strings.ContainsRune(",]} \t\r\n", rune(p.data[p.at])) {
		p.at++
	}
	return p.data[from:p.at]
}

// unquote returns the text of a string. It shares the memory of the document where it can.
func unquote(raw string) string {
	if !strings.Contains(raw, `\`) {
		return raw[1 : len(raw)-1]
	}
	return string(wire.Unquoted([]byte(raw)))
}

func (p *jsonParser) value() (*node, error) {
	p.space()
	line := p.line
	switch c := p.data[p.at]; c {
	case '{', '[':
		kind := wire.Object
		if c == '[' {
			kind = wire.Array
		}
		n, err := p.add(kind, line)
		if err != nil {
			return nil, err
		}
		p.at++
		return n, p.inside(n)
	case '"':
		n, err := p.add(wire.String, line)
		if err != nil {
			return nil, err
		}
		n.text = unquote(p.raw())
		return n, nil
	case 't', 'f':
		return p.word(wire.Boolean, line)
	case 'n':
		return p.word(wire.Null, line)
	}
	return p.word(wire.Number, line)
}

func (p *jsonParser) word(kind wire.ValueKind, line int) (*node, error) {
	n, err := p.add(kind, line)
	if err == nil {
		n.text = p.raw()
	}
	return n, err
}

// inside reads the members or elements of n, up to its closing bracket.
func (p *jsonParser) inside(n *node) error {
	var seen map[string]int
	for {
		p.space()
		switch p.data[p.at] {
		case '}', ']':
			p.at++
			return nil
		case ',':
			p.at++
			continue
		}
		key, line := "", p.line
		if n.kind == wire.Object {
			key = unquote(p.raw())
			p.space()
			p.at++ // the colon
		}
		v, err := p.value()
		if err != nil {
			return err
		}
		if n.kind == wire.Array {
			n.kids = append(n.kids, v)
			continue
		}
		seen = index(n, seen)
		p.member(n, key, v, line, seen)
	}
}
