package file

import (
	"strings"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Example is an example in an adapter file's documentation: a request, the HTTP exchanges that
// it must cause, and the result that it must have.
type Example struct {
	Line      int
	Request   []byte
	Exchanges []Exchange
	Want      []byte
}

// Exchange is one HTTP request and its response.
type Exchange struct{ Sends, Receives string }

// maxExampleNesting is the largest nesting depth of an example's request.
const maxExampleNesting = 32

// Examples returns the examples in text, the documentation of an adapter file. line is the
// line of the file in which text begins.
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
				return bad(e.Line, "example does not start with a JSON object")
			}
			if !wire.Valid(e.Want) {
				return bad(e.Line, "the want section of the example is not JSON")
			}
			for _, x := range e.Exchanges {
				if x.Receives == "" {
					return bad(e.Line, "example has a sends section without a receives section")
				}
			}
			out = append(out, *e)
			e = nil
		case l == "-- sends --", l == "-- receives --", l == "-- want --":
			finish()
			next := strings.Trim(l, "- ")
			if next == "receives" && section != "sends" {
				return bad(line, "example has a receives section without a sends section")
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
