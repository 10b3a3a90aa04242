package file

import (
	"net/http"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Request is an operation's request block: how its parameters become a body, and further
// headers. An operation without a request block sends the parameters of its body as the
// members of a JSON object.
type Request struct {
	As       BodyFormat
	Required bool      // an empty body is sent if no parameter has a value
	Whole    int       // index of the parameter that is the whole body, -1 for none
	Body     *BodyPart // template of a JSON body, nil for one member per parameter
	Headers  []Header
	form     Style
	index    Index
}

// BodyFormat is the format in which a body is sent.
type BodyFormat uint8

// The formats of a body.
const (
	AsJSON BodyFormat = iota
	AsForm
	AsMultipart
	AsText
	AsBytes
)

var bodyFormats = []string{"json", "form", "multipart", "text", "bytes"}

// ContentType returns the media type of a body in the format. For a multipart body, it has no
// boundary.
func (f BodyFormat) ContentType() string {
	return [...]string{"application/json", "application/x-www-form-urlencoded", "multipart/form-data", "text/plain; charset=utf-8", "application/octet-stream"}[f]
}

// BodyPart is one value in a body: a literal, a parameter's value, a text with values in
// it, or a container of such values.
type BodyPart struct {
	Key     string // "name": as it is sent, with quotes and colon; "" at the top and in arrays
	Kind    PartKind
	Literal []byte     // JSON
	Param   int        // index in the operation
	Text    []TextPart // of a string
	Parts   []BodyPart // of a container
	Loose   bool       // a container that is left out if it would be empty
	name    string
}

// PartKind says which field of a [BodyPart] holds its value.
type PartKind uint8

// The kinds of a [BodyPart].
const (
	PartLiteral PartKind = iota
	PartParam
	PartText
	PartArray
	PartObject
)

// TextPart is a piece of a text: a literal, or the value of a parameter.
type TextPart struct {
	Literal string
	Param   int // index in the operation, -1 for a literal
}

// FilePart says how a parameter is sent as a file in a multipart body.
type FilePart struct {
	Name []TextPart // nil for the parameter's own name
	Type string     // media types or ranges, of which the content decides; "" to derive it from the value
	Text bool       // the value is the file's text, not base64
}

// TypeOf returns the media type of a file with this content: the only one of Type, or of several and of ranges the one
// that the first bytes indicate. If they indicate none of them, it is the first that is no range, or else other.
func (f *FilePart) TypeOf(content []byte, other string) string {
	if !strings.ContainsAny(f.Type, ",*") {
		return f.Type
	}
	is, _, _ := strings.Cut(http.DetectContentType(content), ";")
	family, _, _ := strings.Cut(is, "/")
	ranges := mediaRanges(f.Type)
	if slices.Contains(ranges, is) || slices.Contains(ranges, family+"/*") {
		return is
	}
	for _, r := range ranges {
		if !strings.Contains(r, "*") {
			return r
		}
	}
	return other
}

// BodyRules say how and where a parameter is sent in a body.
type BodyRules struct {
	Path   []string // wire_path
	Base64 bool     // a text that is sent as base64
	Type   string   // content_type: of the parts of a multipart body, "" for none
	File   *FilePart
}

// put adds a parameter at a path of names below b. It reports false if the place is taken.
func (b *BodyPart) put(names []string, param int) bool {
	i := slices.IndexFunc(b.Parts, func(p BodyPart) bool { return p.name == names[0] })
	if i < 0 {
		b.Parts = append(b.Parts, BodyPart{Key: string(wire.AppendQuoted(nil, names[0])) + ":", name: names[0], Kind: PartObject, Loose: true})
		i = len(b.Parts) - 1
		if len(names) == 1 {
			b.Parts[i].Kind, b.Parts[i].Param = PartParam, param
			return true
		}
	}
	return b.Parts[i].Kind == PartObject && len(names) > 1 && b.Parts[i].put(names[1:], param)
}

// Style is how an array or object is written into a query, form, path or header.
type Style uint8

// StyleCSV, StyleSpace and StylePipe separate the elements of an array, or the names and values of an object.
const (
	styleDefault Style = iota
	StyleCSV
	StyleRepeat
	StyleDeep
	StyleJSON
	StyleSpace
	StylePipe
	StyleBrackets
	styleJoined // the default of arrays: elements separated by commas, which are then escaped
)

var styleNames = []string{"", "csv", "repeat", "deep_object", "json", "space", "pipe", "brackets"}

// Separator returns what a style puts between the elements of an array in a URL or form, escaped; "" for the other styles.
func (s Style) Separator() string {
	switch s {
	case StyleCSV:
		return ","
	case StyleSpace:
		return "%20"
	case StylePipe:
		return "%7C"
	}
	return ""
}

// IsJSON reports whether a style writes an array, or an object, as JSON.
func (s Style) IsJSON(object bool) bool {
	return s == StyleJSON || object && (s == styleDefault || s == styleJoined || s == StyleRepeat)
}

// Separates reports whether s writes the elements of an array between commas.
func (s Style) Separates() bool { return s == StyleCSV || s == styleJoined }

// Index says how the key of an array's element contains its index: a[0], or a[].
type Index uint8

// IndexNumbers is a[0], IndexNone is a[]. IndexMixed is a[] for scalars and a[0] for elements
// that have keys of their own.
const (
	IndexNumbers Index = iota
	IndexNone
	IndexMixed
)
