package openapi

import (
	"errors"
	"fmt"

	"gopkg.in/yaml.v3"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// maxMarks is the largest number of bytes of a YAML document that can begin a value. It
// bounds the memory of the YAML parser, which takes about 200 bytes for each value, before
// the parser runs.
const maxMarks = 1_000_000

// marks returns an upper bound of the number of values in a YAML document.
func marks(data []byte) (n int) {
	for i, c := range data {
		switch c {
		case '\n', ',', '[', '{':
			n++
		case '-', ':', '?':
			if i+1 == len(data) || data[i+1] <= ' ' {
				n++
			}
		}
	}
	return n
}

// parseYAML makes the nodes of a YAML document.
func (b *builder) parseYAML(data []byte) (*node, error) {
	if len(data) > maxYAML {
		b.exceeded = true
		return nil, b.fail(0, fmt.Sprintf("larger than %d MiB; convert it to JSON, for which the limit is %d MiB", maxYAML>>20, MaxDocument>>20))
	}
	if marks(data) > maxMarks {
		b.exceeded = true
		return nil, b.fail(0, fmt.Sprintf("more than %d YAML values; convert it to JSON, for which the limit is %d", maxMarks, maxNodes))
	}
	doc, _, err := file.DecodeYAML(data)
	var e *file.YAMLError
	switch {
	case errors.As(err, &e):
		return nil, b.fail(e.Line, short(e.Message))
	case err != nil:
		return nil, b.fail(0, "the document is empty")
	}
	return b.tree(doc)
}

// tree makes the nodes of a value that the YAML library has read.
func (b *builder) tree(doc *yaml.Node) (*node, error) {
	y := &yamlTree{builder: b, done: map[*yaml.Node]*node{}, open: map[*yaml.Node]bool{}}
	return y.value(doc, 1)
}

// yamlTree converts the YAML library's nodes. An alias becomes the node of its anchor itself,
// so that aliases need no memory.
type yamlTree struct {
	*builder
	done map[*yaml.Node]*node // anchors
	open map[*yaml.Node]bool  // anchors that are being converted
}

func (y *yamlTree) value(v *yaml.Node, depth int) (*node, error) {
	if depth > maxNesting {
		return nil, y.fail(v.Line, fmt.Sprintf("nested deeper than %d levels", maxNesting))
	}
	if v.Kind == yaml.AliasNode {
		v = v.Alias
		if y.open[v] {
			return nil, y.fail(v.Line, "anchor "+quoted(v.Anchor)+" contains itself")
		}
		if n := y.done[v]; n != nil {
			return n, nil
		}
	}
	if v.Anchor != "" {
		y.open[v] = true
		defer delete(y.open, v)
	}
	n, err := y.content(v, depth)
	if err == nil && v.Anchor != "" {
		y.done[v] = n
	}
	return n, err
}

func (y *yamlTree) content(v *yaml.Node, depth int) (*node, error) {
	switch v.Kind {
	case yaml.MappingNode:
		return y.mapping(v, depth)
	case yaml.SequenceNode:
		n, err := y.add(wire.Array, v.Line)
		if err != nil {
			return nil, err
		}
		n.kids = make([]*node, 0, len(v.Content))
		for _, c := range v.Content {
			k, err := y.value(c, depth+1)
			if err != nil {
				return nil, err
			}
			n.kids = append(n.kids, k)
		}
		return n, nil
	}
	kind, text := wire.String, v.Value
	if v.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle|yaml.TaggedStyle) == 0 {
		kind, text = file.Scalar(v.Value)
	}
	n, err := y.add(kind, v.Line)
	if err == nil {
		n.text = text
	}
	return n, err
}

func (y *yamlTree) mapping(v *yaml.Node, depth int) (*node, error) {
	n, err := y.add(wire.Object, v.Line)
	if err != nil {
		return nil, err
	}
	if size := len(v.Content) / 2; size > 0 {
		n.keys, n.kids = make([]string, 0, size), make([]*node, 0, size)
	}
	var seen map[string]int
	var merged []*node
	for i := 0; i+1 < len(v.Content); i += 2 {
		k := v.Content[i]
		if k.Kind == yaml.AliasNode {
			k = k.Alias
		}
		if k.Kind != yaml.ScalarNode {
			return nil, y.fail(k.Line, "a key must be a plain value")
		}
		kid, err := y.value(v.Content[i+1], depth+1)
		if err != nil {
			return nil, err
		}
		if k.Value == "<<" && k.Style == 0 {
			if kid.kind == wire.Array {
				merged = append(merged, kid.kids...)
			} else {
				merged = append(merged, kid)
			}
			continue
		}
		seen = index(n, seen)
		y.member(n, k.Value, kid, k.Line, seen)
	}
	for _, m := range merged {
		if m.kind != wire.Object {
			return nil, y.fail(int(m.line), "a merge key needs a map")
		}
		for i, key := range m.keys {
			if *y.count++; *y.count > maxNodes {
				return nil, y.fail(v.Line, fmt.Sprintf("more than %d values", maxNodes))
			}
			if seen = index(n, seen); n.find(key, seen) < 0 { // the map's own keys win, then those of the first merged map
				y.member(n, key, m.kids[i], v.Line, seen)
			}
		}
	}
	return n, nil
}
