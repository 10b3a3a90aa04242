package failures

import (
	"html"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// MaxQuote is how much of a peer's text an error or a log line holds, in bytes.
const MaxQuote = 300

const (
	// maxRead is how much of a peer's text is looked at for a quote, in bytes.
	maxRead = 8 << 10
	// minSecret is the length below which a value is too common to be struck out.
	minSecret = 6
)

// Quote is a peer's text as errors and log lines may hold it: on one line, cut, without what a
// terminal would act on, and without secrets.
func Quote(text string, secrets []string) string { return Line(Redacted(text, secrets)) }

// Line is text on one line, cut, and without what a terminal would act on.
func Line(text string) string {
	text = strings.ToValidUTF8(text[:min(len(text), 4*MaxQuote)], "")
	text = strings.Join(strings.Fields(Printable(text)), " ")
	if len(text) > MaxQuote {
		text = strings.ToValidUTF8(text[:MaxQuote], "") + "…"
	}
	return text
}

// markup is what a page has beside the text that a reader sees.
var markup = regexp.MustCompile(`(?is)<(script|style|title)\b.*?</(script|style|title)\s*>|<!--.*?-->|<[^>]*>`)

// PageText is the text of an HTML page.
func PageText(page []byte) string {
	return html.UnescapeString(string(markup.ReplaceAll(page, []byte(" "))))
}

// colours are sequences that a terminal acts on, as command line tools print them.
var colours = regexp.MustCompile("\x1b\\[[0-9;?]*[ -/]*[@-~]")

// Printable is text with spaces for all white space, and without colours and characters that
// cannot be printed. Marks that change the direction of writing are among these.
func Printable(text string) string {
	if strings.Contains(text, "\x1b[") {
		text = colours.ReplaceAllString(text, "")
	}
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, text)
}

var (
	userinfo    = regexp.MustCompile(`(://)[^\s/?#"']*@`)
	query       = regexp.MustCompile(`(://[^\s?"']*)\?[^\s"']*`)
	credentials = regexp.MustCompile(`(?i)\b(bearer|basic)\s+[^\s"',;]{6,}`)
	secretName  = regexp.MustCompile(`(?i)(token|secret|passw|passphrase|credential|authorization|cookie|api_?key|access_?key|private_?key)`)
)

const struck = "[redacted]"

// Redacted is the beginning of text without these secrets, and without what looks like
// credentials. Of a header's value the part behind the scheme is a secret, too.
func Redacted(text string, secrets []string) string {
	cut := len(text) > maxRead
	text = text[:min(len(text), maxRead)]
	for _, s := range secrets {
		parts := []string{s}
		if _, token, ok := strings.Cut(s, " "); ok {
			parts = []string{token, s}
		}
		for _, p := range parts {
			if len(p) < minSecret {
				continue
			}
			text = strings.ReplaceAll(text, p, struck)
			if cut {
				text = withoutStart(text, p)
			}
		}
	}
	text = userinfo.ReplaceAllString(text, "$1")
	text = query.ReplaceAllString(text, "$1?"+struck)
	return credentials.ReplaceAllString(text, "$1 "+struck)
}

// withoutStart is text without the beginning of the secret at its end, where the cut went
// through it.
func withoutStart(text, secret string) string {
	for n := min(len(secret)-1, len(text)); n > 0; n-- {
		if strings.HasSuffix(text, secret[:n]) {
			return text[:len(text)-n]
		}
	}
	return text
}

// Secrets are the values of those environment variables ("NAME=value") whose names say that
// they are secrets.
func Secrets(env []string) (values []string) {
	for _, entry := range env {
		if name, value, ok := strings.Cut(entry, "="); ok && len(value) >= minSecret && secretName.MatchString(name) {
			values = append(values, value)
		}
	}
	slices.SortFunc(values, func(a, b string) int { return len(b) - len(a) }) // one may hold another
	return values
}
