package openapi

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// lineWidth is the length up to which a definition is written on one line.
const lineWidth = 150

// quote writes a text in double quotes, as YAML and JSON have them.
func quote(s string) string { return string(wire.AppendQuoted(make([]byte, 0, len(s)+2), s)) }

// scalar writes a text without quotes if YAML reads it as the same text.
func scalar(s string) string {
	if isPlain(s) {
		return s
	}
	return quote(s)
}

// value writes a scalar of the document.
func value(n *node) string {
	if n.kind == wire.String {
		return scalar(n.text)
	}
	return string(n.JSON(nil))
}

// pair is a member of a block with its value as YAML.
type pair struct{ key, value string }

// pairs are the members of a block, in order. The methods that add one leave it out if its value is absent.
type pairs []pair

func (p *pairs) add(key, value string) {
	if value != "" {
		*p = append(*p, pair{key, value})
	}
}

func (p *pairs) text(key, s string) {
	if s != "" {
		p.add(key, scalar(s))
	}
}

func (p *pairs) quoted(key, s string) {
	if s != "" {
		p.add(key, quote(s))
	}
}

func (p *pairs) flag(key string, set bool) {
	if set {
		p.add(key, "true")
	}
}

func (p *pairs) list(key string, values []string) {
	if len(values) > 0 {
		p.add(key, flowList(values, scalar))
	}
}

func (p *pairs) words(key string, values map[string]string) {
	var all pairs
	for _, k := range slices.Sorted(maps.Keys(values)) {
		all.add(scalar(k), quote(values[k]))
	}
	if all != nil {
		p.add(key, flowMap(all))
	}
}

func flowMap(all []pair) string {
	size := 2
	for _, p := range all {
		size += len(p.key) + len(p.value) + 4
	}
	var b strings.Builder
	b.Grow(size)
	b.WriteByte('{')
	for i, p := range all {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(p.key)
		b.WriteString(": ")
		b.WriteString(p.value)
	}
	b.WriteByte('}')
	return b.String()
}

func flowList[T any](list []T, write func(T) string) string {
	parts := make([]string, len(list))
	for i, v := range list {
		parts[i] = write(v)
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// flowOf writes a value on one line.
func flowOf(n *node) string {
	switch n.kind {
	case wire.Object:
		var all pairs
		for i, key := range n.keys {
			all.add(scalar(key), flowOf(n.kids[i]))
		}
		return flowMap(all)
	case wire.Array:
		return flowList(n.kids, flowOf)
	}
	return value(n)
}

// writer writes the lines of YAML with their indentation.
type writer struct{ bytes.Buffer }

func (y *writer) line(indent int, format string, args ...any) {
	y.WriteString(strings.Repeat(" ", indent))
	fmt.Fprintf(y, format, args...)
	y.WriteByte('\n')
}

// folded writes a line, on several lines if it is long. It is broken between members, not within a quoted text.
func (y *writer) folded(indent int, text string) {
	most, from, last, quoted := lineWidth-indent, 0, 0, false
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\' && quoted:
			i++
		case text[i] == '"':
			quoted = !quoted
		case text[i] == ' ' && text[i-1] == ',' && !quoted:
			if i-from > most && last > from {
				y.line(indent, "%s", text[from:last])
				if from == 0 {
					indent, most = indent+2, most-2
				}
				from = last + 1
			}
			last = i
		}
	}
	if len(text)-from > most && last > from {
		y.line(indent, "%s", text[from:last])
		if from == 0 {
			indent += 2
		}
		from = last + 1
	}
	y.line(indent, "%s", text[from:])
}

// wrapped writes a member whose value may be a long list, on several lines.
func (y *writer) wrapped(indent int, p pair) {
	if !strings.HasPrefix(p.value, "[") || len(p.value) < lineWidth-indent {
		y.line(indent, "%s: %s", p.key, p.value)
		return
	}
	y.line(indent, "%s:", p.key)
	row := ""
	for part := range strings.SplitSeq(p.value, ", ") {
		if row != "" && indent+2+len(row)+len(part) > lineWidth-20 {
			y.line(indent+2, "%s,", row)
			row = ""
		}
		if row != "" {
			row += ", "
		}
		row += part
	}
	y.line(indent+2, "%s", row)
}
