package openapi

import (
	"slices"
	"strings"
)

// answer decides how the API's answers are read.
func (m *mapper) answer() {
	var kinds []string
	redirects, any := false, false
	for _, a := range m.raw.answers {
		if !a.success() {
			continue
		}
		any = any || a.status[0] == '2'
		redirects = redirects || a.status[0] == '3' && a.status != "304"
		for _, c := range a.content {
			if a.status[0] == '2' {
				kinds = append(kinds, c.kind)
			}
		}
	}
	if !any {
		for _, a := range m.raw.answers {
			if a.status == "default" {
				for _, c := range a.content {
					kinds = append(kinds, c.kind)
				}
			}
		}
	}
	kinds = distinct(kinds, itself)
	if redirects && !any {
		m.find(Weaker, "it answers with a redirect", "set target.redirects, if the file is wanted")
	}
	if len(kinds) == 0 || slices.ContainsFunc(kinds, isJSON) {
		i := slices.IndexFunc(kinds, isJSON)
		if i >= 0 && strings.HasSuffix(kinds[i], "+json") && !slices.Contains(kinds, "application/json") && kinds[i] != "application/problem+json" {
			m.op.response.accept = kinds[i]
		}
		if slices.ContainsFunc(kinds, func(k string) bool { return k == "text/event-stream" }) {
			m.find(Weaker, "the answer as events is not requested", "add response: {as: sse}, and the parameter that asks for a stream")
		}
		return
	}
	r := &m.op.response
	formats := map[string]bool{}
	for _, k := range kinds {
		formats[answerFormat(k)] = true
	}
	r.as = answerFormat(kinds[0])
	if len(formats) > 1 {
		r.as = "auto"
	}
	switch kind := kinds[0]; {
	case r.as == "auto" || strings.Contains(kind, "*"):
	case r.as == "media" || r.as == "text" && kind != "text/plain":
		r.accept = kind
	}
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
