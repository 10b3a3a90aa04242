package httpcall

import (
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// How much of what an API says of a failure is told.
const (
	maxErrorBody = 2000 // bytes
	maxSaid      = 8 * messageRunes
)

// errorBody is the JSON body of a failure for the details of ours, nil where it says no
// more than the message said: its texts cleaned, its depth and then its length cut.
func errorBody(body []byte, said string, z clean.Sanitizer, secrets []string) []byte {
	if len(body) == 0 || saysNoMore(body, said) {
		return nil
	}
	w := bodyWriter{z: z, secrets: secrets, said: said}
	for _, w.deepest = range [...]int{8, 4, 3} {
		if out, whole := w.value(nil, wire.Trim(body), 0); whole && len(out) > len("{}") {
			return out
		} else if whole {
			return nil
		}
	}
	w.cut = true
	out, _ := w.value(nil, wire.Trim(body), 0)
	return out
}

// saysNoMore reports whether all that a body holds is the text said, or nothing.
func saysNoMore(body []byte, said string) bool {
	body = wire.Trim(body)
	for wire.KindOf(body) >= wire.Array {
		var only []byte
		n := 0
		wire.Each(body, func(_, v []byte) bool { n++; only = v; return n < 2 })
		if n > 1 {
			return false
		}
		if body = only; body == nil {
			return true
		}
	}
	return wire.KindOf(body) == wire.Null || saidText(body[:min(len(body), maxSaid)]) == said
}

// bodyWriter writes a JSON value with its texts cleaned.
type bodyWriter struct {
	z       clean.Sanitizer
	secrets []string
	said    string // elsewhere: a member that says it again is left out
	deepest int    // containers below are left out
	cut     bool   // what is too much is left out, else it ends the work
}

// room is how long what is written may be at a depth, so that what is open can be closed.
func (w *bodyWriter) room(depth int) int { return maxErrorBody - 20*(depth+1) }

// value appends raw. whole says that nothing of its length was left out.
func (w *bodyWriter) value(dst, raw []byte, depth int) (out []byte, whole bool) {
	kind := wire.KindOf(raw)
	switch {
	case kind == wire.String:
		text := wire.Unquoted(raw)
		cleaned := w.z.Clean(string(text[:min(len(text), maxSaid)]), messageRunes, w.secrets)
		return wire.AppendQuoted(dst, cleaned), true
	case kind < wire.Array && len(raw) >= maxErrorBody:
		return append(dst, `"…"`...), false
	case kind < wire.Array:
		return append(dst, raw...), true
	case depth == w.deepest:
		return append(dst, `"…"`...), true
	}
	end := raw[0] + 2 // as they stand in ASCII
	dst = append(dst, raw[0])
	whole = true
	n := 0
	wire.Each(raw, func(name, v []byte) bool {
		if kind == wire.Object && len(v) < maxSaid && wire.KindOf(v) == wire.String && string(wire.Unquoted(v)) == w.said {
			return true
		}
		before := len(dst)
		if n++; n > 1 {
			dst = append(dst, ',')
		}
		if kind == wire.Object {
			key := clean.MaskSecrets(clean.MaskKnown(string(name[:min(len(name), maxSaid)]), w.secrets))
			dst = append(wire.AppendQuoted(dst, clean.Text(key, 100)), ':')
		}
		var all bool
		dst, all = w.value(dst, v, depth+1)
		if len(dst) <= w.room(depth) {
			whole = whole && all
			return whole || w.cut
		}
		dst, whole = dst[:before], false
		if n > 1 {
			dst = append(dst, ',')
		}
		if kind == wire.Object {
			dst = append(dst, `"…":`...)
		}
		dst = append(dst, `"…"`...)
		return false
	})
	return append(dst, end), whole
}

// errorPlaces are where APIs put the words for an error, beside those of errorMessage.
var errorPlaces = [][]string{
	{"errors"}, {"errorMessages"}, {"detail"}, {"Message"}, {"msg"}, {"reason"}, {"fault", "faultstring"}, {"error", "details"}, {"validation"},
}

// saidElsewhere finds the words for an error in places that fewer APIs use.
func saidElsewhere(body []byte) string {
	for _, path := range errorPlaces {
		v := wire.Lookup(body, path)
		if v == nil {
			continue
		}
		var said string
		switch wire.KindOf(v) {
		case wire.String:
			said = saidText(v)
		case wire.Array, wire.Object:
			said = saidOfEach(v)
		}
		if said != "" {
			return said
		}
	}
	return ""
}

// saidOfEach joins what the elements of a list say, or the members of a map by field.
func saidOfEach(raw []byte) string {
	var b strings.Builder
	wire.Each(raw, func(name, e []byte) bool {
		said := ""
		switch wire.KindOf(e) {
		case wire.Null:
			return true
		case wire.Object:
			said = saidOfOne(e)
		case wire.Array:
			said = saidOfEach(e)
		default:
			said = saidText(e)
		}
		if said == "" {
			return true
		}
		if b.Len() > 0 {
			b.WriteString("; ")
		}
		if len(name) > 0 {
			b.Write(name)
			b.WriteString(": ")
		}
		b.WriteString(said)
		return b.Len() < maxSaid
	})
	return b.String()
}

// saidOfOne is what an object says of one thing that is wrong, and where that is.
func saidOfOne(e []byte) string {
	where := ""
	for _, name := range [...]string{"loc", "location", "field", "path"} {
		if v := wire.Member(e, name); v != nil && where == "" {
			switch wire.KindOf(v) {
			case wire.String:
				where = saidText(v)
			case wire.Array:
				var steps []string
				wire.Each(v, func(_, s []byte) bool {
					steps = append(steps, saidText(s))
					return len(steps) < 32
				})
				where = strings.Join(slices.DeleteFunc(steps, func(s string) bool { return s == "" }), ".")
			}
		}
	}
	for _, name := range [...]string{"message", "msg", "description", "reason", "detail"} {
		if v := wire.Member(e, name); v != nil && wire.KindOf(v) == wire.String {
			if where == "" {
				return saidText(v)
			}
			return where + ": " + saidText(v)
		}
	}
	return saidText(e)
}

// mapped is the first of the operation's error rules that an answer fits, -1 for none. A
// success is a failure only where its body says so.
func (c *Call) mapped(status int, body []byte) int {
	return slices.IndexFunc(c.Op.Errors, func(e file.ErrorRule) bool {
		if e.Status != 0 && e.Status != status || e.Path == nil && status < 300 {
			return false
		}
		if e.Path == nil {
			return true
		}
		v := lookup(body, e.Path)
		return v != nil && wire.Equal(v, e.Is)
	})
}
