package redact

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
	"github.com/dragoman-proxy/dragoman/transform/tree"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// maxEmbedded is how many strings around a value may each be JSON.
const maxEmbedded = 6

// texts strikes secrets out of a text.
type texts interface{ Text(text string) string }

// walk writes a value without secrets.
type walk struct {
	r        texts
	method   string
	paths    [][]string
	names    []string // of the members around the value, in lower case
	embedded int
	out      []byte
	changed  bool
}

// state is what is known of a value from those around it.
type state struct {
	class  secret.Class
	whole  bool // the class is that of the configuration: true and false are secrets as well
	schema schemaPart
	about  bool // the schema is that of a member that holds a secret
}

type schemaPart uint8

const (
	noSchema  schemaPart = iota
	schema               // a JSON Schema
	schemaMap            // an object whose members are JSON Schemas
)

func (w *walk) value(v tree.Value, s state) {
	switch v.Kind() {
	case wire.Object:
		w.object(v, s)
	case wire.Array:
		w.out = append(w.out, '[')
		for e := range v.All() {
			w.out = wire.Comma(w.out)
			w.value(e, s)
		}
		w.out = append(w.out, ']')
	case wire.String:
		w.text(v, s)
	default:
		w.scalar(v, s)
	}
}

func (w *walk) object(v tree.Value, s state) {
	w.out = append(w.out, '{')
	beside := besideOf(v)
	for m := range v.All() {
		key := m.Key()
		w.key(key)
		w.names = append(w.names, strings.ToLower(key))
		inner := w.inner(s, key, m)
		inner.class = max(inner.class, beside.Of(key))
		w.value(m, inner)
		w.names = w.names[:len(w.names)-1]
	}
	w.out = append(w.out, '}')
}

// key writes the name of a member, which may hold a secret, too.
func (w *walk) key(key string) {
	safe := w.r.Text(key)
	w.changed = w.changed || safe != key
	w.out = wire.AppendName(w.out, safe)
}

// inner returns the state of a member.
func (w *walk) inner(s state, key string, m tree.Value) state {
	switch {
	case w.isListed():
		return state{class: secret.Hidden, whole: true}
	case s.class == secret.Hidden:
		return s
	case s.schema == schemaMap:
		return state{schema: schema, about: secret.ClassOf(key, "") == secret.Hidden}
	case s.schema == schema:
		switch key {
		case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
			return state{schema: schemaMap}
		case "default", "const", "enum", "examples", "example":
			if s.about {
				return state{class: secret.Hidden}
			}
			return state{}
		case "required":
			return state{}
		}
		if m.Is(wire.Object) || m.Is(wire.Array) {
			return s
		}
	case key == "requestedSchema", w.method != "tools/call" && (key == "inputSchema" || key == "outputSchema"):
		return state{schema: schema}
	case key == "mark" && len(w.names) > 1 && w.names[len(w.names)-2] == "dragoman/transform":
		return state{class: secret.Handle}
	}
	c := secret.ClassOf(key, m.Scalar())
	if c == secret.Hidden && key == "token" && len(w.names) > 1 && w.names[len(w.names)-2] == "confirmation" {
		c = secret.Handle
	}
	if c == secret.Handle && !m.Is(wire.String) {
		c = secret.Plain
	}
	return state{class: c}
}

// isListed reports whether one of the configuration's paths ends at the member that w is at.
func (w *walk) isListed() bool {
	for _, p := range w.paths {
		if len(p) <= len(w.names) && slices.EqualFunc(p, w.names[len(w.names)-len(p):], func(want, name string) bool { return want == "*" || want == name }) {
			return true
		}
	}
	return false
}

// besideOf returns what the members of an object say of each other.
func besideOf(v tree.Value) (b secret.Beside) {
	for m := range v.All() {
		if !m.Is(wire.Array) {
			b.Note(m.Key(), m.Text())
			continue
		}
		for step := range m.All() { // of a path
			b.Note(m.Key(), step.Text())
		}
	}
	return b
}

// text writes a string.
func (w *walk) text(v tree.Value, s state) {
	text := v.Text()
	var safe string
	switch {
	case text == "":
	case s.class == secret.Hidden:
		safe = Struck
	case s.class == secret.Handle:
		safe = handled(text)
	case w.isEncoded(text):
		safe = Struck
	default:
		safe = w.embeddedOr(text, s)
	}
	if safe == text {
		w.out = append(w.out, v.Raw()...) // as it is escaped
		return
	}
	w.changed = true
	w.out = wire.AppendQuoted(w.out, safe)
}

// embeddedOr returns a text without secrets. If the text is itself JSON, its members are treated like those of the message.
func (w *walk) embeddedOr(text string, s state) string {
	trimmed := strings.TrimSpace(text)
	if trimmed == "" || trimmed[0] != '{' && trimmed[0] != '[' {
		return w.r.Text(text)
	}
	v, err := tree.Parse([]byte(trimmed))
	switch {
	case err != nil:
		return w.r.Text(text)
	case w.embedded == maxEmbedded:
		return Struck
	}
	in := walk{r: w.r, method: w.method, paths: w.paths, names: w.names, embedded: w.embedded + 1}
	in.value(v, state{class: s.class})
	if !in.changed {
		return text
	}
	return string(in.out)
}

// isEncoded reports whether a text is the base64 of content with a secret.
func (w *walk) isEncoded(text string) bool {
	name := w.names
	if len(name) == 0 || name[len(name)-1] != "blob" && name[len(name)-1] != "data" {
		return false
	}
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return false
	}
	return w.r.Text(string(b)) != string(b)
}

// scalar writes a number, true, false or null.
func (w *walk) scalar(v tree.Value, s state) {
	raw := v.Raw()
	isSecret := v.Is(wire.Number) && s.class == secret.Hidden || s.whole && !v.Is(wire.Null)
	if !isSecret && v.Is(wire.Number) && len(raw) >= minSecret {
		isSecret = w.r.Text(string(raw)) != string(raw)
	}
	if isSecret {
		w.changed = true
		raw = []byte(`"` + Struck + `"`)
	}
	w.out = append(w.out, raw...)
}

// sizes writes the names of a message's members, and the types and sizes of their values.
type sizes struct {
	r   texts
	out []byte
}

// maxListed is how many elements of an array are written.
const maxListed = 20

// message writes a message. What it is, and what it calls, is shown.
func (w *sizes) message(v tree.Value) {
	w.object(v, func(m tree.Value) bool {
		switch key := m.Key(); {
		case key == "jsonrpc" || key == "id" || key == "method":
			w.asIs(m)
		case key == "params" && m.Is(wire.Object):
			w.object(m, func(m tree.Value) bool { return m.Key() == "name" && m.Is(wire.String) && w.asIs(m) })
		case key == "error" && m.Is(wire.Object):
			w.object(m, func(m tree.Value) bool { return m.Key() == "code" && m.Is(wire.Number) && w.asIs(m) })
		default:
			return false
		}
		return true
	})
}

// asIs writes a scalar without secrets. It returns false if v is none.
func (w *sizes) asIs(v tree.Value) bool {
	switch v.Kind() {
	case wire.String:
		w.out = wire.AppendQuoted(w.out, w.r.Text(v.Text()))
	case wire.Number:
		in := walk{r: w.r}
		in.scalar(v, state{})
		w.out = append(w.out, in.out...)
	default:
		w.value(v)
	}
	return true
}

// object writes an object, and any other value as value does. own writes some members itself and returns true for these.
func (w *sizes) object(v tree.Value, own func(tree.Value) bool) {
	if !v.Is(wire.Object) {
		w.value(v)
		return
	}
	w.out = append(w.out, '{')
	for m := range v.All() {
		w.out = wire.AppendName(w.out, w.r.Text(m.Key()))
		if own == nil || !own(m) {
			w.value(m)
		}
	}
	w.out = append(w.out, '}')
}

func (w *sizes) value(v tree.Value) {
	switch v.Kind() {
	case wire.Object:
		w.object(v, nil)
	case wire.Array:
		w.out = append(w.out, '[')
		n := 0
		for e := range v.All() {
			if n++; n > maxListed {
				continue
			}
			w.out = wire.Comma(w.out)
			w.value(e)
		}
		if n > maxListed {
			w.out = fmt.Appendf(w.out, `,"[%d more]"`, n-maxListed)
		}
		w.out = append(w.out, ']')
	case wire.String:
		w.out = fmt.Appendf(w.out, `"[string, %d bytes]"`, len(v.Raw())-2)
	case wire.Number:
		w.out = append(w.out, `"[number]"`...)
	case wire.Boolean:
		w.out = append(w.out, `"[boolean]"`...)
	default:
		w.out = append(w.out, "null"...)
	}
}
