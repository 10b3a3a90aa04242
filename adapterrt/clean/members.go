package clean

import (
	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

const (
	maxMembers  = 32 // containers at this depth are left out, as no error shows them
	maxEmbedded = 6  // how many strings around a value may each be JSON
)

// Members returns an API's JSON, which is valid, without the values of members whose names are those of secrets, at any
// depth and also in strings that are JSON. What such a value only says to be wrong with a secret stays, see
// [secret.IsAdvice]. It returns body itself if there are none.
func Members(body []byte) []byte {
	m := masker{}
	out := m.value(make([]byte, 0, min(len(body), 64<<10)), wire.Trim(body), false, 0)
	if !m.changed {
		return body
	}
	return out
}

// masker writes a JSON value without secrets.
type masker struct {
	changed  bool
	embedded int // strings around the value
}

// value appends raw. isSecret says that the value belongs to a member with the name of a secret.
func (m *masker) value(dst, raw []byte, isSecret bool, depth int) []byte {
	switch kind := wire.KindOf(raw); {
	case kind == wire.String:
		return m.text(dst, raw, isSecret)
	case kind == wire.Number && isSecret:
		return m.struck(dst)
	case kind < wire.Array:
		return append(dst, raw...)
	case depth == maxMembers:
		m.changed = true
		return append(dst, `"…"`...)
	}
	beside := besideOf(raw)
	dst = append(dst, raw[0])
	wire.Each(raw, func(name, v []byte) bool {
		dst = wire.Comma(dst)
		inner := isSecret
		if raw[0] == '{' {
			dst = append(wire.AppendQuoted(dst, name), ':')
			inner = inner || secret.ClassOf(string(name), scalar(v)) == secret.Hidden || beside.Of(string(name)) == secret.Hidden
		}
		dst = m.value(dst, v, inner, depth+1)
		return true
	})
	return append(dst, raw[0]+2) // in ASCII, ] is [ + 2 and } is { + 2
}

// text appends a string.
func (m *masker) text(dst, raw []byte, isSecret bool) []byte {
	text := wire.Unquoted(raw)
	if len(text) == 0 || isSecret && secret.IsAdvice(string(text)) {
		return append(dst, raw...)
	}
	if isSecret {
		return m.struck(dst)
	}
	inner := wire.Trim(text)
	if len(inner) == 0 || inner[0] != '{' && inner[0] != '[' || !wire.Valid(inner) {
		return append(dst, raw...)
	}
	if m.embedded == maxEmbedded {
		return m.struck(dst)
	}
	in := masker{embedded: m.embedded + 1}
	out := in.value(nil, inner, false, 0)
	if !in.changed {
		return append(dst, raw...)
	}
	m.changed = true
	return wire.AppendQuoted(dst, out)
}

func (m *masker) struck(dst []byte) []byte {
	m.changed = true
	return append(append(append(dst, '"'), secret.Struck...), '"')
}

// scalar returns a number as it is written, and "" for every other value.
func scalar(raw []byte) string {
	if wire.KindOf(raw) != wire.Number {
		return ""
	}
	return string(raw)
}

// besideOf returns what the members of an object say of each other.
func besideOf(raw []byte) (b secret.Beside) {
	if raw[0] != '{' {
		return b
	}
	wire.Each(raw, func(name, v []byte) bool {
		switch wire.KindOf(v) {
		case wire.String:
			b.Note(string(name), string(wire.Unquoted(v)))
		case wire.Array: // the steps of a path
			wire.Each(v, func(_, step []byte) bool {
				if wire.KindOf(step) == wire.String {
					b.Note(string(name), string(wire.Unquoted(step)))
				}
				return true
			})
		}
		return true
	})
	return b
}
