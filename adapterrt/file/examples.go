package file

import (
	"strings"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Example is a request in an adapter file's documentation with all that must follow from it.
type Example struct {
	Line      int
	Request   []byte
	Exchanges []Exchange
	Want      []byte
}

// Exchange is one HTTP request and its response.
type Exchange struct{ Sends, Receives string }

// maxExampleNesting is how deep the request of an example may be nested.
const maxExampleNesting = 32

// Examples takes the examples out of documentation that begins in this line of its file.
func Examples(text string, line int) (out []Example, problem *Problem) {
	var e *Example
	var part strings.Builder
	section := ""
	bad := func(line int, msg string) ([]Example, *Problem) {
		return nil, &Problem{Path: "documentation", Message: msg, Code: SchemaParseError, Severity: Error, Line: line}
	}
	finish := func() {
		s := strings.TrimSpace(part.String())
		part.Reset()
		switch section {
		case "request":
			e.Request = []byte(s)
		case "sends":
			e.Exchanges = append(e.Exchanges, Exchange{Sends: s})
		case "receives":
			e.Exchanges[len(e.Exchanges)-1].Receives = s
		case "want":
			e.Want = []byte(s)
		}
	}
	for ; text != ""; line++ {
		var l string
		l, text, _ = strings.Cut(text, "\n")
		l = strings.TrimRight(l, "\r")
		switch {
		case e == nil:
			if strings.TrimSpace(l) == "```golden" {
				e, section = &Example{Line: line}, "request"
			}
		case strings.TrimSpace(l) == "```":
			finish()
			if wire.Check(e.Request, wire.Limits{Depth: maxExampleNesting}) != nil || e.Request[0] != '{' {
				return bad(e.Line, "example starts with no JSON object")
			}
			if !wire.Valid(e.Want) {
				return bad(e.Line, "example wants no JSON")
			}
			for _, x := range e.Exchanges {
				if x.Receives == "" {
					return bad(e.Line, "example sends and does not receive")
				}
			}
			out = append(out, *e)
			e = nil
		case l == "-- sends --", l == "-- receives --", l == "-- want --":
			finish()
			next := strings.Trim(l, "- ")
			if next == "receives" && section != "sends" {
				return bad(line, "example receives without sending")
			}
			section = next
		default:
			part.WriteString(l + "\n")
		}
	}
	if e != nil {
		return bad(e.Line, "example is not closed")
	}
	return out, nil
}

// Accepts reports whether a value is of a type and within the bounds of d.
func (d *Definition) Accepts(raw []byte) bool { return d.mismatch(raw) == nil }
