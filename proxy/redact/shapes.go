package redact

import (
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
)

// keyBeginnings are the beginnings of well-known kinds of keys.
var keyBeginnings = []string{
	"sk-", "sk_live_", "sk_test_", "rk_live_", "whsec_", "ghp_", "gho_", "ghs_", "ghu_", "ghr_", "github_pat_", "glpat-",
	"xoxa-", "xoxb-", "xoxp-", "xoxr-", "xoxs-", "xapp-", "AKIA", "ASIA", "AIza", "hf_", "npm_", "pypi-", "ya29", "shpat_",
	"dop_v1_", "lin_api_", "lin_oauth_", "ntn_", "secret_", "glsa_", "AGE-SECRET-KEY-",
}

const (
	minKey       = 16 // bytes of a key
	maxGap       = 32 // bytes between a name and its value
	maxQuoted    = 4 << 10
	confirmStart = "conf_" // of the tokens that confirm a call
)

// scan goes through a text word by word, and copies what it leaves out of secrets.
type scan struct {
	in   string
	out  strings.Builder
	done int // what is copied
}

// shapes returns text without what looks like a credential: keys with a well-known beginning, JSON Web Tokens, private keys
// in PEM, the user of a URL, what follows Bearer and Basic, and the values of names of secrets.
func shapes(text string) string {
	s := scan{in: text}
	for i := 0; i < len(text); {
		if !isWord(text[i]) {
			i++
			continue
		}
		end := i + 1
		for end < len(text) && isWord(text[end]) {
			end++
		}
		i = s.word(i, end)
	}
	if s.done == 0 {
		return text
	}
	return s.out.String() + text[s.done:]
}

// isWord reports whether c belongs to a word: a name, or the part of a key without dots.
func isWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

// strike puts with in the place of a part of the text, and returns its end.
func (s *scan) strike(from, to int, with string) int {
	if from < to && s.in[from:to] != with {
		s.out.WriteString(s.in[s.done:from])
		s.out.WriteString(with)
		s.done = to
	}
	return to
}

// word strikes out what a word is, or is the name of. It returns where to go on.
func (s *scan) word(from, end int) int {
	word, rest := s.in[from:end], s.in[end:]
	switch {
	case word[0] == '-':
		if to := secret.KeyLength(s.in[from:]); to > 0 {
			return s.strike(from, from+to, Struck)
		}
	case strings.HasPrefix(word, "eyJ") && strings.HasPrefix(rest, "."):
		if to := end + jwt(rest); to-from > minKey {
			return s.strike(from, to, Struck)
		}
	case isKey(word):
		return s.strike(from, end, Struck)
	case strings.HasPrefix(word, confirmStart) && len(word) >= minKey:
		return s.strike(from, end, handled(word))
	case strings.HasPrefix(rest, "://"):
		return s.userinfo(end + len("://"))
	case strings.EqualFold(word, "bearer") || strings.EqualFold(word, "basic"):
		if at := end + blanks(rest); at > end {
			if to := at + value(s.in[at:]); isToken(word, s.in[at:to]) {
				return s.strike(at, to, Struck)
			}
		}
		return end
	}
	if at := s.assigned(from, end); at > 0 {
		return at
	}
	return end
}

// isToken reports whether a value behind the name of a scheme is a credential, and not a word of a sentence.
func isToken(scheme, value string) bool {
	switch {
	case len(value) < minSecret || isReference(value) || strings.HasPrefix(Struck, value):
		return false
	case scheme == "Bearer", len(value) >= minKey:
		return true
	}
	return strings.ContainsAny(value, "0123456789=") || strings.ToLower(value[1:]) != value[1:]
}

// isKey reports whether a word looks like a well-known kind of key.
func isKey(word string) bool {
	if len(word) < minKey {
		return false
	}
	for _, b := range keyBeginnings {
		if rest, ok := strings.CutPrefix(word, b); ok {
			return strings.ContainsAny(rest, "0123456789")
		}
	}
	return false
}

// jwt returns the length of the parts of a token behind its first one.
func jwt(rest string) (n int) {
	for n < len(rest) && (isWord(rest[n]) || rest[n] == '.') {
		n++
	}
	return n
}

// userinfo strikes out the user and password of a URL whose host begins at from or behind these.
func (s *scan) userinfo(from int) int {
	at := -1
	for i := from; i < len(s.in); i++ {
		switch s.in[i] {
		case '@':
			at = i
			continue
		case '/', '?', '#', '"', '\'', '\\', ' ', '\t', '\r', '\n', '<', '>':
		default:
			continue
		}
		break
	}
	if at < 0 {
		return from
	}
	return s.strike(from, at, Struck)
}

func blanks(s string) (n int) {
	for n < len(s) && n < maxGap && (s[n] == ' ' || s[n] == '\t') {
		n++
	}
	return n
}

// value returns the length of the value that text begins with, if it has no quotes.
func value(text string) int {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case ' ', '\t', '\r', '\n', '"', '\'', '`', '&', ',', ';', '<', '>', ')', '}', ']', '|', '\\':
			return i
		case '%':
			if strings.HasPrefix(text[i:], "%26") {
				return i
			}
		}
	}
	return len(text)
}

// isReference reports whether a value is the name of a variable instead of its content.
func isReference(value string) bool {
	inner, ok := strings.CutPrefix(value, "$")
	if !ok {
		return false
	}
	inner = strings.TrimSuffix(strings.TrimPrefix(inner, "{"), "}")
	return inner != "" && strings.Trim(inner, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""
}

// parameters are names of secrets in the query of a URL, beside those of secretWords.
var parameters = map[string]bool{
	"key": true, "code": true, "sig": true, "signature": true, "auth": true, "jwt": true, "sid": true, "session": true,
	"x-amz-signature": true, "x-goog-signature": true,
}

// assigned strikes out the value that is assigned to a name. It returns where to go on, or 0 if the name is not that of a
// secret or nothing is assigned to it.
func (s *scan) assigned(from, end int) int {
	name, rest := s.in[from:end], s.in[end:]
	c := classify(strings.TrimLeft(name, "-"), "")
	if c == plain && from > 0 && strings.IndexByte("?&#", s.in[from-1]) >= 0 && parameters[strings.ToLower(name)] {
		c = hidden
	}
	if c == plain {
		return 0
	}
	sep, quote, gap := separator(rest)
	flag := gap == 0 && strings.HasPrefix(name, "--") && blanks(rest) > 0 && !strings.HasPrefix(rest[blanks(rest):], "-")
	at := end + gap
	switch {
	case flag:
		at += blanks(rest)
	case gap == 0, c == handle && quote == "" && sep == ':': // or prose
		return 0
	}
	to := at + s.extent(at, quote)
	text := s.in[at:to]
	switch {
	case isReference(text) || text == "" || text == "null" || text == "true" || text == "false":
		return 0
	case isHeader(name) && isReference(behind(s.in[to:])): // of a scheme, as advice has it
		return 0
	case strings.HasPrefix(Struck, text) && len(text) >= len(Struck)-1, strings.HasPrefix(text, handleOpen[:len(handleOpen)-1]):
		return 0
	case classify(name, text) == plain && isCount(text):
		return 0
	case c == handle:
		return s.strike(at, to, handled(text))
	case isHeader(name) && quote == "":
		to = at + line(s.in[at:])
	case sep == ':' && quote == "" && !s.looksSecret(at, to):
		return 0
	}
	return s.strike(at, to, Struck)
}

// separator reads what is between a name and its value. quote is the quote around the value, with its backslashes. gap is the
// number of bytes, or 0 if there is no assignment.
func separator(rest string) (sep byte, quote string, gap int) {
	rest = rest[:min(len(rest), maxGap)]
	i := 0
	for i < len(rest) && rest[i] == '\\' {
		i++
	}
	if i < len(rest) && (rest[i] == '"' || rest[i] == '\'' || rest[i] == '`') {
		i++
	} else if i > 0 {
		return 0, "", 0
	}
	i += blanks(rest[i:])
	switch {
	case strings.HasPrefix(rest[i:], "%3D"), strings.HasPrefix(rest[i:], "%3d"):
		sep = '='
		i += len("%3D")
	default:
		for i < len(rest) && strings.IndexByte("=:>", rest[i]) >= 0 {
			if sep == 0 {
				sep = rest[i]
			}
			i++
		}
	}
	if sep == 0 || sep == '>' {
		return 0, "", 0
	}
	i += blanks(rest[i:])
	from := i
	for i < len(rest) && rest[i] == '\\' {
		i++
	}
	if i < len(rest) && (rest[i] == '"' || rest[i] == '\'' || rest[i] == '`') {
		return sep, rest[from : i+1], i + 1
	}
	return sep, "", from
}

// extent returns the length of the value at an index. If its quote does not end, it is the rest of the line.
func (s *scan) extent(at int, quote string) int {
	text := s.in[at:]
	if quote == "" {
		return value(text)
	}
	near := text[:min(len(text), maxQuoted)]
	for i := 0; i < len(near); i++ {
		switch {
		case strings.HasPrefix(near[i:], quote):
			return i
		case near[i] == '\\' && len(quote) == 1:
			i++
		}
	}
	return line(text)
}

// behind returns the value that comes behind blanks, or "" if there are none.
func behind(text string) string {
	at := blanks(text)
	if at == 0 {
		return ""
	}
	return text[at : at+value(text[at:])]
}

// line returns the length of the first line of text.
func line(text string) int {
	if i := strings.IndexAny(text, "\r\n"); i >= 0 {
		return i
	}
	return len(text)
}

// isHeader reports whether a name is that of a header whose value may have blanks in it.
func isHeader(name string) bool {
	name = strings.ToLower(name)
	return strings.HasSuffix(name, "authorization") || strings.HasSuffix(name, "cookie")
}

// verdicts are the words with which messages say what is wrong with a secret, as in "invalid token: expired".
var verdicts = map[string]bool{
	"absent": true, "denied": true, "disabled": true, "empty": true, "expired": true, "forbidden": true, "incorrect": true, "invalid": true, "malformed": true,
	"mismatch": true, "missing": true, "refused": true, "rejected": true, "required": true, "revoked": true, "unauthorized": true, "undefined": true, "unknown": true,
	"unset": true, "wrong": true,
}

// looksSecret reports whether a value behind a colon is one, and not a word of a sentence.
func (s *scan) looksSecret(at, to int) bool {
	text := s.in[at:to]
	if len(text) < 4 || verdicts[strings.ToLower(strings.TrimRight(text, ".!"))] {
		return false
	}
	for i := 0; i < len(text); i++ {
		if c := text[i]; (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '.' && c != '-' && c < 0x80 {
			return true
		}
	}
	return len(text) >= minKey || to == len(s.in) || s.in[to] != ' '
}
