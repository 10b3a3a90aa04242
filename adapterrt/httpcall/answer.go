package httpcall

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"mime"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// answerReader reads one answer that is not JSON.
type answerReader struct {
	kind string // media type, in lower case
	said string // the Content-Type header, cleaned
	set  string // charset, in lower case
	body []byte
}

// content turns the body of a success into data, as the response block of its operation says.
func (c *Call) content(r *Reply, body []byte, z clean.Sanitizer, how Reading) ([]byte, *failure.Failure) {
	d := &answerReader{body: body, said: z.Clean(r.ContentType, 200, c.Out.Secrets)}
	var params map[string]string
	d.kind, params = mediaType(r.ContentType)
	d.set = strings.ToLower(params["charset"])
	as := c.Op.Answer.As
	if as == file.ReadAuto { // and not JSON
		if as = file.ReadMedia; d.isText() {
			as = file.ReadText
		}
	}
	switch {
	case as == file.ReadBase64:
		o := wire.Members(make([]byte, 0, base64.StdEncoding.EncodedLen(len(body))+300))
		o = append(o.Str("content_type", d.mediaType()).Int("bytes", int64(len(body))), `,"base64":"`...)
		return append(base64.StdEncoding.AppendEncode(o, body), `"}`...), nil
	case as == file.ReadMedia && d.kind != "image/svg+xml":
		return c.show(d.mediaType(), body), nil
	}
	text, problem := d.text(as == file.ReadXML)
	if problem != "" {
		return nil, d.unreadable(r, problem)
	}
	var data []byte
	switch as {
	case file.ReadHTML:
		data = wire.AppendQuoted(nil, c.markdown(text))
	case file.ReadCSV:
		data, problem = c.table(text)
	case file.ReadXML:
		data, problem = xmlToJSON(text)
	case file.ReadLines:
		data, problem = c.lines(text)
	case file.ReadEvents:
		data, problem = c.events(text)
	default:
		if c.Plain = nil; how.Plain && text != "" {
			c.Plain = wire.Bytes(text)
			return nil, nil
		}
		data = wire.AppendQuoted(make([]byte, 0, wire.QuotedLen(text)), text)
	}
	if problem != "" {
		return nil, d.unreadable(r, problem)
	}
	return data, nil
}

// isNot reports whether an answer in the format auto, which is not JSON, is in no format that is read: it calls itself JSON, or
// has a type that the operation does not take.
func (c *Call) isNot(r *Reply, body []byte) bool {
	d := &answerReader{body: body}
	d.kind, _ = mediaType(r.ContentType)
	return isJSON(d.kind) || !c.Op.Answer.Takes(d.kind, d.isText())
}

// isJSON reports whether a media type is one of JSON.
func isJSON(kind string) bool {
	return kind == "application/json" || kind == "text/json" || strings.HasSuffix(kind, "+json")
}

// mediaType parses a Content-Type. If it is not valid, it returns the part before the
// parameters.
func mediaType(header string) (kind string, params map[string]string) {
	kind, params, err := mime.ParseMediaType(header)
	if err != nil {
		kind, _, _ = strings.Cut(header, ";")
		kind = strings.ToLower(strings.TrimSpace(kind))
	}
	return kind, params
}

// isBinary reports whether content of a media type is not text.
func isBinary(kind string) bool {
	return slices.ContainsFunc([]string{"image/", "audio/", "video/", "font/", "application/octet-stream", "application/pdf", "application/zip",
		"application/gzip", "application/x-gzip", "application/x-tar", "application/x-7z", "application/x-bzip", "application/zstd",
		"application/x-protobuf", "application/protobuf", "application/msgpack", "application/x-msgpack", "application/vnd.ms-", "application/wasm",
	}, func(p string) bool { return strings.HasPrefix(kind, p) })
}

// otherCharset reports whether a charset is not UTF-8.
func otherCharset(c string) bool {
	return !slices.Contains([]string{"", "utf-8", "utf8", "us-ascii", "ascii"}, strings.ToLower(c))
}

// unreadable returns the failure for an answer that is not in the format that the file names.
func (d *answerReader) unreadable(r *Reply, problem string) *failure.Failure {
	o := wire.Members(nil).Str("content_type", d.said).Int("http_status", int64(r.Status))
	return &failure.Failure{Code: failure.SerializationParse, Message: "Failed to read the response: " + problem, Details: o.End(), Answered: r.Status}
}

// isText reports whether the answer is text, by its media type or its bytes.
func (d *answerReader) isText() bool {
	switch {
	case strings.HasPrefix(d.kind, "text/"), isJSON(d.kind), strings.HasSuffix(d.kind, "+xml"), strings.HasSuffix(d.kind, "yaml"):
		return true
	case slices.Contains([]string{"application/xml", "application/x-ndjson", "application/javascript", "application/sql", "application/toml"}, d.kind):
		return true
	}
	return !isBinary(d.kind) && utf8.Valid(d.body) && bytes.IndexByte(d.body, 0) < 0
}

// mediaType returns the media type in the header. If the header has none, or a useless one, it
// returns the media type that the first bytes indicate.
func (d *answerReader) mediaType() string {
	if d.kind == "" || d.kind == "application/octet-stream" || strings.ContainsFunc(d.said, func(r rune) bool { return r < ' ' || r > '~' }) {
		kind, _ := mediaType(http.DetectContentType(d.body))
		return kind
	}
	return clean.Text(d.kind, 100)
}

// show adds content to the media of the call, and returns the JSON that describes it in the
// data. All media of a call together have at most the operation's max_bytes.
func (c *Call) show(kind string, content []byte) []byte {
	sum := sha256.Sum256(content)
	name := hex.EncodeToString(sum[:])
	if len(content) > c.Op.Answer.MaxBytes-c.shown {
		c.Warn(failure.Notice{Code: "MEDIA_TOO_LARGE", Message: "The content is too large to be shown", Severity: "medium",
			Details: wire.Members(nil).Int("bytes", int64(len(content))).Int("limit", int64(c.Op.Answer.MaxBytes)).End()})
	} else if len(content) > 0 {
		c.shown += len(content)
		c.Media = append(c.Media, Media{kind, content, "adapter://" + c.Op.Adapter.Name + "/" + c.Op.Name + "/" + name})
	}
	return wire.Members(nil).Str("content_type", kind).Int("bytes", int64(len(content))).Str("sha256", name).End()
}

// isImage reports whether the first bytes of content are those of an image format that models
// can read, and returns the media type.
func isImage(content []byte) (kind string, ok bool) {
	kind = http.DetectContentType(content)
	return kind, slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}, kind)
}

// Block returns the type of the content block for m: image, audio or resource. It is image or
// audio only if the header and the first bytes agree.
func (m *Media) Block() string {
	if kind, ok := isImage(m.Content); ok && kind == m.Type {
		return "image"
	}
	if strings.HasPrefix(m.Type, "audio/") && strings.HasPrefix(http.DetectContentType(m.Content), "audio/") {
		return "audio"
	}
	return "resource"
}

var charsets = map[string]encoding.Encoding{
	"iso-8859-1": charmap.Windows1252, "latin1": charmap.Windows1252, "windows-1252": charmap.Windows1252, // https://encoding.spec.whatwg.org/#names-and-labels
	"utf-16": unicode.UTF16(unicode.LittleEndian, unicode.UseBOM), "utf-16le": unicode.UTF16(unicode.LittleEndian, unicode.UseBOM),
	"utf-16be": unicode.UTF16(unicode.BigEndian, unicode.UseBOM),
}

// declaredCharset returns the encoding in an XML declaration, or "" if there is none.
func declaredCharset(body []byte) string {
	head, _, ok := bytes.Cut(body[:min(len(body), 200)], []byte("?>"))
	if !ok || !bytes.HasPrefix(head, []byte("<?xml")) {
		return ""
	}
	_, after, _ := strings.Cut(string(head), "encoding=")
	if after == "" {
		return ""
	}
	set, _, _ := strings.Cut(after[1:], after[:1])
	return strings.ToLower(set)
}

// text returns the body in UTF-8, with \n as line ends; it may be a view of the body. declared says that the text may
// declare its own charset, as XML does. If the body cannot be read, problem says why.
func (d *answerReader) text(declared bool) (text, problem string) {
	body, set := d.body, d.set
	switch {
	case bytes.HasPrefix(body, []byte("\xef\xbb\xbf")):
		body, set = body[3:], "utf-8"
	case bytes.HasPrefix(body, []byte("\xff\xfe")), bytes.HasPrefix(body, []byte("\xfe\xff")):
		set = "utf-16"
	case set == "" && declared:
		set = declaredCharset(body)
	}
	if otherCharset(set) {
		from := charsets[set]
		if from == nil {
			return "", "charset '" + clean.Text(set, 40) + "' is not supported"
		}
		out, err := from.NewDecoder().Bytes(body)
		if err != nil {
			return "", "text is not " + set
		}
		body = bytes.TrimPrefix(out, []byte("\xef\xbb\xbf"))
	}
	if !utf8.Valid(body) {
		return "", "invalid UTF-8"
	}
	if bytes.IndexByte(body, '\r') < 0 {
		return wire.View(body), ""
	}
	return strings.ReplaceAll(strings.ReplaceAll(wire.View(body), "\r\n", "\n"), "\r", "\n"), ""
}

// Decoded decodes the base64 texts in data that the response block names. It replaces a text
// with the decoded text, and an image with its description, after adding the image to the
// media. Other values stay base64.
func (c *Call) Decoded(data []byte) []byte {
	if c.Op.Answer == nil || len(data) == 0 {
		return data
	}
	for _, path := range c.Op.Answer.Decode {
		if out, changed := c.decode(nil, data, path); changed {
			data = out
		}
	}
	return data
}

// decode appends raw to dst with the value at path decoded.
func (c *Call) decode(dst, raw []byte, path []string) (out []byte, changed bool) {
	kind := wire.KindOf(raw)
	if kind == wire.Array { // decode the path in each element
		dst = append(dst, '[')
		wire.Each(raw, func(_, v []byte) bool {
			dst = wire.Comma(dst)
			var one bool
			dst, one = c.decode(dst, v, path)
			changed = changed || one
			return true
		})
		return append(dst, ']'), changed
	}
	if kind != wire.Object {
		return append(dst, raw...), false
	}
	// If the API says how the value is encoded, it does so in a sibling member.
	said := wire.Member(raw, "encoding")
	last := len(path) == 1
	skip := last && said != nil && wire.KindOf(said) == wire.String && string(wire.Unquoted(said)) != "base64"
	text := false
	var value []byte
	if last && !skip {
		if v := wire.Member(raw, path[0]); v != nil && wire.KindOf(v) == wire.String {
			value, text = c.decoded(v)
		}
	}
	dst = append(dst, '{')
	wire.Each(raw, func(name, v []byte) bool {
		dst = wire.AppendName(dst, name)
		switch {
		case string(name) == path[0] && !last:
			var one bool
			dst, one = c.decode(dst, v, path[1:])
			changed = changed || one
		case string(name) == path[0] && value != nil:
			dst, changed = append(dst, value...), true
		case string(name) == "encoding" && text:
			dst = append(dst, `"utf-8"`...)
		default:
			dst = append(dst, v...)
		}
		return true
	})
	return append(dst, '}'), changed
}

// decoded returns the JSON that replaces the base64 text v, or nil if v stays. text says that
// the content is text.
func (c *Call) decoded(v []byte) (value []byte, text bool) {
	in := bytes.Map(func(r rune) rune {
		if r == '\n' || r == '\r' || r == ' ' {
			return -1
		}
		return r
	}, wire.Unquoted(v))
	content, err := base64.StdEncoding.AppendDecode(nil, in)
	if err != nil {
		return nil, false
	}
	if kind, ok := isImage(content); ok {
		return c.show(kind, content), false
	}
	if !utf8.Valid(content) || bytes.IndexByte(content, 0) >= 0 {
		c.Warn(failure.Notice{Code: "DECODE_BINARY", Message: "The content is no text and stays base64", Severity: "low",
			Details: wire.Members(nil).Int("bytes", int64(len(content))).End()})
		return nil, false
	}
	return wire.AppendQuoted(nil, content), true
}
