package openapi

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// front is the front matter of an adapter file, as a tree and as lines.
type front struct {
	root  *node
	lines []string // of the file; line 1 is lines[0]
	end   int      // index of the line that closes the front matter
}

// parseFront reads the front matter of an adapter file that is known to be valid.
func parseFront(data []byte) (*front, error) {
	if len(data) > file.MaxFile {
		return nil, fmt.Errorf("the file is larger than %d bytes: divide its operations among several files", file.MaxFile)
	}
	f := &front{lines: strings.SplitAfter(string(data), "\n")}
	for i, l := range f.lines {
		if i > 0 && strings.TrimRight(l, " \t\r\n") == "---" {
			f.end = i
			break
		}
	}
	if f.end == 0 {
		return nil, errors.New("the front matter is not closed")
	}
	count := 0
	b := &builder{name: "the adapter file", count: &count}
	root, err := b.parseYAML([]byte("\n" + strings.Join(f.lines[1:f.end], ""))) // so that the lines are those of the file
	if err != nil {
		return nil, err
	}
	f.root = root
	return f, nil
}

// entry is an operation in a file.
type entry struct {
	name     string
	category string
	mapsTo   string
	node     *node
	from, to int // indexes of its lines
}

// operations returns the operations of the file with the lines that they are on.
func (f *front) operations() (out []*entry) {
	all := f.root.get("operations")
	if !all.is(wire.Object) {
		return nil
	}
	var starts []int // of everything that may follow an operation
	for i, key := range all.keys {
		if all.kids[i].is(wire.Array) {
			starts = append(starts, f.lineOf(key+":", int(all.kids[i].line)))
			for _, n := range all.kids[i].kids {
				starts = append(starts, int(n.line)-1)
			}
		}
	}
	for _, key := range f.root.keys {
		if i := f.topLevel(key); i >= 0 {
			starts = append(starts, i)
		}
	}
	starts = append(starts, f.end)
	slices.Sort(starts)
	for i, category := range all.keys {
		if !all.kids[i].is(wire.Array) {
			continue
		}
		for _, n := range all.kids[i].kids {
			e := &entry{name: n.str("name"), category: category, mapsTo: n.str("maps_to"), node: n, from: int(n.line) - 1}
			e.to = f.end
			for _, s := range starts {
				if s > e.from {
					e.to = s
					break
				}
			}
			for e.to > e.from+1 && isBlank(f.lines[e.to-1]) {
				e.to--
			}
			out = append(out, e)
		}
	}
	return out
}

// isBlank reports whether a line is empty or a comment, which then belongs to what follows.
func isBlank(line string) bool {
	t := strings.TrimSpace(line)
	return t == "" || t[0] == '#'
}

// lineOf returns the index of the line with a key, at or before the line of its value.
func (f *front) lineOf(key string, line int) int {
	for i := min(line-1, len(f.lines)-1); i >= 0; i-- {
		if strings.HasPrefix(strings.TrimLeft(f.lines[i], " "), key) {
			return i
		}
	}
	return line - 1
}

// topLevel returns the index of the line with a key of the top level, or -1.
func (f *front) topLevel(key string) int {
	for i := 1; i < f.end; i++ {
		if strings.HasPrefix(f.lines[i], key+":") || strings.HasPrefix(f.lines[i], quote(key)+":") {
			return i
		}
	}
	return -1
}

// hash returns a short hash of an operation in a file, without its name. The order of members
// and how they are written do not change it.
func hash(n *node) string { return new(canonical).hash(n) }

// hash is [hash]. What c has is used again.
func (c *canonical) hash(n *node) string {
	c.text = c.text[:0]
	c.write(n, true)
	sum := sha256.Sum256(c.text)
	return hex.EncodeToString(sum[:4])
}

// canonical is a text that equal values share, with their members in order.
type canonical struct {
	text   []byte
	scalar []byte // the last one
	order  []int
}

func (c *canonical) write(n *node, top bool) {
	switch n.kind {
	case wire.Object:
		from := len(c.order)
		for i := range n.keys {
			c.order = append(c.order, i)
		}
		slices.SortFunc(c.order[from:], func(x, y int) int { return strings.Compare(n.keys[x], n.keys[y]) })
		c.text = append(c.text, '{')
		for at := range n.keys {
			i := c.order[from+at]
			if top && n.keys[i] == "name" {
				continue
			}
			c.text = wire.AppendQuoted(c.text, n.keys[i])
			c.write(n.kids[i], false)
		}
		c.order = c.order[:from]
		c.text = append(c.text, '}')
	case wire.Array:
		c.text = append(c.text, '[')
		for _, v := range n.kids {
			c.write(v, false)
		}
		c.text = append(c.text, ']')
	default:
		c.scalar = n.JSON(c.scalar[:0])
		c.text = append(c.text, c.scalar...)
	}
	c.text = append(c.text, ',')
}

// origin is the block x-source of a file.
type origin struct {
	there      bool
	digest     string
	baseURL    string
	options    Options
	operations map[string]recorded // by the full text of their spots
}

// recorded is an operation as it was imported.
type recorded struct{ name, hash string }

func (f *front) origin() (o origin) {
	n := f.root.get("x-source")
	if !n.is(wire.Object) {
		return o
	}
	s := n.get("selection")
	o = origin{there: true, digest: n.str("sha256"), baseURL: n.str("base_url")}
	o.options = Options{
		Include: s.strs("include"), Exclude: s.strs("exclude"), Split: Split(s.str("split")), group: s.str("group"),
		Server: s.word("server"), ServerVars: s.get("server_vars").words(), Deprecated: s.flag("deprecated"), Fields: s.flag("fields"), NoOutputSchema: !s.flag("output_schema"),
		Omit: s.strs("omit_params"), Set: s.get("set_params").words(), Auth: s.str("auth"), Names: Names(s.str("names")), recorded: true,
	}
	o.operations = map[string]recorded{}
	if ops := n.get("operations"); ops.is(wire.Object) {
		for i, key := range ops.keys {
			name, hash, _ := strings.Cut(ops.kids[i].text, " ")
			o.operations[key] = recorded{name, hash}
		}
	}
	return o
}

// words returns the members of an object as texts, or nil if there are none.
func (n *node) words() map[string]string {
	if !n.is(wire.Object) {
		return nil
	}
	out := map[string]string{}
	for i, key := range n.keys {
		out[key] = n.kids[i].text
	}
	return out
}
