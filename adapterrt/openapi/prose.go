package openapi

import (
	"html"
	"strings"
	"unicode/utf8"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/pattern"
)

// The largest number of characters of descriptions.
const (
	operationText = 160
	paramText     = 120
)

// codeMark takes the place of code while marks are removed. It is a character for private use,
// which is removed from the text before.
const codeMark = "\ue000"

// maxProse is how many bytes of a description are read.
const maxProse = 2 << 10

var (
	codeBlocks = pattern.Later("(?s)```.*?(?:```|\\z)")
	tags       = pattern.Later(`</?[A-Za-z!][^<>]*>`)
	images     = pattern.Later(`!\[[^\]]*\]\([^)]*\)`)
	mdLinks    = pattern.Later(`\[([^\[\]]*)\]\([^()]*(?:\([^()]*\)[^()]*)*\)`)
	refLinks   = pattern.Later(`\[([^\[\]]+)\]\[[^\[\]]*\]`)
	headings   = pattern.Later(`(?m)^\s*(?:#{1,6}\s+|>\s?|=+\s*$|-+\s*$)`)
	bullets    = pattern.Later(`(?m)^\s*[*+-]\s+`)
	code       = pattern.Later("`[^`\n]{1,200}`")
	notes      = pattern.Later(`(?i)^\W*(?:note|warning|important|caution|tip|\[!\w+\])\b\W*`)
	asides     = pattern.Later(`(?i)_note:[^_]*_|\*\*note:?\*\*:?.*`)
	slanted    = pattern.Later(`(^|[\s(])[*_]([^*_\s][^*_]*)[*_]`)
	emphasis   = pattern.Later("\\*\\*|__|`")
	spaces     = pattern.Later(`\s+`)
	betweens   = pattern.Later(`([:;.!?]|^)\s*;\s`)
	loose      = pattern.Later(`\s+;\s`)
	sentence   = pattern.Later(`[.!?](?:\s|$)`)
)

// prose returns the first sentences of a description, without the marks of Markdown and HTML,
// on one line and at most limit characters long.
func prose(s string, limit int) string {
	if s == "" {
		return ""
	}
	if len(s) > maxProse {
		s = strings.ToValidUTF8(s[:maxProse], "")
	}
	if !strings.ContainsAny(s, "<>[]*_`#&\n\r;+-="+codeMark) { // the usual case: nothing but words
		s = strings.TrimSpace(spaces().ReplaceAllString(clean.Text(s, maxProse), " "))
		if clean.MayHaveSecret(s) {
			s = clean.MaskSecrets(s)
		}
		return strings.TrimSuffix(cut(s, limit), ".")
	}
	s = strings.ReplaceAll(s, "\r\n", "\n")
	s = codeBlocks().ReplaceAllString(s, "")
	var spans []string // of code, in which nothing is a mark
	s = code().ReplaceAllStringFunc(strings.ReplaceAll(s, codeMark, ""), func(c string) string {
		spans = append(spans, c[1:len(c)-1])
		return codeMark
	})
	s = images().ReplaceAllString(s, "")
	s = mdLinks().ReplaceAllString(s, "$1")
	s = refLinks().ReplaceAllString(s, "$1")
	for _, end := range [...]string{"<br>", "<br/>", "<br />", "</p>", "</li>", "</h1>", "</h2>", "</h3>"} {
		s = strings.ReplaceAll(s, end, "\n\n")
	}
	s = html.UnescapeString(tags().ReplaceAllString(s, ""))
	s = bullets().ReplaceAllString(headings().ReplaceAllString(s, ""), "; ")
	s = loose().ReplaceAllString(betweens().ReplaceAllString(s, "$1 "), "; ")
	out := ""
	for part := range strings.SplitSeq(s, "\n\n") {
		if rest := strings.TrimSpace(asides().ReplaceAllString(part, "")); rest != "" && strings.Count(rest, codeMark) == strings.Count(part, codeMark) {
			part = rest
		}
		part = slanted().ReplaceAllString(emphasis().ReplaceAllString(part, ""), "$1$2")
		if notes().MatchString(part) && out != "" {
			spans = spans[min(len(spans), strings.Count(part, codeMark)):]
			continue
		}
		for len(spans) > 0 && strings.Contains(part, codeMark) {
			part = strings.Replace(part, codeMark, spans[0], 1)
			spans = spans[1:]
		}
		part = strings.TrimSpace(spaces().ReplaceAllString(clean.Text(part, maxProse), " "))
		if part == "" {
			continue
		}
		if out != "" {
			if !strings.ContainsAny(out[len(out)-1:], ".!?:;") {
				out += "."
			}
			out += " "
		}
		if out += part; len(out) > 2*limit {
			break
		}
	}
	if clean.MayHaveSecret(out) {
		out = clean.MaskSecrets(out)
	}
	return strings.TrimSuffix(cut(out, limit), ".")
}

// cut cuts a text behind the last sentence, or else behind the last word, within limit
// characters.
func cut(s string, limit int) string {
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	head := clean.FirstRunes(s, limit)
	if all := sentence().FindAllStringIndex(head, -1); len(all) > 0 {
		if end := all[len(all)-1][0] + 1; end > len(head)/3 {
			return head[:end]
		}
	}
	head = clean.FirstRunes(head, limit-1)
	if i := strings.LastIndexByte(head, ' '); i > len(head)/2 {
		head = head[:i]
	}
	return strings.TrimRight(head, " ,;:.(") + "…"
}
