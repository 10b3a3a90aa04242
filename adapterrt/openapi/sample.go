package openapi

import (
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Draft is a request to an operation of a file, and an answer of the API. The caller of
// [Document.Import] makes an example of it.
type Draft struct {
	Operation string
	Request   string // JSON
	Receives  string // as the receives section of an example has it
	Random    bool   // what it sends differs each time, so that there is no example of it
}

// maxSample is the largest size of an example's answer and of an optional value in its request.
const maxSample = 400

// draft makes a request of the examples of the document, or of values that fit. compiled is
// the operation as it was read from the file. It returns false if there is no such value.
func (d *Document) draft(op *operation, compiled *file.Operation) (*Draft, string) {
	o := wire.Members(nil)
	any := false
	for _, p := range op.params {
		if !p.required && !p.needed { // those that are hidden are neither
			continue
		}
		i, ok := compiled.Param([]byte(p.name))
		if !ok {
			return nil, p.name
		}
		raw := p.sample(compiled.Params[i], p.file(op))
		if raw == nil && p.required {
			return nil, p.name
		}
		if raw == nil {
			continue
		}
		o = o.Raw(p.name, raw)
		any = true
	}
	request := wire.Members(nil).Str("operation", op.name)
	if any {
		request = request.Raw("params", o.End())
	}
	return &Draft{op.name, string(request.End()), d.received(op), op.request.as == "multipart"}, "" // its boundary is random
}

// file reports whether the value of a parameter is base64.
func (p *param) file(op *operation) bool {
	return op.request.as == "bytes" && p.in == "body" || op.request.as == "multipart" && p.format == "binary"
}

// sample returns the first value that fits: of the examples, then one that is made up.
func (p *param) sample(compiled *file.Param, base64 bool) []byte {
	fits := func(raw []byte) bool {
		return len(raw) <= 4<<10 && !hasSecret(raw) && wire.Check(raw, wire.Limits{Depth: 20, Unicode: true}) == nil && compiled.Accepts(raw) &&
			(p.in != "path" || string(raw) != `""` && !strings.ContainsAny(string(raw), "/%\\.")) &&
			(p.in != "header" || !strings.ContainsAny(string(raw), "\\"))
	}
	if base64 {
		return []byte(`"aGVsbG8="`)
	}
	for _, e := range p.examples {
		if raw := e.JSON(nil); fits(raw) {
			return raw
		}
		if p.typ == "string" && e.scalar() { // a number as the example of a text
			if raw := wire.AppendQuoted(nil, e.text); fits(raw) {
				return raw
			}
		}
	}
	if slices.Contains(p.also, "string") && p.typ != "string" && (p.in == "path" || p.in == "query") {
		// What is sent is a text: one that is a number fits both types, and some servers refuse that.
		if raw := []byte(`"example"`); fits(raw) {
			return raw
		}
	}
	for try := range 6 {
		if raw := p.definition.invent(nil, try, 0); fits(raw) {
			return raw
		}
	}
	return nil
}

// hasSecret reports whether something in a value looks like a credential.
func hasSecret(raw []byte) bool {
	s := string(raw)
	return clean.MayHaveSecret(s) && clean.MaskSecrets(s) != s
}

// samples are texts for formats.
var samples = map[string]string{
	"date": "2026-01-31", "date-time": "2026-01-31T12:00:00Z", "time": "12:00:00Z", "duration": "P1D", "uuid": "3fa85f64-5717-4562-b3fc-2c963f66afa6",
	"email": "ada@example.com", "idn-email": "ada@example.com", "uri": "https://example.com/", "url": "https://example.com/", "uri-reference": "/a",
	"hostname": "example.com", "ipv4": "192.0.2.1", "ipv6": "2001:db8::1", "byte": "aGVsbG8=", "json-pointer": "/a", "regex": "a+",
}

// invent appends a value that fits the definition. try is the number of values that did not
// fit, each somewhat different.
func (d *definition) invent(dst []byte, try, depth int) []byte {
	if len(d.enum) > 0 {
		return d.enum[min(try, len(d.enum)-1)].JSON(dst)
	}
	switch d.typ {
	case "integer", "number":
		return d.inventNumber(dst, try)
	case "boolean":
		return append(dst, "true"...)
	case "array":
		return d.inventArray(dst, try, depth)
	case "object":
		o := wire.Members(nil)
		if d.props == nil && d.values != nil && depth < 8 {
			o = o.Raw("example", d.values.example(nil, try, depth+1))
		}
		for i, p := range d.props {
			if !p.needed && (i > 0 || slices.ContainsFunc(d.props, func(p property) bool { return p.needed })) {
				continue // an object with no required member gets one
			}
			o = o.Raw(p.name, p.example(nil, try, depth+1))
		}
		return append(dst, o.End()...)
	}
	s := samples[d.format]
	if s == "" && d.pattern != "" {
		if re, err := syntax.Parse(d.pattern, syntax.Perl); err == nil {
			g := generator{more: try * max(1, d.minLen)}
			g.write(re.Simplify(), 0)
			s = g.String()
		}
	} else if s == "" {
		s = "example"
	}
	if n := d.minLen - len(s); n > 0 && n < 4096 && d.pattern == "" {
		s += strings.Repeat("x", n)
	}
	if d.maxLen >= 0 && d.maxLen < len(s) && d.pattern == "" && samples[d.format] == "" {
		s = s[:d.maxLen]
	}
	return wire.AppendQuoted(dst, s)
}

// example appends an example of the document, or a value that fits.
func (d *definition) example(dst []byte, try, depth int) []byte {
	if try == 0 {
		for _, e := range d.examples {
			if kind := e.kind.String(); (kind == d.typ || kind == "number" && d.typ == "integer" && isWhole(e.text)) && kind != "object" && kind != "array" && e.size() < maxSample {
				return e.JSON(dst)
			}
		}
	}
	return d.invent(dst, try, depth)
}

// generator writes a text that matches a pattern. It knows no anchors within the text.
type generator struct {
	strings.Builder
	more int // how often what may be repeated is repeated beyond the smallest number
}

func (g *generator) write(re *syntax.Regexp, depth int) {
	if depth > 50 || g.Len() > 2000 {
		return
	}
	switch re.Op {
	case syntax.OpLiteral:
		for _, r := range re.Rune {
			g.WriteRune(r)
		}
	case syntax.OpCharClass:
		g.WriteRune(pick(re.Rune))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		g.WriteByte('a')
	case syntax.OpStar, syntax.OpPlus, syntax.OpQuest:
		n := g.more
		if re.Op == syntax.OpPlus {
			n++
		}
		if re.Op == syntax.OpQuest {
			n = min(n, 1)
		}
		for range min(n, 300) {
			g.write(re.Sub[0], depth+1)
		}
	case syntax.OpRepeat:
		for range re.Min {
			g.write(re.Sub[0], depth+1)
		}
	case syntax.OpConcat, syntax.OpCapture:
		for _, s := range re.Sub {
			g.write(s, depth+1)
		}
	case syntax.OpAlternate:
		g.write(re.Sub[0], depth+1)
	}
}

// pick returns a character of a class, a letter or digit if there is one.
func pick(class []rune) rune {
	for _, want := range "a0A1-_" {
		for i := 0; i+1 < len(class); i += 2 {
			if class[i] <= want && want <= class[i+1] {
				return want
			}
		}
	}
	for i := 0; i+1 < len(class); i += 2 {
		for r := class[i]; r <= class[i+1] && r < class[i]+200; r++ {
			if r > ' ' && r < 0x7f {
				return r
			}
		}
	}
	if len(class) > 0 {
		return class[0]
	}
	return 'a'
}

// received makes the answer of an example: the document's own example, cut, or the smallest
// one of the right kind.
func (d *Document) received(op *operation) string {
	for _, a := range op.raw.answers {
		if a.status[0] != '2' {
			continue
		}
		status := a.status
		if strings.ContainsAny(status, "xX") {
			status = "200"
		}
		if len(a.content) == 0 {
			if status == "200" {
				status = "204" // an answer without content
			}
			return status
		}
		if op.response.as != "" && (op.response.as != "auto" || !slices.ContainsFunc(a.content, func(c media) bool { return isJSON(c.kind) })) {
			return status + " " + a.content[0].kind + "\n" + otherAnswer(op.response.as)
		}
		for _, c := range a.content {
			if !isJSON(c.kind) {
				continue
			}
			kind := c.kind
			if strings.Contains(kind, "*") || kind == "" {
				kind = "application/json"
			}
			m := &mapper{doc: d, op: &operation{}, levels: 1, limit: fewSteps, raw: op.raw}
			s := m.shape(c.schema)
			examples := append(slices.Clone(c.examples), s.examples...)
			for _, e := range examples {
				if e.kind >= wire.Array {
					return status + " " + kind + "\n" + string(trimmed(e, maxSample).JSON(nil))
				}
			}
			body := "{}"
			if len(s.types) > 0 && s.types[0] == "array" {
				body = "[]"
			}
			return status + " " + kind + "\n" + body
		}
		return status + " application/json\n{}"
	}
	if op.response.as != "" {
		return "200 text/plain\n" + otherAnswer(op.response.as)
	}
	return "200 application/json\n{}"
}

func otherAnswer(as string) string {
	switch as {
	case "csv":
		return "id,name\n1,Ada"
	case "xml":
		return "<ok>yes</ok>"
	case "html":
		return "<p>OK</p>"
	case "ndjson":
		return `{"ok":true}`
	case "sse":
		return `data: {"ok":true}`
	}
	return "OK"
}

// trimmed returns an example cut to about limit bytes: of lists the first element, of objects
// the first members, of texts the beginning.
func trimmed(n *node, limit int) *node {
	switch n.kind {
	case wire.String:
		if hasSecret([]byte(n.text)) {
			return text("[redacted]")
		}
		if len(n.text) > 80 {
			return text(strings.ToValidUTF8(n.text[:80], "") + "…")
		}
	case wire.Array:
		out := array()
		for _, v := range n.kids[:min(len(n.kids), 1)] {
			out.kids = append(out.kids, trimmed(v, limit-2))
		}
		return out
	case wire.Object:
		out := object(nil)
		left := limit - 2
		for i, v := range n.kids {
			v = trimmed(v, left/2)
			size := v.size() + len(n.keys[i]) + 4
			if size > left || len(n.keys[i]) > 100 {
				continue
			}
			left -= size
			out.keys, out.kids = append(out.keys, n.keys[i]), append(out.kids, v)
		}
		return out
	}
	return n
}

// inventNumber appends a number within the bounds.
func (d *definition) inventNumber(dst []byte, try int) []byte {
	switch {
	case d.min != "" && !d.minOpen:
		return append(dst, d.min...)
	case d.max != "" && !d.maxOpen && (d.min == "" && strings.HasPrefix(d.max, "-") || d.min != ""):
		return append(dst, d.max...)
	case d.min != "" || d.max != "":
		lo, _ := strconv.ParseFloat(d.min, 64)
		hi, err := strconv.ParseFloat(d.max, 64)
		switch {
		case err != nil:
			hi = lo + 2
		case d.min == "":
			lo = hi - 2
		}
		return strconv.AppendFloat(dst, (lo+hi)/2, 'f', -1, 64)
	case d.step != "":
		return append(dst, d.step...)
	}
	return strconv.AppendInt(dst, int64(1-try%2), 10)
}

// inventArray appends an array with as many elements as it must have, and at least one.
func (d *definition) inventArray(dst []byte, try, depth int) []byte {
	dst = append(dst, '[')
	for i := range min(max(1, d.minItems), 20) {
		if d.items == nil || depth >= 8 {
			break
		}
		dst = wire.Comma(dst)
		at := len(dst)
		dst = d.items.example(dst, try+i, depth+1)
		if d.unique && i > 0 && wire.KindOf(dst[at:]) == wire.String && len(d.items.enum) == 0 && d.items.pattern == "" {
			dst = append(strconv.AppendInt(dst[:len(dst)-1], int64(i+1), 10), '"')
		}
	}
	return append(dst, ']')
}
