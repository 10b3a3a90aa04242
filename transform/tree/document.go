package tree

import (
	"errors"
	"fmt"
	"math"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// ErrSyntax says that a text is not one JSON value, is nested deeper than wire.MaxDepth, or is too large.
var ErrSyntax = errors.New("not one JSON value, or nested too deep")

// A Document is the list of the values of a JSON text, in the text's order: a container stands before its contents. The text stays
// bytes: numbers keep their digits and members their order.
type Document struct {
	Text    []byte
	Nodes   []Node
	Partial bool // there are more values than were to be recorded, and only the first of them are
}

// A Node is one value.
type Node struct {
	Pos, End uint32 // the value in the text
	Key      uint32 // where its member's name begins; Pos if it is not in an object
	Next     uint32 // the first node after it and its contents
	Count    uint32 // members or elements, also those that are not recorded
}

// maxNodes bounds the memory of a document to 20 MiB.
const maxNodes = 1 << 20

// nodeBytes is about how many bytes of a text there are for each node.
const nodeBytes = 24

// Read records the values of text, which has to be an object or an array: at most as many values as take 20 MiB. It may be called
// again, for another text. The error is [ErrSyntax].
func (d *Document) Read(text []byte) error {
	if !IsContainer(text) {
		return ErrSyntax
	}
	return d.read(text, maxNodes)
}

func (d *Document) read(text []byte, most int) error {
	d.Text, d.Nodes, d.Partial = text, d.Nodes[:0], false
	if uint64(len(text)) > math.MaxUint32 {
		return fmt.Errorf("%w: more than 4 GiB", ErrSyntax)
	}
	if f := wire.Check(text, wire.Limits{}); f != nil {
		return fmt.Errorf("%w, at byte %d", ErrSyntax, f.At)
	}
	if cap(d.Nodes) == 0 {
		d.Nodes = make([]Node, 0, min(most, len(text)/nodeBytes+1))
	}
	var open [wire.MaxDepth]frame
	for i, key, depth := 0, -1, 0; i < len(text); {
		switch text[i] {
		case ' ', '\t', '\n', '\r', ',', ':':
			i++
			continue
		case '}', ']':
			i++
			depth--
			if f := open[depth]; f.node < len(d.Nodes) {
				n := &d.Nodes[f.node]
				n.End, n.Next, n.Count = uint32(i), uint32(len(d.Nodes)), f.count
			}
			continue
		case '"':
			if key < 0 && depth > 0 && open[depth-1].object {
				key = i
				i = SkipString(text, i)
				continue
			}
		}
		if depth > 0 {
			open[depth-1].count++
		}
		self := len(d.Nodes)
		if key < 0 {
			key = i
		}
		if self < most {
			d.Nodes = append(d.Nodes, Node{Pos: uint32(i), Key: uint32(key)})
		} else {
			d.Partial = true
		}
		key = -1
		if c := text[i]; c == '{' || c == '[' {
			open[depth] = frame{node: self, object: c == '{'}
			depth++
			i++
			continue
		}
		i = SkipValue(text, i)
		if self < most {
			d.Nodes[self].End, d.Nodes[self].Next = uint32(i), uint32(self+1)
		}
	}
	return nil
}

// frame is a container around what is read.
type frame struct {
	node   int // its index; beyond the last one if it is not recorded
	count  uint32
	object bool
}

// Raw returns a node's value as it is written.
func (d *Document) Raw(n uint32) []byte { return d.Text[d.Nodes[n].Pos:d.Nodes[n].End] }

// Name returns a member's name as it is written, without its quotes. It returns
// nil if the node is not in an object.
func (d *Document) Name(n uint32) []byte {
	at := &d.Nodes[n]
	if at.Key == at.Pos {
		return nil
	}
	return d.Text[at.Key+1 : SkipString(d.Text, int(at.Key))-1]
}

// Label returns a member's name, unescaped.
func (d *Document) Label(n uint32) string { return string(wire.AppendUnescaped(nil, d.Name(n))) }
