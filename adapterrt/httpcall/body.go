package httpcall

import (
	"bytes"
	"encoding/base64"
	"mime/multipart"
	"net/textproto"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// payload writes the body, from the bytes of the client's request.
func (c *Call) payload() *failure.Failure {
	op, o := c.Op, &c.Out
	if op.GraphQL != nil {
		c.variables()
		return nil
	}
	q := op.Request
	if q == nil {
		c.members()
		return nil
	}
	switch q.As {
	case file.AsForm:
		for _, i := range op.Placed[file.InBody] {
			c.addPairs(&o.Body, i)
		}
		o.HasBody = o.Body.any
	case file.AsMultipart:
		if f := c.multipart(); f != nil {
			return f
		}
	default:
		switch {
		case q.Whole >= 0:
			if f := c.whole(q); f != nil {
				return f
			}
		case q.Body != nil:
			o.Body.Text, o.HasBody = c.part(o.Body.Text, q.Body)
		default:
			c.members()
		}
		if q.Required && !o.HasBody && q.As == file.AsJSON {
			o.Body.Text = append(o.Body.Text, "{}"...)
		}
	}
	if o.HasBody = o.HasBody || q.Required; o.HasBody && o.ContentType == "" {
		o.ContentType = q.As.ContentType()
	}
	return nil
}

// members writes the body's parameters as the members of a JSON object.
func (c *Call) members() {
	op, o := c.Op, &c.Out
	body := o.Body.Text
	for _, i := range op.Placed[file.InBody] {
		if c.Values[i].Kind == wire.Absent {
			continue
		}
		if o.HasBody {
			body = append(body, ',')
		} else {
			body = append(body, '{')
			o.HasBody, o.ContentType = true, "application/json"
		}
		body = append(body, op.Params[i].BodyKey...)
		body = append(body, c.sent(i)...)
	}
	if o.HasBody {
		body = append(body, '}')
	}
	o.Body.Text = body
}

// whole writes the value of one parameter as the body.
func (c *Call) whole(q *file.Request) (f *failure.Failure) {
	o := &c.Out
	v := c.Values[q.Whole]
	if v.Kind == wire.Absent || v.Kind == wire.Null && q.As != file.AsJSON {
		return nil
	}
	o.HasBody = true
	switch raw := c.sent(q.Whole); q.As {
	case file.AsJSON:
		o.Body.Text = append(o.Body.Text, raw...)
	case file.AsText:
		o.Body.Text = AppendText(o.Body.Text, raw, false)
	default:
		o.Body.Text, f = appendBase64(o.Body.Text, c.Op.Params[q.Whole].Name, wire.Unquoted(raw))
	}
	return f
}

// appendBase64 decodes text, the base64 value of a parameter, and appends the bytes to dst.
func appendBase64(dst []byte, param string, text []byte) ([]byte, *failure.Failure) {
	out, err := base64.StdEncoding.AppendDecode(dst, text)
	if err != nil {
		return dst, failure.InvalidValue(param, "must be base64")
	}
	return out, nil
}

// part appends one member or element of the body with its value. It appends nothing and
// reports false if there is no value.
func (c *Call) part(dst []byte, p *file.BodyPart) ([]byte, bool) {
	start := len(dst)
	dst = append(dst, p.Key...)
	switch p.Kind {
	case file.PartLiteral:
		return append(dst, p.Literal...), true
	case file.PartParam:
		if c.Values[p.Param].Kind == wire.Absent {
			return dst[:start], false
		}
		return append(dst, c.sent(p.Param)...), true
	case file.PartText:
		text, ok := c.joined(nil, p.Text)
		if !ok {
			return dst[:start], false
		}
		return wire.AppendQuoted(dst, text), true
	}
	open, end := byte('{'), byte('}')
	if p.Kind == file.PartArray {
		open, end = '[', ']'
	}
	dst = append(dst, open)
	any := false
	for i := range p.Parts {
		mark := len(dst)
		dst = wire.Comma(dst)
		var there bool
		if dst, there = c.part(dst, &p.Parts[i]); there {
			any = true
		} else {
			dst = dst[:mark]
		}
	}
	if !any && p.Loose {
		return dst[:start], false
	}
	return append(dst, end), true
}

// joined appends a text that contains values of parameters. It reports false if one of the
// parameters has no value.
func (c *Call) joined(dst []byte, parts []file.TextPart) ([]byte, bool) {
	for _, t := range parts {
		if t.Param < 0 {
			dst = append(dst, t.Literal...)
			continue
		}
		if c.Values[t.Param].Kind <= wire.Null {
			return dst, false
		}
		dst = AppendText(dst, c.sent(t.Param), c.Op.Params[t.Param].Type == file.TypeInteger)
	}
	return dst, true
}

// multipart writes the body's parameters as a form with files in it:
// https://www.rfc-editor.org/rfc/rfc7578
func (c *Call) multipart() *failure.Failure {
	op, o := c.Op, &c.Out
	body := bytes.NewBuffer(o.Body.Text)
	w := multipart.NewWriter(body)
	any := false
	for _, i := range op.Placed[file.InBody] {
		p, v := op.Params[i], c.Values[i]
		if v.Kind <= wire.Null {
			continue
		}
		any = true
		if p.IsFile() != nil {
			if f := c.fileParts(w, i); f != nil {
				return f
			}
			continue
		}
		if v.Kind >= wire.Array && p.Style.IsJSON(v.Kind == wire.Object) {
			field(w, p, p.Wire, wire.AppendCompact(nil, c.sent(i)), true)
			continue
		}
		if p.Style == file.StyleRepeat && v.Kind == wire.Array {
			wire.Each(v.Raw, func(_, e []byte) bool {
				if k := wire.KindOf(e); k != wire.Null {
					field(w, p, p.Wire, AppendText(nil, e, p.IntegerItems()), k >= wire.Array)
				}
				return true
			})
			continue
		}
		var pairs Pairs // written as for a urlencoded form, and split below
		c.addPairs(&pairs, i)
		if o.Body.keys += pairs.keys; pairs.full() {
			o.Body.keys += len(pairs.Text)
			return nil // Build refuses such a request
		}
		for pair := range strings.SplitSeq(string(pairs.Text), "&") {
			key, value, _ := strings.Cut(pair, "=")
			key, _ = url.QueryUnescape(key) // no error: addPairs has escaped it
			value, _ = url.QueryUnescape(value)
			if pair != "" {
				field(w, p, key, []byte(value), false)
			}
		}
	}
	if !any && !op.Request.Required {
		return nil
	}
	_ = w.Close()
	o.Body.Text, o.HasBody, o.ContentType = body.Bytes(), true, w.FormDataContentType()
	return nil
}

// field writes a part that is no file, with the media type of its parameter. Without one, a part that is JSON says so, and any other
// one is text: https://spec.openapis.org/oas/v3.1.0#special-considerations-for-multipart-content
func field(w *multipart.Writer, p *file.Param, name string, value []byte, isJSON bool) {
	h := textproto.MIMEHeader{}
	h.Set("Content-Disposition", strings.TrimSuffix(multipart.FileContentDisposition(partName(name), ""), `; filename=""`))
	switch {
	case p.Body != nil && p.Body.Type != "":
		h.Set("Content-Type", p.Body.Type)
	case isJSON:
		h.Set("Content-Type", "application/json")
	}
	to, _ := w.CreatePart(h) // no error: it writes to memory
	_, _ = to.Write(value)
}

// fileParts writes a parameter as a file. It writes each element of an array as a file.
func (c *Call) fileParts(w *multipart.Writer, i int) (f *failure.Failure) {
	p := c.Op.Params[i]
	part := p.IsFile()
	name, ok := c.joined(nil, part.Name)
	if !ok || len(name) == 0 {
		name = []byte(p.Wire)
	}
	one := func(_, raw []byte) bool {
		content, kind := wire.Unquoted(raw), "text/plain; charset=utf-8"
		if !part.Text {
			kind = "application/octet-stream"
			if content, f = appendBase64(nil, p.Name, content); f != nil {
				return false
			}
		}
		if part.Type != "" {
			kind = part.TypeOf(content, kind)
		}
		h := textproto.MIMEHeader{}
		h.Set("Content-Disposition", multipart.FileContentDisposition(p.Wire, partName(string(name))))
		h.Set("Content-Type", kind)
		to, _ := w.CreatePart(h) // no error: it writes to memory
		_, _ = to.Write(content)
		return true
	}
	if v := c.Values[i]; v.Kind == wire.Array {
		wire.Each(v.Raw, one)
	} else {
		one(nil, v.Raw)
	}
	return f
}

// partName returns the name of a field or a file for the header of a part, without control characters: a quoted
// string must not have any (https://www.rfc-editor.org/rfc/rfc9110#section-5.6.4), and servers refuse a body with
// one. Line breaks stay, because package multipart writes them as %0D%0A, as browsers do.
func partName(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\r' && r != '\n' {
			return utf8.RuneError
		}
		return r // utf8.RuneError for each byte that is not UTF-8
	}, name)
}
