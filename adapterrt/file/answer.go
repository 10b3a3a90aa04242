package file

import (
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Answer holds the keys of a response block that say how the API's answers are read. The
// answers of an operation without these keys are JSON.
type Answer struct {
	As       AnswerFormat
	Accept   string     // "" for the adapter's own Accept header
	ranges   []string   // the media types that the file's accept names, in lower case; nil if it has none
	Decode   [][]string // paths of texts in base64
	MaxBytes int        // of an answer that is shown as an image or a file
	OK       []int      // 4xx and 5xx statuses that count as success
	Join     [][]string // at most one path: the texts at this path are joined to one text
}

// AnswerFormat is the format as which an answer is read.
type AnswerFormat uint8

// The formats of an answer.
const (
	ReadJSON AnswerFormat = iota
	ReadText
	ReadHTML
	ReadCSV
	ReadXML
	ReadLines
	ReadEvents
	ReadBase64
	ReadMedia
	ReadAuto
)

var answerFormats = []string{"json", "text", "html", "csv", "xml", "ndjson", "sse", "base64", "media", "auto"}

// accepted is the Accept header for each format.
var accepted = [...]string{"", "text/plain, */*;q=0.5", "text/html", "text/csv, */*;q=0.5", "application/xml, text/xml;q=0.9", "application/x-ndjson, */*;q=0.5",
	"text/event-stream", "*/*", "*/*", "*/*"}

// answerBlock has the keys of a response block that say how an answer is read.
var answerBlock = block{"operations.CATEGORY[].response", "", []key{
	{"as", "json, text, html, csv, xml, ndjson, sse, base64, media, auto", "json", "The format of the answer."},
	{"accept", "string", "", "The Accept header. Without it, that of the format. With `as: auto`, answers of a binary type that it does not name are errors."},
	{"decode", "map", "", "Dotted paths of texts that are base64, in a JSON answer: `path: base64`."},
	{"max_bytes", "integer 1–104857600", "1048576", "The greatest size of an image or file."},
	{"ok", "list of integers", "", "Statuses from 400 to 599 that are no failure: the data is null, and a warning has the status."},
	{"join", "dotted path", "", "For ndjson and sse: the texts at this path become one text."},
}}

// defaultMedia is the default of MaxBytes.
const defaultMedia = 1 << 20

// answer reads the keys of answerBlock in the response block r at path.
func (c *checker) answer(r *node, path string, graphql bool) *Answer {
	if !slices.ContainsFunc(answerBlock.keys, func(k key) bool { return r.get(k.name) != nil }) {
		return nil
	}
	a := &Answer{MaxBytes: c.whole(r, path, "max_bytes", defaultMedia, 1, 100<<20), Accept: c.str(r, path, "accept")}
	a.As = AnswerFormat(c.choice(r, path, "as", answerFormats))
	if a.Accept == "" {
		a.Accept = accepted[a.As]
	} else if a.ranges = mediaRanges(a.Accept); !IsHeaderValue(a.Accept) || len(a.Accept) > 1000 {
		c.wrong(SchemaInvalidValue, path+".accept", "accept is not a header value", "media types", r.get("accept"), 0)
	}
	if graphql && a.As != ReadJSON {
		c.wrong(SchemaInvalidValue, path+".as", "GraphQL answers in JSON", "json", r.get("as"), 0)
	}
	if d := c.get(r, path, "decode", wire.Object); d != nil {
		for _, f := range d.fields {
			at := path + ".decode." + clean.FirstRunes(f.key, 60)
			c.word(d, path+".decode", f.key, "base64")
			names := splitPath(f.key)
			if slices.Contains(names, "") || len(names) > maxPathDepth || a.As != ReadJSON {
				c.wrong(SchemaInvalidValue, at, "decode is for a dotted path in JSON", "path.to.member, as: json", f.val, f.line)
			}
			a.Decode = append(a.Decode, names)
		}
	}
	if l := c.get(r, path, "ok", wire.Array); l != nil {
		for i, e := range l.list {
			status, err := strconv.Atoi(e.text)
			switch {
			case e.kind != wire.Number:
				c.wrong(SchemaInvalidType, index(path+".ok", i), "a list of statuses is needed", "integer", e, 0)
			case err != nil || status < 400 || status > 599:
				c.wrong(SchemaInvalidValue, index(path+".ok", i), "not the status of a failure", "400–599", e, 0)
			default:
				a.OK = append(a.OK, status)
			}
		}
	}
	if j := c.str(r, path, "join"); j != "" {
		a.Join = [][]string{splitPath(j)}
		if a.As != ReadLines && a.As != ReadEvents {
			c.wrong(SchemaInvalidValue, path+".join", "join is for answers in parts", "as: ndjson or sse", r.get("join"), 0)
		}
	}
	return a
}

// mediaRanges returns the media types in an Accept header: https://www.rfc-editor.org/rfc/rfc9110#field.accept
func mediaRanges(accept string) (ranges []string) {
	for part := range strings.SplitSeq(strings.ToLower(accept), ",") {
		kind, _, _ := strings.Cut(part, ";")
		ranges = append(ranges, strings.TrimSpace(kind))
	}
	return ranges
}

// Takes reports whether an answer in the format auto may have a media type, in lower case, that is not JSON. text says that
// it is text. A page must be named by accept: in place of another answer it is mostly an error or a login. A binary type must be
// named if there is an accept.
func (a *Answer) Takes(kind string, text bool) bool {
	if kind == "text/html" || kind == "application/xhtml+xml" {
		return slices.Contains(a.ranges, kind)
	}
	family, _, _ := strings.Cut(kind, "/")
	return text || a.ranges == nil || slices.Contains(a.ranges, kind) || slices.Contains(a.ranges, family+"/*") || slices.Contains(a.ranges, "*/*")
}
