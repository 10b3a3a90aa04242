package failures

import (
	"html"
	"slices"
	"strings"
	"unicode"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/adapterrt/pattern"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
)

// MaxQuote is how many bytes of a peer's text an error or a log line holds at most.
const MaxQuote = 300

const (
	// maxRead is how many bytes of a peer's text are read for a quote.
	maxRead = 8 << 10
	// minSecret is the length below which a value is too common to be struck out.
	minSecret = 6
)

// Quote returns a peer's text for use in errors and log lines: on one line, cut to [MaxQuote]
// bytes, without terminal control sequences and without these secrets.
func Quote(text string, secrets []string) string { return Line(Redacted(text, secrets)) }

// Line returns text on one line, cut to [MaxQuote] bytes, and without terminal control
// sequences.
func Line(text string) string {
	text = strings.ToValidUTF8(text[:min(len(text), 4*MaxQuote)], "")
	text = strings.Join(strings.Fields(Printable(text)), " ")
	if len(text) > MaxQuote {
		text = strings.ToValidUTF8(text[:MaxQuote], "") + "…"
	}
	return text
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

func isPage(h upstream.Header) bool {
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

const struck = "[redacted]"

// Redacted returns the beginning of text [WithoutSecrets], and without what looks like credentials.
func Redacted(text string, secrets []string) string {
	cut := len(text) > maxRead
	text = WithoutSecrets(text[:min(len(text), maxRead)], secrets)
	if cut {
		for _, s := range secrets {
			for _, p := range partsOf(s) {
				text = withoutStart(text, p)
			}
		}
	}
	text = userinfo().ReplaceAllString(text, "$1")
	text = query().ReplaceAllString(text, "$1?"+struck)
	return credentials().ReplaceAllStringFunc(text, func(of string) string {
		if reference().MatchString(of) {
			return of
		}
		return credentials().ReplaceAllString(of, "$1 "+struck)
	})
}

// WithoutSecrets returns text without these secrets. If a secret is a header's value with a scheme, the part behind the
// scheme is a secret, too.
func WithoutSecrets(text string, secrets []string) string {
	for _, s := range secrets {
		for _, p := range partsOf(s) {
			text = strings.ReplaceAll(text, p, struck)
		}
	}
	return text
}

// partsOf returns what is struck out for a secret.
func partsOf(secret string) (parts []string) {
	if _, token, ok := strings.Cut(secret, " "); ok && len(token) >= minSecret {
		parts = append(parts, token)
	}
	if len(secret) >= minSecret {
		parts = append(parts, secret)
	}
	return parts
}

// withoutStart returns text without a beginning of the secret at its end, which is left if the
// text was cut within the secret.
func withoutStart(text, secret string) string {
	for n := min(len(secret)-1, len(text)); n > 0; n-- {
		if strings.HasSuffix(text, secret[:n]) {
			return text[:len(text)-n]
		}
	}
	return text
}

// secretNames are the words in the names of variables whose values are secrets.
var secretNames = [...]string{
	"token", "secret", "passw", "passphrase", "credential", "authorization", "cookie", "api_key", "apikey", "access_key", "accesskey",
	"private_key", "privatekey",
}

// namesSecret reports whether the value of the variable is a secret.
func namesSecret(variable string) bool {
	variable = strings.ToLower(variable)
	return slices.ContainsFunc(secretNames[:], func(word string) bool { return strings.Contains(variable, word) })
}

// Secrets returns the values of those environment variables ("NAME=value") whose names look
// like names of secrets, longest first.
func Secrets(env []string) (values []string) {
	for _, entry := range env {
		if name, value, ok := strings.Cut(entry, "="); ok && len(value) >= minSecret && namesSecret(name) {
			values = append(values, value)
		}
	}
	slices.SortFunc(values, func(a, b string) int { return len(b) - len(a) }) // a secret may contain another one
	return values
}
