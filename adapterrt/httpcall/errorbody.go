package httpcall

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// How much of a response clients and logs receive.
const (
	previewRunes = 200
	messageRunes = 500
	loggedRunes  = 2000
	maxErrorBody = 2000 // bytes
	maxSaid      = 8 * messageRunes
)

// Reading says how the error texts of an API are passed on.
type Reading struct {
	Dev           bool // unchanged, with paths and addresses; only secrets are masked
	KeepAddresses bool // with private addresses and internal host names
	NoBody        bool // without the API's error body
	Plain         bool // a text is [Call.Plain], and not data
	Now           func() time.Time
	Sent          secret.Known // what no error text may hold, beside the credentials of its call
}

// sanitizer returns the sanitizer for texts of the API of op.
func (how Reading) sanitizer(op *file.Operation) clean.Sanitizer {
	return clean.Sanitizer{Off: how.Dev, KeepAddresses: how.KeepAddresses, Host: op.Target.Base.Host, Known: how.Sent}
}

// errorBody returns the JSON body of an API's error for the details of a failure, with its
// texts cleaned, and with its depth and then its length cut. It returns nil if the body
// contains no more than the message said.
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

// saysNoMore reports whether a body contains only the text said, or nothing.
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
	said    string // the failure's message; a member that repeats it is left out
	deepest int    // containers at this depth are left out
	cut     bool   // leave out what is too long; otherwise value stops there
}

// room returns how long the output may be at a depth, so that there is space to close the open
// containers.
func (w *bodyWriter) room(depth int) int { return maxErrorBody - 20*(depth+1) }

// value appends raw with its texts cleaned. whole says that nothing was left out because of
// its length.
func (w *bodyWriter) value(dst, raw []byte, depth int) (out []byte, whole bool) {
	kind := wire.KindOf(raw)
	switch {
	case kind == wire.String:
		text := wire.Unquoted(raw)
		cleaned := w.z.Clean(clean.Beginning(text, maxSaid), messageRunes, w.secrets)
		return wire.AppendQuoted(dst, cleaned), true
	case kind < wire.Array && len(raw) >= maxErrorBody:
		return append(dst, `"…"`...), false
	case kind < wire.Array:
		return append(dst, raw...), true
	case depth == w.deepest:
		return append(dst, `"…"`...), true
	}
	end := raw[0] + 2 // in ASCII, ] is [ + 2 and } is { + 2
	dst = append(dst, raw[0])
	whole = true
	wire.Each(raw, func(name, v []byte) bool {
		if kind == wire.Object && len(v) < maxSaid && wire.KindOf(v) == wire.String && string(wire.Unquoted(v)) == w.said {
			return true
		}
		before := len(dst)
		dst = wire.Comma(dst)
		if kind == wire.Object {
			key := clean.MaskSecrets(w.z.Mask(clean.Beginning(name, maxSaid), w.secrets))
			dst = append(wire.AppendQuoted(dst, clean.Text(key, 100)), ':')
		}
		var all bool
		dst, all = w.value(dst, v, depth+1)
		if len(dst) <= w.room(depth) {
			whole = whole && all
			return whole || w.cut
		}
		dst, whole = dst[:before], false
		dst = wire.Comma(dst)
		if kind == wire.Object {
			dst = append(dst, `"…":`...)
		}
		dst = append(dst, `"…"`...)
		return false
	})
	return append(dst, end), whole
}

// errorMessage returns the text of an error from the usual places in a JSON body. If there is
// none, or body is nil, it returns the status.
func errorMessage(body []byte, status int) string {
	word := strings.TrimSpace(strconv.Itoa(status) + " " + http.StatusText(status))
	if len(body) == 0 || body[0] != '{' {
		return word
	}
	said := func(in []byte, name string) string {
		if v := wire.Member(in, name); v != nil && wire.KindOf(v) != wire.Null {
			return saidText(v)
		}
		return ""
	}
	only := func(name string, kind wire.ValueKind, text func([]byte) string) string {
		if v := wire.Member(body, name); v != nil && wire.KindOf(v) == kind {
			return text(v)
		}
		return ""
	}
	return cmp.Or(said(body, "message"), only("error", wire.String, saidText), said(wire.Member(body, "error"), "message"),
		only("errors", wire.Array, joinedErrors), only("detail", wire.Array, saidOfEach),
		said(body, "detail"), said(body, "title"), said(body, "error_description"), saidElsewhere(body), word)
}

// joinedErrors joins the texts of the elements of errors, up to a limit.
func joinedErrors(raw []byte) string {
	var b strings.Builder
	wire.Each(raw, func(_, e []byte) bool {
		if b.Len() > 0 {
			b.WriteString("; ")
		}
		if m := wire.Member(e, "message"); m != nil && wire.KindOf(m) != wire.Null {
			b.WriteString(saidText(m))
		} else {
			b.WriteString(saidText(e))
		}
		return b.Len() < 8*messageRunes
	})
	return b.String()
}

// saidText returns the text of a string, and compact JSON for any other value.
func saidText(raw []byte) string {
	raw = raw[:len(raw):len(raw)]
	if wire.KindOf(raw) == wire.String {
		return string(wire.Unquoted(raw))
	}
	return string(wire.AppendCompact(nil, raw))
}

// How much of a response clients and logs receive.

// errorPlaces are the members in which APIs put an error's text, in addition to those that
// errorMessage reads.
var errorPlaces = [][]string{
	{"errors"}, {"errorMessages"}, {"detail"}, {"Message"}, {"msg"}, {"reason"}, {"fault", "faultstring"}, {"error", "details"}, {"validation"},
}

// saidElsewhere returns the text of an error from one of errorPlaces, which fewer APIs use. It
// returns "" if there is none.
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

// saidOfEach joins the texts of a list's elements, or of an object's members with their names.
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

// saidOfOne returns the text of an object that describes one error, after the error's location
// if the object has one.
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

// mapped returns the index of the first of the operation's error rules that applies to an
// answer, or -1 if there is none. Only a rule about the body can make a failure of a success.
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
