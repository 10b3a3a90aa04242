package adapterrt

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// checker collects the problems of one file.
type checker struct {
	file     string
	strict   bool
	opt      *Options
	problems []Problem
}

func (c *checker) add(sev Severity, code, path, msg string, line int) *Problem {
	c.problems = append(c.problems, Problem{Path: path, Message: msg, Code: code, Severity: sev, File: c.file, Line: line})
	return &c.problems[len(c.problems)-1]
}

// wrong notes a value that does not fit.
func (c *checker) wrong(code, path, msg, expected string, n *node, line int) {
	if n != nil {
		line = n.line
	}
	p := c.add(Error, code, path, msg, line)
	p.Expected, p.Received = expected, received(n)
}

func (c *checker) warn(code, path, msg string, line int) {
	c.add(Warning, code, path, msg, line)
}

// mind is a warning that strict files may not have.
func (c *checker) mind(code, path, msg string, line int) {
	sev := Warning
	if c.strict {
		sev = Error
	}
	c.add(sev, code, path, msg, line)
}

// received words a value as problems show it.
func received(n *node) string {
	if n == nil {
		return "undefined"
	}
	switch n.kind {
	case wire.Null:
		return "null"
	case wire.Array:
		return fmt.Sprintf("array of %d", len(n.list))
	case wire.Object:
		return fmt.Sprintf("object of %d", len(n.fields))
	}
	t := "boolean"
	switch {
	case n.kind == wire.Number && n.integer:
		t = "integer"
	case n.kind == wire.Number:
		t = "number"
	case n.kind == wire.String:
		return "string " + strconv.Quote(firstRunes(maskSecrets(n.text), 100))
	}
	return t + " " + firstRunes(n.text, 100)
}

var kindWords = [...]string{"undefined", "null", "boolean", "number", "string", "array", "object"}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// get is the member of that key and kind. A member of another kind is noted and
// nil; an absent one is nil, and null counts as absent.
func (c *checker) get(n *node, path, key string, want wire.ValueKind) *node {
	v := n.get(key)
	if v == nil || v.kind == wire.Null {
		return nil
	}
	if v.kind != want {
		c.wrong(SchemaInvalidType, join(path, key), join(path, key)+" has the wrong type", kindWords[want], v, 0)
		return nil
	}
	return v
}

// str is a string member; "" when absent, empty or wrong.
func (c *checker) str(n *node, path, key string) string {
	if v := c.get(n, path, key, wire.String); v != nil {
		return v.text
	}
	return ""
}

// need is a string member that must be there and not empty.
func (c *checker) need(n *node, path, key, what string) (string, *node) {
	v := n.get(key)
	if v == nil || v.kind == wire.Null || v.kind == wire.String && strings.TrimSpace(v.text) == "" {
		c.missing(n, path, key, what, v)
		return "", nil
	}
	if v = c.get(n, path, key, wire.String); v == nil {
		return "", nil
	}
	return v.text, v
}

func (c *checker) missing(n *node, path, key, what string, v *node) {
	line := 0
	if n != nil {
		line = n.line
	}
	c.wrong(SchemaMissingField, join(path, key), what+" is required", "non-empty string", v, line)
}

// flag is a boolean member; "true" in quotes is none.
func (c *checker) flag(n *node, path, key string, absent bool) bool {
	if v := c.get(n, path, key, wire.Boolean); v != nil {
		return v.text == "true"
	}
	return absent
}

// whole is an integer member within limits; absent when it is not there.
func (c *checker) whole(n *node, path, key string, absent, low, high int) int {
	v := c.get(n, path, key, wire.Number)
	if v == nil {
		return absent
	}
	i, err := strconv.Atoi(v.text)
	if err != nil || i < low || i > high {
		c.wrong(SchemaInvalidValue, join(path, key), join(path, key)+" is out of range", fmt.Sprintf("integer %d–%d", low, high), v, 0)
		return absent
	}
	return i
}

// strs is a list of strings.
func (c *checker) strs(n *node, path, key string) []string {
	v := c.get(n, path, key, wire.Array)
	if v == nil {
		return nil
	}
	out := make([]string, 0, len(v.list))
	for i, e := range v.list {
		if e.kind != wire.String {
			c.wrong(SchemaInvalidType, index(join(path, key), i), "a list of strings is needed", "string", e, 0)
			continue
		}
		out = append(out, e.text)
	}
	return out
}

// word is a string member out of a list; the first is taken when it is absent.
func (c *checker) word(n *node, path, key string, words ...string) string {
	v := c.get(n, path, key, wire.String)
	if v == nil {
		return words[0]
	}
	if !slices.Contains(words, v.text) {
		c.wrong(SchemaInvalidValue, join(path, key), join(path, key)+" is none of the known words", strings.Join(words, ", "), v, 0)
		return words[0]
	}
	return v.text
}

// known notes members that the schema does not name.
func (c *checker) known(n *node, path string, keys ...string) {
	for _, f := range n.fields {
		if !slices.Contains(keys, f.key) && !strings.HasPrefix(f.key, "x-") {
			c.mind(SchemaUnknownField, join(path, firstRunes(f.key, 60)), "unknown field "+strconv.Quote(firstRunes(f.key, 60)), f.line)
		}
	}
}

// later notes members that are known and not supported.
func (c *checker) later(n *node, path string, keys ...string) {
	for _, k := range keys {
		if v := n.get(k); v != nil {
			c.warn(SchemaUnknownField, join(path, k), k+" is known, not supported", v.line)
		}
	}
}

// secrets looks for credentials among the values: adapters must name where
// credentials are kept, never hold them.
func (c *checker) secrets(n *node, path string) {
	switch n.kind {
	case wire.String:
		if hasSecret(n.text) {
			c.mind(SchemaEmbeddedCredential, path, "this looks like a credential; keep it in an environment variable", n.line)
		}
	case wire.Array:
		for i, v := range n.list {
			if v.kind >= wire.String {
				if v.kind > wire.String || mayHaveSecret(v.text) {
					c.secrets(v, index(path, i))
				}
			}
		}
	case wire.Object:
		for _, f := range n.fields {
			if f.val.kind > wire.String || f.val.kind == wire.String && mayHaveSecret(f.val.text) {
				c.secrets(f.val, join(path, f.key))
			}
		}
	}
}

// cleanText is adapter text as a model may read it: no control or bidirectional
// formatting characters, at most limit runes.
func cleanText(s string, limit int) string {
	if len(s) <= limit {
		plain := true
		for i := range len(s) {
			if c := s[i]; c < ' ' || c >= 0x7f {
				plain = false
				break
			}
		}
		if plain {
			return s
		}
	}
	var b strings.Builder
	n := 0
	for _, r := range s {
		if n == limit {
			break
		}
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			r = ' '
		case r < ' ' || r >= 0x7f && r < 0xa0:
			continue
		case r == 0x2028 || r == 0x2029:
			r = ' '
		case isHidden(r):
			continue
		case r == utf8.RuneError:
			continue
		}
		b.WriteRune(r)
		n++
	}
	return strings.TrimSpace(b.String())
}

// isHidden tells what reorders the text that people see, or carries what they do
// not see: format characters, and the variation selectors that no emoji needs.
func isHidden(r rune) bool {
	return unicode.Is(unicode.Cf, r) || r >= 0xfe00 && r <= 0xfe0d || r >= 0xe0000 && r <= 0xe0fff
}

// escapeHidden is the JSON text raw with such characters escaped, where the value
// has to stay what it is.
func escapeHidden(raw []byte) []byte {
	if !bytes.ContainsFunc(raw, isHidden) {
		return raw
	}
	var out []byte
	for _, r := range string(raw) {
		switch {
		case !isHidden(r):
			out = utf8.AppendRune(out, r)
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, hi, lo)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}
