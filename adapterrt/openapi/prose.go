package openapi

import (
	"html"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
)

// The largest number of characters of descriptions.
const (
	operationText = 160
	paramText     = 120
	memberText    = 80
)

// maxProse is how many bytes of a description are read.
const maxProse = 8 << 10

var (
	codeBlocks = regexp.MustCompile("(?s)```.*?(?:```|\\z)")
	tags       = regexp.MustCompile(`</?[A-Za-z!][^<>]*>`)
	images     = regexp.MustCompile(`!\[[^\]]*\]\([^)]*\)`)
	mdLinks    = regexp.MustCompile(`\[([^\[\]]*)\]\([^()]*(?:\([^()]*\)[^()]*)*\)`)
	refLinks   = regexp.MustCompile(`\[([^\[\]]+)\]\[[^\[\]]*\]`)
	headings   = regexp.MustCompile(`(?m)^\s*(?:#{1,6}\s+|>\s?|\*\s+|-\s+|=+\s*$|-+\s*$)`)
	notes      = regexp.MustCompile(`(?i)^\W*(?:note|warning|important|caution|tip|\[!\w+\])\b\W*`)
	asides     = regexp.MustCompile(`(?i)_note:[^_]*_|\*\*note:?\*\*:?.*`)
	slanted    = regexp.MustCompile(`(^|[\s(])[*_]([^*_\s][^*_]*)[*_]`)
	emphasis   = regexp.MustCompile("\\*\\*|__|`")
	spaces     = regexp.MustCompile(`\s+`)
	sentence   = regexp.MustCompile(`[.!?](?:\s|$)`)
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
	s = strings.ReplaceAll(s, "\r\n", "\n")
	s = codeBlocks.ReplaceAllString(s, "")
	s = images.ReplaceAllString(s, "")
	s = mdLinks.ReplaceAllString(s, "$1")
	s = refLinks.ReplaceAllString(s, "$1")
	for _, end := range [...]string{"<br>", "<br/>", "<br />", "</p>", "</li>", "</h1>", "</h2>", "</h3>"} {
		s = strings.ReplaceAll(s, end, "\n\n")
	}
	s = html.UnescapeString(tags.ReplaceAllString(s, ""))
	s = headings.ReplaceAllString(s, "")
	out := ""
	for part := range strings.SplitSeq(s, "\n\n") {
		if rest := strings.TrimSpace(asides.ReplaceAllString(part, "")); rest != "" {
			part = rest
		}
		part = slanted.ReplaceAllString(emphasis.ReplaceAllString(part, ""), "$1$2")
		if notes.MatchString(part) && out != "" {
			continue
		}
		part = strings.TrimSpace(spaces.ReplaceAllString(clean.Text(part, maxProse), " "))
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
	if all := sentence.FindAllStringIndex(head, -1); len(all) > 0 {
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
