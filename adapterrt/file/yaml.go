package file

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/pattern"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// The limits of a front matter.
const (
	maxNodes = 10_000  // values that aliases expand to
	maxAll   = 200_000 // values
	maxDepth = 64
)

// node is one value of the front matter, with aliases and merge keys resolved.
type node struct {
	kind    wire.ValueKind // never Absent
	line    int            // in the file
	text    string
	integer bool    // number: written as an integer
	secret  bool    // no problem shows it
	list    []*node // array
	fields  []field // object, in the order of the file
}

type field struct {
	key  string
	line int
	val  *node
}

// get returns the member of that key, or nil if there is none or n is not a map.
func (n *node) get(key string) *node {
	if n != nil {
		for i := range n.fields {
			if n.fields[i].key == key {
				return n.fields[i].val
			}
		}
	}
	return nil
}

// has reports whether n has a member of that key that is not null.
func (n *node) has(key string) bool {
	v := n.get(key)
	return v != nil && v.kind != wire.Null
}

// YAMLError is a mistake in a YAML document.
type YAMLError struct {
	Line    int // 0 if it is not known
	Message string
}

func (e *YAMLError) Error() string { return e.Message }

var yamlLine = pattern.Later(`^yaml: (?:line (\d+): )?(?:unmarshal errors:\s*)?(.*)`)

// DecodeYAML returns the first YAML document in data as the library has it. more reports whether anything comes after it; it may be
// called once. The error is io.EOF if there is no document, otherwise a *YAMLError.
func DecodeYAML(data []byte) (doc *yaml.Node, more func() bool, err error) {
	e := &YAMLError{Message: "not valid YAML"}
	defer func() {
		if p := recover(); p != nil { // the library is known to panic
			doc, err = nil, e
		}
	}()
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var first yaml.Node
	if err := dec.Decode(&first); err != nil {
		if m := yamlLine().FindStringSubmatch(err.Error()); m != nil {
			e.Line, _ = strconv.Atoi(m[1])
			e.Message += ": " + m[2]
		}
		if errors.Is(err, io.EOF) {
			return nil, nil, io.EOF
		}
		return nil, nil, e
	}
	return first.Content[0], func() (found bool) {
		defer func() { found = found || recover() != nil }()
		var second yaml.Node
		return !errors.Is(dec.Decode(&second), io.EOF)
	}, nil
}

// parseYAML reads the YAML of an adapter file, which begins on line 2. The errors are *YAMLError.
func parseYAML(front []byte) (*yaml.Node, *node, error) {
	doc, more, err := DecodeYAML(front)
	var e *YAMLError
	switch {
	case errors.As(err, &e):
		return nil, nil, &YAMLError{max(e.Line, 1) + 1, e.Message}
	case err != nil:
		return nil, nil, &YAMLError{2, "front matter is empty"}
	case more():
		return nil, nil, &YAMLError{2, "front matter must be a single YAML document"}
	}
	b := treeBuilder{}
	root, err := b.build(doc, 1)
	return doc, root, err
}

// treeBuilder converts the YAML library's nodes to nodes and counts them.
type treeBuilder struct {
	all, aliased int
	inAlias      int
}

func (b *treeBuilder) build(y *yaml.Node, depth int) (*node, error) {
	line := y.Line + 1
	if depth > maxDepth {
		return nil, &YAMLError{line, fmt.Sprintf("nested deeper than %d", maxDepth)}
	}
	if b.all++; b.all > maxAll {
		return nil, &YAMLError{line, fmt.Sprintf("more than %d values", maxAll)}
	}
	if b.inAlias > 0 {
		if b.aliased++; b.aliased > maxNodes {
			return nil, &YAMLError{line, fmt.Sprintf("aliases expand to more than %d values", maxNodes)}
		}
	}
	if y.Kind == yaml.AliasNode {
		b.inAlias++
		n, err := b.build(y.Alias, depth+1) // an anchor that contains itself ends at maxDepth
		b.inAlias--
		return n, err
	}
	tag := y.Tag
	if y.Style&yaml.TaggedStyle == 0 {
		tag = ""
	}
	switch tag {
	case "", "!!str", "!!int", "!!float", "!!bool", "!!null", "!!map", "!!seq":
	default:
		return nil, &YAMLError{line, "tag " + strconv.Quote(clean.FirstRunes(tag, 40)) + " is not supported"}
	}
	switch y.Kind {
	case yaml.MappingNode:
		return b.mapping(y, line, depth)
	case yaml.SequenceNode:
		n := &node{kind: wire.Array, line: line, list: make([]*node, 0, len(y.Content))}
		for _, c := range y.Content {
			v, err := b.build(c, depth+1)
			if err != nil {
				return nil, err
			}
			n.list = append(n.list, v)
		}
		return n, nil
	}
	quoted := y.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0
	if tag == "!!str" || quoted && tag == "" {
		return &node{kind: wire.String, line: line, text: y.Value}, nil
	}
	n := scalar(y.Value)
	n.line = line
	if want, ok := map[string]wire.ValueKind{"!!int": wire.Number, "!!float": wire.Number, "!!bool": wire.Boolean, "!!null": wire.Null}[tag]; ok && n.kind != want {
		return nil, &YAMLError{line, fmt.Sprintf("value does not fit its tag %s", tag)}
	}
	return n, nil
}

// fewKeys is the number of keys up to which they are compared one by one.
const fewKeys = 16

func (b *treeBuilder) mapping(y *yaml.Node, line, depth int) (*node, error) {
	n := &node{kind: wire.Object, line: line, fields: make([]field, 0, len(y.Content)/2)}
	var seen map[string]bool // of many keys; few are looked through
	if len(y.Content)/2 > fewKeys {
		seen = make(map[string]bool, len(y.Content)/2)
	}
	has := func(key string) bool {
		if seen != nil {
			return seen[key]
		}
		return slices.ContainsFunc(n.fields, func(f field) bool { return f.key == key })
	}
	add := func(f field) {
		if seen == nil && len(n.fields) == fewKeys { // merged maps have many
			seen = make(map[string]bool, 2*fewKeys)
			for _, o := range n.fields {
				seen[o.key] = true
			}
		}
		if n.fields = append(n.fields, f); seen != nil {
			seen[f.key] = true
		}
	}
	var merged []*node
	for i := 0; i+1 < len(y.Content); i += 2 {
		k := y.Content[i]
		if k.Kind == yaml.AliasNode {
			k = k.Alias
		}
		if k.Kind != yaml.ScalarNode {
			return nil, &YAMLError{k.Line + 1, "map keys must be plain values"}
		}
		v, err := b.build(y.Content[i+1], depth+1)
		if err != nil {
			return nil, err
		}
		if k.Value == "<<" && k.Style == 0 {
			if v.kind == wire.Array {
				merged = append(merged, v.list...)
			} else {
				merged = append(merged, v)
			}
			continue
		}
		if has(k.Value) {
			return nil, &YAMLError{k.Line + 1, "key " + strconv.Quote(clean.FirstRunes(k.Value, 60)) + " is given twice"}
		}
		add(field{k.Value, k.Line + 1, v})
	}
	for _, m := range merged {
		if m.kind != wire.Object {
			return nil, &YAMLError{m.line, "a merge key needs a map"}
		}
		for _, f := range m.fields {
			if !has(f.key) { // the map's own keys win, then those of the first merged map
				add(f)
			}
		}
	}
	return n, nil
}

// scalar resolves an unquoted value with the YAML 1.2 core schema, so that "no", "on" and
// dates stay strings: https://yaml.org/spec/1.2.2/#103-core-schema
func scalar(s string) *node {
	kind, text, integer := resolved(s)
	return &node{kind: kind, text: text, integer: integer}
}

func resolved(s string) (kind wire.ValueKind, text string, integer bool) {
	switch s {
	case "", "~", "null", "Null", "NULL":
		return wire.Null, s, false
	case "true", "True", "TRUE":
		return wire.Boolean, "true", false
	case "false", "False", "FALSE":
		return wire.Boolean, "false", false
	}
	if t, integer, ok := yamlNumber(s); ok {
		return wire.Number, t, integer
	}
	return wire.String, s, false
}

// Scalar resolves an unquoted value as adapter files do, with the YAML 1.2 core schema. The
// text of a number is that of JSON.
func Scalar(s string) (kind wire.ValueKind, text string) {
	kind, text, _ = resolved(s)
	return kind, text
}

// yamlNumber returns a YAML number as a JSON number. Infinities and NaN are not JSON
// numbers, so they stay text.
func yamlNumber(s string) (json string, integer, ok bool) {
	if len(s) > 2 && s[0] == '0' && (s[1] == 'x' || s[1] == 'o') {
		base := 16
		if s[1] == 'o' {
			base = 8
		}
		u, err := strconv.ParseUint(s[2:], base, 64)
		return strconv.FormatUint(u, 10), true, err == nil
	}
	sign, t := "", s
	if t[0] == '-' || t[0] == '+' {
		if t[0] == '-' {
			sign = "-"
		}
		t = t[1:]
	}
	mantissa, exp := t, ""
	if i := strings.IndexAny(t, "eE"); i >= 0 {
		mantissa, exp = t[:i], t[i:]
		if d := strings.TrimLeft(exp[1:], "+-"); d == "" || strings.Trim(d, "0123456789") != "" || len(exp)-len(d) > 2 {
			return "", false, false
		}
	}
	whole, frac, point := strings.Cut(mantissa, ".")
	if whole+frac == "" || strings.Trim(whole+frac, "0123456789") != "" {
		return "", false, false
	}
	if whole = strings.TrimLeft(whole, "0"); whole == "" {
		whole = "0"
	}
	if frac != "" {
		frac = "." + frac
	}
	return sign + whole + frac + exp, !point && exp == "", true
}

// shown returns the value as JSON for a model, with its texts cleaned.
func (n *node) shown() []byte {
	return n.cleaned().JSON(nil)
}

func (n *node) cleaned() *node {
	c := *n
	c.text = clean.Text(n.text, descriptionRunes)
	c.list, c.fields = nil, nil
	for _, v := range n.list {
		c.list = append(c.list, v.cleaned())
	}
	for _, f := range n.fields {
		c.fields = append(c.fields, field{clean.Text(f.key, 200), f.line, f.val.cleaned()})
	}
	return &c
}

// JSON appends the value to dst as JSON.
func (n *node) JSON(dst []byte) []byte {
	switch n.kind {
	case wire.Null:
		return append(dst, "null"...)
	case wire.Boolean, wire.Number:
		return append(dst, n.text...)
	case wire.String:
		return wire.AppendQuoted(dst, n.text)
	case wire.Array:
		dst = append(dst, '[')
		for _, v := range n.list {
			dst = wire.Comma(dst)
			dst = v.JSON(dst)
		}
		return append(dst, ']')
	}
	dst = append(dst, '{')
	for _, f := range n.fields {
		dst = wire.AppendName(dst, f.key)
		dst = f.val.JSON(dst)
	}
	return append(dst, '}')
}

// descriptionRunes is the largest number of runes in a text of a file that a model reads.
const descriptionRunes = 1000
