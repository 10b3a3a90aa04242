package openapi

import (
	"cmp"
	"slices"
	"strings"
)

// answer decides how the API's answers are read.
func (m *mapper) answer() {
	var kinds []string
	redirects, any := false, false
	open := false // an answer of a further status is not described, or is text
	for _, a := range m.raw.answers {
		any = any || a.status[0] == '2'
		redirects = redirects || a.status[0] == '3' && a.status != "304" && (a.status != "303" || m.op.category == "read")
		if a.status[0] != '2' {
			continue
		}
		described := m.described(a)
		kinds = append(kinds, described...)
		if a.status != "204" && a.status != "205" && !slices.ContainsFunc(described, isJSON) {
			open = open || len(described) == 0 || slices.ContainsFunc(described, isPlainText)
		}
		// A text of any type.
		open = open || slices.ContainsFunc(a.content, func(c media) bool { return c.kind == "*/*" && m.isText(c.schema) })
	}
	if !any {
		for _, a := range m.raw.answers {
			if a.status == "default" {
				kinds = append(kinds, m.described(a)...)
			}
		}
	}
	kinds = distinct(kinds, itself)
	if redirects && !any {
		m.find(Weaker, "it answers with a redirect", "set target.redirects, if the file is wanted")
	}
	r := &m.op.response
	if slices.ContainsFunc(kinds, isJSON) || len(kinds) == 0 {
		r.accept = acceptJSON(kinds)
		if open || len(kinds) == 0 {
			r.as = "auto"
			if r.accept = cmp.Or(r.accept, "application/json"); !strings.Contains(r.accept, "*/*") {
				r.accept += ", text/*;q=0.5"
			}
		}
		if slices.Contains(kinds, "text/event-stream") {
			m.find(Weaker, "the answer as events is not requested", "add response: {as: sse}, and the parameter that asks for a stream")
		}
		return
	}
	formats := map[string]bool{}
	for _, k := range kinds {
		formats[answerFormat(k)] = true
	}
	r.as = answerFormat(kinds[0])
	if len(formats) > 1 {
		r.as, r.accept = "auto", strings.Join(kinds, ", ") // what is not named there is not read
		if len(r.accept) > maxAccept {
			r.accept = ""
		}
	}
	switch kind := kinds[0]; {
	case r.as == "auto" || strings.Contains(kind, "*"):
	case r.as == "media" || r.as == "text" && kind != "text/plain":
		r.accept = kind
	}
}

// maxAccept is the greatest length of an Accept header.
const maxAccept = 1000

// acceptJSON returns the Accept header for answers in JSON, of which the document has these media types; "" for that of adapters,
// which has only application/json. A server whose type is another one, or any, may refuse that.
func acceptJSON(kinds []string) string {
	i := slices.IndexFunc(kinds, isJSON)
	switch {
	case i < 0 || slices.Contains(kinds, "application/json") || kinds[i] == "" || kinds[i] == "application/problem+json":
		return ""
	case strings.HasSuffix(kinds[i], "+json"):
		return kinds[i]
	}
	return "application/json, " + kinds[i] + ";q=0.5"
}

// described returns the media types of an answer. A Swagger answer without a schema has no content: JSON is only the type that
// all answers of the document have.
func (m *mapper) described(a *rawAnswer) (kinds []string) {
	for _, c := range a.content {
		if !m.doc.swagger || c.schema != nil || !isJSON(c.kind) {
			kinds = append(kinds, c.kind)
		}
	}
	return kinds
}

// isText reports whether a schema is that of a text.
func (m *mapper) isText(schema *node) bool {
	return schema != nil && m.shape(schema).plainType() == "string"
}

// isPlainText reports whether an answer of a media type is read as the text that it is.
func isPlainText(kind string) bool {
	return strings.HasPrefix(kind, "text/") && answerFormat(kind) == "text"
}

// answerFormat returns the format as which answers of a media type are read.
func answerFormat(kind string) string {
	switch {
	case kind == "text/html" || kind == "application/xhtml+xml":
		return "html"
	case kind == "text/csv" || kind == "application/csv":
		return "csv"
	case kind == "application/xml" || kind == "text/xml" || strings.HasSuffix(kind, "+xml") && kind != "image/svg+xml":
		return "xml"
	case kind == "application/x-ndjson" || kind == "application/jsonl" || kind == "application/ndjson":
		return "ndjson"
	case kind == "text/event-stream":
		return "sse"
	case isTextual(kind) || kind == "image/svg+xml" || strings.HasPrefix(kind, "application/vnd.github") && !strings.HasSuffix(kind, "zip"):
		return "text"
	}
	return "media"
}
