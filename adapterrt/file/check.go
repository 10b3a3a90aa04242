package file

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/near"
	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Options are the operator's choices for reading files.
type Options struct {
	Strict        bool                        // some warnings are errors, such as those for unknown fields
	InsecureHosts []string                    // host names that may be called over http
	Getenv        func(string) (string, bool) // reads base_url_env, and finds credentials that are not set; may be nil
	Transform     func(block []byte) error    // checks a transform block, which is JSON; nil lets any pass
}

// checker collects the problems of one file.
type checker struct {
	file     string
	opt      *Options
	problems []Problem
}

func (c *checker) add(sev Severity, code, path, msg string, line int) *Problem {
	c.problems = append(c.problems, Problem{Path: path, Message: msg, Code: code, Severity: sev, File: c.file, Line: line})
	return &c.problems[len(c.problems)-1]
}

// wrong adds an error about a value. The error's line is that of n, or line if n is nil.
func (c *checker) wrong(code, path, msg, expected string, n *node, line int) {
	p := c.add(Error, code, path, msg, n.lineOr(line))
	p.Expected, p.Received = expected, received(n, path)
}

func (c *checker) warn(code, path, msg string, line int) {
	c.add(Warning, code, path, msg, line)
}

// mind adds a warning, which is an error with Options.Strict.
func (c *checker) mind(code, path, msg string, line int) {
	sev := Warning
	if c.opt.Strict {
		sev = Error
	}
	c.add(sev, code, path, msg, line)
}

const (
	maxReceived = 100  // runes of a value in a problem
	maxMasked   = 4000 // bytes of it that are looked through for secrets
)

// received returns the type of the value at path and, unless the value is a secret, what it is, cut if it is long.
func received(n *node, path string) string {
	switch {
	case n == nil:
		return "undefined"
	case n.kind == wire.Null:
		return "null"
	case n.secret || holdsSecret(path):
		return n.typeName() + " " + secret.Struck
	}
	text := string(n.appendShown(nil))
	if n.kind == wire.String {
		text = clean.Beginning([]byte(n.text), maxMasked)
	}
	text = clean.MaskSecrets(text)
	if short := clean.FirstRunes(text, maxReceived); short != text {
		text = short + "…"
	}
	if n.kind == wire.String {
		text = strconv.Quote(text)
	}
	return n.typeName() + " " + text
}

// typeName returns the type of a value as files name types.
func (n *node) typeName() string {
	if n.kind == wire.Number && n.integer {
		return "integer"
	}
	return n.kind.String()
}

// appendShown appends the beginning of a value, without the values of members that are secrets.
func (n *node) appendShown(dst []byte) []byte {
	switch {
	case len(dst) > maxMasked:
		return dst
	case n.kind < wire.String:
		return append(dst, clean.FirstRunes(string(n.JSON(nil)), maxReceived)...)
	case n.kind == wire.String:
		return wire.AppendQuoted(dst, clean.Beginning([]byte(n.text), maxMasked))
	}
	open := byte('{')
	if n.kind == wire.Array {
		open = '['
	}
	dst = append(dst, open)
	for _, v := range n.list {
		dst = wire.Comma(dst)
		if dst = v.appendShown(dst); len(dst) > maxMasked {
			return dst
		}
	}
	for _, f := range n.fields {
		dst = wire.AppendName(dst, clean.FirstRunes(f.key, maxReceived))
		if isSecretKey(f.key) {
			dst = wire.AppendQuoted(dst, secret.Struck)
		} else {
			dst = f.val.appendShown(dst)
		}
		if len(dst) > maxMasked {
			return dst
		}
	}
	return append(dst, open+2) // in ASCII, ] is [ + 2 and } is { + 2
}

// isSecretKey reports whether the member of that key holds a secret, and not only something about one.
func isSecretKey(key string) bool {
	return secret.Named(key) && !slices.ContainsFunc([]string{"_url", "_uri", "_endpoint", "_method", "_type", "_file", "_name", "_path"}, func(s string) bool { return strings.HasSuffix(key, s) })
}

// holdsSecret reports whether path is that of a secret, or of a value that a parameter for a secret may have.
func holdsSecret(path string) bool {
	last := func() (key string) {
		at := strings.LastIndexByte(path, '.')
		path, key = path[:max(at, 0)], path[at+1:]
		key, _, _ = strings.Cut(key, "[")
		return key
	}
	switch key := last(); key {
	case "default", "enum", "example", "examples", "const":
		return isSecretKey(last())
	default:
		return isSecretKey(key)
	}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// maps returns the elements of a list at path that are maps, each with its own path. It adds an
// error for the others, which says that what, such as a rule, must be a map.
func (c *checker) maps(list *node, path, what string) iter.Seq2[string, *node] {
	return func(yield func(string, *node) bool) {
		for i, e := range list.list {
			at := index(path, i)
			if e.kind != wire.Object {
				c.wrong(SchemaInvalidType, at, what+" must be a map", "object", e, 0)
			} else if !yield(at, e) {
				return
			}
		}
	}
}

// hidden returns a value to name in a problem in place of n, which may be a secret.
func (n *node) hidden() *node {
	return &node{kind: n.kind, integer: n.integer, line: n.line, secret: true}
}

// textAt returns the string of a name, which a problem is about.
func textAt(s string, line int) *node { return &node{kind: wire.String, text: s, line: line} }

// lineOr returns the line of a value, or line if it is absent.
func (n *node) lineOr(line int) int {
	if n != nil {
		return n.line
	}
	return line
}

// transform returns the transform block of n as JSON, or nil.
func (c *checker) transform(n *node, path string) []byte {
	t := c.get(n, path, "transform", wire.Object)
	if t == nil {
		return nil
	}
	block := t.JSON(nil)
	if c.opt.Transform != nil {
		if err := c.opt.Transform(block); err != nil {
			c.add(Error, SchemaInvalidValue, join(path, "transform"), err.Error(), t.line)
		}
	}
	return block
}

// get returns the member of that key. It returns nil if the member is absent or null. If the
// member is not of the kind want, it adds an error and returns nil.
func (c *checker) get(n *node, path, key string, want wire.ValueKind) *node {
	v := n.get(key)
	if v == nil || v.kind == wire.Null {
		return nil
	}
	if v.kind != want {
		c.wrong(SchemaInvalidType, join(path, key), join(path, key)+" has the wrong type", want.String(), v, 0)
		return nil
	}
	return v
}

// present adds an error if a member is null. Such a member may only be left out.
func (c *checker) present(n *node, path, key, expected string) {
	if v := n.get(key); v != nil && v.kind == wire.Null {
		c.wrong(SchemaInvalidType, join(path, key), key+" must not be null", expected, v, 0)
	}
}

// str returns a string member, or "" if it is absent, empty or no string.
func (c *checker) str(n *node, path, key string) string {
	if v := c.get(n, path, key, wire.String); v != nil {
		return v.text
	}
	return ""
}

// need returns a string member that is required and must not be empty. The node is nil if
// that is not so.
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
	c.wrong(SchemaMissingField, join(path, key), what+" is required", "non-empty string", v, n.lineOr(0))
}

// block returns a map that a file must have. It returns nil if that is not so.
func (c *checker) block(root *node, key, what string) *node {
	if v := root.get(key); v == nil || v.kind == wire.Null {
		c.wrong(SchemaMissingField, key, what+" is required", "object", v, root.line)
		return nil
	}
	return c.get(root, "", key, wire.Object)
}

// flag returns a boolean member, or absent if there is none. "true" in quotes is a string,
// which is an error.
func (c *checker) flag(n *node, path, key string, absent bool) bool {
	if v := c.get(n, path, key, wire.Boolean); v != nil {
		return v.text == "true"
	}
	return absent
}

// whole returns an integer member from low to high, or absent if there is none.
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

// strs returns a member that is a list of strings.
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

// word returns a string member that must be one of words, or the first of words if the
// member is absent.
func (c *checker) word(n *node, path, key string, words ...string) string {
	v := c.get(n, path, key, wire.String)
	if v == nil {
		return words[0]
	}
	if !slices.Contains(words, v.text) {
		c.wrong(SchemaInvalidValue, join(path, key), join(path, key)+" is not one of the known words", strings.Join(words, ", "), v, 0)
		return words[0]
	}
	return v.text
}

// choice returns the index in words of a member that must be one of them, or 0 if it is absent.
func (c *checker) choice(n *node, path, key string, words []string) int {
	return slices.Index(words, c.word(n, path, key, words...))
}

// millis returns a member in milliseconds from low to high, or absent if there is none.
func (c *checker) millis(n *node, path, key string, absent, low, high int) time.Duration {
	return time.Duration(c.whole(n, path, key, absent, low, high)) * time.Millisecond
}

// known reports members that are not keys of blocks, with mind.
func (c *checker) known(n *node, path string, blocks ...*block) {
	c.misspelt(n, path, nil, blocks...)
}

// only adds an error for members that are not keys of blocks. It is for blocks in which a
// misspelt member would remove a protection.
func (c *checker) only(n *node, path string, blocks ...*block) {
	for _, f := range unknown(n, blocks) {
		c.add(Error, SchemaUnknownField, join(path, clean.FirstRunes(f.key, 60)), unknownField(f, names(blocks)), f.line)
	}
}

func unknown(n *node, blocks []*block) (out []field) {
	for _, f := range n.fields {
		if !has(blocks, f.key) && !strings.HasPrefix(f.key, "x-") {
			out = append(out, f)
		}
	}
	return out
}

func unknownField(f field, keys []string) string {
	s := "unknown field " + strconv.Quote(clean.FirstRunes(f.key, 60))
	if len(f.key) <= 60 {
		if meant := near.Names(f.key, keys, 1); len(meant) > 0 {
			s += ", did you mean " + meant[0] + "?"
		}
	}
	return s
}

// misspelt does what known does, but adds an error for a member that is probably a misspelt
// safety key.
func (c *checker) misspelt(n *node, path string, safety []string, blocks ...*block) {
	for _, f := range unknown(n, blocks) {
		if isMisspelt(f.key, safety) {
			c.add(Error, SchemaUnknownField, join(path, clean.FirstRunes(f.key, 60)), unknownField(f, safety), f.line)
		} else {
			c.mind(SchemaUnknownField, join(path, clean.FirstRunes(f.key, 60)), unknownField(f, names(blocks)), f.line)
		}
	}
}

func isMisspelt(key string, words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return near.Distance(near.Fold(key), w, 2) <= 2 })
}

// later warns of members that the specification has and this runtime does not support.
func (c *checker) later(n *node, path string, keys ...string) {
	for _, k := range keys {
		if v := n.get(k); v != nil {
			c.warn(SchemaUnknownField, join(path, k), k+" is known, not supported", v.line)
		}
	}
}

// secrets looks for credentials among the values. An adapter file must say where credentials
// are kept, and must not contain them.
func (c *checker) secrets(n *node, path string) {
	if n.kind == wire.String && clean.IsSecret(n.text) {
		c.mind(SchemaEmbeddedCredential, path, "this looks like a credential; keep it in an environment variable", n.line)
	}
	// A path is made only where it may be needed.
	worth := func(v *node) bool {
		return v.kind > wire.String || v.kind == wire.String && clean.MayHaveSecret(v.text)
	}
	for i, v := range n.list {
		if worth(v) {
			c.secrets(v, index(path, i))
		}
	}
	for _, f := range n.fields {
		if worth(f.val) {
			c.secrets(f.val, join(path, f.key))
		}
	}
}
