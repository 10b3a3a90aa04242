package file

import (
	"bytes"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// ReadText returns the JSON value raw with each string in it that d does not allow, and whose text
// is JSON of a type that d does allow, replaced by that JSON. Elsewhere, and where d allows a string,
// the value stays as it is. ReadText reads no text that exceeds lim. It calls read for each string that it
// replaces, with the string's place ("", "[2]", ".name") and the types that d allows there. raw
// must be valid.
func (d *Definition) ReadText(raw []byte, lim wire.Limits, at string, read func(at, expected string)) []byte {
	if wire.KindOf(raw) == wire.String && !d.TypeFits(raw) {
		value := d.inText(raw, lim)
		if value == nil {
			return raw
		}
		read(at, d.Expects())
		raw = value
	}
	kind := wire.KindOf(raw)
	if kind == wire.Array && d.Items == nil || kind == wire.Object && d.Properties == nil || kind < wire.Array || lim.Depth <= 1 {
		return raw
	}
	lim.Depth--
	out := []byte{raw[0]}
	changed, i := false, 0
	wire.Each(raw, func(name, v []byte) bool {
		out = wire.Comma(out)
		value := v
		if kind == wire.Array {
			value = d.Items.ReadText(v, lim, index(at, i), read)
		} else {
			out = append(wire.AppendQuoted(out, name), ':')
			if p := d.Property(name); p != nil {
				value = p.ReadText(v, lim, at+"."+string(name), read)
			}
		}
		changed = changed || &value[0] != &v[0]
		out = append(out, value...)
		i++
		return true
	})
	if !changed {
		return raw
	}
	return append(out, raw[0]+2) // in ASCII, ] is [ + 2 and } is { + 2
}

// inText returns the value that the text of a string holds, or nil if it holds none whose type d allows.
func (d *Definition) inText(raw []byte, lim wire.Limits) []byte {
	text := bytes.TrimSpace(wire.Unquoted(raw))
	if d.may(TypeBoolean) {
		for _, word := range [...]string{"true", "false"} {
			if bytes.EqualFold(text, []byte(word)) { // Python writes True
				return []byte(word)
			}
		}
	}
	if len(text) == 0 || wire.Check(text, lim) != nil || wire.KindOf(text) == wire.Null || !d.TypeFits(text) {
		return nil
	}
	return text
}
