// Package secret strikes secrets out of texts, however they are spelled there, and keeps those that were sent.
//
// A peer that echoes a secret may have escaped it for a URL, for JSON or for HTML, also in part, more than once and in either case of
// letters, or may have encoded it, or a text around it, in base64. [Strike] finds it in all of these. [Kept] are the secrets that a
// process has sent or read lately.
package secret

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// Struck stands in the place of a secret.
const Struck = "[redacted]"

const (
	// Shortest is the length in bytes below which a value is too common to be struck out.
	Shortest = 6
	// longest is the length of a secret that is looked for as a whole. Of a longer one the beginning is.
	longest = 64 << 10
	// begins is how many bytes of a secret are struck out where a text was cut within it.
	begins = 4
)

// Set is a number of secrets to look for. It does not change. The zero value and nil have none.
type Set struct {
	asIs, plain needles
}

// needle is a text to look for. Where a text was cut, its first bytes are enough, so many that they are not the name of a scheme or host.
type needle struct {
	text  string
	first int
}

// needles are texts to look for, by their first bytes.
type needles struct {
	all   map[uint32][]needle // longest first
	maybe [1 << 8]uint64      // a bit for each hash of first bytes; most texts are told from these alone
}

// NewSet returns the set of these secrets. Of the value of a header, what stands behind the scheme is one too, and of a URL its
// password.
func NewSet(secrets ...string) *Set {
	if len(secrets) == 0 {
		return nil
	}
	s := new(Set)
	s.asIs.all, s.plain.all = map[uint32][]needle{}, map[uint32][]needle{}
	seen := map[string]bool{}
	for _, whole := range secrets {
		for _, part := range partsOf(whole) {
			part = part[:min(len(part), longest)]
			if len(part) < Shortest || strings.Contains(Struck, part) || seen[part] {
				continue
			}
			seen[part] = true
			known := knownOf(part)
			s.asIs.add(part, known+begins)
			s.plain.add(plainOf(part), len(plainOf(part[:known]))+begins)
			s.plain.add(plainOf(withoutEscape(part)), len(plainOf(part[:known]))+begins)
			for _, spelled := range spellings(part) {
				s.plain.add(plainOf(base64.StdEncoding.EncodeToString([]byte(spelled))), begins)
				s.plain.add(plainOf(base64.RawStdEncoding.EncodeToString([]byte(spelled))), begins)
				for _, piece := range encoded(spelled) {
					s.plain.add(plainOf(piece), begins)
				}
			}
		}
	}
	s.asIs.sort()
	s.plain.sort()
	return s
}

// partsOf returns a secret and the secrets within it.
func partsOf(whole string) []string {
	parts := []string{whole}
	if scheme, rest, ok := strings.Cut(whole, " "); ok {
		rest = strings.TrimSpace(rest)
		if parts = append(parts, rest); isScheme(scheme) && len(rest) >= Shortest {
			parts = parts[1:]
		}
		if pair, err := base64.StdEncoding.DecodeString(rest); err == nil && strings.EqualFold(scheme, "Basic") {
			_, password, _ := strings.Cut(string(pair), ":")
			parts = append(parts, password)
			if plain, err := url.QueryUnescape(password); err == nil { // https://www.rfc-editor.org/rfc/rfc6749#section-2.3.1
				parts = append(parts, plain)
			}
		}
	}
	if strings.Contains(whole, "://") {
		if u, err := url.Parse(whole); err == nil && u.User != nil {
			password, ok := u.User.Password()
			if !ok {
				password = u.User.Username()
			}
			parts = append(parts, password)
		}
	}
	return parts
}

// knownOf returns the length of what begins a secret and is none: scheme and host of a URL.
func knownOf(secret string) int {
	if at := strings.Index(secret, "://"); at >= 0 {
		at += len("://")
		if end := strings.IndexAny(secret[at:], "/?#@"); end >= 0 {
			return at + end
		}
		return at
	}
	return 0
}

// schemes begin the values of headers with a credential.
var schemes = [...]string{"Bearer", "Basic", "DPoP", "Token", "Digest", "ApiKey", "Negotiate", "SSWS"}

func isScheme(word string) bool {
	return slices.ContainsFunc(schemes[:], func(s string) bool { return strings.EqualFold(s, word) })
}

// withoutEscape returns a secret without the beginning of an escape at its end, which may go on in what follows it.
func withoutEscape(secret string) string {
	at := strings.LastIndexAny(secret, `%&\`)
	if at < 0 || len(secret)-at > len("\\u000") || strings.Trim(secret[at+1:], "#0123456789abcdefABCDEFgGlmopqstuxLMOPQSTUX") != "" {
		return secret
	}
	return withoutEscape(secret[:at])
}

// spellings returns a secret as it may stand in a text that is then encoded.
func spellings(secret string) []string {
	all := []string{secret, url.QueryEscape(secret), url.PathEscape(secret)}
	if quoted, err := json.Marshal(secret); err == nil {
		inner := string(quoted[1 : len(quoted)-1])
		all = append(all, inner, strings.ReplaceAll(inner, "/", `\/`))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// encoded returns what a text becomes in base64, for each of the three places that it may have in a longer text: without the digits
// that its neighbours have a part in.
func encoded(text string) (pieces [3]string) {
	for before := range pieces {
		all := base64.RawStdEncoding.EncodeToString(append(make([]byte, before, before+len(text)), text...))
		pieces[before] = all[(before*8+5)/6 : (before+len(text))*8/6]
	}
	return pieces
}

func (n *needles) add(text string, least int) {
	if len(text) < begins+1 {
		return
	}
	first := firstOf(text)
	n.all[first] = append(n.all[first], needle{text, least})
	h := hash(first)
	n.maybe[h>>6] |= 1 << (h & 63)
}

func (n *needles) sort() {
	for _, list := range n.all {
		slices.SortFunc(list, func(a, b needle) int {
			return cmp.Or(cmp.Compare(len(b.text), len(a.text)), strings.Compare(a.text, b.text), cmp.Compare(a.first, b.first))
		})
	}
}

func firstOf[text string | []byte](t text) uint32 {
	return uint32(t[0]) | uint32(t[1])<<8 | uint32(t[2])<<16 | uint32(t[3])<<24
}

func hash(first uint32) uint32 { return first * 2654435761 >> 18 }

// at returns the needles that may begin with these bytes.
func (n *needles) at(first uint32) []needle {
	if h := hash(first); n.maybe[h>>6]&(1<<(h&63)) == 0 {
		return nil
	}
	return n.all[first]
}

// Has reports whether a text holds a secret of the sets.
func Has(text string, sets ...*Set) bool { return len(find(text, sets)) > 0 }

// Strike returns text without the secrets of these sets. Where it was cut within a secret, before the mark "…", it loses the
// beginning of that, too. It takes time linear in the length of text: what would take longer is struck out as a whole.
func Strike(text string, sets ...*Set) string {
	spans := find(text, sets)
	if len(spans) == 0 {
		return text
	}
	var out strings.Builder
	done := 0
	for _, s := range spans {
		if done > 0 && s.from < done { // it overlaps the one before it
			if s.to > done {
				done = wordEnd(text, s.to)
			}
			continue
		}
		out.WriteString(text[done:wordStart(text, done, s.from)])
		out.WriteString(Struck)
		done = wordEnd(text, s.to)
	}
	out.WriteString(text[done:])
	return out.String()
}

// isWord reports whether a byte may belong to a key or to base64: what is struck out takes the rest of its word along, which may have been
// made of the same secret.
func isWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

// wordStart returns where the word begins that goes on at an index, but not before least, nor within an escape.
func wordStart(text string, least, at int) int {
	start := at
	for start > least && isWord(text[start-1]) {
		start--
	}
	if start > least && strings.IndexByte(`%\&#`, text[start-1]) >= 0 {
		return at
	}
	return start
}

// wordEnd returns where a word ends, with the padding of base64.
func wordEnd(text string, at int) int {
	for at < len(text) && isWord(text[at]) {
		at++
	}
	for end := at + 2; at < min(len(text), end) && text[at] == '='; {
		at++
	}
	return at
}

// span is a part of a text.
type span struct{ from, to int }

// find returns the parts of a text that are secrets, in their order.
func find(text string, sets []*Set) (spans []span) {
	if len(text) < begins || !slices.ContainsFunc(sets, func(s *Set) bool { return s != nil }) {
		return nil
	}
	effort := 1<<20 + 64*len(text)
	spans = search(spans, text, sets, func(s *Set) *needles { return &s.asIs }, &effort)
	p, asIs := plainText(text), len(spans)
	spans = search(spans, p.text, sets, func(s *Set) *needles { return &s.plain }, &effort)
	if effort < 0 {
		return []span{{0, len(text)}}
	}
	for i, s := range spans[asIs:] {
		spans[asIs+i].from, spans[asIs+i].to = p.original(s.from, s.to)
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	return spans
}

// search appends each part of a text that is a needle, or the beginning of one where the text was cut. Those that touch are one.
func search[text string | []byte](spans []span, in text, sets []*Set, of func(*Set) *needles, effort *int) []span {
	before := len(spans)
	for i := 0; i+begins <= len(in) && *effort >= 0; i++ {
		first := firstOf(in[i : i+begins])
		for _, s := range sets {
			if s == nil {
				continue
			}
			longest := 0
			for _, needle := range of(s).at(first) {
				if longest >= len(needle.text) {
					break
				}
				n := common(in[i:], needle.text)
				*effort -= n + 16
				start := n // of the rune in which they differ
				for start > 0 && start < len(needle.text) && !utf8.RuneStart(needle.text[start]) {
					start--
				}
				switch {
				case n == len(needle.text), n >= needle.first && isCut(in[i+n:]):
					longest = max(longest, n)
				case start >= needle.first && isCut(in[i+start:]):
					longest = max(longest, start)
				}
			}
			if n := len(spans); longest > 0 && n > before && i <= spans[n-1].to {
				spans[n-1].to = max(spans[n-1].to, i+longest)
			} else if longest > 0 {
				spans = append(spans, span{i, i + longest})
			}
		}
	}
	return spans
}

// common returns the length of the common beginning.
func common[text string | []byte](a text, b string) (n int) {
	most := min(len(a), len(b))
	for most-n >= 64 && string(a[n:n+64]) == b[n:n+64] {
		n += 64
	}
	for n < most && a[n] == b[n] {
		n++
	}
	return n
}

const ellipsis = "…"

// isCut reports whether a text begins with the mark of one that was cut. There may be the beginning of an escape before that.
func isCut[text string | []byte](t text) bool {
	i := 0
	if len(t) > 0 && (t[0] == '%' || t[0] == '&' || t[0] == 'u') { // a backslash is left out of a plain text
		for i < min(len(t), 8) && strings.IndexByte("%&#ux0123456789abcdefABCDEF", t[i]) >= 0 {
			i++
		}
	}
	return len(t)-i >= len(ellipsis) && string(t[i:i+len(ellipsis)]) == ellipsis
}
