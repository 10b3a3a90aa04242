package failures

import (
	"html"
	"slices"
	"strings"
	"unicode"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/adapterrt/pattern"
	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
	"github.com/dragoman-proxy/dragoman/proxy/observe/redact"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// MaxQuote is how many bytes of a peer's text an error or a log line holds at most.
const MaxQuote = 300

// maxRead is how many bytes of a peer's text are read for a quote.
const maxRead = 8 << 10

// Quote returns a peer's text for use in errors and log lines: on one line, cut to [MaxQuote]
// bytes, without terminal control sequences and without these secrets.
func Quote(text string, secrets ...*secret.Set) string { return Line(Redacted(text, secrets...)) }

// Line returns text on one line, cut to [MaxQuote] bytes, and without terminal control
// sequences.
func Line(text string) string {
	text = Beginning(text, 4*MaxQuote)
	text = strings.Join(strings.Fields(Printable(text)), " ")
	return Beginning(text, MaxQuote)
}

// Beginning returns text, cut to most bytes and marked with "…" if it is longer: where it was cut may be a secret, whose beginning is then
// struck out too.
func Beginning(text string, most int) string {
	if len(text) <= most {
		return strings.ToValidUTF8(text, "")
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// markup matches the parts of an HTML page that a reader does not see.
var markup = pattern.Later(`(?is)<(script|style|title)\b.*?</(script|style|title)\s*>|<!--.*?-->|<[^>]*>`)

// PageText returns the text of an HTML page.
func PageText(page []byte) string {
	return html.UnescapeString(string(markup().ReplaceAll(page, []byte(" "))))
}

// Reason returns what a server has sent as the reason of a refusal, for [Quote]; "" if it sent none.
func Reason(e *upstream.StatusError) string {
	switch message := gjson.GetBytes(e.Body, "error.message"); {
	case message.Type == gjson.String:
		return message.String()
	case slices.ContainsFunc(e.Header, isPage):
		return PageText(e.Body)
	}
	return string(e.Body)
}

func isPage(h mcp.Header) bool {
	return strings.EqualFold(h.Name, "Content-Type") && strings.HasPrefix(strings.ToLower(h.Value), "text/html")
}

// colours matches the terminal sequences that command line tools print.
var colours = pattern.Later("\x1b\\[[0-9;?]*[ -/]*[@-~]")

// Printable returns text with spaces for all white space, and without terminal sequences and
// unprintable characters. The marks that change the direction of writing count as unprintable.
func Printable(text string) string {
	if strings.Contains(text, "\x1b[") {
		text = colours().ReplaceAllString(text, "")
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
	userinfo    = pattern.Later(`(://)[^\s/?#"']*@`)
	query       = pattern.Later(`(://[^\s?"']*)\?[^\s"']*`)
	credentials = pattern.Later(`(?i)\b(bearer|basic)\s+[^\s"',;]{6,}`)
	reference   = pattern.Later(`\s\$\{[A-Za-z_][A-Za-z0-9_]*\}$`) // to a variable, as advice has it
)

// guessed strikes out what looks like a secret, and is none of those that are known.
var guessed = func() *redact.Redactor {
	r, _ := redact.New(redact.Options{}) // only its paths can be wrong
	return r
}()

// Redacted returns the beginning of text without these secrets, and without what looks like credentials, as in what dragoman shows of
// messages. Secrets are looked for in the whole text.
func Redacted(text string, secrets ...*secret.Set) string {
	text = secret.Strike(text, secrets...)
	text = Beginning(text, maxRead)
	text = userinfo().ReplaceAllString(text, "$1")
	text = query().ReplaceAllString(text, "$1?"+secret.Struck)
	text = credentials().ReplaceAllStringFunc(text, func(of string) string {
		if reference().MatchString(of) {
			return of
		}
		return credentials().ReplaceAllString(of, "$1 "+secret.Struck)
	})
	return guessed.Text(text)
}

// namesSecret reports whether the value of the variable is a secret.
func namesSecret(variable, value string) bool {
	return strings.HasSuffix(strings.ToLower(variable), "_pass") || secret.ClassOf(variable, value) == secret.Hidden
}

// Secrets returns the values of those environment variables ("NAME=value") whose names look
// like names of secrets, longest first.
func Secrets(env []string) (values []string) {
	for _, entry := range env {
		if name, value, ok := strings.Cut(entry, "="); ok && len(value) >= secret.Shortest && namesSecret(name, value) {
			values = append(values, value)
		}
	}
	slices.SortFunc(values, func(a, b string) int { return len(b) - len(a) }) // a secret may contain another one
	return values
}
