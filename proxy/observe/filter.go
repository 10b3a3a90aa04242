package observe

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Filter chooses calls. The zero value chooses all.
//
// A filter is written as words with spaces between, all of which must hold. "key:value" compares a column: method, tool, id,
// kind, status, rule, client, server, session, dir (in for the client's messages, out for the server's own), without case; a
// star at the end of the value stands for any rest. client and server are compared with the name, with name and version,
// and with the revision. "ms:>500", "tokens:>1000" and "bytes:<100" compare the time of the whole call and the size of the
// response before dragoman has changed it. Any other word is text that the method, the tool, the id or a payload has in
// it. A minus in front negates a word.
type Filter struct{ terms []term }

type term struct {
	not   bool
	key   string // "" for text
	value string // in lower case
	rest  bool   // the value may go on
	than  byte   // < or > for a number, else 0
	limit float64
}

// maxTerms bounds a filter.
const maxTerms = 32

// ParseFilter never fails: a word that is no "key:value" is text.
func ParseFilter(text string) Filter {
	var f Filter
	for word := range strings.FieldsFuncSeq(text, unicode.IsSpace) {
		if len(f.terms) == maxTerms {
			break
		}
		var t term
		if len(word) > 1 && word[0] == '-' {
			t.not, word = true, word[1:]
		}
		key, value, isKey := strings.Cut(strings.ToLower(word), ":")
		switch {
		case isKey && slices.Contains([]string{"method", "tool", "id", "dir", "kind", "status", "rule", "client", "server", "session"}, key):
			t.key = key
			t.value, t.rest = strings.CutSuffix(value, "*")
		case isKey && slices.Contains([]string{"ms", "tokens", "bytes"}, key) && len(value) > 1 && (value[0] == '<' || value[0] == '>'):
			n, err := strconv.ParseFloat(value[1:], 64)
			if err != nil {
				t.value = strings.ToLower(word)
				break
			}
			t.key, t.than, t.limit = key, value[0], n
		default:
			t.value = strings.ToLower(word)
		}
		f.terms = append(f.terms, t)
	}
	slices.SortStableFunc(f.terms, func(a, b term) int { // payloads are searched only if all else fits
		return -cmp.Compare(a.key, b.key)
	})
	return f
}

// Match reports whether the filter chooses a call. payload reports whether a text in lower case is in any of its payloads.
func (f Filter) Match(r *Row, payload func(text string) bool) bool {
	for i := range f.terms {
		t := &f.terms[i]
		if t.match(r, payload) == t.not {
			return false
		}
	}
	return true
}

func (t *term) match(r *Row, payload func(string) bool) bool {
	switch t.key {
	case "":
		for _, text := range []string{r.Method, r.Tool, r.Subject, r.ID} {
			if strings.Contains(strings.ToLower(text), t.value) {
				return true
			}
		}
		return payload(t.value)
	case "method":
		return t.is(r.Method)
	case "tool":
		return t.is(r.Tool)
	case "id":
		return t.is(r.ID)
	case "kind":
		return t.is(r.Kind)
	case "status":
		return t.is(r.Status)
	case "session":
		return t.is(r.Session)
	case "dir":
		if r.Kind == "server" {
			return t.is("out")
		}
		return t.is("in")
	case "rule":
		return slices.ContainsFunc(r.Rules, t.is) || slices.ContainsFunc(r.By, t.is)
	case "client":
		return t.isPeer(r.Client, r.ClientRevision)
	case "server":
		return t.isPeer(r.Server, r.ServerRevision)
	case "ms":
		return r.MS != nil && t.compare(r.MS.sum())
	case "tokens":
		return r.Tokens != nil && t.compare(float64(r.Tokens.Before))
	case "bytes":
		return r.Bytes != nil && t.compare(float64(r.Bytes.Before))
	}
	return false
}

func (t *term) is(text string) bool {
	text = strings.ToLower(text)
	if t.rest {
		return strings.HasPrefix(text, t.value)
	}
	return text == t.value
}

func (t *term) isPeer(named, revision string) bool {
	name := named
	if i := strings.LastIndexByte(named, ' '); i > 0 {
		name = named[:i]
	}
	return t.is(named) || t.is(name) || t.is(revision)
}

func (t *term) compare(n float64) bool {
	if t.than == '<' {
		return n < t.limit
	}
	return n > t.limit
}
