package openapi

import (
	"html"
	"regexp"
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

// memory has the results of [prose], because many parameters and members of a document have the same description.
type memory struct {
	made map[remembered]string
	size int // about, in bytes
}

type remembered struct {
	text  string // of the document, which keeps it anyway
	limit int
}

// maxMemory is how many bytes of results are remembered; then all are forgotten.
const maxMemory = 8 << 20

// prose is [prose], remembered.
func (d *Document) prose(s string, limit int) string {
	if len(s) < 20 { // as quickly made as looked up
		return prose(s, limit)
	}
	m := &d.memory
	key := remembered{s, limit}
	if t, there := m.made[key]; there {
		return t
	}
	t := prose(s, limit)
	if m.size > maxMemory || m.made == nil {
		*m = memory{made: map[remembered]string{}}
	}
	m.made[key] = t
	m.size += len(t) + 100
	return t
}

// saying is a question about a text of the document: does a pattern match it?
type saying struct {
	pattern *regexp.Regexp
	text    string
}

// maxSayings is how many answers about texts are remembered; then all are forgotten.
const maxSayings = 10_000

// says reports whether a pattern matches a text, remembered: many parameters have the same description.
func (d *Document) says(p *regexp.Regexp, text string) bool {
	key := saying{p, text}
	match, there := d.said[key]
	if there {
		return match
	}
	if d.said == nil || len(d.said) > maxSayings {
		d.said = map[saying]bool{}
	}
	match = p.MatchString(text)
	d.said[key] = match
	return match
}

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
		s = oneLine(clean.Text(s, maxProse))
		if clean.MayHaveSecret(s) {
			s = clean.MaskSecrets(s)
		}
		return strings.TrimSuffix(cut(s, limit), ".")
	}
	s = strings.ReplaceAll(s, "\r\n", "\n")
	s = without(codeBlocks, "```", s, "")
	var spans []string // of code, in which nothing is a mark
	if s = strings.ReplaceAll(s, codeMark, ""); strings.Contains(s, "`") {
		s = code().ReplaceAllStringFunc(s, func(c string) string {
			spans = append(spans, c[1:len(c)-1])
			return codeMark
		})
	}
	s = without(images, "![", s, "")
	s = without(mdLinks, "](", s, "$1")
	s = without(refLinks, "][", s, "$1")
	for _, end := range [...]string{"<br>", "<br/>", "<br />", "</p>", "</li>", "</h1>", "</h2>", "</h3>"} {
		s = strings.ReplaceAll(s, end, "\n\n")
	}
	s = html.UnescapeString(without(tags, "<", s, ""))
	if strings.ContainsAny(s, "#>=-*+") {
		s = bullets().ReplaceAllString(headings().ReplaceAllString(s, ""), "; ")
	}
	s = without(loose, ";", without(betweens, ";", s, "$1 "), "; ")
	out := ""
	for part := range strings.SplitSeq(s, "\n\n") {
		if rest := strings.TrimSpace(withoutAsides(part)); rest != "" && strings.Count(rest, codeMark) == strings.Count(part, codeMark) {
			part = rest
		}
		if strings.ContainsAny(part, "*_`") {
			part = slanted().ReplaceAllString(emphasis().ReplaceAllString(part, ""), "$1$2")
		}
		if notes().MatchString(part) && out != "" {
			spans = spans[min(len(spans), strings.Count(part, codeMark)):]
			continue
		}
		for len(spans) > 0 && strings.Contains(part, codeMark) {
			part = strings.Replace(part, codeMark, spans[0], 1)
			spans = spans[1:]
		}
		part = oneLine(clean.Text(part, maxProse))
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

// without replaces what a pattern matches, which every match has mark in.
func without(marks func() *regexp.Regexp, mark, s, by string) string {
	if !strings.Contains(s, mark) {
		return s
	}
	return marks().ReplaceAllString(s, by)
}

func withoutAsides(s string) string {
	if !strings.Contains(s, "_") && !strings.Contains(s, "**") {
		return s
	}
	return asides().ReplaceAllString(s, "")
}

// oneLine returns a text without white space around it and with single spaces.
func oneLine(s string) string {
	s = strings.TrimSpace(s)
	if !strings.ContainsAny(s, "\t\n\f\r") && !strings.Contains(s, "  ") {
		return s
	}
	return strings.TrimSpace(spaces().ReplaceAllString(s, " "))
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
